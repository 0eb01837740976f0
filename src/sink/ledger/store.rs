//! Opens the ledger of a readings collection, and refuses one that is not its own.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Mutex, PoisonError};

use mongodb::Database;
use mongodb::bson::{Bson, Document, doc};
use tokio::sync::watch;

use super::command::Commands;
use super::document::{HEADER_SCHEMA, entries_range, header};
use super::error::OpenError;
use crate::config::Config;
use crate::record::{Origin, StreamId};
use crate::sink::counts::SinkCounts;
use crate::sink::retry::Backoff;

/// The ledger of one readings collection, as seen by a reader of one Kafka cluster.
#[derive(Debug)]
pub struct Ledger {
    pub(super) commands: Commands,
    /// Name of the ledger's collection.
    pub(super) name: String,
    /// Name of the collection of dead letters.
    pub(super) dead: String,
    pub(super) cluster: String,
    /// Raised by `stop`.
    pub(super) stop: watch::Sender<bool>,
    /// Per partition the `next` that a high watermark once fell short of: see `assign`.
    pub(super) suspects: Mutex<BTreeMap<Origin, i64>>,
    /// Fingerprints of the contracts whose text this process has stored.
    pub(super) contracts: Mutex<BTreeSet<String>>,
    random: Mutex<fastrand::Rng>,
}

impl Ledger {
    /// Opens the ledger that belongs to the configured collection; makes its header if both are new.
    pub async fn open(db: Database, config: &Config, cluster: String) -> Result<Self, OpenError> {
        let collection = &config.mongo.collection;
        let ledger = Self::unopened(db, config, cluster);
        ledger.check_header(collection, &ledger.own_header(config)).await?;
        Ok(ledger)
    }

    /// The ledger as it is, right or wrong: for those who look at it or mend it.
    pub fn unopened(db: Database, config: &Config, cluster: String) -> Self {
        let collection = &config.mongo.collection;
        // Keys drawn by the operating system: two processes with one seed would give two streams the same id.
        let entropy = RandomState::new().hash_one(std::process::id());
        Self {
            commands: Commands::new(db, config.mongo.write_timeout_ms),
            name: format!("{collection}_ledger"),
            dead: format!("{collection}_dead"),
            cluster,
            stop: watch::Sender::new(false),
            suspects: Mutex::default(),
            contracts: Mutex::default(),
            random: Mutex::new(fastrand::Rng::with_seed(entropy)),
        }
    }

    pub(super) fn own_header(&self, config: &Config) -> Document {
        header(&format!("{}.{}", self.commands.database(), config.mongo.collection), &config.fields)
    }

    /// What its client does.
    pub fn counts(&self) -> &SinkCounts {
        self.commands.counts()
    }

    /// Whatever waits for the ledger stops waiting, for good.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Reads in the reverse order of how another process that is starting too would write: its header, its entries, its
    /// readings. Otherwise it would be seen half done and refused.
    async fn check_header(&self, collection: &str, own: &Document) -> Result<(), OpenError> {
        let ledger = self.name.clone();
        // Dead letters count too: their records, read again as another stream's, would be stored beside them.
        let mut stored = None;
        for collection in [collection, &self.dead] {
            if stored.is_none() && self.has_any(collection, doc! {}).await? {
                stored = Some(collection.to_owned());
            }
        }
        let has_entries = self.has_any(&self.name, doc! { "_id": entries_range() }).await?;
        let found = self.find_header().await?;
        if let Some(found) = &found {
            self.compare_header(found, own)?;
        }
        match (found, has_entries, stored) {
            (None, true, _) => Err(OpenError::NoHeader { ledger }),
            (_, false, Some(collection)) => Err(OpenError::EmptyBesideReadings { ledger, collection }),
            (None, false, None) => self.make_header(own).await,
            (Some(_), ..) => Ok(()),
        }
    }

    pub(super) async fn make_header(&self, own: &Document) -> Result<(), OpenError> {
        let made = self.commands.insert(&self.name, own.clone()).await.map_err(|e| OpenError::of(&self.name, e))?;
        if !made.duplicate {
            return Ok(());
        }
        let Some(found) = self.find_header().await? else {
            let reason = "its header was just made and is not visible yet".to_owned();
            return Err(OpenError::Unavailable { ledger: self.name.clone(), reason });
        };
        self.compare_header(&found, own)
    }

    pub(super) async fn find_header(&self) -> Result<Option<Document>, OpenError> {
        let found = self.commands.find_one(&self.name, doc! { "_id": "header" }).await;
        found.map_err(|error| OpenError::of(&self.name, error))
    }

    pub(super) fn compare_header(&self, found: &Document, own: &Document) -> Result<(), OpenError> {
        let ledger = self.name.clone();
        let text = |value: Option<&Bson>| value.map_or_else(|| "missing".to_owned(), ToString::to_string);
        if found.get("schema").and_then(Bson::as_i32) != Some(HEADER_SCHEMA) {
            return Err(OpenError::OtherSchema { ledger, found: text(found.get("schema")), known: HEADER_SCHEMA });
        }
        if found.get("namespace") != own.get("namespace") {
            let (found, expected) = (text(found.get("namespace")), text(own.get("namespace")));
            return Err(OpenError::OtherNamespace { ledger, found, expected });
        }
        let own = own.get_document("fields").expect("invariant: our own header has names");
        let theirs = found.get_document("fields").ok();
        let differences: Vec<_> = own
            .iter()
            .map(|(name, ours)| (name, ours, theirs.and_then(|theirs| theirs.get(name))))
            .filter(|(_, ours, theirs)| *theirs != Some(*ours))
            .map(|(name, ours, theirs)| format!("{name} is {} there, {ours} here", text(theirs)))
            .collect();
        let differences = differences.join(", ");
        if differences.is_empty() { Ok(()) } else { Err(OpenError::OtherFields { ledger, differences }) }
    }

    async fn has_any(&self, collection: &str, filter: Document) -> Result<bool, OpenError> {
        let found = self.commands.find(collection, filter, doc! { "_id": 1 }, 1, 1).await;
        Ok(!found.map_err(|error| OpenError::of(&self.name, error))?.is_empty())
    }

    pub fn random_id(&self) -> StreamId {
        StreamId(self.random.lock().unwrap_or_else(PoisonError::into_inner).i64(1..))
    }

    pub(super) fn backoff(&self) -> Backoff {
        Backoff::new(self.random.lock().unwrap_or_else(PoisonError::into_inner).u64(..))
    }
}
