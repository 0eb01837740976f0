//! One command to the server: bounded in time, by majority, its answer reduced to what the ledger needs.

use std::time::Duration;

use mongodb::Database;
use mongodb::bson::{Bson, Document, doc};
use mongodb::error::ErrorKind;

use crate::sink::retry::ErrorClass;

/// How much later than the server the client gives up: a connection into nowhere would otherwise hold it for minutes.
const MARGIN_MS: u64 = 2_000;

#[derive(Clone, Debug)]
pub(super) struct Commands {
    db: Database,
    timeout_ms: u64,
}

#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum CommandError {
    /// May succeed later; whether it has had an effect is not known.
    #[error("{0}")]
    Transient(String),
    /// Until somebody mends something.
    #[error("{0}")]
    Permanent(String),
}

/// Effect of a write, known by majority.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    /// Statements that matched or inserted something.
    pub(super) n: i64,
    pub(super) duplicate: bool,
}

impl Commands {
    pub(super) fn new(db: Database, timeout_ms: u64) -> Self {
        Self { db, timeout_ms }
    }

    pub(super) fn database(&self) -> &str {
        self.db.name()
    }

    /// Up to `limit` documents in the order of `_id`, as the majority has them.
    pub(super) async fn find(
        &self,
        collection: &str,
        filter: Document,
        projection: Document,
        sort: i32,
        limit: i64,
    ) -> Result<Vec<Document>, CommandError> {
        let mut answer = self
            .run(doc! {
                "find": collection,
                "filter": filter,
                "projection": projection,
                "sort": { "_id": sort },
                "limit": limit,
                "batchSize": limit,
                "singleBatch": true,
                "readConcern": { "level": "majority" },
            })
            .await?;
        let batch = answer.get_document_mut("cursor").ok().and_then(|cursor| cursor.remove("firstBatch"));
        let Some(Bson::Array(batch)) = batch else {
            return Err(CommandError::Transient("the server's answer to `find` has no batch".to_owned()));
        };
        Ok(batch.into_iter().filter_map(|found| if let Bson::Document(found) = found { Some(found) } else { None }).collect())
    }

    pub(super) async fn find_one(&self, collection: &str, filter: Document) -> Result<Option<Document>, CommandError> {
        Ok(self.find(collection, filter, doc! {}, 1, 1).await?.pop())
    }

    pub(super) async fn insert(&self, collection: &str, document: Document) -> Result<Written, CommandError> {
        self.write(doc! { "insert": collection, "documents": [document] }).await
    }

    pub(super) async fn update(&self, collection: &str, statements: Vec<Document>) -> Result<Written, CommandError> {
        self.write(doc! { "update": collection, "updates": statements, "ordered": false }).await
    }

    async fn write(&self, mut command: Document) -> Result<Written, CommandError> {
        let wtimeout = self.timeout_ms as i64;
        command.insert("writeConcern", doc! { "w": "majority", "wtimeout": wtimeout });
        written(&self.run(command).await?)
    }

    async fn run(&self, mut command: Document) -> Result<Document, CommandError> {
        command.insert("maxTimeMS", self.timeout_ms as i64);
        let db = self.db.clone();
        // A task of its own: the driver must not be dropped in mid-command. A late effect is harmless, for every write
        // here is a comparison, an insert under a fixed `_id`, or a `$max`.
        let task = tokio::spawn(async move { db.run_command(command).await });
        match tokio::time::timeout(Duration::from_millis(self.timeout_ms + MARGIN_MS), task).await {
            Ok(Ok(answer)) => answer.map_err(|error| classify(&error)),
            Ok(Err(panicked)) => Err(CommandError::Transient(panicked.to_string())),
            Err(_) => Err(CommandError::Transient("no answer from MongoDB in time".to_owned())),
        }
    }
}

fn classify(error: &mongodb::error::Error) -> CommandError {
    let message = error.to_string();
    let permanent = match &*error.kind {
        ErrorKind::Command(failed) => ErrorClass::of(failed.code) != ErrorClass::Transient,
        kind => matches!(
            kind,
            ErrorKind::Authentication { .. }
                | ErrorKind::IncompatibleServer { .. }
                | ErrorKind::InvalidArgument { .. }
                | ErrorKind::InvalidTlsConfig { .. }
                | ErrorKind::BsonSerialization(_)
        ),
    };
    if permanent && !error.contains_label("RetryableWriteError") {
        CommandError::Permanent(message)
    } else {
        CommandError::Transient(message)
    }
}

/// An answer with a `writeConcernError` is no answer, whatever its counts say: it may still be rolled back.
fn written(answer: &Document) -> Result<Written, CommandError> {
    if let Some(error) = answer.get("writeConcernError") {
        return Err(CommandError::Transient(format!("not confirmed by the majority: {error}")));
    }
    let mut duplicate = false;
    for error in answer.get_array("writeErrors").into_iter().flatten() {
        let code = error.as_document().and_then(|error| error.get_i32("code").ok()).unwrap_or_default();
        match ErrorClass::of(code) {
            ErrorClass::Duplicate => duplicate = true,
            ErrorClass::Transient => return Err(CommandError::Transient(error.to_string())),
            ErrorClass::All | ErrorClass::Statement => return Err(CommandError::Permanent(error.to_string())),
        }
    }
    let n = match answer.get("n") {
        Some(Bson::Int32(n)) => i64::from(*n),
        Some(Bson::Int64(n)) => *n,
        _ => return Err(CommandError::Transient("the server's answer to a write has no count".to_owned())),
    };
    Ok(Written { n, duplicate })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_reduced() {
        let check = |answer: Document, expected: &str| {
            let seen = match written(&answer) {
                Ok(Written { n, duplicate }) => format!("{n} {duplicate}"),
                Err(CommandError::Transient(_)) => "transient".to_owned(),
                Err(CommandError::Permanent(_)) => "permanent".to_owned(),
            };
            assert_eq!(seen, expected, "{answer}");
        };
        check(doc! { "ok": 1, "n": 2 }, "2 false");
        check(doc! { "ok": 1, "n": 0, "writeErrors": [{ "index": 0, "code": 11_000 }] }, "0 true");
        check(doc! { "ok": 1, "n": 1, "writeConcernError": { "code": 64 } }, "transient");
        check(doc! { "ok": 1, "n": 0, "writeErrors": [{ "index": 0, "code": 112 }] }, "transient");
        check(doc! { "ok": 1, "n": 0, "writeErrors": [{ "index": 0, "code": 13 }] }, "permanent");
        check(doc! { "ok": 1 }, "transient");
    }
}
