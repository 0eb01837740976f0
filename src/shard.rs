//! The loop between a shard's channels and its engine: decode, hand on, pass what the engine asks for.
//!
//! A shard owns its engine alone; nothing here takes a lock for a record.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crossbeam::channel::{Receiver, RecvTimeoutError, select};
use tokio::sync::mpsc;

use crate::clock::Clock;
use crate::code::{Code, Failure};
use crate::config::Contract;
use crate::decode::{Decoder, Reject, Scratch, Whole};
use crate::engine::plan::{DeadLetter, LedgerAnswer, LedgerAsk, Plan, Report};
use crate::engine::{Engine, FlushPolicy, Input, SampleNames, Taken};
use crate::record::{Assignment, Origin, Position, Record, Tick};
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
        }
    }

    /// Runs until the source hangs up. `publish` is called about once a second and at the end.
    pub fn run(mut self, mut publish: impl FnMut(Tick, &ShardCounts)) {
        loop {
            let now = self.clock.now();
            self.pass_on(now);
            if now.since(self.published) >= PUBLISH_EVERY_MS {
                self.published = now;
                publish(now, self.tally());
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
                            let letter = dead_letter(lane, taken, index, reject, record, n_rejects == 1);
                            self.engine.reject(letter);
                        }
                    }
                }
            }
            Err(Whole::Reject(reject)) => self.engine.reject(dead_letter(lane, taken, 0, reject, record, true)),
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
        while let Some((assignment, reason)) = self.engine.poll_stopped() {
            self.links.board.stopped(assignment, reason);
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
        self.counts.open_chains = self.engine.n_chains() as u64;
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

fn skip(counts: &mut ShardCounts, reason: &'static str) {
    *counts.skipped.entry(reason).or_default() += 1;
}

fn dead_letter(lane: &Lane, taken: Taken, index: u16, reject: Reject, record: &Record<'_>, first: bool) -> DeadLetter {
    let detail = match reject.byte {
        Some(byte) => format!("{} at byte {byte}", reject.detail),
        None => reject.detail.to_owned(),
    };
    let carries_value = first || record.value.is_some_and(|v| v.len() <= VALUE_FOR_EACH);
    DeadLetter {
        assignment: taken.assignment,
        stream: taken.stream,
        pos: Position::new(taken.offset, index),
        origin: Arc::clone(&lane.origin),
        reason: reject.reason.name(),
        detail,
        timestamp: record.timestamp,
        key: record.key.map(Into::into),
        value: record.value.filter(|_| carries_value).map(Into::into),
        headers: record.headers.0.into(),
    }
}
