//! The coverage rule: which offsets of a partition its reader has to write, and as which streams. Pure.
//!
//! What everything rests on: every writer of a stream starts at the stream's `next` and goes on in position order. So
//! an unfinished stream is filled from its `next`, never from the middle, and a range that no stream owns becomes a
//! stream of its own, bounded by its right neighbour.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::entry::{Entry, Stream};
use crate::code::Code;
use crate::record::StreamId;

/// What the reader of a partition knows before it asks.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    pub topic_id: Option<&'a str>,
    /// Offset committed by the Kafka group, if any.
    pub committed: Option<i64>,
    /// First offset that the broker still has, and the one past its last.
    pub low: i64,
    pub high: i64,
    /// Fingerprint of the reader's own contract.
    pub contract: &'a str,
}

/// One stretch that the reader has to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpanPlan {
    pub stream: StreamId,
    pub from: i64,
    pub to: Option<i64>,
    pub reserved: i64,
    pub contract: Arc<str>,
}

/// New content of the entry. In force only if nothing of the old content has changed meanwhile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    pub topic_id: Option<String>,
    pub streams: Vec<Stream>,
    /// To be added to what the entry notes already.
    pub lost: Vec<Range<i64>>,
    /// To be added likewise.
    pub skipped: Vec<Range<i64>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub edit: Option<Edit>,
    /// Ascending, not overlapping; the last one is live.
    pub spans: Vec<SpanPlan>,
    pub warnings: Vec<Warning>,
}

/// What a person should hear of, though the work goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// The group's commit lies past what is covered.
    CommitNotObeyed { committed: i64, next: i64 },
    /// The group's commit lies past the end of a partition that the ledger does not know.
    CommitPastEnd { committed: i64, high: i64 },
    /// The broker no longer had these records when they were wanted.
    Lost(Range<i64>),
    /// The live stream was written under another contract and is closed at `to`; `rest` is finished under the old one.
    ContractChanged { to: i64, rest: Range<i64> },
}

impl Warning {
    pub fn code(&self) -> Code {
        match self {
            Self::CommitNotObeyed { .. } => Code::CommitNotObeyed,
            Self::CommitPastEnd { .. } => Code::CommitPastEnd,
            Self::Lost(_) => Code::RecordsLost,
            Self::ContractChanged { .. } => Code::ContractChanged,
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CommitNotObeyed { committed, next } => write!(
                f,
                "the group's commit {committed} is past offset {next}, which is not stored yet: going on at {next} \
                 (to leave records out on purpose, use `sakia ledger skip`)"
            ),
            Self::CommitPastEnd { committed, high } => write!(
                f,
                "the group's commit {committed} is past the end of the partition ({high}): starting at its first record"
            ),
            Self::Lost(lost) => write!(
                f,
                "offsets {} to {} were deleted by the broker before they were stored: noted as lost in the ledger",
                lost.start,
                lost.end - 1
            ),
            Self::ContractChanged { to, rest } if rest.is_empty() => {
                write!(f, "decoding was configured anew: it takes effect from offset {to}")
            }
            Self::ContractChanged { to, rest } => write!(
                f,
                "decoding was configured anew: it takes effect from offset {to}; {} offsets from {} are finished under \
                 the old configuration first",
                rest.end - rest.start,
                rest.start
            ),
        }
    }
}

/// The partition's offsets are not those that the ledger speaks of.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Recreated {
    #[error("the broker's id of the topic is {is}, the ledger knows {was}")]
    TopicId { was: String, is: String },
    #[error("the partition ends at offset {high}, the ledger has it covered up to {next}")]
    Behind { high: i64, next: i64 },
}

/// Decides what the live reader of a partition has to do. `entry` is `None` for a partition that the ledger does not
/// know; `random` gives ids for new streams.
pub fn decide(
    entry: Option<&Entry>,
    ask: &Ask<'_>,
    mut random: impl FnMut() -> StreamId,
) -> Result<Decision, Recreated> {
    let blank = Entry::default();
    let before = entry.unwrap_or(&blank);
    refuse_recreated(before, ask)?;

    let mut warnings = Vec::new();
    let mut streams = before.streams.clone();
    close_other_contract(&mut streams, ask, &mut random, &mut warnings);
    let live_next = open_live(&mut streams, ask, &mut random, &mut warnings);

    // A commit past `next` cannot have come from this protocol: it counts as lost.
    let start = ask.committed.filter(|&committed| committed <= live_next);
    fill_gaps(&mut streams, start.unwrap_or(live_next), &before.skipped, ask.contract, &mut random);
    let wanted = wanted(&streams, start, &before.skipped);
    let lost = give_up_deleted(&mut streams, &wanted, ask.low);
    warnings.extend(lost.iter().cloned().map(Warning::Lost));

    let spans: Vec<_> = wanted.into_iter().map(|i| &streams[i]).filter(|s| s.is_unfinished()).map(span).collect();
    let first = spans.first().map_or(live_next, |span| span.from);
    if let Some(committed) = ask.committed.filter(|&committed| committed > first && !before.streams.is_empty()) {
        warnings.push(Warning::CommitNotObeyed { committed, next: first });
    }
    let topic_id = before.topic_id.clone().or_else(|| ask.topic_id.map(str::to_owned));
    let changed = entry.is_none() || streams != before.streams || topic_id != before.topic_id || !lost.is_empty();
    Ok(Decision { edit: changed.then_some(Edit { topic_id, streams, lost, skipped: Vec::new() }), spans, warnings })
}

/// Offsets start again in a recreated topic, and all new records would count as stored already.
fn refuse_recreated(entry: &Entry, ask: &Ask<'_>) -> Result<(), Recreated> {
    if let (Some(was), Some(is)) = (&entry.topic_id, ask.topic_id)
        && was != is
    {
        return Err(Recreated::TopicId { was: was.clone(), is: is.to_owned() });
    }
    // A stream may have been reserved, and then closed, past the end of the log. Until its rest is there, the untouched
    // stream after it proves nothing.
    let awaits_left = |i: usize, stream: &Stream| {
        let left = i.checked_sub(1).map(|left| &entry.streams[left]);
        stream.next == stream.from && left.is_some_and(|left| left.to == Some(stream.from) && left.is_unfinished())
    };
    let counted = entry.streams.iter().enumerate().filter(|&(i, stream)| !awaits_left(i, stream));
    let next = counted.map(|(_, stream)| stream.covered_upto()).max().unwrap_or(0);
    if ask.high < next { Err(Recreated::Behind { high: ask.high, next }) } else { Ok(()) }
}

/// Ends the live stream if it was written under another contract. A writer that still runs under that contract may
/// send all that is reserved, so the new stream starts there: closed at `next`, both would write the same readings.
fn close_other_contract(
    streams: &mut Vec<Stream>,
    ask: &Ask<'_>,
    random: &mut impl FnMut() -> StreamId,
    warnings: &mut Vec<Warning>,
) {
    let Some(live) = streams.last_mut().filter(|last| last.to.is_none() && *last.contract != *ask.contract) else {
        return;
    };
    let to = live.reserved.max(live.next);
    live.to = Some(to);
    live.reserved = to;
    warnings.push(Warning::ContractChanged { to, rest: live.next..to });
    if live.from == to {
        streams.pop();
    }
    let id = fresh_id(streams, random);
    streams.push(Stream::new(id, to, None, ask.contract));
}

/// Makes sure that the last stream is live, and returns its `next`.
fn open_live(
    streams: &mut Vec<Stream>,
    ask: &Ask<'_>,
    random: &mut impl FnMut() -> StreamId,
    warnings: &mut Vec<Warning>,
) -> i64 {
    let from = match streams.last().map(|last| last.to) {
        Some(None) => return streams[streams.len() - 1].next,
        Some(Some(to)) => to,
        None => match ask.committed {
            Some(committed) if committed > ask.high => {
                warnings.push(Warning::CommitPastEnd { committed, high: ask.high });
                ask.low
            }
            committed => committed.unwrap_or(ask.low),
        },
    };
    let id = fresh_id(streams, random);
    streams.push(Stream::new(id, from, None, ask.contract));
    from
}

/// Gives every range at or past `start` that nobody owns to a new stream, but for what was skipped on purpose.
fn fill_gaps(
    streams: &mut Vec<Stream>,
    start: i64,
    skipped: &[Range<i64>],
    contract: &str,
    random: &mut impl FnMut() -> StreamId,
) {
    let mut at = start;
    let mut gaps = Vec::new();
    for stream in &*streams {
        if at < stream.from {
            gaps.extend(without(at..stream.from, skipped));
        }
        at = at.max(stream.to.unwrap_or(i64::MAX));
    }
    for gap in gaps {
        let id = fresh_id(streams, random);
        let place = streams.partition_point(|stream| stream.from < gap.start);
        streams.insert(place, Stream::new(id, gap.start, Some(gap.end), contract));
    }
}

/// What of `range` lies in none of `holes`.
fn without(range: Range<i64>, holes: &[Range<i64>]) -> Vec<Range<i64>> {
    let mut holes: Vec<_> = holes.iter().filter(|hole| !hole.is_empty()).collect();
    holes.sort_by_key(|hole| hole.start);
    let (mut at, mut left) = (range.start, Vec::new());
    for hole in holes {
        if at < hole.start.min(range.end) {
            left.push(at..hole.start.min(range.end));
        }
        at = at.max(hole.end);
    }
    if at < range.end {
        left.push(at..range.end);
    }
    left
}

/// Indices of the unfinished streams that this reader fills: those past `start`, or all where no commit says more.
fn wanted(streams: &[Stream], start: Option<i64>, skipped: &[Range<i64>]) -> Vec<usize> {
    let is_wanted = |i: usize| {
        let stream = &streams[i];
        // What a change of contract or a skip left over stays wanted even if somebody moved the commit just past it.
        let is_rest =
            streams.get(i + 1).is_some_and(|right| stream.to == Some(right.from) && stream.contract != right.contract)
                || skipped.iter().any(|hole| stream.to == Some(hole.start));
        stream.is_unfinished() && (is_rest || start.is_none_or(|start| stream.reaches_past(start)))
    };
    (0..streams.len()).filter(|&i| is_wanted(i)).collect()
}

/// Moves `next` of the wanted streams past what the broker has deleted, and returns that. As `next` moves with it,
/// no loss is noted twice.
fn give_up_deleted(streams: &mut [Stream], wanted: &[usize], low: i64) -> Vec<Range<i64>> {
    let mut lost = Vec::new();
    for &i in wanted {
        let stream = &mut streams[i];
        let upto = stream.to.map_or(low, |to| to.min(low));
        if stream.next < upto {
            lost.push(stream.next..upto);
            stream.next = upto;
            stream.reserved = stream.reserved.max(upto);
        }
    }
    lost
}

fn span(stream: &Stream) -> SpanPlan {
    SpanPlan {
        stream: stream.id,
        from: stream.next,
        to: stream.to,
        reserved: stream.to.unwrap_or(stream.reserved),
        contract: stream.contract.clone(),
    }
}

/// Chains of two streams with one id would trim each other's samples.
fn fresh_id(streams: &[Stream], random: &mut impl FnMut() -> StreamId) -> StreamId {
    loop {
        let id = random();
        if streams.iter().all(|stream| stream.id != id) {
            return id;
        }
    }
}

pub mod incarnation;
pub mod rebuild;
pub mod skip;

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
