//! What a scrape shows of what was published.

use std::collections::BTreeMap;

use super::*;
use crate::telemetry::counts::{PartitionLag, PartitionMark};

fn mark(partition: i32, position: i64) -> PartitionMark {
    PartitionMark { topic: "readings".into(), partition, position, watermark: position - 5, reserved: position + 5 }
}

fn shard(readings: u64, marks: Vec<PartitionMark>) -> ShardCounts {
    let mut counts = ShardCounts { readings, marks, delta_bytes: 100, ..ShardCounts::default() };
    counts.dead_letters = BTreeMap::from([("malformed", 2)]);
    counts.append_to_durable_ms.record_n(40, 3);
    counts.statement_samples.record_n(10, 2);
    counts
}

/// Each line has to be on the page, whole.
#[track_caller]
fn check(metrics: &Metrics, lines: &[&str]) {
    let page = metrics.page();
    for line in lines {
        assert!(page.lines().any(|found| found == *line), "no line {line:?} in\n{page}");
    }
}

#[test]
fn shards_add_up_and_totals_are_not_counted_twice() {
    let metrics = Metrics::new(2);
    metrics.publish_shard(0, &shard(7, vec![]));
    metrics.publish_shard(1, &shard(5, vec![]));
    metrics.publish_shard(1, &shard(6, vec![]));
    check(
        &metrics,
        &[
            "# HELP sakia_readings_total Readings decoded from records",
            "# TYPE sakia_readings_total counter",
            "sakia_readings_total 13",
            "sakia_dead_letters_total{reason=\"malformed\"} 4",
            "sakia_memory_bytes{place=\"deltas\"} 200",
            "sakia_append_to_durable_seconds_bucket{le=\"0.025\"} 0",
            "sakia_append_to_durable_seconds_bucket{le=\"0.05\"} 6",
            "sakia_append_to_durable_seconds_bucket{le=\"+Inf\"} 6",
            "sakia_append_to_durable_seconds_count 6",
            "sakia_append_to_durable_seconds_sum 0.24",
            "sakia_statement_samples_bucket{le=\"10\"} 4",
            concat!(
                "sakia_build_info{version=\"",
                env!("CARGO_PKG_VERSION"),
                "\",commit=\"",
                env!("BUILD_COMMIT"),
                "\"} 1"
            ),
        ],
    );
}

#[test]
fn a_revoked_partition_leaves_no_series() {
    let metrics = Metrics::new(1);
    let lag = |partition, records| PartitionLag { topic: "readings".into(), partition, records };
    metrics.publish_shard(0, &shard(0, vec![mark(0, 50), mark(1, 60)]));
    metrics.publish_source(&SourceGauges { lags: vec![lag(0, Some(9)), lag(1, None)], ..SourceGauges::default() });
    check(
        &metrics,
        &[
            "sakia_partition_position_offset{topic=\"readings\",partition=\"1\"} 60",
            "sakia_partition_watermark_offset{topic=\"readings\",partition=\"0\"} 45",
            "sakia_partition_reserved_offset{topic=\"readings\",partition=\"0\"} 55",
            "sakia_partition_lag_records{topic=\"readings\",partition=\"0\"} 9",
        ],
    );
    assert!(!metrics.page().contains("sakia_partition_lag_records{topic=\"readings\",partition=\"1\"}"));

    metrics.publish_shard(0, &shard(0, vec![mark(1, 61)]));
    metrics.publish_source(&SourceGauges::default());
    assert!(!metrics.page().contains("partition=\"0\""));
}

#[test]
fn a_partition_listed_twice_is_one_series() {
    let metrics = Metrics::new(2);
    metrics.publish_shard(0, &shard(0, vec![mark(0, 50)]));
    metrics.publish_shard(1, &shard(0, vec![mark(0, 51)]));
    assert_eq!(metrics.page().matches("sakia_partition_position_offset{").count(), 1);
}

#[test]
fn odd_topic_names_are_escaped() {
    let metrics = Metrics::new(1);
    let odd = PartitionMark { topic: "a\"b\\c".into(), ..mark(0, 10) };
    metrics.publish_shard(0, &shard(0, vec![odd]));
    check(&metrics, &["sakia_partition_position_offset{topic=\"a\\\"b\\\\c\",partition=\"0\"} 10"]);
}

#[test]
fn every_metric_is_on_the_page_before_anything_happened() {
    let page = Metrics::new(1).page();
    let documented = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/metrics.md"));
    let names = documented.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    for name in names.filter(|name| name.starts_with("sakia_")) {
        assert!(page.contains(&format!("# TYPE {name} ")), "{name} is documented but not served");
    }
}

#[test]
fn the_summary_sums_lag_and_memory() {
    let metrics = Metrics::new(1);
    metrics.publish_shard(0, &shard(7, vec![]));
    let lag = |partition, records| PartitionLag { topic: "readings".into(), partition, records };
    metrics.publish_source(&SourceGauges {
        librdkafka_bytes: 1,
        arena_bytes: 10,
        memory_budget_bytes: 1000,
        lags: vec![lag(0, Some(3)), lag(1, Some(4)), lag(2, None)],
        ..SourceGauges::default()
    });
    metrics.publish_sink(&SinkTotals { inserts: 2, body_bytes: 1000, ..SinkTotals::default() });
    let summary = metrics.summary();
    assert_eq!((summary.readings, summary.buckets, summary.lag_records), (7, 2, 7));
    assert_eq!((summary.memory_bytes, summary.memory_budget_bytes), (1111, 1000));
}
