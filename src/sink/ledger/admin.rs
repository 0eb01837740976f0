//! What people do to a ledger by hand: look at all of it, skip, open an incarnation, make it again.

use mongodb::bson::{Bson, DateTime, Document, doc};

use super::assign::Found;
use super::command::CommandError;
use super::coverage::skip::{self, NoSkip, Skip};
use super::coverage::{Ask, Edit};
use super::document::{contracts_range, edit_update, entries_range, entry_id, parse_entry, parse_origin};
use super::entry::Entry;
use super::error::{AssignError, OpenError};
use super::store::Ledger;
use crate::config::{Config, Contract};
use crate::record::Origin;
use crate::sink::call;

/// Documents read a command.
const PAGE: i64 = 1_000;
/// Lost comparisons with a member that keeps raising its marks.
const MAX_TRIES: u32 = 20;

/// All that a ledger holds.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    pub header: Option<Document>,
    /// In the order of cluster, topic, incarnation and partition.
    pub entries: Vec<KeptEntry>,
    pub contracts: Vec<KeptContract>,
}

/// One partition's entry; one that cannot be used comes with the reason.
#[derive(Clone, Debug)]
pub struct KeptEntry {
    pub origin: Origin,
    pub entry: Result<Entry, String>,
    document: Document,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptContract {
    pub fingerprint: String,
    pub text: String,
    /// `None`: kept by a release that did not note it.
    pub first_seen: Option<DateTime>,
}

impl Ledger {
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it belongs to the configured collection, as far as its header tells.
    pub async fn check(&self, config: &Config) -> Result<(), OpenError> {
        match self.find_header().await? {
            Some(found) => self.compare_header(&found, &self.own_header(config)),
            None => Ok(()),
        }
    }

    pub async fn read_all(&self) -> Result<Kept, OpenError> {
        let header = self.find_header().await?;
        let failed = |error| OpenError::of(&self.name, error);
        let entries = self.read_range(entries_range()).await.map_err(failed)?;
        let contracts = self.read_range(contracts_range()).await.map_err(failed)?;
        let entries = entries.into_iter().map(|document| self.kept_entry(document)).collect::<Result<_, _>>()?;
        Ok(Kept { header, entries, contracts: contracts.iter().filter_map(kept_contract).collect() })
    }

    fn kept_entry(&self, document: Document) -> Result<KeptEntry, OpenError> {
        let id = document.get_document("_id").map_err(|error| error.to_string()).and_then(parse_origin);
        let origin = id.map_err(|reason| OpenError::Denied {
            ledger: self.name.clone(),
            reason: format!("a document in it is no partition's entry: {reason}; remove it"),
        })?;
        Ok(KeptEntry { origin, entry: parse_entry(&document), document })
    }

    async fn read_range(&self, mut range: Document) -> Result<Vec<Document>, CommandError> {
        let mut all = Vec::new();
        loop {
            let page = self.commands.find(&self.name, doc! { "_id": &range }, doc! {}, 1, PAGE).await?;
            let is_last = (page.len() as i64) < PAGE;
            all.extend(page);
            match all.last().and_then(|last: &Document| last.get("_id")) {
                Some(last) if !is_last => {
                    range.remove("$gte");
                    range.insert("$gt", last.clone());
                }
                _ => return Ok(all),
            }
        }
    }

    /// What a skip of a partition would do now.
    pub async fn plan_skip(&self, target: &Target<'_>) -> Result<Result<Skip, NoSkip>, AssignError> {
        Ok(self.try_plan_skip(target).await?.map(|planned| planned.2))
    }

    /// Skips. Planned anew at each try, since a running member raises its marks all the time.
    pub async fn skip(&self, target: &Target<'_>) -> Result<Result<Skip, NoSkip>, AssignError> {
        let mut backoff = self.backoff();
        if let Some(contract) = target.contract {
            self.store_contract(contract, &contract.fingerprint()).await?;
        }
        while backoff.n_tries() < MAX_TRIES {
            let (origin, found, skip) = match self.try_plan_skip(target).await? {
                Ok(planned) => planned,
                Err(no) => return Ok(Err(no)),
            };
            if self.swap(&origin, found.as_ref(), &skip.edit).await? {
                return Ok(Ok(skip));
            }
            call::wait(backoff.next_ms()).await;
        }
        Err(AssignError::Unavailable("its entry keeps being changed by other writers".to_owned()))
    }

    async fn try_plan_skip(
        &self,
        target: &Target<'_>,
    ) -> Result<Result<(Origin, Option<Found>, Skip), NoSkip>, AssignError> {
        let origin = self.origin(target.topic, target.partition).await?;
        let found = self.find_entry(&origin).await?;
        let fingerprint = target.contract.map(Contract::fingerprint).unwrap_or_default();
        let ask = Ask {
            topic_id: target.topic_id,
            committed: None,
            low: target.low,
            high: target.high,
            contract: &fingerprint,
        };
        let planned = skip::plan(found.as_ref().map(|found| &found.entry), &ask, target.to, || self.random_id());
        Ok(planned.map(|skip| (origin, found, skip)))
    }

    pub async fn keep_contract(&self, contract: &Contract) -> Result<(), OpenError> {
        let kept = self.store_contract(contract, &contract.fingerprint()).await;
        kept.map_err(|error| OpenError::of(&self.name, error))
    }

    /// Makes entries that are not there, all by one command; returns how many there were already. What was made by
    /// somebody else meanwhile stays as it is.
    pub async fn make_entries(&self, entries: &[(Origin, Edit)]) -> Result<usize, OpenError> {
        let statement = |(origin, edit): &(Origin, Edit)| {
            // Version 0 matches none: a second maker meets the first one's `_id`.
            doc! { "q": { "_id": entry_id(origin), "version": 0 }, "u": edit_update(1, edit), "upsert": true }
        };
        let statements: Vec<_> = entries.iter().map(statement).collect();
        if statements.is_empty() {
            return Ok(0);
        }
        let written = self.commands.update(&self.name, statements).await;
        let written = written.map_err(|error| OpenError::of(&self.name, error))?;
        Ok(entries.len() - usize::try_from(written.n).unwrap_or(0).min(entries.len()))
    }

    /// Puts `edit` in the place of an entry that cannot be used, unless that has changed. False: it has.
    pub async fn replace(&self, unusable: &KeptEntry, edit: &Edit) -> Result<bool, OpenError> {
        let mut update = vec![doc! { "$unset": ["lost", "skipped"] }];
        update.extend(edit_update(1, edit));
        let statement = doc! { "q": unusable.document.clone(), "u": update };
        let written = self.commands.update(&self.name, vec![statement]).await;
        Ok(written.map_err(|error| OpenError::of(&self.name, error))?.n == 1)
    }

    /// The last step of making a ledger again: without a header nobody uses it.
    pub async fn keep_header(&self, config: &Config) -> Result<(), OpenError> {
        self.make_header(&self.own_header(config)).await
    }
}

/// Where a skip goes, and what the broker says of that partition.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    pub topic: &'a str,
    pub partition: i32,
    pub topic_id: Option<&'a str>,
    pub low: i64,
    pub high: i64,
    pub to: i64,
    /// The present configuration's, for a partition that has no stream yet.
    pub contract: Option<&'a Contract>,
}

fn kept_contract(document: &Document) -> Option<KeptContract> {
    Some(KeptContract {
        fingerprint: document.get_document("_id").ok()?.get_str("contract").ok()?.to_owned(),
        text: document.get_str("text").ok()?.to_owned(),
        first_seen: document
            .get("first_seen")
            .and_then(|at| if let Bson::DateTime(at) = at { Some(*at) } else { None }),
    })
}
