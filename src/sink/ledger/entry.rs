//! What the ledger keeps of one partition. Data and its own consistency, nothing else.

use std::ops::Range;
use std::sync::Arc;

use crate::record::StreamId;

/// One run of offsets `[from, to)`, written in position order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    pub id: StreamId,
    pub from: i64,
    /// `None`: the live one.
    pub to: Option<i64>,
    /// Everything below it is durable; may have been raised past `to` by a writer that did not know of the closing.
    pub next: i64,
    /// Nothing at or past it may be sent.
    pub reserved: i64,
    /// Fingerprint of the contract that it is written under.
    pub contract: Arc<str>,
}

impl Stream {
    /// A stream of which nothing was written. A bounded one is reserved whole: nobody closes it any more.
    pub fn new(id: StreamId, from: i64, to: Option<i64>, contract: &str) -> Self {
        Self { id, from, to, next: from, reserved: to.unwrap_or(from), contract: contract.into() }
    }

    /// End of what is durably covered. Never past `to`: what lies there is the neighbour's.
    pub fn covered_upto(&self) -> i64 {
        self.to.map_or(self.next, |to| self.next.min(to))
    }

    pub fn is_unfinished(&self) -> bool {
        self.to.is_none_or(|to| self.next < to)
    }

    /// Does some of it lie at or past `offset`?
    pub fn reaches_past(&self, offset: i64) -> bool {
        self.to.is_none_or(|to| offset < to)
    }
}

/// The ledger's document of one partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Raised by every change other than a stream's `next` and `reserved`.
    pub version: i64,
    /// The broker's id of the topic, where it is known.
    pub topic_id: Option<String>,
    /// Sorted by `from`, not overlapping; only the last may be live.
    pub streams: Vec<Stream>,
    /// Offsets that the broker no longer had when they were wanted.
    pub lost: Vec<Range<i64>>,
    /// Offsets left out on purpose: no gap to be filled, whatever a group has committed.
    pub skipped: Vec<Range<i64>>,
}

impl Entry {
    pub fn stream(&self, id: StreamId) -> Option<&Stream> {
        self.streams.iter().find(|stream| stream.id == id)
    }

    /// Says what makes this entry unfit to be written by. An edit by hand could otherwise have one range written by
    /// two streams, which doubles every sample in it.
    pub fn check(&self) -> Result<(), String> {
        for stream in &self.streams {
            let s = stream.id.0;
            if stream.from < 0 || stream.to.is_some_and(|to| to < stream.from) {
                return Err(format!("stream {s} owns no valid range"));
            }
            if stream.next < stream.from {
                return Err(format!("`next` of stream {s} is below its `from`"));
            }
        }
        for pair in self.streams.windows(2) {
            let (left, right) = (&pair[0], &pair[1]);
            if left.to.is_none_or(|to| to > right.from) {
                return Err(format!("streams {} and {} overlap or are not in order", left.id.0, right.id.0));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(streams: &[(i64, Option<i64>, i64)], expected: Option<&str>) {
        let streams = (1..)
            .zip(streams)
            .map(|(id, &(from, to, next))| Stream { next, ..Stream::new(StreamId(id), from, to, "a") });
        let entry = Entry { streams: streams.collect(), ..Entry::default() };
        assert_eq!(entry.check().err().as_deref(), expected);
    }

    #[test]
    fn sound_entries_pass() {
        check(&[], None);
        check(&[(0, Some(5), 5), (5, Some(7), 9), (20, None, 21)], None);
    }

    #[test]
    fn unsound_entries_are_named() {
        check(&[(0, Some(6), 0), (5, None, 5)], Some("streams 1 and 2 overlap or are not in order"));
        check(&[(0, None, 0), (5, None, 5)], Some("streams 1 and 2 overlap or are not in order"));
        check(&[(5, None, 4)], Some("`next` of stream 1 is below its `from`"));
        check(&[(5, Some(4), 5)], Some("stream 1 owns no valid range"));
    }

    #[test]
    fn coverage_ends_at_to_even_if_next_was_raised_past_it() {
        let stream = Stream { next: 12, ..Stream::new(StreamId(1), 0, Some(10), "a") };
        assert_eq!(stream.covered_upto(), 10);
        assert!(!stream.is_unfinished());
    }
}
