//! The engine's side of the ledger: what to reserve, what is durable, what was closed.

use super::plan::{LedgerAnswer, LedgerAsk};
use super::{Engine, Phase};
use crate::code::{Code, Failure};
use crate::record::{StreamId, Tick};

impl Engine {
    /// What the ledger is to be told now. The next ask comes only after the answer to this one.
    ///
    /// All partitions have their turn once in an interval. In between only those ask that something waits for: with many
    /// partitions, telling of all of them whenever one is in a hurry would keep the server busy with the ledger alone.
    pub fn poll_ledger(&mut self, now: Tick) -> Option<LedgerAsk> {
        if self.next_ledger_ask().is_none_or(|at| at > now) {
            return None;
        }
        let all = self.ledger_at <= now;
        let mut ask = LedgerAsk::default();
        for held in self.held.values_mut().filter(|h| h.phase != Phase::Stopped && (all || h.is_in_a_hurry())) {
            held.ask(&mut ask);
        }
        if all {
            self.ledger_at = now.after(self.policy.ledger_interval_ms);
        }
        if ask == LedgerAsk::default() {
            // What was durable lies in covered stretches only: nothing to tell, but something to commit.
            self.settle_all();
            return None;
        }
        self.ledger_busy = true;
        Some(ask)
    }

    /// When the next ask may be made; soon if a chain or a drain waits for it.
    pub(super) fn next_ledger_ask(&self) -> Option<Tick> {
        if self.ledger_busy {
            return None;
        }
        let wants = self.held.values().filter(|h| h.wants_ledger());
        let mut any = false;
        for held in wants {
            if held.is_in_a_hurry() {
                return Some(Tick(0));
            }
            any = true;
        }
        any.then_some(self.ledger_at)
    }

    pub(super) fn ledger_answered(&mut self, now: Tick, answer: LedgerAnswer) {
        self.ledger_busy = false;
        for mark in &answer.reserved {
            if let Some(held) = self.held.get_mut(&mark.assignment) {
                held.raise_reserved(mark.stream, mark.upto);
            }
        }
        for mark in &answer.closed {
            self.close(mark.assignment, mark.stream, mark.upto);
            let to = mark.upto;
            let message =
                format_args!("its stream was closed at offset {to} by a writer with another mapping or window");
            self.stopped.push_back((mark.assignment, Failure::new(Code::StreamClosed, message)));
        }
        for mark in &answer.skipped {
            self.close(mark.assignment, mark.stream, mark.upto);
            self.restarts.push_back(mark.assignment);
        }
        for (assignment, reason) in answer.broken {
            self.stop(assignment, reason);
        }
        self.settle_all();
        let waiting: Vec<u32> = self.held.values_mut().flat_map(|h| std::mem::take(&mut h.waiting)).collect();
        for slot in waiting {
            self.make_due(now, slot);
        }
    }

    fn settle_all(&mut self) {
        for held in self.held.values_mut().filter(|h| h.phase != Phase::Stopped) {
            if let Some(offset) = held.settled() {
                self.commits.push_back((held.id, offset));
            }
        }
    }

    /// Somebody closed the stream: what lies past `to` is not ours.
    fn close(&mut self, assignment: crate::record::Assignment, stream: StreamId, to: i64) {
        let Some(held) = self.held.get_mut(&assignment) else { return };
        held.close(stream, to);
        if held.phase == Phase::Live {
            held.phase = Phase::Draining { deadline: Tick(u64::MAX) };
        }
        for slot in self.chains.of(assignment) {
            let Some(chain) = self.chains.get_mut(slot) else { continue };
            if chain.key.stream != stream {
                continue;
            }
            let before = chain.waiting_bytes();
            chain.cut(to);
            self.waiting_bytes -= before - chain.waiting_bytes();
            self.hold_first(slot);
            self.book(slot);
        }
        let cut: Vec<_> = self
            .dead
            .iter()
            .filter(|d| d.assignment == assignment && d.stream == stream && d.pos.offset() >= to)
            .map(|d| (d.pos.offset(), d.n_bytes()))
            .collect();
        self.dead.retain(|d| d.assignment != assignment || d.stream != stream || d.pos.offset() < to);
        if let Some(held) = self.held.get_mut(&assignment) {
            for (offset, n_bytes) in cut {
                held.mark.release(offset);
                self.waiting_bytes -= n_bytes;
            }
        }
    }
}
