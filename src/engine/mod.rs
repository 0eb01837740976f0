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
mod fill;
mod intake;
mod order;
pub mod plan;
mod planning;
pub mod policy;
mod report;
pub mod samples;
mod settle;
mod slots;
#[cfg(test)]
mod tests;
mod upkeep;
pub mod watermark;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use assignment::{Held, Phase};
use chains::Chains;
pub use intake::{SampleNames, Taken};
use plan::{Assigned, ChainKey, DeadLetter, LedgerAnswer, Report};
pub use policy::FlushPolicy;
use upkeep::Upkeep;

use crate::code::Failure;
use crate::record::{Assignment, EventTime, Position, Tick};
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
    /// What the world outside allows by now.
    Bounds(Bounds),
    /// Time went on.
    Timeout,
}

/// What others know and the engine has to keep to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of open tails that the server's cache has room for.
    pub cache_bytes: u64,
    /// Windows that start earlier are past their time to live: the server deletes their buckets.
    pub horizon: EventTime,
}

/// Something that a person should hear of.
#[derive(Clone, Debug)]
pub enum Event {
    /// The chain's writes have had no effect several times although its tail is as believed; it is tried again.
    Stuck { key: Arc<ChainKey>, times: u32 },
}

/// What the engine counts; totals since it was made.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    pub readings: u64,
    /// Samples durable in buckets.
    pub samples: u64,
    pub inserts: u64,
    pub appends: u64,
    /// Seals by what they make room for.
    pub seals: BTreeMap<&'static str, u64>,
    pub fences: u64,
    /// Samples that were there already.
    pub replayed: u64,
    pub vanished: u64,
    /// Samples skipped because their window is past its time to live.
    pub expired: u64,
    /// Chains forgotten to make room.
    pub evictions: u64,
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
    pub origin: Arc<crate::record::Origin>,
    pub polled: i64,
    pub watermark: i64,
    pub reserved: i64,
}

/// How full things are, for metrics.
#[derive(Clone, Copy, Debug)]
pub struct Levels {
    pub chains: usize,
    pub table_bytes: usize,
    /// Number and bytes of open tails.
    pub open_tails: usize,
    pub open_bytes: u64,
    /// Least samples of a delta that becomes a bucket of its own.
    pub min_fill: u32,
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
    upkeep: Upkeep,
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
    restarts: VecDeque<Assignment>,
    events: VecDeque<Event>,
    counts: Counts,
}

impl Engine {
    pub fn new(policy: FlushPolicy) -> Self {
        Self {
            upkeep: Upkeep::new(&policy),
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
            restarts: VecDeque::new(),
            events: VecDeque::new(),
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
            Input::Bounds(bounds) => {
                self.upkeep.set_cache(bounds.cache_bytes);
                self.upkeep.raise_horizon(bounds.horizon);
            }
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
            self.forget_chain(slot);
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
        let bytes = self.held_bytes();
        let budget = self.policy.budget_bytes;
        self.choked = bytes >= if self.choked { budget / 8 * 7 } else { budget };
        !self.choked
    }

    /// Bytes of samples and dead letters held.
    pub fn memory_bytes(&self) -> usize {
        let (waiting, flying) = self.memory_places();
        waiting + flying
    }

    /// The same, and the table of chains.
    fn held_bytes(&self) -> usize {
        self.memory_bytes() + self.chains.bytes()
    }

    /// Plans that have no report yet.
    pub fn n_in_flight(&self) -> usize {
        self.in_flight
    }

    /// `(waiting, under way)`. What waits lies in buffers that grow by doubling, which are allocated 2 ln 2 = 1.39 times as
    /// large as filled on average; what is under way is counted twice, for the encoded body.
    pub fn memory_places(&self) -> (usize, usize) {
        (self.waiting_bytes / 5 * 7, 2 * self.flying_bytes)
    }

    /// Levels, for metrics.
    pub fn levels(&self) -> Levels {
        let (open_tails, open_bytes) = self.upkeep.open();
        Levels {
            chains: self.chains.len(),
            table_bytes: self.chains.bytes(),
            open_tails,
            open_bytes,
            min_fill: self.policy.min_fill,
        }
    }

    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    pub fn progress(&self) -> impl Iterator<Item = Progress> {
        self.held.values().map(|held| Progress {
            assignment: held.id,
            origin: Arc::clone(&held.origin),
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

    /// An assignment whose stream was closed to leave records out: to be handed over anew.
    pub fn poll_restart(&mut self) -> Option<Assignment> {
        self.restarts.pop_front()
    }

    /// Something that a person should hear of.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// An assignment of which nothing is held any more.
    pub fn poll_released(&mut self) -> Option<Assignment> {
        self.released.pop_front()
    }
}
