//! What each owner counts and publishes. Plain data: totals since the process started, and levels as they are now.
//!
//! Totals never step back, so what is shown is their plain sum and needs no memory of what was shown before.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::distribution::Distribution;

/// Counters of one shard; the shard's thread owns them.
#[derive(Clone, Debug, Default)]
pub struct ShardCounts {
    /// Records taken from the queue.
    pub records: u64,
    /// Readings decoded from them.
    pub readings: u64,
    /// Samples confirmed as durable in buckets.
    pub samples: u64,
    /// Plans handed to the writer.
    pub plans: u64,
    /// Records and readings that are counted and dropped, by reason.
    pub skipped: BTreeMap<&'static str, u64>,
    /// Dead letters confirmed as durable, by reason.
    pub dead_letters: BTreeMap<&'static str, u64>,
    /// Samples of each insert and append that was applied.
    pub statement_samples: Distribution,
    /// Milliseconds from a sample's arrival in its delta until it is durable, once a sample.
    pub append_to_durable_ms: Distribution,
    /// Level: bytes held in open deltas.
    pub delta_bytes: u64,
    /// Open tails sealed, by what that made room for.
    pub seals: BTreeMap<&'static str, u64>,
    /// Chains forgotten to make room.
    pub evictions: u64,
    /// Level: chains held in memory, and the bytes of their table without what waits in them.
    pub chains: u64,
    pub chain_bytes: u64,
    /// Level: those whose tail may be appended to, and the bytes of these tails.
    pub open_chains: u64,
    pub open_tail_bytes: u64,
    /// Level: least samples of a delta that becomes a bucket of its own; 0 = not published yet.
    pub min_fill: u64,
    /// Level: plans handed to the writer and not answered yet.
    pub plans_in_flight: u64,
    /// Level: record batches and hand-overs that wait for the shard.
    pub queued: u64,
    /// Level: partitions owned now. One that is left out leaves the metrics.
    pub marks: Vec<PartitionMark>,
}

impl ShardCounts {
    /// Adds up two shards. Their partitions are distinct.
    pub fn add(&mut self, other: &Self) {
        self.records += other.records;
        self.readings += other.readings;
        self.samples += other.samples;
        self.plans += other.plans;
        add_reasons(&mut self.skipped, &other.skipped);
        add_reasons(&mut self.dead_letters, &other.dead_letters);
        self.statement_samples.add(&other.statement_samples);
        self.append_to_durable_ms.add(&other.append_to_durable_ms);
        self.delta_bytes += other.delta_bytes;
        add_reasons(&mut self.seals, &other.seals);
        self.evictions += other.evictions;
        self.chains += other.chains;
        self.chain_bytes += other.chain_bytes;
        self.open_chains += other.open_chains;
        self.open_tail_bytes += other.open_tail_bytes;
        let published = [self.min_fill, other.min_fill].into_iter().filter(|n| *n > 0);
        self.min_fill = published.min().unwrap_or(0);
        self.plans_in_flight += other.plans_in_flight;
        self.queued += other.queued;
        self.marks.extend_from_slice(&other.marks);
    }
}

fn add_reasons(into: &mut BTreeMap<&'static str, u64>, from: &BTreeMap<&'static str, u64>) {
    for (reason, n) in from {
        *into.entry(reason).or_default() += n;
    }
}

/// How far one owned partition is. Offsets name the next record: everything below has been reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionMark {
    pub topic: Arc<str>,
    pub partition: i32,
    /// Polled.
    pub position: i64,
    /// Durable as samples, dead letters or counted skips.
    pub watermark: i64,
    /// Nothing at or past it is sent yet.
    pub reserved: i64,
}

/// What the poll thread sees.
#[derive(Clone, Debug, Default)]
pub struct SourceGauges {
    /// Bytes of keys and values polled.
    pub record_bytes: u64,
    pub rebalances: u64,
    /// Times that partitions were paused because their shard stayed full.
    pub pauses: u64,
    pub commits: u64,
    pub commit_errors: u64,
    /// Partitions handed over again.
    pub reassignments: u64,
    /// Records of partitions that are not held any more.
    pub strays: u64,
    /// Level: shards whose partitions are paused.
    pub shards_paused: u64,
    /// Level: whether `/ready` says so.
    pub is_ready: bool,
    /// When the process started, seconds since 1970.
    pub started_s: u64,
    /// Level: partitions owned now.
    pub partitions_assigned: u64,
    /// Level: those among them that are stopped until somebody mends something.
    pub partitions_stopped: u64,
    /// Level: those among them that have work and do not get on with it.
    pub partitions_stalled: u64,
    /// Level: bytes of open tails that this process may keep in the server's cache.
    pub cache_budget_bytes: u64,
    /// Level: bytes in librdkafka's own queue.
    pub librdkafka_bytes: u64,
    /// Level: bytes of record batches on their way to the shards and in them.
    pub arena_bytes: u64,
    /// Level: what all places together may hold.
    pub memory_budget_bytes: u64,
    /// Level: partitions owned now.
    pub lags: Vec<PartitionLag>,
}

/// How far one partition is behind its log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionLag {
    pub topic: Arc<str>,
    pub partition: i32,
    /// Records in the log that are not durable yet; `None` until the broker has told.
    pub records: Option<u64>,
}

/// What the writers did. A resent command counts once in `commands` and once a repeat in `resends`.
#[derive(Clone, Debug, Default)]
pub struct SinkTotals {
    pub commands: u64,
    pub command_bytes: u64,
    /// Statements of each kind.
    pub inserts: u64,
    pub appends: u64,
    pub seals: u64,
    /// Statements that had no effect: somebody was here before.
    pub fences: u64,
    /// Tails that were gone, or behind what had been confirmed.
    pub vanished: u64,
    /// Statements that the server would not take.
    pub refused: u64,
    /// Commands sent again, by why.
    pub resends: [(&'static str, u64); 3],
    /// Calls given up at the deadline; their effect was found out by reading.
    pub abandoned: u64,
    /// Chain tails read.
    pub tail_reads: u64,
    /// Level: bytes of command bodies under way.
    pub body_bytes: u64,
    /// Commands to the ledger, repeats among them.
    pub ledger_commands: u64,
    /// Updates of the ledger that had to be tried again.
    pub ledger_retries: u64,
}
