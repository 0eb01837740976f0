//! The ledger's entry of the one partition, with the coverage rule in its plainest form.

use std::sync::Arc;

use fastrand::Rng;
use sakia::engine::plan::Span;
use sakia::record::{StreamId, Window};
use sakia::sink::ledger::coverage::rebuild::{self, Found, Known, Older};

pub(crate) const OPEN: i64 = i64::MAX;

#[derive(Clone, Debug)]
pub(crate) struct Stream {
    pub(crate) id: StreamId,
    pub(crate) from: i64,
    pub(crate) to: i64,
    pub(crate) next: i64,
    pub(crate) reserved: i64,
    pub(crate) contract: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) streams: Vec<Stream>,
}

impl Ledger {
    /// What is left to write from `start` on, each span with its contract.
    pub(crate) fn assign(&mut self, rng: &mut Rng, start: i64, contract: u32) -> Vec<(Span, u32)> {
        self.close_other_contract(contract);
        let live_from = self.streams.iter().map(|s| if s.to == OPEN { s.from } else { s.to }).max();
        if !self.streams.iter().any(|s| s.to == OPEN) {
            self.add(rng, live_from.unwrap_or(start), OPEN, contract);
        }
        let mut spans = Vec::new();
        let mut at = start.min(self.streams.iter().find(|s| s.to == OPEN).map_or(start, |s| s.next));
        while let Some(stream) = self.owner_of(at, rng, contract) {
            if stream.next < stream.to {
                spans.push((span_of(&stream), stream.contract));
            }
            if stream.to == OPEN {
                break;
            }
            at = stream.to;
        }
        spans
    }

    /// Made again by what `sakia ledger rebuild` does, from what the store holds.
    pub(crate) fn rebuild(rng: &mut Rng, found: &[Found], committed: Option<i64>, high: i64) -> Self {
        let known = Known { low: 0, high, committed, contract: "0", older: Some(Older::Reread) };
        let rebuilt = rebuild::plan(found, &known, || StreamId(rng.i64(0..))).expect("streams do not overlap");
        let stream = |s: &sakia::sink::ledger::entry::Stream| Stream {
            id: s.id,
            from: s.from,
            to: s.to.unwrap_or(OPEN),
            next: s.next,
            reserved: s.reserved,
            contract: 0,
        };
        Self { streams: rebuilt.streams.iter().map(stream).collect() }
    }

    fn close_other_contract(&mut self, contract: u32) {
        for s in self.streams.iter_mut().filter(|s| s.to == OPEN && s.contract != contract) {
            s.to = s.reserved.max(s.next);
        }
        self.streams.retain(|s| s.from < s.to);
    }

    /// The stream that owns `at`; a stretch that nobody owns becomes a stream, bounded by its right neighbour.
    fn owner_of(&mut self, at: i64, rng: &mut Rng, contract: u32) -> Option<Stream> {
        if !self.streams.iter().any(|s| s.from <= at && at < s.to) {
            let to = self.streams.iter().map(|s| s.from).filter(|from| *from > at).min()?;
            self.add(rng, at, to, contract);
        }
        self.streams.iter().find(|s| s.from <= at && at < s.to).cloned()
    }

    fn add(&mut self, rng: &mut Rng, from: i64, to: i64, contract: u32) {
        let reserved = if to == OPEN { from } else { to };
        self.streams.push(Stream { id: StreamId(rng.i64(0..)), from, to, next: from, reserved, contract });
        self.streams.sort_by_key(|s| s.from);
        assert!(self.streams.windows(2).all(|w| w[0].to <= w[1].from), "{:?}", self.streams);
    }

    /// `Ok` when raised; `Err(to)` when the stream was closed.
    pub(crate) fn reserve(&mut self, id: StreamId, upto: i64) -> Result<(), Option<i64>> {
        match self.streams.iter_mut().find(|s| s.id == id) {
            Some(s) if s.to == OPEN => {
                s.reserved = s.reserved.max(upto);
                Ok(())
            }
            Some(s) => Err(Some(s.to)),
            None => Err(None),
        }
    }

    pub(crate) fn advance(&mut self, id: StreamId, upto: i64) {
        if let Some(s) = self.streams.iter_mut().find(|s| s.id == id) {
            s.next = s.next.max(upto.min(s.to));
        }
    }
}

fn span_of(stream: &Stream) -> Span {
    Span {
        stream: stream.id,
        from: stream.next,
        to: (stream.to != OPEN).then_some(stream.to),
        reserved: stream.reserved,
        window: Window { length_ms: 100, offset_ms: 0 },
        stats: Arc::default(),
    }
}
