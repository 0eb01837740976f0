//! One partition as this engine holds it: spans to write, what was polled, what is durable.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::plan::{Assigned, LedgerAsk, Span, StreamMark};
use super::watermark::Watermark;
use crate::record::{Assignment, Origin, Position, StreamId, Tick};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Live,
    /// Takes no more records; released when everything is durable, or at the deadline.
    Draining {
        deadline: Tick,
    },
    /// Takes and writes nothing until somebody mends something.
    Stopped,
}

#[derive(Debug)]
pub(super) struct Held {
    pub(super) id: Assignment,
    pub(super) origin: Arc<Origin>,
    pub(super) spans: Vec<Span>,
    /// Index of the span that the last record fell into, or will next.
    current: usize,
    pub(super) mark: Watermark,
    /// Positions that are durable dead letters already.
    pub(super) dead: BTreeSet<(StreamId, Position)>,
    pub(super) phase: Phase,
    /// Everything below is durable and known to the ledger.
    pub(super) advanced: i64,
    /// What the ask under way advances to.
    asked: i64,
    /// Chains and dead letters that wait for `reserved` to rise.
    pub(super) waiting: Vec<u32>,
}

impl Held {
    pub(super) fn new(assigned: Assigned) -> Self {
        let start = assigned.spans.first().map_or(0, |s| s.from);
        Self {
            id: assigned.assignment,
            origin: assigned.origin,
            spans: assigned.spans,
            current: 0,
            mark: Watermark::new(start),
            dead: assigned.dead.into_iter().collect(),
            phase: Phase::Live,
            advanced: start,
            asked: start,
            waiting: Vec::new(),
        }
    }

    /// The span that takes the record at `offset`; `None` where it is covered, was handed on before, or is not ours.
    #[inline]
    pub(super) fn accept(&mut self, offset: i64) -> Option<usize> {
        if self.phase != Phase::Live || offset < self.mark.next() {
            return None;
        }
        self.mark.polled(offset + 1);
        while self.spans.get(self.current).is_some_and(|s| s.to.is_some_and(|to| offset >= to)) {
            self.current += 1;
        }
        let span = self.spans.get(self.current)?;
        (offset >= span.from).then_some(self.current)
    }

    pub(super) fn reserved(&self, stream: StreamId) -> i64 {
        self.spans.iter().find(|s| s.stream == stream).map_or(i64::MIN, |s| s.reserved)
    }

    fn stream_mark(&self, span: &Span, upto: i64) -> StreamMark {
        StreamMark { assignment: self.id, origin: Arc::clone(&self.origin), stream: span.stream, upto }
    }

    /// Adds what this partition wants of the ledger.
    pub(super) fn ask(&mut self, ask: &mut LedgerAsk) {
        let polled = self.mark.next();
        for span in &self.spans {
            if span.to.is_none() && span.reserved < polled && polled > span.from {
                ask.reserve.push(self.stream_mark(span, polled));
            }
        }
        self.asked = self.mark.committable();
        for span in &self.spans {
            let upto = self.asked.min(span.to.unwrap_or(i64::MAX));
            if upto > span.from.max(self.advanced.min(span.to.unwrap_or(i64::MAX))) {
                ask.advance.push(self.stream_mark(span, upto));
            }
        }
    }

    /// Something is to be told to the ledger.
    pub(super) fn wants_ledger(&self) -> bool {
        let polled = self.mark.next();
        let reserve = self.spans.last().is_some_and(|s| s.to.is_none() && s.reserved < polled && polled > s.from);
        self.phase != Phase::Stopped && (reserve || self.mark.committable() > self.advanced)
    }

    /// A chain waits for `reserved`, or the next owner for the partition.
    pub(super) fn is_in_a_hurry(&self) -> bool {
        self.phase != Phase::Live || !self.waiting.is_empty()
    }

    /// The ledger took the whole ask: what it advances to, if that is news.
    pub(super) fn settled(&mut self) -> Option<i64> {
        if self.asked <= self.advanced {
            return None;
        }
        self.advanced = self.asked;
        Some(self.advanced)
    }

    pub(super) fn raise_reserved(&mut self, stream: StreamId, upto: i64) {
        for span in self.spans.iter_mut().filter(|s| s.stream == stream) {
            span.reserved = span.reserved.max(upto);
        }
    }

    /// Somebody closed the stream at `to`.
    pub(super) fn close(&mut self, stream: StreamId, to: i64) {
        for span in self.spans.iter_mut().filter(|s| s.stream == stream) {
            span.to = Some(to);
            span.reserved = span.reserved.max(to).min(to);
        }
        self.mark.cut(to);
        self.asked = self.asked.min(to);
    }

    pub(super) fn is_drained(&self) -> bool {
        self.mark.is_clear() && self.advanced >= self.mark.committable()
    }
}
