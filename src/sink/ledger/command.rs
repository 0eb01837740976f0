//! One command to the server: bounded in time, by majority, its answer reduced to what the ledger needs.

use mongodb::Database;
use mongodb::bson::{Bson, Document, doc};

use crate::sink::call::{CallError, Caller};
use crate::sink::counts::{SinkCounts, add};
use crate::sink::reply;
use crate::sink::retry::ErrorClass;

#[derive(Clone, Debug)]
pub(super) struct Commands {
    caller: Caller,
    database: String,
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
        Self { database: db.name().to_owned(), caller: Caller::new(db, timeout_ms), timeout_ms }
    }

    pub(super) fn database(&self) -> &str {
        &self.database
    }

    pub(super) fn counts(&self) -> &SinkCounts {
        self.caller.counts()
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
        Ok(batch
            .into_iter()
            .filter_map(|found| if let Bson::Document(found) = found { Some(found) } else { None })
            .collect())
    }

    pub(super) async fn find_one(&self, collection: &str, filter: Document) -> Result<Option<Document>, CommandError> {
        Ok(self.find(collection, filter, doc! {}, 1, 1).await?.pop())
    }

    /// Values of a field, as the majority has them.
    pub(super) async fn distinct(
        &self,
        collection: &str,
        key: &str,
        query: Document,
    ) -> Result<Vec<Bson>, CommandError> {
        let level = doc! { "level": "majority" };
        let mut answer =
            self.run(doc! { "distinct": collection, "key": key, "query": query, "readConcern": level }).await?;
        match answer.remove("values") {
            Some(Bson::Array(values)) => Ok(values),
            _ => Err(CommandError::Transient("the server's answer to `distinct` has no values".to_owned())),
        }
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
        let body = command.to_vec().map_err(|error| CommandError::Permanent(error.to_string()))?;
        add(&self.counts().commands, 1);
        // A late effect is harmless, for every write here is a comparison, an insert under a fixed `_id`, or a `$max`.
        self.caller.call(body).await.map_err(CommandError::from)
    }
}

impl From<CallError> for CommandError {
    fn from(error: CallError) -> Self {
        match &error {
            CallError::Server { code, .. } if ErrorClass::of(*code) != ErrorClass::Transient => {
                Self::Permanent(error.to_string())
            }
            CallError::Unusable(_) => Self::Permanent(error.to_string()),
            CallError::Server { .. } | CallError::NoAnswer(_) => Self::Transient(error.to_string()),
        }
    }
}

/// An answer with a `writeConcernError` is no answer, whatever its counts say: it may still be rolled back.
fn written(answer: &Document) -> Result<Written, CommandError> {
    let reply = reply::of_write(answer);
    if let Some(reason) = reply.write_concern_error {
        return Err(CommandError::Transient(reason));
    }
    let mut duplicate = false;
    for error in reply.write_errors {
        match ErrorClass::of(error.code) {
            ErrorClass::Duplicate if error.on_id => duplicate = true,
            ErrorClass::Transient => return Err(CommandError::Transient(error.to_string())),
            _ => return Err(CommandError::Permanent(error.to_string())),
        }
    }
    Ok(Written { n: reply.n, duplicate })
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
        let foreign = doc! { "index": 0, "code": 11_000, "keyPattern": { "version": 1 } };
        check(doc! { "ok": 1, "n": 0, "writeErrors": [foreign] }, "permanent");
        check(doc! { "ok": 1, "n": 1, "writeConcernError": { "code": 64 } }, "transient");
        check(doc! { "ok": 1, "n": 0, "writeErrors": [{ "index": 0, "code": 112 }] }, "transient");
        check(doc! { "ok": 1, "n": 0, "writeErrors": [{ "index": 0, "code": 13 }] }, "permanent");
    }
}
