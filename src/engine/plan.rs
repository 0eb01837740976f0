//! What the engine asks of the store and of the ledger, and what they answer. Data only.

use std::sync::Arc;

use super::samples::Samples;
use crate::code::Failure;
use crate::record::{Assignment, EventTime, Origin, Position, StreamId};

/// Names all buckets of one device, window and stream.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ChainKey {
    pub device: Box<str>,
    pub window: EventTime,
    pub stream: StreamId,
}

/// What a delta does to its chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// Document `n`, whole. `open` only if it is expected to be appended to.
    Insert { n: u32, open: bool },
    /// Push to the open bucket `n` whose highest position is `hi`; `seal` when this fills it.
    Append { n: u32, hi: Position, seal: bool },
    /// Leave the open bucket `n` for good.
    Seal { n: u32, hi: Position },
}

/// Samples for one chain, written by one statement. `samples` is empty for a seal and only then.
#[derive(Clone, Debug)]
pub struct Delta {
    pub assignment: Assignment,
    /// The engine's slot of this chain; the store hands it back untouched.
    pub slot: u32,
    pub key: Arc<ChainKey>,
    pub origin: Arc<Origin>,
    /// Names of the fields that get stats, in the order of the samples' numbers.
    pub stats: Arc<[Box<str>]>,
    pub write: Write,
    /// Slowly changing tags as a BSON document; of an insert only.
    pub meta: Option<Arc<[u8]>>,
    pub samples: Samples,
}

impl Delta {
    /// Whether `tail` is exactly as this delta leaves it: its reply may have been lost, but not its effect.
    pub fn leaves(&self, tail: &Tail) -> bool {
        let (n, hi, open) = match self.write {
            Write::Insert { n, open } => (n, self.samples.last_pos(), open),
            Write::Append { n, seal, .. } => (n, self.samples.last_pos(), !seal),
            Write::Seal { n, hi } => (n, Some(hi), false),
        };
        (tail.n, Some(tail.hi), tail.open) == (n, hi, open)
    }
}

/// How much of its record a dead letter stands for, and so what is taken when it is tried again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Everything in the record: none of its readings was handed on.
    Record,
    /// The reading at the letter's index; its neighbours have fates of their own.
    Reading,
    /// A decoded sample that the server refused, with what its bucket would have said of it.
    Sample { device: Box<str>, meta: Option<Arc<[u8]>> },
}

impl Scope {
    /// Stable name, as stored.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Record => "record",
            Self::Reading => "reading",
            Self::Sample { .. } => "sample",
        }
    }

    /// Bytes beside those of every letter.
    pub fn n_bytes(&self) -> usize {
        match self {
            Self::Record | Self::Reading => 0,
            Self::Sample { device, meta } => device.len() + meta.as_ref().map_or(0, |meta| meta.len()),
        }
    }
}

/// A record or reading that can never be stored as it is.
#[derive(Clone, Debug, PartialEq)]
pub struct DeadLetter {
    pub assignment: Assignment,
    pub stream: StreamId,
    pub pos: Position,
    pub origin: Arc<Origin>,
    pub scope: Scope,
    /// Stable name of the reason.
    pub reason: &'static str,
    /// What is wrong, for a person.
    pub detail: String,
    /// Kafka's timestamp of the record, milliseconds.
    pub timestamp: Option<i64>,
    pub key: Option<Box<[u8]>>,
    /// Value of the record; for a sample that the server refused, the BSON of that sample.
    pub value: Option<Box<[u8]>>,
    /// Packed as in `record::Headers`.
    pub headers: Box<[u8]>,
}

impl DeadLetter {
    /// Memory it holds until it is durable.
    pub fn n_bytes(&self) -> usize {
        let blobs = [&self.key, &self.value].into_iter().flatten().map(|b| b.len()).sum::<usize>();
        size_of::<Self>() + self.scope.n_bytes() + self.detail.len() + self.headers.len() + blobs
    }
}

/// Deltas and dead letters written together.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    pub id: u64,
    pub deltas: Vec<Delta>,
    pub dead: Vec<DeadLetter>,
}

/// Last bucket of a chain as a majority read shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tail {
    pub n: u32,
    pub hi: Position,
    pub count: u32,
    pub bytes: u32,
    pub open: bool,
    pub meta: Option<Arc<[u8]>>,
}

/// What became of one delta. Only majority-committed knowledge gets here (rule 7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Applied,
    /// No effect, or effect unknown: this is the chain's tail now (`None`: the chain has no bucket).
    Fenced(Option<Tail>),
    /// The bucket that the delta appends to is gone, or is behind what was confirmed, by a linearizable read too.
    Vanished,
    /// The server will not take these samples.
    Refused {
        code: i32,
        message: String,
    },
    /// Nothing of this chain's partition can be written until somebody mends something.
    Broken(Failure),
}

/// Answer to a plan. Deltas come back with their samples, so that what was not applied can be planned again.
#[derive(Clone, Debug, Default)]
pub struct Report {
    pub id: u64,
    pub deltas: Vec<(Delta, Outcome)>,
    /// Dead letters that are durable now, as `(assignment, stream, position)`.
    pub dead: Vec<(Assignment, StreamId, Position)>,
    /// Dead letters that cannot be stored: their partition stops.
    pub dead_refused: Vec<(Assignment, Failure)>,
}

/// A stream's place in the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamMark {
    pub assignment: Assignment,
    pub origin: Arc<Origin>,
    pub stream: StreamId,
    /// First offset that is not meant.
    pub upto: i64,
}

/// What the engine wants of the ledger. At most one is on its way at any time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerAsk {
    /// Live streams whose `reserved` is to be raised.
    pub reserve: Vec<StreamMark>,
    /// Streams whose `next` is to be raised: everything below is durable.
    pub advance: Vec<StreamMark>,
}

/// The ledger's answer to everything in the ask, by majority.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerAnswer {
    pub reserved: Vec<StreamMark>,
    /// Streams that somebody closed: `upto` is their `to`.
    pub closed: Vec<StreamMark>,
    /// The same, but on purpose, to leave records out: whoever reads on does so past them, at once.
    pub skipped: Vec<StreamMark>,
    pub advanced: Vec<StreamMark>,
    /// Assignments whose ledger entry cannot be used any more, with the reason.
    pub broken: Vec<(Assignment, Failure)>,
}

/// One stretch of an assignment that this process has to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    pub stream: StreamId,
    /// The stream's `next`: the first offset that is not known to be durable.
    pub from: i64,
    /// First offset past the stream; `None` for the live one.
    pub to: Option<i64>,
    /// Nothing at or past it may be sent until the ledger has raised it.
    pub reserved: i64,
    pub window: crate::record::Window,
    /// Names of the fields that get stats.
    pub stats: Arc<[Box<str>]>,
}

/// A partition handed to the engine.
#[derive(Clone, Debug)]
pub struct Assigned {
    pub assignment: Assignment,
    pub origin: Arc<Origin>,
    /// Ascending, not overlapping.
    pub spans: Vec<Span>,
    /// Dead letters at or past a span's `from`, already durable.
    pub dead: Vec<(StreamId, Position)>,
}
