//! What `read` asks the server for, and what it needs to know of a collection before.

use mongodb::Cursor;
use mongodb::bson::{Bson, Document, doc};

use super::query::{Queries, Span};
use super::windows::Windows;
use crate::commands::server::{CommandError, Server};
use crate::config::{Config, FieldNames};

/// The readings of one collection, open for reading.
#[derive(Debug)]
pub(super) struct Source {
    server: Server,
    pub(super) queries: Queries,
    pub(super) windows: Windows,
}

impl Source {
    /// Asks the ledger for the windows and names that this collection was written with: they may be others than are
    /// configured. Without a ledger, the configuration counts.
    pub(super) async fn open(server: Server, config: &Config) -> Result<Self, CommandError> {
        let collection = config.mongo.collection.clone();
        let contracts = doc! { "$gte": { "contract": "" }, "$lt": { "contract": Bson::MaxKey } };
        let kept = server
            .cursor(doc! {
                "find": format!("{collection}_ledger"),
                "filter": { "$or": [{ "_id": "header" }, { "_id": contracts }] },
                "readConcern": { "level": "majority" },
            })
            .await?;
        let kept = documents(kept).await?;
        let texts = kept.iter().filter(|kept| kept.get_document("_id").is_ok());
        let windows = Windows::of(config.bucket.window, texts.map(|kept| kept.get_str("text").unwrap_or_default()));
        let header = kept.iter().find(|kept| kept.get_str("_id").is_ok());
        let names = header.and_then(|header| header.get_document("fields").ok());
        let fields = names.map_or_else(|| config.fields.clone(), |names| named(names, &config.fields));
        Ok(Self { server, queries: Queries { collection, fields }, windows })
    }

    pub(super) async fn cursor(&self, command: Document) -> Result<Cursor<Document>, CommandError> {
        self.server.cursor(command).await
    }

    pub(super) async fn documents(&self, command: Document) -> Result<Vec<Document>, CommandError> {
        documents(self.server.cursor(command).await?).await
    }

    pub(super) async fn run(&self, command: Document) -> Result<Document, CommandError> {
        self.server.run(command).await
    }

    /// Starts of all windows that may hold samples of the span and have buckets, in order. Each is found by one seek in the
    /// index, so no bucket is missed, whatever windows it was written in.
    pub(super) async fn starts(&self, span: Span) -> Result<Vec<i64>, CommandError> {
        let mut starts = Vec::new();
        let mut after = span.from.saturating_sub(self.windows.longest_ms());
        while let Some(start) = self.start(self.queries.next_window(after, span.to)).await? {
            after = start;
            if self.windows.end(start) > span.from {
                starts.push(start);
            }
        }
        Ok(starts)
    }

    /// The start that a query for one window finds.
    pub(super) async fn start(&self, command: Document) -> Result<Option<i64>, CommandError> {
        let found = self.server.list(command).await?;
        let start =
            |bucket: &Document| Some(bucket.get_document("_id").ok()?.get_datetime("w").ok()?.timestamp_millis());
        match found.first() {
            None => Ok(None),
            Some(bucket) => {
                start(bucket).map(Some).ok_or_else(|| CommandError::Unusual(format!("no bucket: {bucket}")))
            }
        }
    }

    pub(super) fn namespace(&self) -> String {
        self.server.namespace(&self.queries.collection)
    }
}

async fn documents(mut cursor: Cursor<Document>) -> Result<Vec<Document>, CommandError> {
    let mut documents = Vec::new();
    while cursor.advance().await? {
        documents.push(cursor.deserialize_current()?);
    }
    Ok(documents)
}

/// The names in the ledger's header; the configured one where it lacks one.
fn named(names: &Document, configured: &FieldNames) -> FieldNames {
    let name = |key: &str, configured: &String| names.get_str(key).map_or_else(|_| configured.clone(), str::to_owned);
    // Taken apart, so that a new name cannot be forgotten here.
    let FieldNames { deviceid, date, first, last, count, open, meta, samples, time, info, stats, schema, src, pos } =
        configured;
    FieldNames {
        deviceid: name("deviceid", deviceid),
        date: name("date", date),
        first: name("first", first),
        last: name("last", last),
        count: name("count", count),
        open: name("open", open),
        meta: name("meta", meta),
        samples: name("samples", samples),
        time: name("time", time),
        info: name("info", info),
        stats: name("stats", stats),
        schema: name("schema", schema),
        src: name("src", src),
        pos: name("pos", pos),
    }
}
