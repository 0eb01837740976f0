//! The loop between a shard's channels and its engine: decode, hand on, pass what the engine asks for.
//!
//! A shard owns its engine alone; nothing here takes a lock for a record.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crossbeam::channel::{Receiver, RecvTimeoutError, select};
use tokio::sync::mpsc;

use crate::clock::Clock;
use crate::code::{Code, Failure};
use crate::config::Contract;
use crate::decode::{Decoder, Reject, Scratch, Whole};
use crate::engine::plan::{DeadLetter, LedgerAnswer, LedgerAsk, Plan, Report, Scope};
use crate::engine::{Bounds, Engine, Event, FlushPolicy, Input, SampleNames, Taken};
use crate::record::{Assignment, EventTime, Origin, Position, Record, Tick};
use crate::source::flow::Quiet;
use crate::source::{Batch, Board, Handed, Inbound};
use crate::telemetry::counts::{PartitionMark, ShardCounts};

/// What comes back to a shard.
#[derive(Debug)]
pub enum Answer {
    Written(Report),
    Ledger(LedgerAnswer),
}

/// A shard's ends of its channels.
#[derive(Debug)]
pub struct Links {
    pub inbound: Receiver<Inbound>,
    /// Room for every plan that may be under way and one answer of the ledger, so that its senders never wait.
    pub answers: Receiver<Answer>,
    /// Room for every plan that may be under way.
    pub plans: mpsc::Sender<Plan>,
    /// Room for one.
    pub asks: mpsc::Sender<LedgerAsk>,
    pub board: Arc<Board>,
    pub bounds: Arc<BoundsBoard>,
}

/// What the engines have to keep to, as it was last found out; each shard looks about once a second.
#[derive(Debug)]
pub struct BoundsBoard {
    cache_bytes: AtomicU64,
    horizon: AtomicI64,
}

impl Default for BoundsBoard {
    /// Nothing is known: nothing is held back.
    fn default() -> Self {
        Self { cache_bytes: AtomicU64::new(u64::MAX), horizon: AtomicI64::new(i64::MIN) }
    }
}

impl BoundsBoard {
    /// Bytes of open tails of each shard.
    pub fn set_cache(&self, bytes: u64) {
        self.cache_bytes.store(bytes, Relaxed);
    }

    pub fn raise_horizon(&self, to: EventTime) {
        self.horizon.fetch_max(to.0, Relaxed);
    }

    fn latest(&self) -> Bounds {
        Bounds { cache_bytes: self.cache_bytes.load(Relaxed), horizon: EventTime(self.horizon.load(Relaxed)) }
    }
}

/// A partition as this shard decodes it.
#[derive(Debug)]
struct Lane {
    origin: Arc<Origin>,
    topic: Arc<str>,
    /// One for each span.
    decoders: Vec<(Decoder, Arc<Contract>)>,
}

#[derive(Debug)]
pub struct Shard {
    engine: Engine,
    links: Links,
    clock: Clock,
    lanes: BTreeMap<Assignment, Lane>,
    scratch: Scratch,
    counts: ShardCounts,
    published: Tick,
    quiet: Quiet,
}

/// Above this a record's value goes only with its first dead letter: 65,536 bad readings of one record would
/// otherwise copy it as often.
const VALUE_FOR_EACH: usize = 16 * 1024;
const PUBLISH_EVERY_MS: u64 = 1_000;

impl Shard {
    pub fn new(policy: FlushPolicy, links: Links, clock: Clock) -> Self {
        Self {
            engine: Engine::new(policy),
            links,
            clock,
            lanes: BTreeMap::new(),
            scratch: Scratch::default(),
            counts: ShardCounts::default(),
            published: Tick(0),
            quiet: Quiet::default(),
        }
    }

    /// Runs until the source hangs up. `publish` is called about once a second and at the end.
    pub fn run(mut self, mut publish: impl FnMut(Tick, &ShardCounts)) {
        self.engine.handle(self.clock.now(), Input::Bounds(self.links.bounds.latest()));
        loop {
            let now = self.clock.now();
            self.pass_on(now);
            if now.since(self.published) >= PUBLISH_EVERY_MS {
                self.published = now;
                publish(now, self.tally());
                self.engine.handle(now, Input::Bounds(self.links.bounds.latest()));
            }
            let wait = self.engine.next_timeout().map_or(PUBLISH_EVERY_MS, |at| at.since(now)).min(PUBLISH_EVERY_MS);
            let wait = Duration::from_millis(wait);
            let hung_up =
                if self.engine.wants_records() { self.wait_for_any(wait) } else { self.wait_for_answer(wait) };
            if hung_up {
                break;
            }
        }
        let now = self.clock.now();
        self.pass_on(now);
        publish(now, self.tally());
    }

    /// Waits for records or answers. True when the source is gone.
    fn wait_for_any(&mut self, wait: Duration) -> bool {
        select! {
            recv(self.links.answers) -> answer => {
                if let Ok(answer) = answer {
                    self.answered(answer);
                }
                false
            }
            recv(self.links.inbound) -> inbound => match inbound {
                Ok(inbound) => {
                    self.received(inbound);
                    false
                }
                Err(_) => true,
            },
            default(wait) => {
                self.engine.handle(self.clock.now(), Input::Timeout);
                false
            }
        }
    }

    /// The budget is spent: only answers make room.
    fn wait_for_answer(&mut self, wait: Duration) -> bool {
        match self.links.answers.recv_timeout(wait) {
            Ok(answer) => self.answered(answer),
            Err(RecvTimeoutError::Timeout) => self.engine.handle(self.clock.now(), Input::Timeout),
            Err(RecvTimeoutError::Disconnected) => return true,
        }
        false
    }

    fn answered(&mut self, answer: Answer) {
        let input = match answer {
            Answer::Written(report) => Input::Written(report),
            Answer::Ledger(answer) => Input::Ledger(answer),
        };
        self.engine.handle(self.clock.now(), input);
    }

    fn received(&mut self, inbound: Inbound) {
        let now = self.clock.now();
        match inbound {
            Inbound::Batch(batch) => self.take_batch(now, &batch),
            Inbound::Assigned(handed) => self.assigned(now, *handed),
            Inbound::Revoked { assignments, deadline, flush } => {
                self.engine.handle(now, Input::Revoked { assignments, deadline, flush });
            }
            Inbound::Lost { assignments } => self.engine.handle(now, Input::Lost(assignments)),
            Inbound::Drain { deadline } => self.engine.handle(now, Input::Drain { deadline }),
        }
    }

    fn assigned(&mut self, now: Tick, handed: Handed) {
        let id = handed.assigned.assignment;
        let decoders: Result<Vec<_>, String> =
            handed.contracts.iter().map(|contract| Ok((Decoder::new(contract)?, Arc::clone(contract)))).collect();
        match decoders {
            Ok(decoders) => {
                let origin = Arc::clone(&handed.assigned.origin);
                let topic = Arc::from(origin.topic.as_str());
                self.lanes.insert(id, Lane { origin, topic, decoders });
                self.engine.handle(now, Input::Assigned(handed.assigned));
            }
            Err(problem) => {
                let message = format_args!("its mapping cannot be used: {problem}");
                self.links.board.stopped(id, Failure::new(Code::MappingUnusable, message));
            }
        }
    }

    fn take_batch(&mut self, now: Tick, batch: &Batch) {
        self.counts.records += batch.n_records() as u64;
        for (assignment, record) in batch.records() {
            match self.engine.accept(assignment, record.offset) {
                Some(taken) => self.take_record(now, taken, &record),
                None => skip(&mut self.counts, "covered"),
            }
        }
        crate::crash::point("after_take");
    }

    fn take_record(&mut self, now: Tick, taken: Taken, record: &Record<'_>) {
        let Some(lane) = self.lanes.get(&taken.assignment) else { return };
        let (decoder, contract) = &lane.decoders[taken.span];
        let names = SampleNames { time: &contract.time_name, info: &contract.info_name };
        let mut n_rejects = 0;
        match decoder.decode(record, &mut self.scratch) {
            Ok(readings) => {
                for (index, reading) in readings {
                    match reading {
                        Ok(reading) => self.engine.take(now, taken, index, &reading, names),
                        Err(reject) => {
                            n_rejects += 1;
                            let (at, first) = ((taken, index), n_rejects == 1);
                            self.engine.reject(dead_letter(at, &lane.origin, scope(contract), reject, record, first));
                        }
                    }
                }
            }
            Err(Whole::Reject(reject)) => {
                self.engine.reject(dead_letter((taken, 0), &lane.origin, Scope::Record, reject, record, true));
            }
            Err(Whole::Skip(reason)) => skip(&mut self.counts, reason.name()),
        }
    }

    /// Passes on everything that the engine has to say.
    fn pass_on(&mut self, now: Tick) {
        while let Some(plan) = self.engine.poll_plan(now) {
            // The channel holds as many plans as the engine may have under way; an error means that the process ends.
            if self.links.plans.try_send(plan).is_err() {
                tracing::debug!("the writer is gone");
            }
        }
        if let Some(ask) = self.engine.poll_ledger(now)
            && self.links.asks.try_send(ask).is_err()
        {
            tracing::debug!("the ledger task is gone");
        }
        while let Some((assignment, offset)) = self.engine.poll_commit() {
            self.links.board.commit(assignment, offset);
        }
        while let Some(event) = self.engine.poll_event() {
            log_event(&mut self.quiet, now, &event);
        }
        while let Some((assignment, reason)) = self.engine.poll_stopped() {
            self.links.board.stopped(assignment, reason);
        }
        while let Some(assignment) = self.engine.poll_restart() {
            self.links.board.restart(assignment);
        }
        while let Some(assignment) = self.engine.poll_released() {
            self.lanes.remove(&assignment);
            self.links.board.released(assignment);
        }
    }

    /// Brings the counts up to date with the engine's.
    fn tally(&mut self) -> &ShardCounts {
        let engine = self.engine.counts();
        self.counts.readings = engine.readings;
        self.counts.samples = engine.samples;
        self.counts.plans = engine.plans;
        self.counts.dead_letters.clone_from(&engine.dead);
        self.counts.statement_samples = engine.statement_samples.clone();
        self.counts.append_to_durable_ms = engine.latency_ms.clone();
        if engine.replayed > 0 {
            self.counts.skipped.insert("replayed", engine.replayed);
        }
        self.counts.delta_bytes = self.engine.memory_places().0 as u64;
        if engine.expired > 0 {
            self.counts.skipped.insert("expired", engine.expired);
        }
        self.counts.seals.clone_from(&engine.seals);
        self.counts.evictions = engine.evictions;
        let levels = self.engine.levels();
        self.counts.chains = levels.chains as u64;
        self.counts.chain_bytes = levels.table_bytes as u64;
        self.counts.open_chains = levels.open_tails as u64;
        self.counts.open_tail_bytes = levels.open_bytes;
        self.counts.min_fill = u64::from(levels.min_fill);
        self.counts.plans_in_flight = self.engine.n_in_flight() as u64;
        self.counts.queued = self.links.inbound.len() as u64;
        self.counts.marks = self
            .engine
            .progress()
            .filter_map(|progress| {
                Some(PartitionMark {
                    topic: Arc::clone(&self.lanes.get(&progress.assignment)?.topic),
                    partition: progress.origin.partition,
                    position: progress.polled,
                    watermark: progress.watermark,
                    reserved: progress.reserved,
                })
            })
            .collect();
        &self.counts
    }
}

/// Says what the engine wants a person to hear. Many chains have the same trouble at once, so it is said once in a
/// while, with how many were left out.
fn log_event(quiet: &mut Quiet, now: Tick, event: &Event) {
    let Event::Stuck { key, times } = event;
    let Some(n_left_out) = quiet.pass(0, now) else { return };
    tracing::warn!(
        code = %Code::ChainStuck,
        device = &*key.device, window_ms = key.window.0, stream = key.stream.0, times, n_left_out,
        "writes to a chain have no effect although it is as expected; trying on"
    );
}

fn skip(counts: &mut ShardCounts, reason: &'static str) {
    *counts.skipped.entry(reason).or_default() += 1;
}

/// What the letter of a single reading stands for. Without `explode` a reading is all of its record, whatever another
/// mapping may find in it.
pub(crate) fn scope(contract: &Contract) -> Scope {
    if contract.decoder.explode.is_some() { Scope::Reading } else { Scope::Record }
}

/// The letter of a bad reading, or of a record that is bad as a whole.
pub(crate) fn dead_letter(
    at: (Taken, u16),
    origin: &Arc<Origin>,
    scope: Scope,
    reject: Reject,
    record: &Record<'_>,
    first: bool,
) -> DeadLetter {
    let (taken, index) = at;
    let detail = match reject.byte {
        Some(byte) => format!("{} at byte {byte}", reject.detail),
        None => reject.detail.to_owned(),
    };
    let carries_value = first || record.value.is_some_and(|v| v.len() <= VALUE_FOR_EACH);
    DeadLetter {
        assignment: taken.assignment,
        stream: taken.stream,
        pos: Position::new(taken.offset, index),
        origin: Arc::clone(origin),
        scope,
        reason: reject.reason.name(),
        detail,
        timestamp: record.timestamp,
        key: record.key.map(Into::into),
        value: record.value.filter(|_| carries_value).map(Into::into),
        headers: record.headers.0.into(),
    }
}
