//! Runs that try dead letters again: their streams in the ledger, their claims in the letters.
//!
//! A letter that is tried carries `replay: {run, state}`. The state goes from `claimed` (the run may still be given up)
//! to `writing` (it may be in a bucket) to `done` (it is in a bucket) or `expired` (all of it is past its time to live).
//! A letter that failed again loses the field, and so waits for another run. A run exists once its document is inserted;
//! until then nothing of it is written, and whoever inserts a document that gives it up first may take its letters.

use std::collections::BTreeSet;
use std::sync::Arc;

use mongodb::bson::{Bson, Document, doc};

use super::command::CommandError;
use super::document::{contract_id, entry_id, parse_origin};
use super::store::Ledger;
use crate::config::Contract;
use crate::record::{Origin, Position, StreamId};
use crate::sink::call;

/// Letters claimed a command: some 500 KB of ids.
const PAGE: i64 = 10_000;
/// Statements a command: of a page each they would still fit.
const STATEMENTS: usize = 20;

/// `_id` of a letter.
pub type LetterId = (StreamId, Position);

/// One run as the ledger has it.
#[derive(Clone, Debug)]
pub struct Replay {
    pub id: String,
    pub state: ReplayState,
    /// One a partition; ids are negative, so that a bucket tells by itself that its stream covers no offsets.
    pub streams: Vec<ReplayStream>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayState {
    Open,
    Done,
    /// Its claims were taken over before it wrote anything.
    GivenUp,
}

#[derive(Clone, Debug)]
pub struct ReplayStream {
    pub stream: StreamId,
    pub origin: Arc<Origin>,
    /// Fingerprint.
    pub contract: String,
}

/// Letters of a run that are dealt with.
#[derive(Clone, Debug, Default)]
pub struct Settled {
    /// Durable in buckets, or in letters of their own.
    pub done: Vec<LetterId>,
    /// Of windows past their time to live only: nothing of them was stored.
    pub expired: Vec<LetterId>,
    /// Cannot be tried, and stay as they were.
    pub back: Vec<LetterId>,
}

/// What a claim brought.
#[derive(Clone, Debug, Default)]
pub struct Claimed {
    pub letters: u64,
    /// Every partition that a claimed letter is of, and perhaps some more.
    pub origins: BTreeSet<Origin>,
}

#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    #[error("{0}")]
    Unavailable(String),
    #[error("{0}")]
    Denied(String),
    #[error("{0}")]
    Malformed(String),
}

impl From<CommandError> for ReplayError {
    fn from(error: CommandError) -> Self {
        match error {
            CommandError::Transient(reason) => Self::Unavailable(reason),
            CommandError::Permanent(reason) => Self::Denied(reason),
        }
    }
}

impl Ledger {
    /// A name for a run that nobody else has.
    pub fn new_replay_id(&self) -> String {
        format!("{:016x}", self.random_id().0)
    }

    /// Gives up the claims of runs that ended before they began, and returns those runs: their letters are free. A run
    /// that is only slow loses the race for its document, and writes nothing.
    pub async fn give_up_claims(&self) -> Result<Vec<String>, ReplayError> {
        let mut free = Vec::new();
        let query = doc! { "replay.state": "claimed" };
        for run in self.commands.distinct(&self.dead, "replay.run", query).await? {
            let Bson::String(run) = run else { continue };
            let given_up = replay_document(&Replay { id: run.clone(), state: ReplayState::GivenUp, streams: vec![] });
            let is_ours = !self.commands.insert(&self.name, given_up).await?.duplicate;
            if is_ours || self.find_replay(&run).await?.is_some_and(|found| found.state == ReplayState::GivenUp) {
                free.push(run);
            }
        }
        Ok(free)
    }

    /// Claims for `run` the letters of `filter` that no other run has. Each is taken by comparison, so that runs at once
    /// have none in common.
    pub async fn claim_letters(&self, run: &str, filter: &Document, free: &[String]) -> Result<Claimed, ReplayError> {
        let of_nobody = doc! { "$or": [
            { "replay": { "$exists": false } },
            { "replay.state": "claimed", "replay.run": { "$in": free } },
        ] };
        let names = doc! { "cluster": 1, "topic": 1, "incarnation": 1, "partition": 1 };
        let update = doc! { "$set": { "replay": { "run": run, "state": "claimed" } } };
        let filter = doc! { "$and": [filter.clone(), of_nobody.clone()] };
        let mut claimed = Claimed::default();
        self.each_page(&filter, &names, &of_nobody, &update, |page, n| {
            claimed.letters += n;
            claimed.origins.extend(page.iter().filter_map(|letter| parse_origin(letter).ok()));
        })
        .await?;
        Ok(claimed)
    }

    /// From here on the run's letters are its own for good: without its document nobody could say what became of them.
    pub async fn begin_writing(&self, run: &str) -> Result<(), ReplayError> {
        let filter = doc! { "replay.run": run, "replay.state": "claimed" };
        let update = doc! { "$set": { "replay.state": "writing" } };
        self.each_page(&filter, &doc! { "_id": 1 }, &filter, &update, |_, _| ()).await
    }

    /// Applies `update` to the letters of `filter`, a page at a time; `guard` is asked again as each is changed.
    async fn each_page(
        &self,
        filter: &Document,
        projection: &Document,
        guard: &Document,
        update: &Document,
        mut seen: impl FnMut(&[Document], u64),
    ) -> Result<(), ReplayError> {
        let mut after: Bson = Bson::MinKey;
        loop {
            let rest = doc! { "$and": [filter.clone(), { "_id": { "$gt": after } }] };
            let page = self.commands.find(&self.dead, rest, projection.clone(), 1, PAGE).await?;
            let ids: Vec<Bson> = page.iter().filter_map(|letter| letter.get("_id").cloned()).collect();
            let Some(last) = ids.last().cloned() else { return Ok(()) };
            let query = doc! { "$and": [{ "_id": { "$in": &ids } }, guard.clone()] };
            let statement = doc! { "q": query, "u": update.clone(), "multi": true };
            let written = self.commands.update(&self.dead, vec![statement]).await?;
            seen(&page, written.n as u64);
            after = last;
        }
    }

    /// Makes a run exist, with a stream for each partition. `None`: it was given up meanwhile by another one.
    pub async fn begin_replay(
        &self,
        id: &str,
        contracts: Vec<(Origin, Contract)>,
    ) -> Result<Option<Replay>, ReplayError> {
        let mut streams = Vec::new();
        for (origin, contract) in contracts {
            let fingerprint = contract.fingerprint();
            self.store_contract(&contract, &fingerprint).await?;
            let stream = StreamId(-self.random_id().0);
            streams.push(ReplayStream { stream, origin: Arc::new(origin), contract: fingerprint });
        }
        let replay = Replay { id: id.to_owned(), state: ReplayState::Open, streams };
        let made = self.commands.insert(&self.name, replay_document(&replay)).await?;
        Ok((!made.duplicate).then_some(replay))
    }

    pub async fn find_replay(&self, id: &str) -> Result<Option<Replay>, ReplayError> {
        let Some(found) = self.commands.find_one(&self.name, doc! { "_id": { "replay": id } }).await? else {
            return Ok(None);
        };
        let malformed = |reason| ReplayError::Malformed(format!("run {id} in ledger {}: {reason}", self.name));
        parse_replay(id, &found).map(Some).map_err(malformed)
    }

    /// Runs that are begun and not done.
    pub async fn open_replays(&self) -> Result<Vec<String>, ReplayError> {
        let filter = doc! { "_id": { "$gte": { "replay": "" }, "$lt": { "replay": Bson::MaxKey } }, "state": "open" };
        let found = self.commands.find(&self.name, filter, doc! { "_id": 1 }, 1, PAGE).await?;
        let id = |found: &Document| Some(found.get_document("_id").ok()?.get_str("replay").ok()?.to_owned());
        Ok(found.iter().filter_map(id).collect())
    }

    /// Runs whose letters may be stored in part, and which the ledger no longer knows.
    pub async fn lost_replays(&self) -> Result<Vec<String>, ReplayError> {
        let mut lost = Vec::new();
        let query = doc! { "replay.state": "writing" };
        for run in self.commands.distinct(&self.dead, "replay.run", query).await? {
            let Bson::String(run) = run else { continue };
            if self.find_replay(&run).await?.is_none() {
                lost.push(run);
            }
        }
        Ok(lost)
    }

    /// The contract that a run was begun under.
    pub async fn replay_contract(&self, fingerprint: &str) -> Result<Contract, ReplayError> {
        let found = self.commands.find_one(&self.name, doc! { "_id": contract_id(fingerprint) }).await?;
        let text = found.as_ref().and_then(|found| found.get_str("text").ok());
        let missing = || format!("ledger {} no longer holds contract {fingerprint}: restore it", self.name);
        let text = text.ok_or_else(|| ReplayError::Malformed(missing()))?;
        Contract::parse(text).map_err(|error| ReplayError::Malformed(error.to_string()))
    }

    /// Dead letters that a run made of readings which had none of their own: as good as stored when it is resumed.
    pub async fn replay_letters(&self, stream: StreamId) -> Result<Vec<LetterId>, ReplayError> {
        let s = stream.0;
        let (mut all, mut after) = (Vec::new(), Bson::MinKey);
        loop {
            let range = doc! { "$gt": { "s": s, "pos": after }, "$lt": { "s": s, "pos": Bson::MaxKey } };
            let page = self.commands.find(&self.dead, doc! { "_id": range }, doc! { "_id": 1 }, 1, PAGE).await?;
            let pos = |letter: &Document| letter.get_document("_id").ok()?.get_i64("pos").ok();
            all.extend(page.iter().filter_map(pos).map(|pos| (stream, Position(pos))));
            match all.last().filter(|_| page.len() as i64 == PAGE) {
                Some((_, Position(last))) => after = Bson::Int64(*last),
                None => return Ok(all),
            }
        }
    }

    pub async fn end_replay(&self, id: &str) -> Result<(), ReplayError> {
        let statement =
            doc! { "q": { "_id": { "replay": id }, "state": "open" }, "u": { "$set": { "state": "done" } } };
        self.commands.update(&self.name, vec![statement]).await?;
        Ok(())
    }

    /// Marks letters of a run. Tries for as long as the server is away.
    pub async fn settle_letters(&self, run: &str, settled: &Settled) -> Result<(), ReplayError> {
        let statement = |ids: &[LetterId], update: Document| {
            let query = doc! { "_id": { "$in": ids.iter().map(letter_id).collect::<Vec<_>>() } };
            doc! { "q": in_run(query, run), "u": update, "multi": true }
        };
        let ended = |state| doc! { "$set": { "replay.state": state }, "$currentDate": { "replay.at": true } };
        let mut statements = Vec::new();
        for (ids, update) in [
            (&settled.done, ended("done")),
            (&settled.expired, ended("expired")),
            (&settled.back, doc! { "$unset": { "replay": "" } }),
        ] {
            statements.extend(ids.chunks(PAGE as usize).map(|ids| statement(ids, update.clone())));
        }
        self.update_letters(statements).await
    }

    /// Puts letters that failed again back, each with what is wrong now.
    pub async fn fail_letters(&self, run: &str, failed: &[(LetterId, &str, &str)]) -> Result<(), ReplayError> {
        let statement = |(id, reason, detail): &(LetterId, &str, &str)| {
            doc! {
                "q": in_run(doc! { "_id": letter_id(id) }, run),
                "u": {
                    "$set": { "reason": reason, "detail": detail }, "$inc": { "attempts": 1 },
                    "$unset": { "replay": "" },
                },
            }
        };
        self.update_letters(failed.iter().map(statement).collect()).await
    }

    /// Each names the state that it changes, so a late or repeated one has no effect.
    async fn update_letters(&self, statements: Vec<Document>) -> Result<(), ReplayError> {
        let mut backoff = self.backoff();
        for some in statements.chunks(STATEMENTS) {
            loop {
                match self.commands.update(&self.dead, some.to_vec()).await {
                    Ok(_) => break,
                    Err(CommandError::Permanent(reason)) => return Err(ReplayError::Denied(reason)),
                    Err(CommandError::Transient(reason)) => {
                        tracing::debug!(reason, tries = backoff.n_tries(), "letters not marked, trying again");
                        call::wait(backoff.next_ms()).await;
                    }
                }
            }
        }
        Ok(())
    }
}

fn letter_id((stream, pos): &LetterId) -> Document {
    doc! { "s": stream.0, "pos": pos.0 }
}

fn in_run(mut query: Document, run: &str) -> Document {
    query.insert("replay.run", run);
    query.insert("replay.state", "writing");
    query
}

fn replay_document(replay: &Replay) -> Document {
    let state = match replay.state {
        ReplayState::Open => "open",
        ReplayState::Done => "done",
        ReplayState::GivenUp => "given_up",
    };
    let stream = |stream: &ReplayStream| {
        let mut document = doc! { "s": stream.stream.0 };
        document.extend(entry_id(&stream.origin));
        document.insert("contract", &stream.contract);
        document
    };
    let streams: Vec<_> = replay.streams.iter().map(stream).collect();
    doc! { "_id": { "replay": &replay.id }, "state": state, "streams": streams }
}

fn parse_replay(id: &str, document: &Document) -> Result<Replay, String> {
    let state = match document.get_str("state") {
        Ok("open") => ReplayState::Open,
        Ok("done") => ReplayState::Done,
        Ok("given_up") => ReplayState::GivenUp,
        _ => return Err("`state` is none that this release knows".to_owned()),
    };
    let stream = |stream: &Bson| {
        let stream = stream.as_document().ok_or("an element of `streams` is not a document")?;
        let s = stream.get_i64("s").map_err(|error| format!("`streams.s`: {error}"))?;
        let contract = stream.get_str("contract").map_err(|error| format!("`streams.contract`: {error}"))?;
        let origin = Arc::new(parse_origin(stream)?);
        Ok::<_, String>(ReplayStream { stream: StreamId(s), origin, contract: contract.to_owned() })
    };
    let streams = document.get_array("streams").map_err(|_| "`streams` is not an array".to_owned())?;
    Ok(Replay { id: id.to_owned(), state, streams: streams.iter().map(stream).collect::<Result<_, _>>()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_round_trip() {
        let origin = Arc::new(Origin { cluster: "c".into(), topic: "t".into(), incarnation: 1, partition: 3 });
        let stream = ReplayStream { stream: StreamId(-7), origin, contract: "f".into() };
        for state in [ReplayState::Open, ReplayState::Done, ReplayState::GivenUp] {
            let replay = Replay { id: "r".into(), state, streams: vec![stream.clone()] };
            let read = parse_replay("r", &replay_document(&replay)).expect("reads back");
            assert_eq!((read.id, read.state), (replay.id, state));
            assert_eq!(read.streams[0].stream, stream.stream);
            assert_eq!((&read.streams[0].origin, &read.streams[0].contract), (&stream.origin, &stream.contract));
        }
        assert!(parse_replay("r", &doc! { "state": "sleeping", "streams": [] }).is_err());
    }
}
