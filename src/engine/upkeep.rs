//! What is kept in two bounded places: chains in this engine's table, and their open tails in the server's cache.
//!
//! An open tail will be appended to, so the server has to hold it, or read it back for the next append. Over the budget
//! the coldest tails are sealed. A chain that leaves the table has its tail sealed first, so that the open tails of this
//! engine are exactly those that it knows.
//!
//! A chain that was forgotten comes back cold: its next delta is an insert of bucket 0, which is fenced, and the tail is
//! read. Its floor (rule 5) is not missed. It guards against positions that another writer, or this one, has applied
//! already, and all of those are at or below the `pos.hi` that the fence makes this engine read before it writes; and
//! against positions handed over twice within one assignment, which `accept` refuses by offset, chain or no chain.
//! Only chains that hold nothing are forgotten, so nothing waits for an answer that comes to nobody.

use super::Engine;
use super::fill::Fill;
use super::plan::{Delta, Tail};
use super::policy::{FlushPolicy, stuck_backoff_ms};
use crate::record::{EventTime, Tick};

/// Why an open tail is sealed although nothing follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leave {
    /// The server's cache is for warmer ones.
    Cache,
    /// The chain is to be forgotten.
    Table,
}

impl Leave {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Cache => "cache_budget",
            Self::Table => "chain_table",
        }
    }
}

/// A tail may be gone this long before the horizon says so: the server's time is asked for every few seconds.
const HORIZON_LAG_MS: i64 = 60_000;

#[derive(Debug)]
pub(super) struct Upkeep {
    cache_bytes: u64,
    /// Bytes of open tails; of those, the ones that are being sealed to make room.
    open_bytes: u64,
    n_open: usize,
    leaving_bytes: u64,
    /// Chains that are forgotten as soon as their tail is sealed.
    n_evicting: usize,
    fill: Fill,
    /// Windows that start before this are past their time to live.
    horizon: EventTime,
}

impl Upkeep {
    pub(super) fn new(policy: &FlushPolicy) -> Self {
        Self {
            cache_bytes: u64::MAX,
            open_bytes: 0,
            n_open: 0,
            leaving_bytes: 0,
            n_evicting: 0,
            fill: Fill::new(policy.min_fill),
            horizon: EventTime(i64::MIN),
        }
    }

    /// Number and bytes of open tails.
    pub(super) fn open(&self) -> (usize, u64) {
        (self.n_open, self.open_bytes)
    }

    pub(super) fn set_cache(&mut self, bytes: u64) {
        self.cache_bytes = bytes;
    }

    /// The horizon only ever rises: a window that was skipped once is skipped for good.
    pub(super) fn raise_horizon(&mut self, to: EventTime) {
        self.horizon = self.horizon.max(to);
    }

    pub(super) fn has_expired(&self, window: EventTime) -> bool {
        window < self.horizon
    }

    fn may_be_gone(&self, window: EventTime) -> bool {
        window.0 < self.horizon.0.saturating_add(HORIZON_LAG_MS)
    }
}

impl Engine {
    /// Brings the books up to date with a chain: after each answer, and whenever it lost what waited. It may leave.
    pub(super) fn book(&mut self, slot: u32) {
        let Some(chain) = self.chains.get_mut(slot) else { return };
        let open = chain.tail.as_ref().filter(|t| t.open).map(|t| u64::from(t.bytes));
        let now = open.unwrap_or(0);
        let before = std::mem::replace(&mut chain.open_bytes, now);
        self.upkeep.open_bytes = self.upkeep.open_bytes + now - before;
        self.upkeep.n_open = self.upkeep.n_open + usize::from(now > 0) - usize::from(before > 0);
        if before == 0 && now > 0 {
            self.upkeep.fill.opened();
        }
        let left = chain.leave.filter(|_| open.is_none());
        match chain.leave {
            Some(_) => self.upkeep.leaving_bytes = self.upkeep.leaving_bytes + now - before,
            None if open.is_some() => self.chains.open.push_back(slot),
            None => self.chains.open.remove(slot),
        }
        self.chains.measure(slot);
        if let Some(leave) = left {
            self.stay(slot);
            if leave == Leave::Table && self.chains.get(slot).is_some_and(super::chain::Chain::is_idle) {
                self.counts.evictions += 1;
                return self.forget_chain(slot);
            }
        }
        self.chains.rest(slot);
    }

    /// Takes back that the chain's tail is to be sealed.
    fn stay(&mut self, slot: u32) {
        let Some(chain) = self.chains.get_mut(slot) else { return };
        let Some(leave) = chain.leave.take() else { return };
        self.upkeep.leaving_bytes -= chain.open_bytes;
        self.upkeep.n_evicting -= usize::from(leave == Leave::Table);
    }

    /// Wants the chain's open tail sealed.
    fn leave(&mut self, now: Tick, slot: u32, why: Leave) {
        self.stay(slot);
        self.chains.open.remove(slot);
        let Some(chain) = self.chains.get_mut(slot) else { return };
        chain.leave = Some(why);
        self.upkeep.leaving_bytes += chain.open_bytes;
        self.upkeep.n_evicting += usize::from(why == Leave::Table);
        self.upkeep.fill.forced();
        if chain.stuck == 0 {
            self.make_due(now, slot);
        } else {
            self.later.insert((now.after(stuck_backoff_ms(chain.stuck)), slot));
        }
    }

    pub(super) fn forget_chain(&mut self, slot: u32) {
        self.stay(slot);
        if let Some(chain) = self.chains.remove(slot) {
            self.waiting_bytes -= chain.waiting_bytes();
            self.upkeep.open_bytes -= chain.open_bytes;
            self.upkeep.n_open -= usize::from(chain.open_bytes > 0);
        }
    }

    /// Makes room in both places, and says how small a delta may stand alone.
    pub(super) fn keep_up(&mut self, now: Tick) {
        self.shed(now);
        self.relieve(now);
        self.policy.min_fill = self.upkeep.fill.at(now);
    }

    /// While the table is too large: forgets the coldest chains that hold nothing, their tail sealed first.
    pub(super) fn shed(&mut self, now: Tick) {
        while self.chains.bytes_without(self.upkeep.n_evicting) > self.policy.table_bytes {
            let Some(slot) = self.chains.resting.first() else { return };
            self.chains.resting.remove(slot);
            // One that is being sealed for the cache comes back with the answer.
            let Some(chain) = self.chains.get(slot).filter(|chain| chain.in_flight.is_none()) else { continue };
            let is_open = chain.open_bytes > 0 && !self.upkeep.has_expired(chain.key.window);
            if is_open {
                self.leave(now, slot, Leave::Table);
            } else {
                self.counts.evictions += 1;
                self.forget_chain(slot);
            }
        }
    }

    /// While the open tails are too many: seals the coldest. One with a delta under way is not cold, and comes back into
    /// the order with its answer.
    fn relieve(&mut self, now: Tick) {
        while self.upkeep.open_bytes - self.upkeep.leaving_bytes > self.upkeep.cache_bytes {
            let Some(slot) = self.chains.open.first() else { return };
            self.chains.open.remove(slot);
            let Some(chain) = self.chains.get(slot) else { continue };
            let is_gone = self.upkeep.has_expired(chain.key.window);
            if is_gone && chain.is_idle() {
                self.counts.evictions += 1;
                self.forget_chain(slot);
            } else if !is_gone && chain.in_flight.is_none() {
                self.leave(now, slot, Leave::Cache);
            }
        }
    }

    /// The server has deleted the bucket because its window is past its time to live: what was meant for it is skipped.
    /// False where that is no explanation.
    pub(super) fn expire(&mut self, delta: &Delta) -> bool {
        if !self.upkeep.may_be_gone(delta.key.window) {
            return false;
        }
        let Some(chain) = self.chains.get_mut(delta.slot) else { return true };
        self.waiting_bytes -= chain.waiting_bytes();
        self.counts.expired += (chain.n_waiting() + delta.samples.len()) as u64;
        chain.runs.clear();
        chain.tail = None::<Tail>;
        true
    }
}
