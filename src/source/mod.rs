//! Records out of Kafka: one thread polls one consumer, and hands records and hand-overs to the shards.
//!
//! - A *record* travels in a `Batch`, in the FIFO of its partition's shard. Assignments and revocations travel in the
//!   same FIFO, so that a shard needs no other order than that of its channel.
//! - Where a partition is read from, the ledger says (`Resolve`), not Kafka's commit.
//! - Shards tell the poll thread what is durable through the `Board`. Only the poll thread commits, and only for
//!   assignments that are still held.
//! - A full shard first makes the poll thread wait, which costs nothing; only after a while are its partitions paused,
//!   which throws prefetched records away but lets rebalances be served.
//!
//! `batch`, `board`, `flow`, `outbox` and `table` are pure; `asking`, `kafka`, `native`, `poll`, `questions`, `rebalance`,
//! `sampling`, `settle` and `topic_ids` talk to the client.

#[cfg(feature = "service")]
pub mod asking;
pub mod batch;
pub mod board;
#[cfg_attr(not(feature = "service"), allow(dead_code, reason = "used by the poll thread, tested without it"))]
pub mod counts;
pub mod flow;
#[cfg(feature = "service")]
pub mod kafka;
#[cfg(feature = "service")]
mod native;
#[cfg_attr(not(feature = "service"), allow(dead_code, reason = "used by the poll thread, tested without it"))]
mod outbox;
#[cfg(feature = "service")]
mod poll;
#[cfg(feature = "service")]
mod questions;
#[cfg(feature = "service")]
mod rebalance;
#[cfg(feature = "service")]
pub mod sampling;
#[cfg(feature = "service")]
mod settle;
#[cfg_attr(not(feature = "service"), allow(dead_code, reason = "used by the poll thread, tested without it"))]
mod table;
#[cfg(feature = "service")]
mod topic_ids;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crossbeam::channel::Sender;

pub use batch::{Batch, Place};
pub use board::{Board, Posts};
pub use counts::{Halt, PartitionFigures, SourceCounts};
#[cfg(feature = "service")]
pub use poll::run;
#[cfg(feature = "service")]
pub use topic_ids::{Changed, TopicIds};

use crate::clock::Clock;
use crate::code::{Code, Failure};
use crate::config::Contract;
use crate::engine::plan::Assigned;
use crate::record::{Assignment, Tick};

/// Everything that a shard receives from the source, in one FIFO.
#[derive(Debug)]
pub enum Inbound {
    Batch(Batch),
    /// A partition is this shard's from here on.
    Assigned(Box<Handed>),
    /// Write (`flush`) or drop what is held of these until the deadline, then post them as released.
    Revoked {
        assignments: Vec<Assignment>,
        deadline: Tick,
        flush: bool,
    },
    /// Somebody else has these already: forget them.
    Lost {
        assignments: Vec<Assignment>,
    },
    /// No more records: write what is held until the deadline, then post each assignment as released.
    Drain {
        deadline: Tick,
    },
}

/// A partition with what has to be written of it, and under which contract each span.
#[derive(Clone, Debug)]
pub struct Handed {
    pub assigned: Assigned,
    /// One for each span of `assigned`.
    pub contracts: Vec<Arc<Contract>>,
}

/// What the ledger has to know to say where a partition is read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionAsk {
    pub topic: String,
    pub partition: i32,
    /// Given anew whenever a topic is created; `None` where the broker gives none.
    pub topic_id: Option<String>,
    /// What the group has committed.
    pub committed: Option<i64>,
    /// First offset that is still there.
    pub low: i64,
    /// Offset of the next record to be produced.
    pub high: i64,
}

/// Why a partition is not handed over.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .reason.message)]
pub struct Refused {
    /// What is wrong, where, and which command mends it.
    pub reason: Failure,
    /// Whether it may go away by itself soon, such as a server that is down.
    pub retry: bool,
}

/// Asks the ledger. Called on the poll thread; may block for a few seconds.
pub trait Resolve: Send + Sync {
    /// One answer an ask, in their order.
    fn assign(&self, asks: Vec<(PartitionAsk, Assignment)>) -> Vec<Result<Handed, Refused>>;
}

/// Asks the source to stop; shared with whoever hears the process's signals.
#[derive(Debug, Default)]
pub struct Stop(AtomicBool);

impl Stop {
    pub fn ask(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// What the source is wired to.
pub struct Wiring {
    /// One bounded channel a shard.
    pub shards: Vec<Sender<Inbound>>,
    pub board: Arc<Board>,
    pub resolve: Arc<dyn Resolve>,
    pub clock: Clock,
    pub stop: Arc<Stop>,
    pub counts: Arc<SourceCounts>,
    /// Stop without being asked once every held partition is read up to where it ended when it was handed over. Never
    /// while no partition is held.
    pub until_caught_up: bool,
}

impl std::fmt::Debug for Wiring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wiring").field("n_shards", &self.shards.len()).finish_non_exhaustive()
    }
}

/// How the source ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stopped {
    /// Everything was read that was there when the partitions were handed over. Without it somebody asked to stop.
    pub has_caught_up: bool,
    /// Records that were polled, are not durable, and will be read again.
    pub n_unsettled: u64,
    /// Partitions that could not be read.
    pub halts: Vec<Halt>,
    /// Whether the client was closed in time. If not, leave by ending the process: its threads hang.
    pub is_closed: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    #[cfg(feature = "service")]
    #[error("the kafka client cannot be set up: {0}; check [kafka] and its options")]
    Client(#[source] rdkafka::error::KafkaError),
    #[error(
        "no kafka broker of {brokers} answers within {waited_ms} ms{reason}; check kafka.brokers, and that this host may reach them"
    )]
    Unreachable {
        brokers: String,
        waited_ms: u64,
        /// What the client says of it, in parentheses; may be empty.
        reason: String,
    },
    #[cfg(feature = "service")]
    #[error("the topics cannot be subscribed to: {0}")]
    Subscribe(#[source] rdkafka::error::KafkaError),
    #[cfg(feature = "service")]
    #[error("the kafka client cannot go on: {0}; restart to join the group anew")]
    Fatal(#[source] rdkafka::error::KafkaError),
    #[error("shard {0} is gone; it panicked, see the message above")]
    ShardGone(usize),
}

impl SourceError {
    pub fn code(&self) -> Code {
        match self {
            #[cfg(feature = "service")]
            Self::Client(_) | Self::Subscribe(_) => Code::KafkaClient,
            #[cfg(feature = "service")]
            Self::Fatal(_) => Code::KafkaFatal,
            Self::Unreachable { .. } => Code::KafkaUnreachable,
            Self::ShardGone(_) => Code::Panicked,
        }
    }
}

impl From<SourceError> for Failure {
    fn from(error: SourceError) -> Self {
        Self::new(error.code(), error)
    }
}
