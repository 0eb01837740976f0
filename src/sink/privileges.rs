//! What MongoDB has to allow, as data: `init --print-roles` prints it, and a refusal is told in its words. Pure.
//!
//! Held to be enough and nothing more by a test that takes each action away in turn.

use crate::config::Config;

/// What a login is for: each gets a role of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Run,
    Init,
    /// People and programs that read the buckets.
    Read,
    Check,
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
    pub const ALL: [Self; 4] = [Self::Run, Self::Init, Self::Read, Self::Check];

    pub fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Init => "init",
            Self::Read => "read",
            Self::Check => "check",
        }
    }
}

/// What a login for `purpose` has to be allowed under this configuration: no less would do, and no more is needed.
pub fn needed(config: &Config, purpose: Purpose) -> Vec<Privilege> {
    let (database, readings) = (&config.mongo.database, &config.mongo.collection);
    let (ledger, dead) = (format!("{readings}_ledger"), format!("{readings}_dead"));
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
            if storage.ttl_days.is_some() {
                of_readings.push("collMod");
            }
            vec![
                list,
                on(readings, &of_readings),
                // Whoever may insert may create too.
                on(&ledger, &["find", "insert"]),
                on(&dead, &["createCollection"]),
                shard_keys,
            ]
        }
        Purpose::Read => vec![on(readings, &["find"]), on(&ledger, &["find"])],
        Purpose::Check => vec![
            list,
            on(readings, &["find", "indexStats", "listIndexes"]),
            on(&ledger, &["find"]),
            on(&dead, &["find"]),
            shard_keys,
            Privilege { resource: Resource::Cluster, actions: vec!["replSetGetConfig"], is_for_shards: false },
        ],
    }
}
