//! Records and their readings on the way into chains.

use super::plan::{DeadLetter, Span};
use super::{Engine, Phase};
use crate::decode::Reading;
use crate::record::{Assignment, EventTime, Position, StreamId, Tick};

/// A record that belongs to a span of its assignment.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    pub assignment: Assignment,
    /// Index of the span, which also tells the contract to decode under.
    pub span: usize,
    pub stream: StreamId,
    pub offset: i64,
}

/// Names of a sample's two fields.
#[derive(Clone, Copy, Debug)]
pub struct SampleNames<'a> {
    pub time: &'a str,
    pub info: &'a str,
}

/// So many waits are not worth tidying up.
const FEW_AGES: usize = 1_024;

impl Engine {
    /// A record was polled. `None`: covered by the ledger, handed on before, or of an assignment that is gone; there is
    /// nothing to decode. To be called in offset order.
    #[inline]
    pub fn accept(&mut self, assignment: Assignment, offset: i64) -> Option<Taken> {
        let held = self.held.get_mut(&assignment)?;
        let span = held.accept(offset)?;
        Some(Taken { assignment, span, stream: held.spans[span].stream, offset })
    }

    /// One good reading of an accepted record.
    pub fn take(&mut self, now: Tick, record: Taken, index: u16, reading: &Reading<'_>, names: SampleNames<'_>) {
        self.counts.readings += 1;
        let pos = Position::new(record.offset, index);
        let Some(window) = self.window_of(record, pos, reading.at) else { return };
        let (slot, new) =
            self.chains.find_or_make(reading.device, window, record.stream, record.assignment, record.span);
        let chain = self.chains.get_mut(slot).expect("invariant: found or made just now");
        if pos <= chain.floor {
            self.counts.replayed += 1;
            return;
        }
        chain.floor = pos;
        let was_empty = chain.runs.is_empty();
        let run = chain.run_for(reading.meta, reading.stats.len());
        let before = run.samples.row_bytes();
        run.samples.push_sample(pos, reading.at, names.time, names.info, reading.info, reading.stats);
        self.waiting_bytes += run.samples.row_bytes() - before;
        let full = chain.n_waiting() >= self.policy.flush_samples as usize;
        if was_empty {
            self.chains.resting.remove(slot);
            self.begin_wait(now, slot);
        }
        if full {
            self.make_due(now, slot);
        }
        if new {
            self.shed(now);
        }
    }

    /// The reading's window, unless its verdict is known already.
    fn window_of(&mut self, record: Taken, pos: Position, at: EventTime) -> Option<EventTime> {
        let held = self.held.get(&record.assignment)?;
        if held.phase != Phase::Live {
            return None;
        }
        if !held.dead.is_empty() && held.dead.contains(&(record.stream, pos)) {
            self.counts.replayed += 1;
            return None;
        }
        let span: &Span = held.spans.get(record.span)?;
        let window = span.window.start(at);
        if self.upkeep.has_expired(window) {
            self.counts.expired += 1;
            return None;
        }
        Some(window)
    }

    /// One reading or whole record that can never be stored.
    pub fn reject(&mut self, letter: DeadLetter) {
        let Some(held) = self.held.get_mut(&letter.assignment) else { return };
        if held.phase != Phase::Live || held.dead.contains(&(letter.stream, letter.pos)) {
            return;
        }
        held.mark.hold(letter.pos.offset());
        self.waiting_bytes += letter.n_bytes();
        self.dead.push_back(letter);
    }

    /// The chain has samples again: it holds the watermark and grows old from now.
    fn begin_wait(&mut self, now: Tick, slot: u32) {
        self.n_waits += 1;
        let wait = self.n_waits;
        let chain = self.chains.get_mut(slot).expect("invariant: the caller found it");
        chain.since = now;
        chain.wait = wait;
        self.ages.push_back((now.after(self.policy.flush_age_ms), slot, wait));
        if self.ages.len() > 2 * self.chains.len() + FEW_AGES {
            // Waits that ended early: a day's worth of them at a large `flush_age` would outgrow everything else.
            self.ages.retain(|(_, slot, wait)| self.chains.get(*slot).is_some_and(|c| c.wait == *wait));
        }
        self.hold_first(slot);
    }

    /// Brings the chain's hold on the watermark to its first open position, unless a delta under way holds it. A seal of a
    /// chain that held nothing holds nothing either, and samples may come meanwhile.
    pub(super) fn hold_first(&mut self, slot: u32) {
        let Some(chain) = self.chains.get_mut(slot) else { return };
        if chain.in_flight.is_some() && chain.hold.is_some() {
            return;
        }
        let first = chain.first_waiting();
        if first == chain.hold {
            return;
        }
        let before = std::mem::replace(&mut chain.hold, first);
        let Some(held) = self.held.get_mut(&chain.assignment) else { return };
        if let Some(offset) = first {
            held.mark.hold(offset);
        }
        if let Some(offset) = before {
            held.mark.release(offset);
        }
    }

    /// Puts a chain that has something to write into the ready queue, once it is free.
    pub(super) fn make_due(&mut self, now: Tick, slot: u32) {
        let Some(chain) = self.chains.get_mut(slot) else { return };
        if chain.runs.is_empty() && chain.leave.is_none() {
            return;
        }
        chain.due = true;
        if !chain.queued && chain.in_flight.is_none() && chain.dying.is_none() {
            chain.queued = true;
            self.ready.push_back(slot);
            self.ready_since.get_or_insert(now);
        }
    }
}
