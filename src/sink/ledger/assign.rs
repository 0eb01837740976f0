//! Hands a partition over to its reader: what is left to write, and as which streams.

use std::sync::{Arc, PoisonError};

use mongodb::bson::{Bson, doc};

use super::command::CommandError;
use super::coverage::{self, Ask, Edit, Recreated, SpanPlan, Warning};
use super::document::{contract_id, contract_update, edit_update, entry_id, parse_entry, parse_origin, topic_range};
use super::entry::Entry;
use super::error::{AssignError, Refusal};
use super::store::Ledger;
use crate::config::Contract;
use crate::engine::plan::{Assigned, Span};
use crate::record::{Assignment, Origin, Position, StreamId, Window};
use crate::sink::call;
use crate::source::PartitionAsk;

/// Lost comparisons and unseen writes that are tried again before the caller is told to come back.
const MAX_TRIES: u32 = 8;
/// Dead letters read a command.
const PAGE: i64 = 10_000;

/// A partition that may be written, as its ledger entry has it now.
#[derive(Clone, Debug)]
pub struct Claim {
    pub assigned: Assigned,
    /// One a span.
    pub contracts: Vec<Arc<Contract>>,
    pub warnings: Vec<Warning>,
}

/// An entry as the majority has it.
pub(super) struct Found {
    pub(super) entry: Entry,
    /// As stored: comparing with it also notices what `next` and `reserved` have become, which no version tells.
    streams: Bson,
}

impl Ledger {
    /// Decides what of a partition is left to write and puts that in force. Every try starts from a majority read, so
    /// that a reply lost on the way needs no care: if the edit was made, it is found.
    pub async fn assign(
        &self,
        ask: &PartitionAsk,
        assignment: Assignment,
        contract: &Contract,
    ) -> Result<Claim, AssignError> {
        let mut stop = self.stop.subscribe();
        let stopped = || AssignError::Unavailable("stopping".to_owned());
        let tries = async {
            let mut backoff = self.backoff();
            while backoff.n_tries() < MAX_TRIES {
                if let Some(handed) = self.try_assign(ask, assignment, contract).await? {
                    return Ok(handed);
                }
                call::wait(backoff.next_ms()).await;
            }
            Err(AssignError::Unavailable("its entry keeps being changed by other writers".to_owned()))
        };
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => Err(stopped()),
            handed = tries => handed,
        }
    }

    /// `None`: the entry was changed by somebody else.
    async fn try_assign(
        &self,
        ask: &PartitionAsk,
        assignment: Assignment,
        contract: &Contract,
    ) -> Result<Option<Claim>, AssignError> {
        let origin = self.origin(&ask.topic, ask.partition).await?;
        let found = self.find_entry(&origin).await?;
        if found.is_none() {
            self.refuse_lost(&origin).await?;
            self.refuse_recreated_beside(ask, &origin).await?;
        }
        let fingerprint = contract.fingerprint();
        let asked = Ask {
            topic_id: ask.topic_id.as_deref(),
            committed: ask.committed,
            low: ask.low,
            high: ask.high,
            contract: &fingerprint,
        };
        let decision = match coverage::decide(found.as_ref().map(|f| &f.entry), &asked, || self.random_id()) {
            Ok(decision) => decision,
            Err(why) => return Err(self.recreated(&origin, why)),
        };
        // Before anything is changed: a reader that cannot finish the old must not close it either.
        let contracts = self.contracts_of(&origin, &decision.spans, contract, &fingerprint).await?;
        if let Some(edit) = &decision.edit {
            self.store_contract(contract, &fingerprint).await?;
            if !self.swap(&origin, found.as_ref(), edit).await? {
                return Ok(None);
            }
        }
        let dead = self.dead_letters(&decision.spans).await?;
        let spans = decision.spans.iter().zip(&contracts).map(|(plan, contract)| span(plan, contract)).collect();
        let assigned = Assigned { assignment, origin: Arc::new(origin), spans, dead };
        Ok(Some(Claim { assigned, contracts, warnings: decision.warnings }))
    }

    /// The topic's newest incarnation rules, also for a partition that has no entry yet.
    pub(super) async fn origin(&self, topic: &str, partition: i32) -> Result<Origin, AssignError> {
        let range = doc! { "_id": topic_range(&self.cluster, topic) };
        let newest = self.commands.find(&self.name, range, doc! { "_id": 1 }, -1, 1).await?.pop();
        let mut origin = Origin { cluster: self.cluster.clone(), topic: topic.to_owned(), incarnation: 0, partition };
        if let Some(id) = newest.as_ref().and_then(|newest| newest.get_document("_id").ok()) {
            origin.incarnation = parse_origin(id).map_err(|reason| self.malformed(&origin, reason))?.incarnation;
        }
        Ok(origin)
    }

    pub(super) async fn find_entry(&self, origin: &Origin) -> Result<Option<Found>, AssignError> {
        let Some(document) = self.commands.find_one(&self.name, doc! { "_id": entry_id(origin) }).await? else {
            return Ok(None);
        };
        let entry = parse_entry(&document).map_err(|reason| self.malformed(origin, reason))?;
        let streams = document.get("streams").cloned().unwrap_or_default();
        Ok(Some(Found { entry, streams }))
    }

    /// A ledger that was dropped under a running member must not be begun anew: all that its buckets hold past the
    /// group's commit would be stored again.
    async fn refuse_lost(&self, origin: &Origin) -> Result<(), AssignError> {
        if self.commands.find_one(&self.name, doc! { "_id": "header" }).await?.is_some() {
            return Ok(());
        }
        let Origin { topic, partition, .. } = origin.clone();
        Err(Refusal::Lost { topic, partition, ledger: self.name.clone() }.into())
    }

    /// A recreated topic may have more partitions than before: those have no entry that could object.
    async fn refuse_recreated_beside(&self, ask: &PartitionAsk, origin: &Origin) -> Result<(), AssignError> {
        let Some(is) = &ask.topic_id else { return Ok(()) };
        let mut first = entry_id(origin);
        first.insert("partition", Bson::MinKey);
        let mut last = entry_id(origin);
        last.insert("partition", Bson::MaxKey);
        let other = doc! { "_id": { "$gte": first, "$lt": last }, "topic_id": { "$nin": [null, is] } };
        let other = self.commands.find_one(&self.name, other).await?;
        match other.as_ref().and_then(|other| other.get_str("topic_id").ok()) {
            Some(was) => Err(self.recreated(origin, Recreated::TopicId { was: was.to_owned(), is: is.clone() })),
            None => Ok(()),
        }
    }

    /// The log's end was read before the entry was, and another writer may have raised `next` in between. Only an end
    /// that was read later and still falls short is proof.
    fn recreated(&self, origin: &Origin, why: Recreated) -> AssignError {
        let mut suspects = self.suspects.lock().unwrap_or_else(PoisonError::into_inner);
        if let Recreated::Behind { high, next } = why
            && suspects.get(origin).is_none_or(|&suspect| high >= suspect)
        {
            suspects.insert(origin.clone(), next);
            return AssignError::Unavailable(format!("{why}: to be looked at again"));
        }
        Refusal::Recreated { topic: origin.topic.clone(), partition: origin.partition, why }.into()
    }

    async fn contracts_of(
        &self,
        origin: &Origin,
        spans: &[SpanPlan],
        own: &Contract,
        fingerprint: &str,
    ) -> Result<Vec<Arc<Contract>>, AssignError> {
        let own = Arc::new(own.clone());
        let mut contracts = Vec::with_capacity(spans.len());
        for span in spans {
            contracts.push(if *span.contract == *fingerprint {
                own.clone()
            } else {
                self.old_contract(origin, span).await?
            });
        }
        Ok(contracts)
    }

    async fn old_contract(&self, origin: &Origin, span: &SpanPlan) -> Result<Arc<Contract>, AssignError> {
        let Origin { topic, partition, .. } = origin.clone();
        let found = self.commands.find_one(&self.name, doc! { "_id": contract_id(&span.contract) }).await?;
        let Some(text) = found.as_ref().and_then(|found| found.get_str("text").ok()) else {
            let (from, fingerprint, ledger) = (span.from, span.contract.to_string(), self.name.clone());
            return Err(Refusal::MissingContract { topic, partition, from, fingerprint, ledger }.into());
        };
        let parsed = Contract::parse(text).map_err(|why| {
            let last = span.to.map_or_else(|| "the end".to_owned(), |to| (to - 1).to_string());
            Refusal::UnknownContract { topic, partition, from: span.from, last, why }
        })?;
        Ok(Arc::new(parsed))
    }

    /// The text first: a stream whose contract nobody can read could never be finished. Once a process is enough, and
    /// keeps the time short between the read of an entry and its comparison.
    pub(super) async fn store_contract(&self, contract: &Contract, fingerprint: &str) -> Result<(), CommandError> {
        if self.contracts.lock().unwrap_or_else(PoisonError::into_inner).contains(fingerprint) {
            return Ok(());
        }
        let statement = doc! {
            "q": { "_id": contract_id(fingerprint) }, "u": contract_update(&contract.text()), "upsert": true,
        };
        // A duplicate: another writer was first, and the text is a function of the fingerprint.
        self.commands.update(&self.name, vec![statement]).await?;
        self.contracts.lock().unwrap_or_else(PoisonError::into_inner).insert(fingerprint.to_owned());
        Ok(())
    }

    /// Puts `edit` in force if nothing has changed since `found` was read. Also makes the entry: version 0 matches none,
    /// so a second maker meets the first one's `_id`.
    pub(super) async fn swap(&self, origin: &Origin, found: Option<&Found>, edit: &Edit) -> Result<bool, CommandError> {
        let version = found.map_or(0, |found| found.entry.version);
        let mut filter = doc! { "_id": entry_id(origin), "version": version };
        if let Some(found) = found {
            filter.insert("streams", found.streams.clone());
        }
        let statement = doc! { "q": filter, "u": edit_update(version + 1, edit), "upsert": found.is_none() };
        let written = self.commands.update(&self.name, vec![statement]).await?;
        Ok(written.n == 1 && !written.duplicate)
    }

    /// Dead letters at or past the spans' starts: their readings are dealt with, and are not to be stored as well.
    async fn dead_letters(&self, spans: &[SpanPlan]) -> Result<Vec<(StreamId, Position)>, AssignError> {
        let mut dead = Vec::new();
        for span in spans {
            let s = span.stream.0;
            let mut after = Position::new(span.from, 0).0 - 1;
            loop {
                let range = doc! { "$gt": { "s": s, "pos": after }, "$lt": { "s": s, "pos": Bson::MaxKey } };
                let page = self.commands.find(&self.dead, doc! { "_id": range }, doc! { "_id": 1 }, 1, PAGE).await?;
                let positions = page.iter().filter_map(|letter| letter.get_document("_id").ok()?.get_i64("pos").ok());
                dead.extend(positions.map(|pos| (span.stream, Position(pos))));
                let full = page.len() as i64 == PAGE;
                match dead.last().filter(|_| full) {
                    Some(&(_, Position(pos))) => after = pos,
                    None => break,
                }
            }
        }
        Ok(dead)
    }

    fn malformed(&self, origin: &Origin, reason: String) -> Refusal {
        let Origin { topic, partition, .. } = origin.clone();
        Refusal::Malformed { topic, partition, ledger: self.name.clone(), reason }
    }
}

fn span(plan: &SpanPlan, contract: &Contract) -> Span {
    Span {
        stream: plan.stream,
        from: plan.from,
        to: plan.to,
        reserved: plan.reserved,
        window: Window { length_ms: contract.window_length_ms, offset_ms: contract.window_offset_ms },
        stats: contract.decoder.stats.iter().map(|name| name.as_str().into()).collect(),
    }
}
