//! What the ledger holds, and what `sakia run` would make of it.

mod judge;

use std::collections::BTreeMap;

use mongodb::bson::doc;

pub(super) use judge::{damaged, judge};

use crate::commands::init::steps::Names;
use crate::commands::server::{CommandError, Server};
use crate::config::Config;
use crate::record::Origin;
use crate::sink::ledger::entry::Entry;
use crate::sink::ledger::{entries_range, parse_entry, parse_origin};

#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    pub(super) entries: BTreeMap<Origin, Entry>,
    /// Entries that nobody can use, and why.
    pub(super) damaged: Vec<(String, String)>,
    /// Text by fingerprint.
    pub(super) contracts: BTreeMap<String, String>,
}

pub(super) async fn look(server: &Server, config: &Config) -> Result<Facts, CommandError> {
    let ledger = Names::of(config).ledger;
    let find = |filter| {
        doc! {
            "find": &ledger, "filter": filter, "batchSize": 100_000, "singleBatch": true,
            "readConcern": { "level": "majority" },
        }
    };
    let mut facts = Facts::default();
    for document in server.list(find(doc! { "_id": entries_range() })).await? {
        let id = document.get_document("_id").cloned().unwrap_or_default();
        let parsed = parse_origin(&id).and_then(|origin| Ok((origin, parse_entry(&document)?)));
        match parsed {
            Ok((origin, entry)) => facts.entries.extend([(origin, entry)]),
            Err(reason) => facts.damaged.push((id.to_string(), reason)),
        }
    }
    for document in server.list(find(doc! { "_id.contract": { "$exists": true } })).await? {
        let fingerprint = document.get_document("_id").and_then(|id| id.get_str("contract"));
        if let (Ok(fingerprint), Ok(text)) = (fingerprint, document.get_str("text")) {
            facts.contracts.insert(fingerprint.to_owned(), text.to_owned());
        }
    }
    Ok(facts)
}
