//! Leaves records out on purpose: the live stream ends where nothing more of it can be under way, another begins past
//! the hole. Pure.
//!
//! What is reserved may be on its way already, from a writer that nobody can call back, so a skip never cuts into it:
//! that rest is finished first, from its `next`, by whoever takes the partition up.

use std::ops::Range;

use super::{Ask, Edit, Recreated, fresh_id, refuse_recreated};
use crate::record::StreamId;
use crate::sink::ledger::entry::{Entry, Stream};

/// A skip that can be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skip {
    pub edit: Edit,
    /// What no stream owns from now on.
    pub hole: Range<i64>,
    /// What is still to be finished before it.
    pub rest: Range<i64>,
    /// The contract of the new stream.
    pub contract: String,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSkip {
    #[error(transparent)]
    Recreated(#[from] Recreated),
    #[error("offset {to} lies outside the log, which holds offsets {low} to {high}")]
    OutsideTheLog { to: i64, low: i64, high: i64 },
    #[error("there is nothing to skip: everything below offset {upto} is stored, or about to be")]
    Nothing { upto: i64 },
    #[error("the ledger does not know the partition yet, and no [[decoder]] names its topic")]
    NoContract,
}

/// Plans a skip to `to`. In `ask`, `contract` is what a partition without a live stream goes on under.
pub fn plan(
    entry: Option<&Entry>,
    ask: &Ask<'_>,
    to: i64,
    mut random: impl FnMut() -> StreamId,
) -> Result<Skip, NoSkip> {
    let blank = Entry::default();
    let before = entry.unwrap_or(&blank);
    refuse_recreated(before, ask)?;
    // Past the end the untouched stream would look like one whose log was cut.
    if to > ask.high || to < ask.low {
        return Err(NoSkip::OutsideTheLog { to, low: ask.low, high: ask.high });
    }
    let mut streams = before.streams.clone();
    let (upto, rest, contract) = match streams.last_mut() {
        Some(live) if live.to.is_none() => {
            let upto = live.reserved.max(live.next);
            live.to = Some(upto);
            live.reserved = upto;
            (upto, live.next..upto, live.contract.to_string())
        }
        Some(last) => {
            let upto = last.to.unwrap_or(last.next);
            (upto, upto..upto, ask.contract.to_owned())
        }
        None => (ask.low, ask.low..ask.low, ask.contract.to_owned()),
    };
    if to <= upto {
        return Err(NoSkip::Nothing { upto });
    }
    if contract.is_empty() {
        return Err(NoSkip::NoContract);
    }
    // A stream that was never used stays, with nothing in it: its writer is told that it was closed, and where.
    let id = fresh_id(&streams, &mut random);
    streams.push(Stream::new(id, to, None, &contract));
    let topic_id = before.topic_id.clone().or_else(|| ask.topic_id.map(str::to_owned));
    let edit = Edit { topic_id, streams, lost: Vec::new(), skipped: vec![upto..to] };
    Ok(Skip { edit, hole: upto..to, rest, contract })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask() -> Ask<'static> {
        Ask { topic_id: None, committed: None, low: 0, high: 100, contract: "new" }
    }

    fn live() -> Entry {
        let live = Stream { next: 20, reserved: 30, ..Stream::new(StreamId(1), 0, None, "a") };
        Entry { version: 1, streams: vec![live], ..Entry::default() }
    }

    fn skip(entry: Option<&Entry>, to: i64) -> Result<Skip, NoSkip> {
        plan(entry, &ask(), to, || StreamId(9))
    }

    #[test]
    fn what_is_reserved_is_finished_first_under_its_own_contract() {
        let skip = skip(Some(&live()), 60).expect("can be skipped");
        assert_eq!((skip.hole, skip.rest, skip.contract.as_str()), (30..60, 20..30, "a"));
        let [old, new] = skip.edit.streams.as_slice() else { panic!("two streams: {:?}", skip.edit) };
        assert_eq!((old.to, old.next, old.reserved), (Some(30), 20, 30));
        assert_eq!((new.from, new.to, new.next, new.reserved, &*new.contract), (60, None, 60, 60, "a"));
    }

    #[test]
    fn a_stream_that_was_never_used_stays_to_tell_its_writer() {
        let mut entry = live();
        entry.streams[0] = Stream::new(StreamId(1), 0, None, "a");
        let skip = skip(Some(&entry), 60).expect("can be skipped");
        assert_eq!((skip.hole, skip.edit.streams[0].to), (0..60, Some(0)));
        assert_eq!(Entry { streams: skip.edit.streams, ..Entry::default() }.check(), Ok(()));
    }

    #[test]
    fn a_partition_that_is_not_known_yet_begins_past_the_hole() {
        let skip = skip(None, 60).expect("can be skipped");
        assert_eq!((skip.hole, skip.edit.streams.len(), skip.contract.as_str()), (0..60, 1, "new"));
        let ask = Ask { contract: "", ..ask() };
        assert_eq!(plan(None, &ask, 60, || StreamId(9)), Err(NoSkip::NoContract));
    }

    #[test]
    fn what_cannot_be_skipped_is_told() {
        assert_eq!(skip(Some(&live()), 30), Err(NoSkip::Nothing { upto: 30 }));
        assert_eq!(skip(Some(&live()), 101), Err(NoSkip::OutsideTheLog { to: 101, low: 0, high: 100 }));
        let ask = Ask { high: 10, ..ask() };
        assert!(matches!(plan(Some(&live()), &ask, 5, || StreamId(9)), Err(NoSkip::Recreated(_))));
    }
}
