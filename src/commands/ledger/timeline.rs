//! A ledger entry as a line of time: which stretch of offsets is in which state. Pure.

use std::ops::Range;

use super::broker::Ends;
use crate::sink::ledger::entry::{Entry, Stream};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Stored,
    /// Deleted by the broker before it was stored.
    Lost,
    /// Left out on purpose.
    Skipped,
    /// Owned by no stream.
    Gap,
    /// The rest of a closed stream.
    Unfinished,
    /// Reserved by the writer of the live stream: may be stored already.
    UnderWay,
    /// In the log, not read yet.
    Waiting,
}

impl State {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Stored => "stored",
            Self::Lost => "lost",
            Self::Skipped => "skipped",
            Self::Gap => "gap",
            Self::Unfinished => "unfinished",
            Self::UnderWay => "under way",
            Self::Waiting => "waiting",
        }
    }

    fn mark(self) -> char {
        match self {
            Self::Stored => '=',
            Self::Lost => 'x',
            Self::Skipped => 's',
            Self::Gap => ' ',
            Self::Unfinished => '?',
            Self::UnderWay => '>',
            Self::Waiting => '.',
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Segment<'a> {
    pub(super) range: Range<i64>,
    pub(super) state: State,
    pub(super) stream: Option<&'a Stream>,
}

/// All that is known, ascending, without a hole between the first stream and the end.
pub(super) fn segments<'a>(entry: &'a Entry, log: Option<Ends>) -> Vec<Segment<'a>> {
    let mut segments = Vec::new();
    let mut push = |range: Range<i64>, state, stream: Option<&'a Stream>| {
        if !range.is_empty() {
            segments.push(Segment { range, state, stream });
        }
    };
    let first = entry.streams.iter().map(|stream| stream.from);
    let mut at = first.chain(entry.skipped.iter().map(|hole| hole.start)).min().unwrap_or(0);
    for stream in &entry.streams {
        for (range, state) in split(at..stream.from, &entry.skipped, State::Skipped, State::Gap) {
            push(range, state, None);
        }
        let covered = stream.covered_upto();
        for (range, state) in split(stream.from..covered, &entry.lost, State::Lost, State::Stored) {
            push(range, state, Some(stream));
        }
        at = match (stream.to, log) {
            (Some(to), _) => {
                push(covered..to, State::Unfinished, Some(stream));
                to
            }
            (None, None) => {
                push(covered..stream.reserved, State::UnderWay, Some(stream));
                stream.reserved
            }
            (None, Some(Ends { high, .. })) => {
                let reserved = stream.reserved.clamp(covered, high.max(covered));
                push(covered..reserved, State::UnderWay, Some(stream));
                push(reserved..high, State::Waiting, Some(stream));
                high
            }
        };
    }
    segments
}

/// `range` cut at the borders of `marked`, which are in state `inside`.
fn split(range: Range<i64>, marked: &[Range<i64>], inside: State, outside: State) -> Vec<(Range<i64>, State)> {
    let mut marked = marked.to_vec();
    marked.sort_by_key(|marked| marked.start);
    let mut parts = Vec::new();
    let mut at = range.start;
    for one in marked {
        let (from, to) = (one.start.clamp(at, range.end.max(at)), one.end.clamp(at, range.end.max(at)));
        if from < to {
            parts.push((at..from, outside));
            parts.push((from..to, inside));
            at = to;
        }
    }
    parts.push((at..range.end, outside));
    parts
}

/// The segments to scale, in `width` characters; each has one at least.
pub(super) fn bar(segments: &[Segment<'_>], width: usize) -> String {
    let (Some(first), Some(last)) = (segments.first(), segments.last()) else { return String::new() };
    let total = (last.range.end - first.range.start).max(1) as f64;
    let mut bar = String::new();
    for segment in segments {
        let part = (segment.range.end - segment.range.start) as f64 / total * width as f64;
        bar.extend(std::iter::repeat_n(segment.state.mark(), (part.round() as usize).max(1)));
    }
    bar
}

/// A number as people read it: `12,345`.
pub(super) fn grouped(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut text = String::from(if number < 0 { "-" } else { "" });
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::StreamId;

    fn entry() -> Entry {
        let closed = Stream { next: 20, ..Stream::new(StreamId(1), 0, Some(30), "a") };
        let live = Stream { next: 70, reserved: 80, ..Stream::new(StreamId(2), 50, None, "b") };
        Entry { streams: vec![closed, live], lost: vec![5..9], skipped: vec![35..50], ..Entry::default() }
    }

    fn check(log: Option<Ends>, expected: &[(i64, i64, State)]) {
        let entry = entry();
        let found: Vec<_> = segments(&entry, log).iter().map(|s| (s.range.start, s.range.end, s.state)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn every_offset_has_a_state() {
        use State::{Gap, Lost, Skipped, Stored, UnderWay, Unfinished, Waiting};
        let known = [
            (0, 5, Stored),
            (5, 9, Lost),
            (9, 20, Stored),
            (20, 30, Unfinished),
            (30, 35, Gap),
            (35, 50, Skipped),
            (50, 70, Stored),
            (70, 80, UnderWay),
        ];
        check(None, &known);
        check(Some(Ends { low: 0, high: 95 }), &[&known[..], &[(80, 95, Waiting)]].concat());
        // The log may end before what is reserved, and before what is stored.
        check(Some(Ends { low: 0, high: 75 }), &[&known[..7], &[(70, 75, UnderWay)]].concat());
        check(Some(Ends { low: 0, high: 60 }), &known[..7]);
    }

    #[test]
    fn a_bar_shows_the_smallest_segment() {
        let entry = entry();
        let bar = bar(&segments(&entry, None), 40);
        assert!((40..=44).contains(&bar.len()), "{bar}");
        assert!(bar.starts_with("===xx=") && bar.contains('?') && bar.ends_with(">>>>>"), "{bar}");
    }

    #[test]
    fn numbers_are_grouped() {
        let texts = [0, 999, 1_000, -1_234_567].map(grouped);
        assert_eq!(texts, ["0", "999", "1,000", "-1,234,567"]);
    }
}
