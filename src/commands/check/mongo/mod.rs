//! What the server tells about itself, the user and the collections.

mod judge;
pub(in crate::commands) mod rights;

use mongodb::bson::{Document, doc};

pub(super) use judge::judge;

use crate::commands::init::steps::{Names, Topology, check_topology};
use crate::commands::init::survey::{self, Survey};
use crate::commands::reach::{ReachError, reach_primary};
use crate::commands::server::{CommandError, Server};
use crate::config::Config;

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
    /// None of a sharded cluster.
    pub(super) engine: Result<Option<String>, String>,
}

/// Asks everything that this user may ask. Writes nothing.
pub(super) async fn look(config: &Config) -> Result<(Server, Facts), ReachError> {
    let (server, hello) = reach_primary(&config.mongo, "check").await?;
    let topology = check_topology(&hello).map_err(ReachError::Unsuitable)?;
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
    let status_of_server = server.run_admin(doc! { "serverStatus": 1 }).await.map_err(said);
    let engine = |status: &Document| Some(status.get_document("storageEngine").ok()?.get_str("name").ok()?.to_owned());
    let facts = Facts {
        hosts: server.options().hosts.iter().map(ToString::to_string).collect(),
        is_direct: server.options().direct_connection == Some(true),
        version: build.map(|build| build.get_str("version").unwrap_or("unknown").to_owned()),
        topology,
        set: set.map(|set| set.map(|reply| reply.get_document("config").cloned().unwrap_or_default())),
        rights: status.unwrap_or_default(),
        survey: survey::survey(&server, config, topology).await.map_err(|error| error.to_string()),
        index_uses: server.list(uses).await.map_err(said),
        engine: status_of_server.as_ref().map(engine).map_err(Clone::clone),
    };
    Ok((server, facts))
}
