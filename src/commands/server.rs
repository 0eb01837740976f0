//! The connection that commands work over: raw commands, each judged by its whole reply.

use std::time::Duration;

use mongodb::bson::{Document, doc};
use mongodb::error::{Error, ErrorKind};
use mongodb::options::ClientOptions;
use mongodb::{Client, Cursor, Database};

use crate::config::Mongo;
use crate::sink::privileges;

/// Somebody waits at a terminal: the driver's own 30 s are long for a wrong address.
const SELECTION_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) const UNAUTHORIZED: i32 = 13;
const NAMESPACE_EXISTS: i32 = 48;
const DUPLICATE_KEY: i32 = 11_000;

/// For a second look at a server that the driver would not choose.
const DIRECT_TIMEOUT: Duration = Duration::from_secs(3);

/// A command's name, and the collection that it is for.
pub(crate) type Target = (String, Option<String>);

#[derive(Debug)]
pub(crate) struct Server {
    client: Client,
    db: Database,
    options: ClientOptions,
}

/// Why a command had no effect, or none that is certain.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    #[error("{0}")]
    Unanswered(String),
    #[error("the server refuses the login: {0}")]
    Login(String),
    #[error("the server says: {message} (code {code})")]
    Refused { code: i32, message: String },
    #[error("unusual reply: {0}")]
    Unusual(String),
    #[error("done, but not acknowledged by a majority: {0}; run the command again once the replica set is healthy")]
    Unacknowledged(String),
}

impl From<Error> for CommandError {
    /// The driver's own display lists labels and empty members.
    fn from(error: Error) -> Self {
        match *error.kind {
            ErrorKind::Command(error) => Self::Refused { code: error.code, message: error.message },
            ErrorKind::Authentication { message, .. } => Self::Login(message),
            kind => Self::Unanswered(kind.to_string()),
        }
    }
}

impl CommandError {
    /// Says which action is missing, where it was refused for want of rights.
    pub(crate) fn explained(self, (verb, target): &Target, database: &str) -> Self {
        match self {
            Self::Refused { code: UNAUTHORIZED, message } => {
                let message = privileges::explain(&message, verb, database, target.as_deref());
                Self::Refused { code: UNAUTHORIZED, message }
            }
            other => other,
        }
    }

    /// Another process created the same thing first.
    pub(crate) fn is_race(&self) -> bool {
        matches!(self, Self::Refused { code: NAMESPACE_EXISTS | DUPLICATE_KEY, .. })
    }
}

impl Server {
    /// Fails on an unusable connection string only; nothing is sent yet.
    pub(crate) async fn connect(mongo: &Mongo, command: &str) -> Result<Self, CommandError> {
        let mut options = ClientOptions::parse(&mongo.uri.0).await?;
        options.server_selection_timeout.get_or_insert(SELECTION_TIMEOUT);
        options.app_name.get_or_insert_with(|| format!("sakia {command}"));
        Self::with(options, &mongo.database)
    }

    fn with(options: ClientOptions, database: &str) -> Result<Self, CommandError> {
        let client = Client::with_options(options.clone())?;
        let db = client.database(database);
        Ok(Self { client, db, options })
    }

    /// The first server that the connection string names, whatever it is: the driver leaves out what does not belong to
    /// the replica set, and only says that nothing is left.
    pub(crate) fn directly(&self) -> Result<Self, CommandError> {
        let mut options = self.options.clone();
        options.hosts.truncate(1);
        options.direct_connection = Some(true);
        options.repl_set_name = None;
        options.server_selection_timeout = Some(DIRECT_TIMEOUT);
        Self::with(options, self.db.name())
    }

    pub(crate) fn options(&self) -> &ClientOptions {
        &self.options
    }

    pub(crate) async fn hello(&self) -> Result<Document, CommandError> {
        self.run(doc! { "hello": 1 }).await
    }

    pub(crate) fn database(&self) -> &Database {
        &self.db
    }

    pub(crate) fn namespace(&self, collection: &str) -> String {
        format!("{}.{collection}", self.db.name())
    }

    /// A reply with `ok: 1` may still hold errors: the driver does not look for them.
    pub(crate) async fn run(&self, command: Document) -> Result<Document, CommandError> {
        ask(&self.db, command).await
    }

    /// As `run`, on the server's own database.
    pub(crate) async fn run_admin(&self, command: Document) -> Result<Document, CommandError> {
        ask(&self.client.database("admin"), command).await
    }

    /// The first documents of a command that answers with a cursor.
    pub(crate) async fn list(&self, command: Document) -> Result<Vec<Document>, CommandError> {
        batch(&self.run(command).await?)
    }

    /// All documents of a command that answers with a cursor, as they come.
    pub(crate) async fn cursor(&self, command: Document) -> Result<Cursor<Document>, CommandError> {
        let target = target(&command);
        let cursor = self.db.run_cursor_command(command).await.map_err(CommandError::from);
        cursor.map_err(|error| error.explained(&target, self.db.name()))
    }

    /// As `list`, on the cluster's own configuration.
    pub(crate) async fn list_config(&self, command: Document) -> Result<Vec<Document>, CommandError> {
        batch(&ask(&self.client.database("config"), command).await?)
    }
}

async fn ask(db: &Database, command: Document) -> Result<Document, CommandError> {
    let target = target(&command);
    let reply = db.run_command(command).await.map_err(CommandError::from).and_then(checked);
    reply.map_err(|error| error.explained(&target, db.name()))
}

/// A command's name and collection: its first element.
fn target(command: &Document) -> Target {
    let (verb, target) = command.iter().next().expect("invariant: a command has a name");
    (verb.clone(), target.as_str().map(str::to_owned))
}

fn checked(reply: Document) -> Result<Document, CommandError> {
    if let Some(error) = reply.get_array("writeErrors").ok().and_then(|errors| errors.first()?.as_document()) {
        let message = error.get_str("errmsg").unwrap_or_default().to_owned();
        return Err(CommandError::Refused { code: error.get_i32("code").unwrap_or_default(), message });
    }
    match reply.get_document("writeConcernError") {
        Ok(error) => Err(CommandError::Unacknowledged(error.get_str("errmsg").unwrap_or_default().to_owned())),
        Err(_) => Ok(reply),
    }
}

fn batch(reply: &Document) -> Result<Vec<Document>, CommandError> {
    let first = reply.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch"));
    let first = first.map_err(|error| CommandError::Unusual(error.to_string()))?;
    Ok(first.iter().filter_map(|item| item.as_document().cloned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_inside_a_good_reply_are_seen() {
        assert!(checked(doc! { "ok": 1.0, "n": 1 }).is_ok());
        let duplicate = doc! { "ok": 1.0, "n": 0, "writeErrors": [{ "index": 0, "code": 11_000, "errmsg": "E11000" }] };
        assert!(checked(duplicate).unwrap_err().is_race());
        let unproven = doc! { "ok": 1.0, "n": 1, "writeConcernError": { "code": 64, "errmsg": "timed out" } };
        assert!(matches!(checked(unproven), Err(CommandError::Unacknowledged(_))));
    }
}
