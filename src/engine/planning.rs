//! From due chains to plans: ages, pressure, and what a delta of a chain is.

use std::sync::Arc;

use super::assignment::Phase;
use super::chain::InFlight;
use super::plan::{DeadLetter, Delta, Plan, Write};
use super::policy::Step;
use super::samples::Samples;
use super::{Engine, FlyingDead};
use crate::record::{Assignment, Position, Tick};

impl Engine {
    /// The next plan, if one is worth sending now.
    pub fn poll_plan(&mut self, now: Tick) -> Option<Plan> {
        self.keep_time(now);
        if self.in_flight >= self.policy.inflight_plans {
            return None;
        }
        self.press(now);
        self.keep_up(now);
        let mut plan = Plan::default();
        self.take_dead(&mut plan);
        if self.is_worth_sending(now) {
            self.take_deltas(now, &mut plan);
        }
        if plan.deltas.is_empty() && plan.dead.is_empty() {
            return None;
        }
        self.n_plans += 1;
        self.in_flight += 1;
        self.counts.plans += 1;
        plan.id = self.n_plans;
        if !plan.dead.is_empty() {
            let n_bytes = plan.dead.iter().map(DeadLetter::n_bytes).sum();
            let reasons = plan.dead.iter().map(|d| (d.assignment, d.pos, d.reason)).collect();
            self.flying_dead.insert(plan.id, FlyingDead { n_bytes, reasons });
        }
        Some(plan)
    }

    /// When something is due without further input.
    pub fn next_timeout(&self) -> Option<Tick> {
        let age = self.ages.front().map(|(due, ..)| *due);
        let later = self.later.first().map(|(due, _)| *due);
        let linger = self.ready_since.map(|since| since.after(self.policy.linger_ms));
        let linger = linger.filter(|_| self.in_flight < self.policy.inflight_plans);
        let deadline = self.held.values().filter_map(|h| match h.phase {
            Phase::Draining { deadline } => Some(deadline),
            _ => None,
        });
        let ledger = self.next_ledger_ask();
        [age, later, linger, ledger].into_iter().flatten().chain(deadline).min()
    }

    /// Everything that happens by itself as time goes on.
    pub(super) fn keep_time(&mut self, now: Tick) {
        while let Some((due, slot, wait)) = self.ages.front().copied() {
            if due > now {
                break;
            }
            self.ages.pop_front();
            if self.chains.get(slot).is_some_and(|c| c.wait == wait && !c.runs.is_empty()) {
                self.make_due(now, slot);
            }
        }
        while let Some((due, slot)) = self.later.first().copied() {
            if due > now {
                break;
            }
            self.later.pop_first();
            self.make_due(now, slot);
        }
        self.finish_drains(now);
    }

    fn finish_drains(&mut self, now: Tick) {
        let done = |h: &super::Held| match h.phase {
            Phase::Draining { deadline } => deadline <= now || h.is_drained(),
            _ => false,
        };
        let ids: Vec<Assignment> = self.held.values().filter(|h| done(h)).map(|h| h.id).collect();
        for id in ids {
            self.release(id);
        }
    }

    /// Over three quarters of the budget: make the fullest chains due, up to a quarter of what waits. Fullest first,
    /// because a large delta costs the server less a sample.
    fn press(&mut self, now: Tick) {
        let limit = self.policy.budget_bytes / 4 * 3;
        if self.held_bytes() < limit || !self.ready.is_empty() {
            return;
        }
        let waiting = |c: &super::chain::Chain| !c.queued && c.in_flight.is_none() && c.dying.is_none();
        let mut fullest: Vec<(usize, u32)> = self
            .chains
            .iter()
            .filter(|(_, c)| !c.runs.is_empty() && waiting(c))
            .map(|(slot, c)| (c.waiting_bytes(), slot))
            .collect();
        fullest.sort_unstable_by(|a, b| b.cmp(a));
        let mut left = self.waiting_bytes / 4;
        for (bytes, slot) in fullest {
            self.make_due(now, slot);
            left = left.saturating_sub(bytes);
            if left == 0 {
                break;
            }
        }
    }

    fn is_worth_sending(&self, now: Tick) -> bool {
        let Some(since) = self.ready_since else { return false };
        let company = self.ready.len() >= self.policy.plan_statements;
        company
            || since.after(self.policy.linger_ms) <= now
            || self.held.values().any(|h| matches!(h.phase, Phase::Draining { .. }))
    }

    /// Dead letters below `reserved`: past it the record may belong to another contract, under which it is good.
    fn take_dead(&mut self, plan: &mut Plan) {
        const AT_ONCE: usize = 100;
        let mut kept = std::collections::VecDeque::new();
        while let Some(letter) = self.dead.pop_front() {
            let reserved = self.held.get(&letter.assignment).map_or(i64::MIN, |h| h.reserved(letter.stream));
            if letter.pos.offset() >= reserved || plan.dead.len() >= AT_ONCE {
                kept.push_back(letter);
                continue;
            }
            self.waiting_bytes -= letter.n_bytes();
            self.flying_bytes += letter.n_bytes();
            plan.dead.push(letter);
        }
        self.dead = kept;
    }

    fn take_deltas(&mut self, now: Tick, plan: &mut Plan) {
        let mut n_bytes = 0;
        while plan.deltas.len() < self.policy.plan_statements && n_bytes < self.policy.plan_bytes {
            let Some(slot) = self.ready.pop_front() else { break };
            if let Some(delta) = self.take_delta(slot) {
                n_bytes += delta.samples.n_bytes();
                plan.deltas.push(delta);
            }
        }
        self.ready_since = (!self.ready.is_empty()).then_some(now);
    }

    fn take_delta(&mut self, slot: u32) -> Option<Delta> {
        let next_plan = self.n_plans + 1;
        let chain = self.chains.get_mut(slot).filter(|c| c.queued)?;
        chain.queued = false;
        if chain.in_flight.is_some() || chain.dying.is_some() {
            return None;
        }
        let step = chain.next_step(&self.policy)?;
        let held = self.held.get_mut(&chain.assignment)?;
        let end = Position::new(held.spans[chain.span].reserved.max(0), 0);
        let below = chain.runs.first().map_or(0, |run| run.samples.n_below(end));
        if below == 0 && chain.leave.is_none() {
            held.waiting.push(slot);
            return None;
        }
        let next_n = chain.tail.as_ref().map_or(0, |t| t.n + 1);
        let tail_at = chain.tail.as_ref().map_or((0, Position::NONE), |t| (t.n, t.hi));
        let before = chain.waiting_bytes();
        let (write, meta, samples) = match step {
            // A step planned for k samples is still right for the first few of them, but then it fills nothing.
            Step::Insert { k, open } => {
                let (meta, samples) = chain.take(k.min(below));
                (
                    Write::Insert { n: next_n, open: open || (k > below && below < self.policy.min_fill as usize) },
                    meta,
                    samples,
                )
            }
            Step::Append { k, seal } => {
                let (meta, samples) = chain.take(k.min(below));
                (Write::Append { n: tail_at.0, hi: tail_at.1, seal: seal && k <= below }, meta, samples)
            }
            Step::Seal => (Write::Seal { n: tail_at.0, hi: tail_at.1 }, None, Samples::new(0)),
        };
        chain.in_flight = Some(InFlight { plan: next_plan, since: chain.since });
        chain.due = chain.due && !chain.runs.is_empty();
        self.waiting_bytes = self.waiting_bytes + chain.waiting_bytes() - before;
        self.flying_bytes += samples.row_bytes();
        Some(Delta {
            assignment: chain.assignment,
            slot,
            key: Arc::clone(&chain.key),
            origin: Arc::clone(&held.origin),
            stats: Arc::clone(&held.spans[chain.span].stats),
            write,
            meta,
            samples,
        })
    }
}
