//! The state machine between records and plans: no IO, no clock, no threads, no `Result`.
//!
//! In: `handle` (everything that happens), `accept` + `take`/`reject` (one record and its readings).
//! Out: `poll_plan`, `poll_ledger`, `poll_commit`, `poll_stopped`, `poll_released`; `next_timeout` says when to come
//! again, `wants_records` whether there is room.
//!
//! Invariants: at most one delta of a chain is under way; a chain takes only rising positions; a position leaves this
//! engine only as durable samples, a durable dead letter, or by being forgotten together with its whole assignment;
//! nothing at or past `reserved` is sent.

mod assignment;
mod chain;
mod chains;
mod intake;
pub mod plan;
mod planning;
pub mod policy;
mod report;
pub mod samples;
mod settle;
#[cfg(test)]
mod tests;
pub mod watermark;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use assignment::{Held, Phase};
use chains::Chains;
pub use intake::{SampleNames, Taken};
use plan::{Assigned, DeadLetter, LedgerAnswer, Report};
pub use policy::FlushPolicy;

use crate::code::Failure;
use crate::record::{Assignment, Position, Tick};
use crate::telemetry::distribution::Distribution;

/// Everything that can happen to an engine apart from records.
#[derive(Debug)]
pub enum Input {
    Assigned(Assigned),
    /// The partitions go elsewhere. Write what is held until the deadline, then forget; at once without `flush`.
    Revoked {
        assignments: Vec<Assignment>,
        deadline: Tick,
        flush: bool,
    },
    /// The partitions are elsewhere already: forget.
    Lost(Vec<Assignment>),
    /// Write everything that is held; all assignments are released when done or at the deadline.
    Drain {
        deadline: Tick,
    },
    Written(Report),
    Ledger(LedgerAnswer),
    /// Time went on.
    Timeout,
}

/// What the engine counts; totals since it was made.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    pub readings: u64,
    /// Samples durable in buckets.
    pub samples: u64,
    pub inserts: u64,
    pub appends: u64,
    pub seals: u64,
    pub fences: u64,
    /// Samples that were there already.
    pub replayed: u64,
    pub vanished: u64,
    pub refused: u64,
    pub plans: u64,
    /// Dead letters that are durable, by reason.
    pub dead: BTreeMap<&'static str, u64>,
    /// Samples of each insert and append that was applied.
    pub statement_samples: Distribution,
    /// Milliseconds from a delta's oldest sample to the proof that it is durable, once a sample.
    pub latency_ms: Distribution,
}

/// Place of one assignment, for metrics.
#[derive(Clone, Debug)]
pub struct Progress {
    pub assignment: Assignment,
    pub origin: std::sync::Arc<crate::record::Origin>,
    pub polled: i64,
    pub watermark: i64,
    pub reserved: i64,
}

/// Dead letters of one plan: their memory and why each died.
#[derive(Debug, Default)]
struct FlyingDead {
    n_bytes: usize,
    reasons: Vec<(Assignment, Position, &'static str)>,
}

#[derive(Debug)]
pub struct Engine {
    policy: FlushPolicy,
    held: BTreeMap<Assignment, Held>,
    chains: Chains,
    /// Chains that are due and free.
    ready: VecDeque<u32>,
    ready_since: Option<Tick>,
    /// Chains in the order in which their oldest waiting sample came: `(due at, slot, wait)`.
    ages: VecDeque<(Tick, u32, u64)>,
    n_waits: u64,
    /// Fenced chains that wait before they are tried again.
    later: BTreeSet<(Tick, u32)>,
    /// Dead letters not sent yet.
    dead: VecDeque<DeadLetter>,
    /// Chains that wait for a refused sample's dead letter.
    dying: BTreeMap<(Assignment, Position), u32>,
    /// Bytes that wait in chains; of deltas and dead letters under way.
    waiting_bytes: usize,
    flying_bytes: usize,
    /// Dead letters of each plan under way.
    flying_dead: BTreeMap<u64, FlyingDead>,
    n_plans: u64,
    in_flight: usize,
    ledger_busy: bool,
    ledger_at: Tick,
    choked: bool,
    commits: VecDeque<(Assignment, i64)>,
    released: VecDeque<Assignment>,
    stopped: VecDeque<(Assignment, Failure)>,
    counts: Counts,
}

impl Engine {
    pub fn new(policy: FlushPolicy) -> Self {
        Self {
            policy,
            held: BTreeMap::new(),
            chains: Chains::default(),
            ready: VecDeque::new(),
            ready_since: None,
            ages: VecDeque::new(),
            n_waits: 0,
            later: BTreeSet::new(),
            dead: VecDeque::new(),
            dying: BTreeMap::new(),
            waiting_bytes: 0,
            flying_bytes: 0,
            flying_dead: BTreeMap::new(),
            n_plans: 0,
            in_flight: 0,
            ledger_busy: false,
            ledger_at: Tick(0),
            choked: false,
            commits: VecDeque::new(),
            released: VecDeque::new(),
            stopped: VecDeque::new(),
            counts: Counts::default(),
        }
    }

    pub fn handle(&mut self, now: Tick, input: Input) {
        match input {
            Input::Assigned(assigned) => {
                self.held.insert(assigned.assignment, Held::new(assigned));
            }
            Input::Revoked { assignments, deadline, flush } => {
                for id in assignments {
                    if flush { self.drain(now, id, deadline) } else { self.release(id) }
                }
            }
            Input::Lost(assignments) => {
                for id in assignments {
                    self.release(id);
                }
            }
            Input::Drain { deadline } => {
                for id in self.held.keys().copied().collect::<Vec<_>>() {
                    self.drain(now, id, deadline);
                }
            }
            Input::Written(report) => self.written(now, report),
            Input::Ledger(answer) => self.ledger_answered(now, answer),
            Input::Timeout => {}
        }
        self.keep_time(now);
    }

    fn drain(&mut self, now: Tick, id: Assignment, deadline: Tick) {
        let Some(held) = self.held.get_mut(&id) else {
            // Released before, or never taken: whoever waits for it must not wait in vain.
            self.released.push_back(id);
            return;
        };
        if held.phase == Phase::Stopped {
            return self.release(id);
        }
        held.phase = Phase::Draining { deadline };
        for slot in self.chains.of(id) {
            self.make_due(now, slot);
        }
    }

    /// Forgets an assignment with all that is held of it.
    fn release(&mut self, id: Assignment) {
        self.forget_chains(id);
        self.held.remove(&id);
        self.released.push_back(id);
    }

    /// Drops an assignment's chains and unsent dead letters. What is under way comes back to nobody.
    fn forget_chains(&mut self, id: Assignment) {
        for slot in self.chains.of(id) {
            if let Some(chain) = self.chains.remove(slot) {
                self.waiting_bytes -= chain.waiting_bytes();
            }
        }
        let bytes: usize = self.dead.iter().filter(|d| d.assignment == id).map(DeadLetter::n_bytes).sum();
        self.waiting_bytes -= bytes;
        self.dead.retain(|d| d.assignment != id);
        self.dying.retain(|(a, _), _| *a != id);
    }

    /// Nothing more of this assignment is written until it is handed over anew.
    fn stop(&mut self, id: Assignment, reason: Failure) {
        self.forget_chains(id);
        let Some(held) = self.held.get_mut(&id) else { return };
        let draining = matches!(held.phase, Phase::Draining { .. });
        held.phase = Phase::Stopped;
        self.stopped.push_back((id, reason));
        if draining {
            self.release(id);
        }
    }

    /// Room for more records. Chokes at the budget and opens again somewhat below it, so that it does not flutter.
    pub fn wants_records(&mut self) -> bool {
        let bytes = self.memory_bytes();
        let budget = self.policy.budget_bytes;
        self.choked = bytes >= if self.choked { budget / 8 * 7 } else { budget };
        !self.choked
    }

    /// Bytes of samples and dead letters held: waiting, and under way counted twice for the encoded body.
    pub fn memory_bytes(&self) -> usize {
        self.waiting_bytes + 2 * self.flying_bytes
    }

    /// Plans that have no report yet.
    pub fn n_in_flight(&self) -> usize {
        self.in_flight
    }

    /// `(waiting, under way)`.
    pub fn memory_places(&self) -> (usize, usize) {
        (self.waiting_bytes, 2 * self.flying_bytes)
    }

    pub fn n_chains(&self) -> usize {
        self.chains.len()
    }

    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    pub fn progress(&self) -> impl Iterator<Item = Progress> {
        self.held.values().map(|held| Progress {
            assignment: held.id,
            origin: std::sync::Arc::clone(&held.origin),
            polled: held.mark.next(),
            watermark: held.mark.committable(),
            reserved: held.spans.last().map_or(0, |s| s.reserved),
        })
    }

    /// An offset below which everything is durable and in the ledger, for the group's commit.
    pub fn poll_commit(&mut self) -> Option<(Assignment, i64)> {
        self.commits.pop_front()
    }

    /// An assignment that was stopped, with the reason.
    pub fn poll_stopped(&mut self) -> Option<(Assignment, Failure)> {
        self.stopped.pop_front()
    }

    /// An assignment of which nothing is held any more.
    pub fn poll_released(&mut self) -> Option<Assignment> {
        self.released.pop_front()
    }
}
