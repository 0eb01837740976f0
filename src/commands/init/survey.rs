//! What the server has of ours already.

use std::collections::BTreeMap;

use mongodb::bson::{Document, doc};

use super::InitError;
use super::steps::{Names, Topology};
use crate::commands::server::Server;
use crate::config::Config;

/// A collection or view under one of our names, as `listCollections` tells.
#[derive(Clone, Debug)]
pub(in crate::commands) struct Found {
    /// `collection`, `view` or `timeseries`.
    pub(in crate::commands) kind: String,
    pub(in crate::commands) options: Document,
}

#[derive(Clone, Debug, Default)]
pub(in crate::commands) struct Survey {
    pub(in crate::commands) collections: BTreeMap<String, Found>,
    /// Of the collection of readings.
    pub(in crate::commands) indexes: Vec<Document>,
    pub(in crate::commands) shard_keys: BTreeMap<String, Document>,
    /// The ledger's header.
    pub(in crate::commands) header: Option<Document>,
    pub(in crate::commands) has_readings: bool,
}

pub(in crate::commands) async fn survey(
    server: &Server,
    config: &Config,
    topology: Topology,
) -> Result<Survey, InitError> {
    let names = Names::of(config);
    let look = |what: &str, reason| InitError::Command { what: format!("cannot look at {what}"), reason };
    let ours: Vec<_> = names.all().into_iter().chain([names.samples.as_str()]).collect();
    let ours = doc! { "name": { "$in": ours } };
    let listed = server.list(doc! { "listCollections": 1, "filter": ours }).await;
    let listed = listed.map_err(|error| look("the collections", error))?;
    let mut survey = Survey { collections: listed.iter().filter_map(found).collect(), ..Survey::default() };
    if topology == Topology::Sharded {
        for name in names.all() {
            let id = server.namespace(name);
            let find = doc! { "find": "collections", "filter": { "_id": &id, "dropped": { "$ne": true } }, "limit": 1 };
            let entries = server.list_config(find).await.map_err(|error| look("config.collections", error))?;
            let key = entries.first().and_then(|entry| entry.get_document("key").ok().cloned());
            survey.shard_keys.extend(key.map(|key| (name.to_owned(), key)));
        }
    }
    let is_collection = |name: &str| survey.collections.get(name).is_some_and(|found| found.kind == "collection");
    if is_collection(&names.readings) {
        let indexes = server.list(doc! { "listIndexes": &names.readings }).await;
        survey.indexes = indexes.map_err(|error| look("the indexes", error))?;
        let any = doc! { "find": &names.readings, "projection": { "_id": 1 }, "limit": 1, "singleBatch": true };
        survey.has_readings = !server.list(any).await.map_err(|error| look("the readings", error))?.is_empty();
    }
    if is_collection(&names.ledger) {
        let find = doc! {
            "find": &names.ledger, "filter": { "_id": "header" }, "limit": 1, "singleBatch": true,
            "readConcern": { "level": "majority" },
        };
        survey.header = server.list(find).await.map_err(|error| look("the ledger", error))?.into_iter().next();
    }
    Ok(survey)
}

fn found(listed: &Document) -> Option<(String, Found)> {
    let name = listed.get_str("name").ok()?.to_owned();
    let kind = listed.get_str("type").unwrap_or("collection").to_owned();
    Some((name, Found { kind, options: listed.get_document("options").cloned().unwrap_or_default() }))
}
