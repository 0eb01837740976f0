//! A lost entry, made again from what the buckets and dead letters say of its streams. Pure.
//!
//! Known of a stream are its id and the first and last offset that anything stored came from. Its true range, `next`,
//! `reserved` and contract are not. Three facts make up for them:
//!
//! - *Inside* `[first, last]` the stream itself is read again, from an offset at or below its true `next`. Each of its
//!   chains drops what it has by its own `pos.hi`, as after any crash. It takes the contract that it was written under.
//! - *Outside* of all these ranges nothing is stored, so a stream of its own may write there without doubling anything;
//!   lowering `from` of a known stream instead would have its chains drop what they never had.
//! - Nobody can have sent what was not in the log, so `reserved` at the log's end holds against a writer that is late.
//!
//! At or below the true `next` are the group's commit, which follows the ledger, and the log's start, for what the
//! broker has deleted cannot be read by anybody.

use std::ops::Range;

use super::fill_gaps;
use crate::record::StreamId;
use crate::sink::ledger::entry::{Entry, Stream};

/// Contract of a stream that counts as complete, so that nobody asks for its text.
pub const UNKNOWN_CONTRACT: &str = "unknown";

/// A stream as its buckets and dead letters show it: first and last offset that anything of it came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    pub stream: StreamId,
    pub first: i64,
    pub last: i64,
}

/// What else is known of the partition.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    pub low: i64,
    pub high: i64,
    pub committed: Option<i64>,
    /// Fingerprint of the present configuration.
    pub contract: &'a str,
    pub older: Option<Older>,
}

/// What is to become of streams before the last one that the commit does not cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Older {
    /// They were written under the present configuration too, and are read again.
    Reread,
    /// They count as complete.
    Complete,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rebuilt {
    pub streams: Vec<Stream>,
    /// What will be read again, or for the first time, before the first new record.
    pub to_read: Vec<Range<i64>>,
    /// Parts of older streams that count as complete without proof.
    pub taken_as_complete: Vec<Range<i64>>,
    /// The log ends before what is stored: the topic was created again.
    pub is_behind: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CannotRebuild {
    #[error("streams {0} and {1} hold the same offsets: their samples are doubled already, or positions were changed")]
    Overlap(i64, i64),
    #[error(
        "offsets {} to {} belong to a stream before the last one, and neither the group's commit nor the log's start \
         tells that it was finished. If it was written under the present configuration, add --older reread; if not, \
         it cannot be finished: add --older complete to count it as such",
        .0.start, .0.end - 1
    )]
    Ambiguous(Range<i64>),
}

/// The streams of a partition that its topic's reader goes on with.
pub fn plan(
    found: &[Found],
    known: &Known<'_>,
    mut random: impl FnMut() -> StreamId,
) -> Result<Rebuilt, CannotRebuild> {
    let found = sorted(found)?;
    let Some((last, older)) = found.split_last() else {
        return Ok(Rebuilt {
            streams: Vec::new(),
            to_read: Vec::new(),
            taken_as_complete: Vec::new(),
            is_behind: false,
        });
    };
    // A commit past the end is of another log.
    let committed = known.committed.filter(|&committed| committed <= known.high);
    let start = committed.unwrap_or(known.low);
    let mut streams = Vec::new();
    let mut taken_as_complete = Vec::new();
    for stream in older {
        let end = stream.last + 1;
        let left = start.max(stream.first)..end;
        let (next, contract) = match known.older {
            _ if left.is_empty() => (end, UNKNOWN_CONTRACT),
            None => return Err(CannotRebuild::Ambiguous(left)),
            Some(Older::Reread) => (left.start, known.contract),
            Some(Older::Complete) => {
                taken_as_complete.push(left);
                (end, UNKNOWN_CONTRACT)
            }
        };
        streams.push(Stream { next, ..Stream::new(stream.stream, stream.first, Some(end), contract) });
    }
    let is_behind = known.high <= last.last;
    let next = match committed {
        // Records of a new log would be dropped as old ones: covered, its reader sees at once that the log is behind.
        _ if is_behind => last.last + 1,
        Some(committed) => committed.max(last.first),
        // Not past what is known to be stored: what the broker deleted since is then noted as lost.
        None => known.low.min(last.last + 1).max(last.first),
    };
    let reserved = known.high.max(last.last + 1).max(next);
    streams.push(Stream { next, reserved, ..Stream::new(last.stream, last.first, None, known.contract) });
    if !is_behind {
        fill_gaps(&mut streams, start, &[], known.contract, &mut random);
    }
    let unfinished = streams.iter().filter(|stream| stream.is_unfinished());
    let to_read = unfinished.map(|stream| stream.next..stream.to.unwrap_or(known.high)).filter(|r| !r.is_empty());
    Ok(Rebuilt { to_read: to_read.collect(), streams, taken_as_complete, is_behind })
}

/// The streams of a partition that nobody reads any more: of an older incarnation, or of a topic without a decoder.
pub fn closed(found: &[Found]) -> Result<Vec<Stream>, CannotRebuild> {
    let close = |found: &Found| {
        let end = found.last + 1;
        Stream { next: end, ..Stream::new(found.stream, found.first, Some(end), UNKNOWN_CONTRACT) }
    };
    Ok(sorted(found)?.iter().map(close).collect())
}

/// Streams that an entry which is there does not know: it is older than the buckets.
pub fn strangers(entry: &Entry, found: &[Found]) -> Vec<StreamId> {
    found.iter().map(|found| found.stream).filter(|&id| entry.stream(id).is_none()).collect()
}

fn sorted(found: &[Found]) -> Result<Vec<Found>, CannotRebuild> {
    let mut found = found.to_vec();
    found.sort_by_key(|found| found.first);
    for pair in found.windows(2) {
        if pair[1].first <= pair[0].last {
            return Err(CannotRebuild::Overlap(pair[0].stream.0, pair[1].stream.0));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: Known<'static> = Known { low: 0, high: 100, committed: None, contract: "a", older: None };

    fn found(id: i64, first: i64, last: i64) -> Found {
        Found { stream: StreamId(id), first, last }
    }

    /// Streams as `(id, from, to, next)`.
    type Streams<'a> = &'a [(i64, i64, Option<i64>, i64)];

    #[track_caller]
    fn check(all: &[Found], known: &Known<'_>, expected: Streams<'_>) -> Rebuilt {
        let mut id = 99;
        let rebuilt = plan(all, known, || {
            id += 1;
            StreamId(id)
        });
        let rebuilt = rebuilt.expect("can be rebuilt");
        let streams: Vec<_> = rebuilt.streams.iter().map(|s| (s.id.0, s.from, s.to, s.next)).collect();
        assert_eq!(streams, expected);
        assert_eq!(Entry { streams: rebuilt.streams.clone(), ..Entry::default() }.check(), Ok(()));
        rebuilt
    }

    #[test]
    fn one_stream_goes_on_at_the_commit_with_all_of_the_log_reserved() {
        let known = Known { committed: Some(50), ..KNOWN };
        let rebuilt = check(&[found(1, 3, 70)], &known, &[(1, 3, None, 50)]);
        assert_eq!((rebuilt.streams[0].reserved, rebuilt.to_read), (100, vec![50..100]));
    }

    #[test]
    fn without_a_commit_all_of_the_log_is_read_again_and_the_rest_by_a_stream_of_its_own() {
        check(&[found(1, 3, 70)], &KNOWN, &[(100, 0, Some(3), 0), (1, 3, None, 3)]);
        check(&[found(1, 3, 70)], &Known { low: 10, ..KNOWN }, &[(1, 3, None, 10)]);
        // A commit of another log says nothing.
        check(&[found(1, 0, 70)], &Known { committed: Some(400), ..KNOWN }, &[(1, 0, None, 0)]);
    }

    #[test]
    fn what_retention_took_after_the_last_sample_is_left_to_be_noted_as_lost() {
        check(&[found(1, 3, 70)], &Known { low: 90, ..KNOWN }, &[(1, 3, None, 71)]);
        check(&[found(1, 3, 70)], &Known { low: 90, committed: Some(80), ..KNOWN }, &[(1, 3, None, 80)]);
    }

    #[test]
    fn older_streams_below_the_commit_are_complete() {
        let all = [found(2, 40, 70), found(1, 3, 30)];
        let known = Known { committed: Some(50), ..KNOWN };
        let rebuilt = check(&all, &known, &[(1, 3, Some(31), 31), (2, 40, None, 50)]);
        assert_eq!(&*rebuilt.streams[0].contract, UNKNOWN_CONTRACT);
        assert_eq!(rebuilt.taken_as_complete, []);
    }

    #[test]
    fn older_streams_that_may_be_unfinished_need_a_decision() {
        let all = [found(1, 3, 30), found(2, 40, 70)];
        let known = Known { committed: Some(20), ..KNOWN };
        assert_eq!(plan(&all, &known, || StreamId(9)), Err(CannotRebuild::Ambiguous(20..31)));
        let reread = Known { older: Some(Older::Reread), ..known };
        check(&all, &reread, &[(1, 3, Some(31), 20), (100, 31, Some(40), 31), (2, 40, None, 40)]);
        let complete = Known { older: Some(Older::Complete), ..known };
        let rebuilt = check(&all, &complete, &[(1, 3, Some(31), 31), (100, 31, Some(40), 31), (2, 40, None, 40)]);
        assert_eq!(rebuilt.taken_as_complete, [20..31]);
    }

    /// As time to live leaves them: the live stream, or the one between, shows nowhere.
    #[test]
    fn streams_of_which_nothing_is_left_are_gaps_or_taken_over() {
        let known = Known { committed: Some(80), ..KNOWN };
        check(&[found(1, 3, 30)], &known, &[(1, 3, None, 80)]);
        let all = [found(1, 3, 10), found(3, 50, 70)];
        let reread = Known { older: Some(Older::Reread), ..KNOWN };
        let streams = [(100, 0, Some(3), 0), (1, 3, Some(11), 3), (101, 11, Some(50), 11), (3, 50, None, 50)];
        check(&all, &reread, &streams);
    }

    #[test]
    fn a_log_that_is_behind_is_left_for_its_reader_to_refuse() {
        let rebuilt = check(&[found(1, 3, 70)], &Known { high: 20, ..KNOWN }, &[(1, 3, None, 71)]);
        assert!(rebuilt.is_behind && rebuilt.to_read.is_empty());
    }

    #[test]
    fn streams_that_overlap_are_refused() {
        let all = [found(1, 3, 30), found(2, 30, 70)];
        assert_eq!(plan(&all, &KNOWN, || StreamId(9)), Err(CannotRebuild::Overlap(1, 2)));
        assert_eq!(closed(&all), Err(CannotRebuild::Overlap(1, 2)));
        assert_eq!(closed(&all[..1]).map(|streams| streams[0].next), Ok(31));
    }
}
