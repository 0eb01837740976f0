//! What the server tells about itself, the user and the collections.

mod judge;
pub(in crate::commands) mod rights;

use mongodb::bson::{Document, doc};

pub(super) use judge::judge;

use crate::commands::init::steps::{Names, Topology, check_topology};
use crate::commands::init::survey::{self, Survey};
use crate::commands::server::{CommandError, Server};
use crate::config::{Config, redact_uri};

/// What was found out. What could not be is the reason why not.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) hosts: Vec<String>,
    /// The connection goes to one server only, whatever becomes of it.
    pub(super) is_direct: bool,
    pub(super) version: Result<String, String>,
    pub(super) topology: Topology,
    /// The replica set's configuration; none of a sharded cluster.
    pub(super) set: Option<Result<Document, String>>,
    pub(super) rights: Document,
    pub(super) survey: Result<Survey, String>,
    /// How often each index of the readings was used.
    pub(super) index_uses: Result<Vec<Document>, String>,
    pub(super) engine: Option<String>,
}

/// Why nothing can be found out.
#[derive(Debug, thiserror::Error)]
pub(in crate::commands) enum LookError {
    #[error("mongo.uri {uri} cannot be used: {reason}")]
    Uri { uri: String, reason: String },
    #[error("the server at {uri} cannot be asked: {reason}; check that it runs, and the address in mongo.uri")]
    Unreachable { uri: String, reason: String },
    #[error("the server at {uri} refuses the login: {reason}; check user, password and authSource in mongo.uri")]
    Login { uri: String, reason: String },
    /// It answers, and is none that readings may be written to.
    #[error("{0}")]
    Unsuitable(String),
    /// A member of a replica set, which may become the primary yet.
    #[error("{0}")]
    NotPrimary(String),
}

/// Connects, and makes sure that the server is one that acknowledges writes for good.
pub(in crate::commands) async fn reach(config: &Config, command: &str) -> Result<(Server, Document), LookError> {
    let uri = redact_uri(&config.mongo.uri.0);
    let server = Server::connect(&config.mongo, command).await;
    let server = server.map_err(|reason| LookError::Uri { uri: uri.clone(), reason: reason.to_string() })?;
    let hello = match server.hello().await {
        Ok(hello) => hello,
        Err(CommandError::Login(reason)) => return Err(LookError::Login { uri, reason }),
        Err(_) => return Err(second_look(&server, uri).await),
    };
    match check_topology(&hello) {
        Ok(_) => Ok((server, hello)),
        Err(why) if hello.contains_key("setName") => Err(LookError::NotPrimary(why)),
        Err(why) => Err(LookError::Unsuitable(why)),
    }
}

/// The driver says only that no server is left to choose; asked directly, the server often says why.
async fn second_look(server: &Server, uri: String) -> LookError {
    let hello = match server.directly() {
        Ok(direct) => direct.hello().await,
        Err(error) => Err(error),
    };
    match hello {
        Ok(hello) => not_chosen(server.options().repl_set_name.as_deref(), &hello)
            .map_or_else(|| LookError::NotPrimary(no_primary(&hello)), LookError::Unsuitable),
        Err(CommandError::Login(reason)) => LookError::Login { uri, reason },
        Err(error) => LookError::Unreachable { uri, reason: shortened(&error.to_string()).to_owned() },
    }
}

/// Why a server that answers is not one that the driver would choose.
fn not_chosen(wanted_set: Option<&str>, hello: &Document) -> Option<String> {
    let Ok(set) = hello.get_str("setName") else { return check_topology(hello).err() };
    if let Some(wanted) = wanted_set.filter(|wanted| *wanted != set) {
        return Some(format!(
            "mongo.uri says replicaSet={wanted}, but the set that the server belongs to is called {set}; write \
             replicaSet={set}"
        ));
    }
    None
}

fn no_primary(hello: &Document) -> String {
    let hosts = hello.get_array("hosts").cloned().unwrap_or_default();
    let hosts: Vec<_> = hosts.iter().filter_map(|host| host.as_str()).collect();
    format!(
        "the server answers, but the members of its replica set call themselves {}, and no primary is reached under \
         these names; see to it that this host resolves and reaches them (for a set of one, add directConnection=true \
         to mongo.uri)",
        hosts.join(", ")
    )
}

/// The reason of the one server that was asked, out of the driver's description of all of them.
fn shortened(reason: &str) -> &str {
    let Some((_, inner)) = reason.split_once("Error: Kind: ") else { return reason };
    inner.split(", labels:").next().unwrap_or(inner)
}

/// Asks everything that this user may ask. Writes nothing.
pub(super) async fn look(config: &Config) -> Result<(Server, Facts), LookError> {
    let (server, hello) = reach(config, "check").await?;
    let topology = check_topology(&hello).map_err(LookError::Unsuitable)?;
    let status = server.run_admin(doc! { "connectionStatus": 1, "showPrivileges": true }).await;
    let names = Names::of(config);
    let uses = doc! {
        "aggregate": &names.readings, "pipeline": [{ "$indexStats": {} }], "cursor": { "batchSize": 1_000 },
    };
    let said = |error: CommandError| error.to_string();
    let build = server.run_admin(doc! { "buildInfo": 1 }).await.map_err(said);
    let set = match topology {
        Topology::Sharded => None,
        Topology::ReplicaSet => Some(server.run_admin(doc! { "replSetGetConfig": 1 }).await.map_err(said)),
    };
    let engine = server.run_admin(doc! { "serverStatus": 1 }).await.ok();
    let engine =
        engine.and_then(|status| Some(status.get_document("storageEngine").ok()?.get_str("name").ok()?.into()));
    let facts = Facts {
        hosts: server.options().hosts.iter().map(ToString::to_string).collect(),
        is_direct: server.options().direct_connection == Some(true),
        version: build.map(|build| build.get_str("version").unwrap_or("unknown").to_owned()),
        topology,
        set: set.map(|set| set.map(|reply| reply.get_document("config").cloned().unwrap_or_default())),
        rights: status.unwrap_or_default(),
        survey: survey::survey(&server, config, topology).await.map_err(|error| error.to_string()),
        index_uses: server.list(uses).await.map_err(said),
        engine,
    };
    Ok((server, facts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_not_chosen_says_why() {
        let alone = doc! { "isWritablePrimary": true };
        assert!(not_chosen(Some("rs0"), &alone).unwrap().contains("stands alone"));
        let member = doc! { "setName": "rs1", "hosts": ["mongo:27017"] };
        assert!(not_chosen(Some("rs0"), &member).unwrap().contains("write replicaSet=rs1"));
        assert_eq!(not_chosen(Some("rs1"), &member), None);
        assert!(no_primary(&member).contains("call themselves mongo:27017"));
    }

    #[test]
    fn the_drivers_description_is_cut_to_its_reason() {
        let long = "Server selection timeout: No available servers. Topology: { Type: Single, Servers: [ { Address: \
                    h:1, Type: Unknown, Error: Kind: I/O error: Connection refused (os error 111), labels: {} } ] }";
        assert_eq!(shortened(long), "I/O error: Connection refused (os error 111)");
        assert_eq!(shortened("other"), "other");
    }
}
