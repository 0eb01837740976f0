//! Random histories of one partition against a naive account of every single offset: writers that come, go, and go on
//! unknowing after another one has taken over; groups moved by hand; contracts changed; records deleted by the broker, or skipped on purpose.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Op {
    Start { commit: Commit, contract: usize },
    Work { writer: usize, n_records: i64, advance: bool },
    Append(i64),
    Delete(i64),
    Skip(i64),
}

#[derive(Clone, Debug)]
enum Commit {
    Kept,
    Expired,
    Moved(i64),
}

#[derive(Clone, Debug)]
struct Writer {
    spans: Vec<SpanPlan>,
    /// Next offset to read of the first span.
    at: i64,
}

#[derive(Default)]
struct World {
    entry: Option<Entry>,
    writers: Vec<Writer>,
    committed: Option<i64>,
    moved: bool,
    /// Where reading ever began.
    first: Option<i64>,
    low: i64,
    high: i64,
    /// The stream that each offset was sent under.
    sent: BTreeMap<i64, StreamId>,
    lost: BTreeSet<i64>,
    skipped: BTreeSet<i64>,
    last_id: i64,
}

impl World {
    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Start { ref commit, contract } => {
                match *commit {
                    Commit::Kept => {}
                    Commit::Expired => self.committed = None,
                    Commit::Moved(to) => {
                        self.committed = Some(to.min(self.high));
                        self.moved = true;
                    }
                }
                self.start(["a", "b", "c"][contract]);
            }
            Op::Work { writer, n_records, advance } if !self.writers.is_empty() => {
                // The newest writer works most of the time.
                let writer = self.writers.len() - 1 - writer.min(self.writers.len() - 1);
                for _ in 0..n_records {
                    self.work(writer);
                }
                if advance {
                    self.advance(writer);
                }
            }
            Op::Work { .. } => {}
            Op::Append(n) => self.high += n,
            Op::Delete(n) => self.low = (self.low + n).min(self.high),
            Op::Skip(to) => self.skip(to),
        }
    }

    fn skip(&mut self, to: i64) {
        let ask = Ask { topic_id: None, committed: None, low: self.low, high: self.high, contract: "a" };
        let last_id = &mut self.last_id;
        let skip = skip::plan(self.entry.as_ref(), &ask, to, || {
            *last_id += 1;
            StreamId(*last_id)
        });
        if let Ok(skip) = skip {
            let entry = self.entry.get_or_insert_default();
            entry.streams = skip.edit.streams;
            self.skipped.extend(skip.edit.skipped.iter().cloned().flatten());
            entry.skipped.extend(skip.edit.skipped);
            assert_eq!(entry.check(), Ok(()));
        }
    }

    fn start(&mut self, contract: &str) {
        let ask = Ask { topic_id: None, committed: self.committed, low: self.low, high: self.high, contract };
        let last_id = &mut self.last_id;
        let decision = decide(self.entry.as_ref(), &ask, || {
            *last_id += 1;
            StreamId(*last_id)
        })
        .expect("never recreated");
        if let Some(edit) = decision.edit {
            self.lost.extend(edit.lost.iter().cloned().flatten());
            let entry = self.entry.get_or_insert_default();
            entry.lost.extend(edit.lost);
            entry.streams = edit.streams;
        }
        self.check_spans(&decision.spans, contract);
        self.check_nothing_left_out(&decision.spans);
        let first = decision.spans[0].from.min(self.committed.unwrap_or(i64::MAX));
        self.first = Some(self.first.map_or(first, |was| was.min(first)));
        self.writers.push(Writer { at: decision.spans[0].from, spans: decision.spans });
    }

    fn check_spans(&self, spans: &[SpanPlan], contract: &str) {
        let entry = self.entry.as_ref().expect("written by now");
        assert_eq!(entry.check(), Ok(()));
        for span in spans {
            let stream = entry.stream(span.stream).expect("spans lie in streams");
            assert_eq!((span.from, span.to, &span.contract), (stream.next, stream.to, &stream.contract));
            assert!(span.from >= self.low && span.reserved >= span.from);
        }
        assert!(spans.windows(2).all(|pair| pair[0].to.is_some_and(|to| to <= pair[1].from)));
        let live = spans.last().expect("there is a live span");
        assert!(live.to.is_none() && &*live.contract == contract);
        for range in entry.lost.windows(2) {
            assert!(range[0].end <= range[1].start || range[1].end <= range[0].start, "lost twice: {range:?}");
        }
    }

    /// All that the commit, or without a usable one the ledger, says is to be stored is stored, lost, or planned.
    fn check_nothing_left_out(&self, spans: &[SpanPlan]) {
        let entry = self.entry.as_ref().expect("written by now");
        let live = entry.streams.last().expect("there is a live stream");
        let commit = self.committed.filter(|&committed| committed <= live.next);
        let owned = |o: i64| entry.streams.iter().any(|s| o >= s.from && s.reaches_past(o));
        for o in 0..self.high {
            let due = commit.map_or_else(|| owned(o), |commit| o >= commit);
            let planned = spans.iter().any(|span| o >= span.from && span.to.is_none_or(|to| o < to));
            let settled = self.sent.contains_key(&o) || self.lost.contains(&o) || self.skipped.contains(&o);
            assert!(!due || planned || settled, "left out: {o}");
        }
    }

    fn work(&mut self, writer: usize) {
        let Writer { spans, at } = &mut self.writers[writer];
        while spans.first().is_some_and(|span| span.to.is_some_and(|to| *at >= to)) {
            spans.remove(0);
            *at = spans.first().map_or(*at, |span| span.from);
        }
        let Some(span) = spans.first_mut().filter(|_| *at < self.high) else { return };
        if *at < self.low {
            // Its records are gone from under it: it asks again as a new writer.
            spans.clear();
            return;
        }
        if *at >= span.reserved {
            let streams = &mut self.entry.as_mut().expect("written by now").streams;
            match streams.iter_mut().find(|stream| stream.id == span.stream) {
                Some(stream) if stream.to.is_none() => {
                    stream.reserved = stream.reserved.max(*at + 2);
                    span.reserved = stream.reserved;
                }
                closed => {
                    span.to = closed.and_then(|stream| stream.to);
                    let keep = usize::from(span.to.is_some());
                    spans.truncate(keep);
                    return;
                }
            }
        }
        assert!(!self.skipped.contains(at), "offset {at} was sent though it is skipped");
        let before = self.sent.insert(*at, span.stream);
        assert!(before.is_none_or(|before| before == span.stream), "offset {at} was sent under two streams");
        *at += 1;
    }

    fn advance(&mut self, writer: usize) {
        let newest = writer + 1 == self.writers.len();
        let Writer { spans, at } = &self.writers[writer];
        let Some(span) = spans.first() else { return };
        let streams = &mut self.entry.as_mut().expect("written by now").streams;
        if let Some(stream) = streams.iter_mut().find(|stream| stream.id == span.stream) {
            stream.next = stream.next.max(*at);
            if newest {
                self.committed = Some(*at);
            }
        }
    }

    /// A last writer finishes everything: no offset since the first one may be missing.
    fn finish(mut self) {
        // Groups moved by hand may leave holes on purpose: only a reset to the start promises all of it.
        if self.moved {
            self.committed = self.first;
        }
        self.start("a");
        let newest = self.writers.len() - 1;
        for _ in 0..4 * self.high {
            self.work(newest);
            self.advance(newest);
        }
        let first = self.first.expect("just started");
        let is_missing = |o: &i64| !self.sent.contains_key(o) && !self.lost.contains(o) && !self.skipped.contains(o);
        let missing = (first..self.high).find(is_missing);
        assert_eq!(missing, None, "{:?}", self.entry);
    }
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let commit =
        prop_oneof![6 => Just(Commit::Kept), 1 => Just(Commit::Expired), 1 => (0..60_i64).prop_map(Commit::Moved)];
    let op = prop_oneof![
        3 => (commit, 0..3_usize).prop_map(|(commit, contract)| Op::Start { commit, contract }),
        8 => (prop_oneof![4 => Just(0), 1 => 0..4_usize], 1..9_i64, any::<bool>())
            .prop_map(|(writer, n_records, advance)| Op::Work { writer, n_records, advance }),
        3 => (1..9_i64).prop_map(Op::Append),
        1 => (1..6_i64).prop_map(Op::Delete),
        1 => (0..60_i64).prop_map(Op::Skip),
    ];
    proptest::collection::vec(op, 1..50)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn every_offset_is_sent_under_one_stream_or_lost(ops in ops()) {
        let mut world = World { high: 10, ..World::default() };
        for op in &ops {
            world.apply(op);
        }
        world.finish();
    }
}
