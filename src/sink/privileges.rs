//! What MongoDB has to allow, as data: `init --print-roles` prints it, and a refusal is told in its words. Pure.
//!
//! Held to be enough and nothing more by a test that takes each action away in turn.

use crate::config::{Config, Validator};

pub const NO_USER: &str = "mongo.uri names no user, and the server asks for one";
pub const GIVE_USER: &str = "give user and password in SAKIA_MONGO: mongodb://user:password@host/?authSource=admin";

/// What a login is for: each gets a role of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Run,
    Init,
    /// People and programs that read the buckets, and people who look at what became of the rest.
    Read,
    Check,
    /// People who change what is stored: dead letters tried again, the ledger skipped or rebuilt.
    Mend,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resource {
    Collection { database: String, collection: String },
    Database(String),
    Cluster,
}

/// Actions on one resource, under the server's own names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Privilege {
    pub resource: Resource,
    pub actions: Vec<&'static str>,
    /// Needed on a sharded cluster only; harmless elsewhere.
    pub is_for_shards: bool,
}

impl Purpose {
    pub const ALL: [Self; 5] = [Self::Run, Self::Init, Self::Read, Self::Check, Self::Mend];

    pub fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Init => "init",
            Self::Read => "read",
            Self::Check => "check",
            Self::Mend => "mend",
        }
    }
}

/// What a login for `purpose` has to be allowed under this configuration: no less would do, and no more is needed.
pub fn needed(config: &Config, purpose: Purpose) -> Vec<Privilege> {
    let (database, readings) = (&config.mongo.database, &config.mongo.collection);
    let [ledger, dead, view] = ["ledger", "dead", "samples"].map(|suffix| format!("{readings}_{suffix}"));
    let on = |collection: &str, actions: &[&'static str]| Privilege {
        resource: Resource::Collection { database: database.clone(), collection: collection.to_owned() },
        actions: actions.to_vec(),
        is_for_shards: false,
    };
    let list =
        Privilege { resource: Resource::Database(database.clone()), actions: vec!["listCollections"], ..on("", &[]) };
    let shard_keys = Privilege {
        resource: Resource::Collection { database: "config".to_owned(), collection: "collections".to_owned() },
        actions: vec!["find"],
        is_for_shards: true,
    };
    match purpose {
        Purpose::Run => vec![
            on(readings, &["find", "insert", "update"]),
            on(&ledger, &["find", "insert", "update"]),
            on(&dead, &["find", "insert"]),
        ],
        Purpose::Init => {
            let mut of_readings = vec!["createCollection", "find", "listIndexes"];
            let storage = &config.storage;
            if storage.ttl_days.is_some() || storage.wildcard_index.is_some() {
                of_readings.push("createIndex");
            }
            if storage.ttl_days.is_some() || storage.validator != Validator::Off {
                of_readings.push("collMod");
            }
            vec![
                list,
                on(readings, &of_readings),
                // Whoever may insert may create too.
                on(&ledger, &["find", "insert"]),
                on(&dead, &["createCollection"]),
                // Changed where another release or another hand made it otherwise.
                on(&view, &["collMod", "createCollection"]),
                shard_keys,
            ]
        }
        Purpose::Read => [readings, &ledger, &dead, &view].map(|collection| on(collection, &["find"])).into(),
        Purpose::Check => vec![
            list,
            on(readings, &["find", "indexStats", "listIndexes"]),
            on(&ledger, &["find"]),
            shard_keys,
            Privilege {
                resource: Resource::Cluster,
                actions: vec!["replSetGetConfig", "serverStatus"],
                is_for_shards: false,
            },
        ],
        Purpose::Mend => vec![
            on(readings, &["find", "insert"]),
            on(&ledger, &["find", "insert", "update"]),
            on(&dead, &["find", "insert", "update"]),
        ],
    }
}

/// Why the server's refusal `message` (code 13) came, and what mends it. The server itself names the command, with all
/// of its documents, and not the action. `target` is the command's collection, if it has one.
pub fn explain(message: &str, verb: &str, database: &str, target: Option<&str>) -> String {
    if message.contains("requires authentication") {
        return format!("{NO_USER}; {GIVE_USER}");
    }
    let action = match verb {
        "aggregate" if message.contains("$indexStats") => "indexStats",
        "aggregate" | "count" | "distinct" => "find",
        "create" => "createCollection (or insert)",
        "update" if message.contains("upsert: true") => "update (or insert)",
        "createIndexes" => "createIndex",
        other => other,
    };
    let place = match (target, verb) {
        (Some(target), _) => format!("{database}.{target}"),
        (None, "replSetGetConfig" | "serverStatus") => "the cluster".to_owned(),
        (None, _) => database.to_owned(),
    };
    format!(
        "the login in mongo.uri lacks the action {action} on {place}; `sakia init --print-roles` prints roles that \
         are enough"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(more: &str) -> Config {
        let minimal = "kafka.brokers = \"h:1\"\nmongo.uri = \"mongodb://h/?replicaSet=rs0\"\n\
                       decoder = [{ topics = \"t\", device_path = \"@key\", timestamp_missing = \"kafka\" }]\n";
        Config::from_toml(&format!("{minimal}{more}")).unwrap()
    }

    fn actions(config: &Config, purpose: Purpose, collection: &str) -> Vec<&'static str> {
        let is_it = |privilege: &Privilege| matches!(&privilege.resource, Resource::Collection { collection: c, .. } if c == collection);
        needed(config, purpose).into_iter().filter(is_it).flat_map(|privilege| privilege.actions).collect()
    }

    #[test]
    fn what_is_configured_decides_what_is_needed() {
        let plain = config("mongo.collection = \"r\"");
        assert_eq!(actions(&plain, Purpose::Run, "r_dead"), ["find", "insert"]);
        assert_eq!(actions(&plain, Purpose::Init, "r"), ["createCollection", "find", "listIndexes"]);
        let ttl = actions(&config("storage.ttl = \"30d\""), Purpose::Init, "readings");
        assert_eq!(ttl[3..], ["createIndex", "collMod"]);
        assert!(Purpose::ALL.iter().all(|purpose| !actions(&plain, *purpose, "r").contains(&"remove")));
    }

    #[test]
    fn refusals_name_the_action_and_not_the_documents() {
        let message = "not authorized on sakia to execute command { insert: \"readings\", documents: [ ... ] }";
        let text = explain(message, "createIndexes", "sakia", Some("readings"));
        assert!(text.contains("action createIndex on sakia.readings;") && !text.contains("documents"), "{text}");
        assert!(explain(message, "listCollections", "sakia", None).contains("action listCollections on sakia;"));
        let upsert = "not authorized on a to execute command { update: \"l\", updates: [ { upsert: true } ] }";
        assert!(explain(upsert, "update", "a", Some("l")).contains("action update (or insert) on a.l;"));
        assert!(explain("command find requires authentication", "find", "a", None).contains("SAKIA_MONGO"));
    }
}
