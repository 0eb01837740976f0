//! Keeps the ledger's marks: raises `reserved` before anything is sent, and `next` once it is durable.

use std::collections::BTreeSet;

use mongodb::bson::{Bson, Document, doc};

use super::command::CommandError;
use super::document::{entry_id, parse_entry, parse_origin};
use super::error::Refusal;
use super::settled::{Entries, all_broken, judge};
use super::store::Ledger;
use crate::code::Code;
use crate::engine::plan::{LedgerAnswer, LedgerAsk, StreamMark};
use crate::sink::call;
use crate::sink::counts::add;
use crate::sink::outcome::Again;

impl Ledger {
    /// Sends the ask again and again until the majority has settled it; `None` once the ledger is stopped. May be
    /// dropped at any time: marks only ever rise, so a late one is as good as none.
    pub async fn settle(&self, ask: &LedgerAsk) -> Option<LedgerAnswer> {
        let mut stop = self.stop.subscribe();
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => None,
            answer = self.settle_at_last(ask) => Some(answer),
        }
    }

    async fn settle_at_last(&self, ask: &LedgerAsk) -> LedgerAnswer {
        let mut backoff = self.backoff();
        loop {
            let reason = match self.try_settle(ask).await {
                Ok(Some(answer)) => return answer,
                Ok(None) => "some mark is not visible yet".to_owned(),
                Err(CommandError::Permanent(reason)) => {
                    return all_broken(ask, &Refusal::Denied { reason }.into());
                }
                Err(CommandError::Transient(reason)) => reason,
            };
            tracing::warn!(
                code = %Code::LedgerRetry,
                ledger = self.name,
                tries = backoff.n_tries() + 1,
                reason,
                "ledger not settled, trying again"
            );
            add(&self.counts().resends[Again::Server as usize], 1);
            call::wait(backoff.next_ms()).await;
        }
    }

    /// `None`: some mark is neither in force nor ruled out.
    async fn try_settle(&self, ask: &LedgerAsk) -> Result<Option<LedgerAnswer>, CommandError> {
        let statements: Vec<_> = ask.reserve.iter().map(reserve).chain(ask.advance.iter().map(advance)).collect();
        let n_sent = statements.len() as i64;
        if n_sent == 0 || self.commands.update(&self.name, statements).await?.n == n_sent {
            let LedgerAsk { reserve, advance } = ask.clone();
            return Ok(Some(LedgerAnswer { reserved: reserve, advanced: advance, ..LedgerAnswer::default() }));
        }
        // Only the sum is known: what the entries say now tells which one did not match, and why.
        Ok(judge(ask, &self.entries_of(ask).await?))
    }

    async fn entries_of(&self, ask: &LedgerAsk) -> Result<Entries, CommandError> {
        let origins: BTreeSet<_> = ask.reserve.iter().chain(&ask.advance).map(|mark| &*mark.origin).collect();
        let n = origins.len() as i64;
        let ids: Vec<Document> = origins.into_iter().map(entry_id).collect();
        let found = self.commands.find(&self.name, doc! { "_id": { "$in": ids } }, doc! {}, 1, n).await?;
        let entries = found.iter().filter_map(|document| {
            let origin = document.get_document("_id").ok().and_then(|id| parse_origin(id).ok())?;
            Some((origin, parse_entry(document)))
        });
        Ok(entries.collect())
    }
}

/// Matches the live stream only: one that was closed must not be written past its `to`.
fn reserve(mark: &StreamMark) -> Document {
    doc! {
        "q": { "_id": entry_id(&mark.origin), "streams": { "$elemMatch": { "s": mark.stream.0, "to": Bson::Null } } },
        "u": { "$max": { "streams.$.reserved": mark.upto } },
    }
}

fn advance(mark: &StreamMark) -> Document {
    doc! {
        "q": { "_id": entry_id(&mark.origin), "streams.s": mark.stream.0 },
        "u": { "$max": { "streams.$.next": mark.upto } },
    }
}
