//! What became of a plan.

use super::chain::Chain;
use super::plan::{ChainKey, DeadLetter, Delta, Outcome, Report, Scope, Tail, Write};
use super::policy::{bucket_bytes, stuck_backoff_ms};
use super::upkeep::Leave;
use super::{Engine, Event};
use crate::code::{Code, Failure};
use crate::record::{Assignment, Position, Tick};

/// Fences in a row, about a minute, after which an append or a seal that its tail agrees with is given up. An insert is
/// not: a primary that is cut off can refuse it as long as it likes.
const MAX_STUCK: u32 = 15;
/// Fences in a row that a person should hear of: by then two replies lost in a row are no explanation.
const SAY_STUCK: u32 = 5;

impl Engine {
    pub(super) fn written(&mut self, now: Tick, report: Report) {
        self.in_flight = self.in_flight.saturating_sub(1);
        for (delta, outcome) in report.deltas {
            self.delta_written(now, report.id, delta, outcome);
        }
        let flying = self.flying_dead.remove(&report.id).unwrap_or_default();
        self.flying_bytes -= flying.n_bytes;
        for (assignment, _, pos) in report.dead {
            let reason = flying.reasons.iter().find(|(a, p, _)| *a == assignment && *p == pos);
            *self.counts.dead.entry(reason.map_or("unknown", |(.., reason)| reason)).or_default() += 1;
            self.dead_written(now, assignment, pos);
        }
        for (assignment, reason) in report.dead_refused {
            self.stop(assignment, reason);
        }
    }

    fn delta_written(&mut self, now: Tick, plan: u64, delta: Delta, outcome: Outcome) {
        self.flying_bytes -= delta.samples.row_bytes();
        let slot = delta.slot;
        let Some(chain) = self.chains.get_mut(slot) else { return };
        // The chain was forgotten and the slot is another's: the report concerns nobody.
        if chain.in_flight.is_none_or(|f| f.plan != plan) || chain.assignment != delta.assignment {
            return;
        }
        let flight = chain.in_flight.take().expect("invariant: checked just now");
        match outcome {
            Outcome::Applied => self.applied(now, &delta, flight.since),
            // The reply to this very statement was lost, or did not say which of its neighbours had no effect.
            Outcome::Fenced(Some(tail)) if delta.leaves(&tail) => {
                self.applied(now, &delta, flight.since);
                self.believe(slot, tail);
            }
            Outcome::Fenced(tail) => self.fenced(now, delta, tail),
            Outcome::Refused { code, message } => self.refused(now, delta, code, &message),
            Outcome::Vanished if self.expire(&delta) => {}
            Outcome::Vanished => {
                self.counts.vanished += 1;
                let reason = vanished(&delta);
                return self.stop(delta.assignment, reason);
            }
            Outcome::Broken(reason) => return self.stop(delta.assignment, reason),
        }
        self.hold_first(slot);
        self.due_again(now, slot);
        self.book(slot);
    }

    fn applied(&mut self, now: Tick, delta: &Delta, since: Tick) {
        let n = delta.samples.len() as u64;
        match delta.write {
            Write::Insert { .. } => self.counts.inserts += 1,
            Write::Append { .. } => self.counts.appends += 1,
            Write::Seal { .. } => {
                let why = self.chains.get(delta.slot).and_then(|c| c.leave);
                *self.counts.seals.entry(why.map_or("next_bucket", Leave::name)).or_default() += 1;
            }
        }
        if n > 0 {
            self.counts.samples += n;
            self.counts.statement_samples.record(n);
            self.counts.latency_ms.record_n(now.since(since), n);
        }
        let Some(chain) = self.chains.get_mut(delta.slot) else { return };
        chain.stuck = 0;
        chain.limit = chain.limit.saturating_mul(2);
        if matches!(delta.write, Write::Insert { .. }) {
            chain.alone = false;
        }
        move_tail(chain, delta);
    }

    /// Somebody was here before, perhaps ourselves: believe the tail, drop what it has, plan the rest again.
    fn fenced(&mut self, now: Tick, delta: Delta, tail: Option<Tail>) {
        self.counts.fences += 1;
        let Some(chain) = self.chains.get_mut(delta.slot) else { return };
        chain.stuck = if chain.tail == tail { chain.stuck + 1 } else { 0 };
        let hi = tail.as_ref().map_or(Position::NONE, |t| t.hi);
        chain.tail = tail;
        let before = chain.waiting_bytes();
        chain.put_back(delta.meta, delta.samples);
        self.counts.replayed += chain.seen(hi) as u64;
        let after = chain.waiting_bytes();
        self.waiting_bytes = self.waiting_bytes + after - before;
        chain.due = !chain.runs.is_empty();
        if chain.stuck > MAX_STUCK && !matches!(delta.write, Write::Insert { .. }) {
            let reason = changed(&delta.key);
            return self.stop(delta.assignment, reason);
        }
        if chain.stuck == SAY_STUCK {
            self.events.push_back(Event::Stuck { key: delta.key, times: chain.stuck });
        }
        if chain.stuck > 0 {
            let retry_at = now.after(stuck_backoff_ms(chain.stuck));
            self.later.insert((retry_at, delta.slot));
        }
    }

    /// Takes over what the store says of a tail that is as we left it: only its exact size is news.
    fn believe(&mut self, slot: u32, tail: Tail) {
        if let Some(chain) = self.chains.get_mut(slot) {
            chain.tail = Some(tail);
        }
    }

    /// Narrow down to the culprit; it gets a bucket of its own, and if that is refused too, a dead letter.
    fn refused(&mut self, now: Tick, delta: Delta, code: i32, message: &str) {
        self.counts.refused += 1;
        let n = delta.samples.len();
        let Some(chain) = self.chains.get_mut(delta.slot) else { return };
        match delta.write {
            Write::Seal { .. } => {
                return self.stop(delta.assignment, seal_refused(&delta.key, message));
            }
            Write::Insert { .. } if n == 1 => return self.bury(now, delta, code, message),
            Write::Append { .. } if n == 1 => chain.alone = true,
            Write::Append { .. } | Write::Insert { .. } => chain.limit = n / 2,
        }
        let before = chain.waiting_bytes();
        chain.put_back(delta.meta, delta.samples);
        self.waiting_bytes = self.waiting_bytes + chain.waiting_bytes() - before;
        chain.due = true;
    }

    /// A dead letter by the server's verdict. It is durable before the chain's next statement is sent: once the
    /// chain's `pos.hi` has passed it, a restart would take it for stored.
    fn bury(&mut self, now: Tick, delta: Delta, code: i32, message: &str) {
        let Some(pos) = delta.samples.first_pos() else { return };
        let Some(chain) = self.chains.get_mut(delta.slot) else { return };
        chain.alone = false;
        chain.limit = usize::MAX;
        chain.dying = Some(pos);
        self.dying.insert((delta.assignment, pos), delta.slot);
        let Some(held) = self.held.get_mut(&delta.assignment) else { return };
        held.mark.hold(pos.offset());
        let letter = DeadLetter {
            assignment: delta.assignment,
            stream: delta.key.stream,
            pos,
            origin: delta.origin,
            scope: Scope::Sample { device: delta.key.device.clone(), meta: delta.meta },
            reason: "refused_by_server",
            detail: format!("device {:?}: error {code}: {message}", delta.key.device),
            timestamp: None,
            key: None,
            value: delta.samples.iter().next().map(|(_, _, doc)| doc.into()),
            headers: Box::default(),
        };
        self.waiting_bytes += letter.n_bytes();
        self.dead.push_back(letter);
        self.ready_since.get_or_insert(now);
    }

    fn dead_written(&mut self, now: Tick, assignment: Assignment, pos: Position) {
        let Some(held) = self.held.get_mut(&assignment) else { return };
        held.mark.release(pos.offset());
        let Some(slot) = self.dying.remove(&(assignment, pos)) else { return };
        if let Some(chain) = self.chains.get_mut(slot) {
            chain.dying = None;
        }
        self.due_again(now, slot);
        self.book(slot);
    }

    /// After an answer: go on at once with what is due or has become enough meanwhile.
    fn due_again(&mut self, now: Tick, slot: u32) {
        let Some(chain) = self.chains.get(slot) else { return };
        let draining = self.held.get(&chain.assignment).is_some_and(|h| h.phase != super::Phase::Live);
        let enough = chain.n_waiting() >= self.policy.flush_samples as usize;
        if chain.stuck == 0 && (chain.due || enough || draining || chain.leave.is_some()) {
            self.make_due(now, slot);
        }
    }
}

fn move_tail(chain: &mut Chain, delta: &Delta) {
    let added = delta.samples.total_cost() as u32;
    let count = delta.samples.len() as u32;
    let hi = delta.samples.last_pos().unwrap_or(Position::NONE);
    match delta.write {
        Write::Insert { n, open } => {
            let bytes = bucket_bytes(&chain.key.device, delta.meta.as_deref()) + added;
            chain.tail = Some(Tail { n, hi, count, bytes, open, meta: delta.meta.clone() });
        }
        Write::Append { seal, .. } => {
            let tail = chain.tail.as_mut().expect("invariant: an append follows a known tail");
            tail.hi = hi;
            tail.count += count;
            tail.bytes += added;
            tail.open = !seal;
        }
        Write::Seal { .. } => {
            chain.tail.as_mut().expect("invariant: a seal follows a known tail").open = false;
        }
    }
}

fn seal_refused(key: &ChainKey, message: &str) -> Failure {
    let message = format_args!("the server refuses to seal a bucket of device {:?}: {message}", key.device);
    Failure::new(Code::SealRefused, message)
}

fn changed(key: &ChainKey) -> Failure {
    let message = format_args!(
        "the last bucket of device {:?}, window {} ms, stream {}, is as expected and still takes no write: somebody \
         changed its device or date; restore it, then restart",
        key.device, key.window.0, key.stream.0
    );
    Failure::new(Code::BucketChanged, message)
}

fn vanished(delta: &Delta) -> Failure {
    let message = format_args!(
        "a bucket of device {:?}, window {} ms, stream {}, is gone or was put back to an older state by somebody else; \
         restore it, or delete all buckets of that device, window and stream, then restart",
        delta.key.device, delta.key.window.0, delta.key.stream.0
    );
    Failure::new(Code::BucketVanished, message)
}
