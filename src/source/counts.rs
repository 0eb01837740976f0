//! Figures of the source for telemetry. The poll thread counts for itself and publishes about once a second.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::code::Failure;

/// Totals since the start, and gauges. Relaxed everywhere: each is read alone, for people.
#[derive(Debug, Default)]
pub struct SourceCounts {
    pub records: AtomicU64,
    pub bytes: AtomicU64,
    pub batches: AtomicU64,
    /// Records of partitions that nobody holds, dropped.
    pub strays: AtomicU64,
    /// Times that a shard's partitions were paused.
    pub pauses: AtomicU64,
    pub rebalances: AtomicU64,
    pub commits: AtomicU64,
    pub commit_errors: AtomicU64,
    /// Partitions handed over again: stepped back, trimmed by retention, or mended.
    pub reassigns: AtomicU64,
    /// Gauge: partitions that are held and read.
    pub n_live: AtomicU64,
    /// Gauge: partitions that the topics have of which any is held, whoever holds them.
    pub n_partitions: AtomicU64,
    /// Gauge: partitions that are held and cannot be read.
    pub n_stopped: AtomicU64,
    /// Gauge: shards whose partitions are paused.
    pub n_paused: AtomicU64,
    /// Gauge: librdkafka's queue.
    pub queue_bytes: AtomicU64,
    /// Gauge: batches, wherever they are.
    pub batch_bytes: Arc<AtomicUsize>,
    /// When the poll thread was last seen at work, milliseconds since the start.
    pub seen: AtomicU64,
    partitions: Mutex<Vec<PartitionFigures>>,
    halts: Mutex<Vec<Halt>>,
}

/// A held partition that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Halt {
    pub topic: Arc<str>,
    pub partition: i32,
    /// What is wrong, where, and which command mends it.
    pub reason: Failure,
}

/// A held partition that is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionFigures {
    pub topic: Arc<str>,
    pub partition: i32,
    /// Offset after the last polled record.
    pub position: i64,
    /// Everything below is durable.
    pub durable: i64,
    /// Records between `durable` and the end of the partition.
    pub lag: i64,
    /// Records wait to be fetched, or to become durable. A lag alone need not mean so: transaction markers are never
    /// delivered.
    pub has_work: bool,
}

impl SourceCounts {
    pub fn partitions(&self) -> Vec<PartitionFigures> {
        self.partitions.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Why this process is not ready, as far as the source goes; empty = it is.
    pub fn halts(&self) -> Vec<Halt> {
        self.halts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_partitions(&self, figures: Vec<PartitionFigures>, halts: Vec<Halt>) {
        *self.partitions.lock().unwrap_or_else(PoisonError::into_inner) = figures;
        *self.halts.lock().unwrap_or_else(PoisonError::into_inner) = halts;
    }
}

pub(super) fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

pub(super) fn set(gauge: &AtomicU64, n: u64) {
    gauge.store(n, Ordering::Relaxed);
}
