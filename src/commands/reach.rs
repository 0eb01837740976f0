//! The way to MongoDB of every command: a connection, and the server's first answer, or why there is none.

use mongodb::bson::Document;
use tokio::runtime::{Builder, Runtime};

use crate::code::{Code, Failure};
use crate::commands::init::steps::check_topology;
use crate::commands::server::{CommandError, Server};
use crate::config::{Mongo, redact_uri};

/// Why nothing can be asked.
#[derive(Debug, thiserror::Error)]
pub enum ReachError {
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

impl From<ReachError> for Failure {
    fn from(error: ReachError) -> Self {
        let code = match error {
            ReachError::Unreachable { .. } => Code::MongoUnreachable,
            ReachError::Login { .. } => Code::MongoRefused,
            ReachError::Uri { .. } => Code::MongoUri,
            ReachError::Unsuitable(_) | ReachError::NotPrimary(_) => Code::MongoUnsuitable,
        };
        Self::new(code, error)
    }
}

/// Of one thread: those of a larger one may panic in the driver's timers while it is taken down.
pub(super) fn runtime() -> Result<Runtime, Failure> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Failure::new(Code::Failed, format_args!("cannot start a runtime: {error}")))
}

/// Connects, with a short time-out: the driver's own would wait for a wrong address much longer. Gives what the server
/// says of itself too.
pub(super) async fn reach(mongo: &Mongo, command: &str) -> Result<(Server, Document), ReachError> {
    let uri = redact_uri(&mongo.uri.0);
    let server = Server::connect(mongo, command).await;
    let server = server.map_err(|reason| ReachError::Uri { uri: uri.clone(), reason: reason.to_string() })?;
    match server.hello().await {
        Ok(hello) => Ok((server, hello)),
        Err(CommandError::Login(reason)) => Err(ReachError::Login { uri, reason }),
        Err(_) => Err(second_look(&server, uri).await),
    }
}

/// As `reach`, and makes sure that the server is one that acknowledges writes for good.
pub(super) async fn reach_primary(mongo: &Mongo, command: &str) -> Result<(Server, Document), ReachError> {
    let (server, hello) = reach(mongo, command).await?;
    match check_topology(&hello) {
        Ok(_) => Ok((server, hello)),
        Err(why) if hello.contains_key("setName") => Err(ReachError::NotPrimary(why)),
        Err(why) => Err(ReachError::Unsuitable(why)),
    }
}

/// The driver says only that no server is left to choose; asked directly, the server often says why.
async fn second_look(server: &Server, uri: String) -> ReachError {
    let hello = match server.directly() {
        Ok(direct) => direct.hello().await,
        Err(error) => Err(error),
    };
    match hello {
        Ok(hello) => not_chosen(server.options().repl_set_name.as_deref(), &hello)
            .map_or_else(|| ReachError::NotPrimary(no_primary(&hello)), ReachError::Unsuitable),
        Err(CommandError::Login(reason)) => ReachError::Login { uri, reason },
        Err(error) => ReachError::Unreachable { uri, reason: shortened(&error.to_string()).to_owned() },
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

#[cfg(test)]
mod tests {
    use mongodb::bson::doc;

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
