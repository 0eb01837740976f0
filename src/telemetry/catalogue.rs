//! Every metric there is: name, help, and where its value comes from. `docs/metrics.md` is held equal to it by a test.
//!
//! Device ids are never labels: one series a device would be tens of thousands, and would outlive the devices.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::counts::{PartitionMark, ShardCounts, SinkTotals, SourceGauges};
use super::distribution::Distribution;

/// All that was published, added up, as one scrape shows it.
#[derive(Debug, Default)]
pub(super) struct View {
    pub(super) shards: ShardCounts,
    pub(super) source: SourceGauges,
    pub(super) sink: SinkTotals,
    /// By topic and number, so that no series can appear twice: that would spoil the whole scrape.
    pub(super) partitions: BTreeMap<(Arc<str>, i32), PartitionView>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct PartitionView {
    pub(super) mark: Option<PartitionMark>,
    pub(super) lag: Option<u64>,
}

impl PartitionView {
    fn of_mark(&self, read: fn(&PartitionMark) -> i64) -> Option<i64> {
        self.mark.as_ref().map(read)
    }
}

/// One family. The encoder puts `sakia_` before the name and `_total` (counters) or `_info` after it.
#[derive(Debug)]
pub(super) struct Metric {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) read: Read,
}

type Labelled = Vec<(&'static str, u64)>;

#[derive(Debug)]
pub(super) enum Read {
    Counter(fn(&View) -> u64),
    /// One series for each value of the named label.
    CounterBy(&'static str, fn(&View) -> Labelled),
    Gauge(fn(&View) -> u64),
    GaugeBy(&'static str, fn(&View) -> Labelled),
    /// A gauge for each owned partition that has a value.
    Partition(fn(&PartitionView) -> Option<i64>),
    Histogram {
        read: fn(&View) -> &Distribution,
        bounds: &'static [u64],
        /// Recorded units in one exported unit.
        per_unit: u32,
    },
    Info(&'static [(&'static str, &'static str)]),
}

const MS_PER_S: u32 = 1000;
/// From one command's round trip to a backlog after an outage; fine around the default flush age of 10 s.
const LATENCY_MS: &[u64] =
    &[10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 15_000, 20_000, 30_000, 60_000, 300_000, 1_800_000];
/// Up to the largest cap in use; 50 and 200 are the default `min_fill` and `max_samples`.
const STATEMENT_SAMPLES: &[u64] = &[1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000];

const fn counter(name: &'static str, help: &'static str, read: fn(&View) -> u64) -> Metric {
    Metric { name, help, read: Read::Counter(read) }
}

const fn counter_by(
    name: &'static str,
    label: &'static str,
    help: &'static str,
    read: fn(&View) -> Labelled,
) -> Metric {
    Metric { name, help, read: Read::CounterBy(label, read) }
}

const fn gauge(name: &'static str, help: &'static str, read: fn(&View) -> u64) -> Metric {
    Metric { name, help, read: Read::Gauge(read) }
}

const fn gauge_by(name: &'static str, label: &'static str, help: &'static str, read: fn(&View) -> Labelled) -> Metric {
    Metric { name, help, read: Read::GaugeBy(label, read) }
}

const fn partition(name: &'static str, help: &'static str, read: fn(&PartitionView) -> Option<i64>) -> Metric {
    Metric { name, help, read: Read::Partition(read) }
}

const fn histogram(
    name: &'static str,
    help: &'static str,
    bounds: &'static [u64],
    per_unit: u32,
    read: fn(&View) -> &Distribution,
) -> Metric {
    Metric { name, help, read: Read::Histogram { read, bounds, per_unit } }
}

/// In the order of a record's way.
pub(super) const METRICS: &[Metric] = &[
    counter("records", "Kafka records taken by the shards", |v| v.shards.records),
    counter("record_bytes", "Bytes of keys and values polled from Kafka", |v| v.source.record_bytes),
    counter("readings", "Readings decoded from records", |v| v.shards.readings),
    counter_by("skipped", "reason", "Records and readings counted and dropped", |v| by_reason(&v.shards.skipped)),
    counter_by("dead_letters", "reason", "Dead letters that are durable", |v| by_reason(&v.shards.dead_letters)),
    counter("samples", "Samples that are durable in buckets", |v| v.shards.samples),
    counter("plans", "Plans handed to the writers", |v| v.shards.plans),
    counter_by("statements", "kind", "Statements sent; an insert is a bucket, an append adds to an open one", |v| {
        vec![("insert", v.sink.inserts), ("append", v.sink.appends), ("seal", v.sink.seals)]
    }),
    histogram("statement_samples", "Samples of each insert and append applied", STATEMENT_SAMPLES, 1, |v| {
        &v.shards.statement_samples
    }),
    histogram(
        "append_to_durable_seconds",
        "Time from a sample's arrival in memory until it is durable",
        LATENCY_MS,
        MS_PER_S,
        |v| &v.shards.append_to_durable_ms,
    ),
    counter("commands", "Commands sent to MongoDB, without resends", |v| v.sink.commands),
    counter("command_bytes", "Bytes of command bodies sent to MongoDB", |v| v.sink.command_bytes),
    counter_by("retries", "class", "Commands sent again, by what stood in the way", |v| v.sink.resends.to_vec()),
    counter("abandoned", "Calls given up at the deadline", |v| v.sink.abandoned),
    counter("fences", "Statements without effect, because somebody was here before", |v| v.sink.fences),
    counter("vanished", "Bucket tails that were gone or behind what had been confirmed", |v| v.sink.vanished),
    counter("refused", "Statements that the server would not take", |v| v.sink.refused),
    counter("tail_reads", "Bucket tails read", |v| v.sink.tail_reads),
    counter("ledger_commands", "Commands to the ledger", |v| v.sink.ledger_commands),
    counter("ledger_retries", "Updates of the ledger tried again", |v| v.sink.ledger_retries),
    partition("partition_lag_records", "Records in the log that are not durable yet", |p| p.lag.map(|lag| lag as i64)),
    partition("partition_position_offset", "Next offset to be polled", |p| p.of_mark(|m| m.position)),
    partition("partition_watermark_offset", "Least offset that is not durable yet", |p| p.of_mark(|m| m.watermark)),
    partition("partition_reserved_offset", "Least offset that may not be sent yet", |p| p.of_mark(|m| m.reserved)),
    gauge("partitions_assigned", "Partitions owned by this process", |v| v.source.partitions_assigned),
    gauge("partitions_stopped", "Owned partitions that wait for somebody to mend something", |v| {
        v.source.partitions_stopped
    }),
    gauge("partitions_stalled", "Owned partitions that have work and do not get on with it", |v| {
        v.source.partitions_stalled
    }),
    gauge("chains", "Chains in memory", |v| v.shards.chains),
    counter("evictions", "Chains forgotten to bound their table; each that comes back costs a fence", |v| {
        v.shards.evictions
    }),
    gauge("shards_paused", "Shards that are full, so that their partitions are paused", |v| v.source.shards_paused),
    gauge("shard_queue", "Record batches and hand-overs that wait for their shard", |v| v.shards.queued),
    gauge("plans_in_flight", "Plans on their way to MongoDB", |v| v.shards.plans_in_flight),
    gauge("open_chains", "Chains in memory whose tail may be appended to", |v| v.shards.open_chains),
    gauge("open_tail_bytes", "Bytes of these tails, which the server's cache has to hold", |v| {
        v.shards.open_tail_bytes
    }),
    gauge("cache_budget_bytes", "Bytes of open tails that this process may have", |v| v.source.cache_budget_bytes),
    counter_by("seals", "reason", "Open tails sealed before they were full", |v| by_reason(&v.shards.seals)),
    gauge("min_fill_samples", "Least samples of a delta that becomes a bucket of its own", |v| v.shards.min_fill),
    gauge_by("memory_bytes", "place", "Bytes of readings held in memory", memory),
    gauge("memory_budget_bytes", "Bytes that all places together may hold", |v| v.source.memory_budget_bytes),
    counter("rebalances", "Rebalances of the consumer group seen", |v| v.source.rebalances),
    counter("reassignments", "Partitions handed over again: offset lost, stepped back, or mended", |v| {
        v.source.reassignments
    }),
    counter("strays", "Records dropped because their partition was gone or stopped; they are read again", |v| {
        v.source.strays
    }),
    counter("pauses", "Times that partitions were paused because their shard stayed full", |v| v.source.pauses),
    counter("commits", "Offset commits sent to Kafka", |v| v.source.commits),
    counter("commit_errors", "Offset commits that Kafka refused; harmless to the data", |v| v.source.commit_errors),
    gauge("ready", "1 while /ready answers 200", |v| u64::from(v.source.is_ready)),
    gauge("start_time_seconds", "When this process started, in seconds since 1970", |v| v.source.started_s),
    Metric {
        name: "build",
        help: "What this program is made of; always 1",
        read: Read::Info(&[("version", env!("CARGO_PKG_VERSION")), ("commit", env!("BUILD_COMMIT"))]),
    },
];

/// Bytes held, by place; together they are what the budget bounds.
pub(super) fn memory(view: &View) -> Labelled {
    vec![
        ("librdkafka", view.source.librdkafka_bytes),
        ("arenas", view.source.arena_bytes),
        ("chains", view.shards.chain_bytes),
        ("deltas", view.shards.delta_bytes),
        ("bodies", view.sink.body_bytes),
    ]
}

fn by_reason(reasons: &BTreeMap<&'static str, u64>) -> Labelled {
    reasons.iter().map(|(reason, n)| (*reason, *n)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Name, type and labels as a scrape shows them, and the help text.
    fn row(metric: &Metric) -> [String; 4] {
        let (suffix, kind, labels) = match &metric.read {
            Read::Counter(_) => ("_total", "counter", String::new()),
            Read::CounterBy(label, _) => ("_total", "counter", format!("`{label}`")),
            Read::Gauge(_) => ("", "gauge", String::new()),
            Read::GaugeBy(label, _) => ("", "gauge", format!("`{label}`")),
            Read::Partition(_) => ("", "gauge", "`topic`, `partition`".to_owned()),
            Read::Histogram { .. } => ("", "histogram", String::new()),
            Read::Info(labels) => {
                let names: Vec<_> = labels.iter().map(|(name, _)| format!("`{name}`")).collect();
                ("_info", "gauge", names.join(", "))
            }
        };
        [format!("`sakia_{}{suffix}`", metric.name), kind.to_owned(), labels, metric.help.to_owned()]
    }

    fn documented() -> Vec<[String; 4]> {
        let page = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/metrics.md"));
        let rows = page.lines().filter(|line| line.starts_with("| `sakia_"));
        rows.map(|line| {
            let cells: Vec<_> = line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
            cells.try_into().expect("a row of four cells")
        })
        .collect()
    }

    #[test]
    fn the_page_lists_exactly_these_metrics() {
        let coded: Vec<_> = METRICS.iter().map(row).collect();
        for (row, page) in coded.iter().zip(documented()) {
            assert_eq!(*row, page, "docs/metrics.md differs; the row should be | {} |", row.join(" | "));
        }
        assert_eq!(coded.len(), documented().len(), "docs/metrics.md has too few or too many rows");
    }

    #[test]
    fn names_are_distinct_and_no_label_is_a_device() {
        let rows: Vec<_> = METRICS.iter().map(row).collect();
        let names: std::collections::BTreeSet<_> = rows.iter().map(|row| &row[0]).collect();
        assert_eq!(names.len(), rows.len());
        assert!(rows.iter().all(|row| !row[2].contains("device")));
    }
}
