//! Public reports about comparable systems, each held against this one.

use std::time::{Duration, Instant};

use mongodb::bson::{Bson, Document, doc};

use super::mongod::Mongod;
use super::pages::{LISTEN, Pages};
use super::world::{NOON, SHORT_SESSION, Sent, World, reading, until};

/// Samples wait in memory until something else than age or number has them written.
const PATIENT: &str = "[bucket]\nflush_age = \"1h\"\nmax_samples = 10000\nflush_samples = 10000\n";

pub(super) fn record(device: &str, at: i64, fields: &str) -> Sent {
    let value = format!(r#"{{"deviceid":"{device}","ts":{at},{fields}}}"#);
    Sent { partition: 0, key: device.to_owned(), value: Some(value.into_bytes()), timestamp: at }
}

/// The `info` of every sample, in the order of buckets and samples.
pub(super) fn infos(world: &World) -> Vec<Document> {
    let samples = |d: &Document| d.get_array("samples").unwrap().clone();
    let info = |s: Bson| s.as_document().unwrap().get_document("info").unwrap().clone();
    world.buckets().iter().flat_map(samples).map(info).collect()
}

/// Offset and reason of every dead letter.
pub(super) fn letters(world: &World) -> Vec<(i64, String)> {
    let letter = |d: &Document| (d.get_i64("offset").unwrap(), d.get_str("reason").unwrap().to_owned());
    world.dead().iter().map(letter).collect()
}

/// Records that the group has committed.
fn n_committed(world: &World, n_partitions: i32) -> i64 {
    world.committed(n_partitions).into_iter().flatten().sum()
}

/// The reference article's sample document: `date` says 2019-11-10, the second is one of 2019-11-15.
#[test]
fn case_01_two_contradictory_dates_in_one_reading() {
    let mut world = World::new("case_01", 1);
    world.decoder("timestamp_format = \"unix\"");
    let value = r#"{"deviceid":1,"ts":1573833152,"date":"2019-11-10","temp":20}"#;
    let timestamp = 1_573_833_153_000;
    world.send([Sent { partition: 0, key: "1".to_owned(), value: Some(value.into()), timestamp }]);
    world.catch_up();
    let bucket = &world.buckets()[0];
    assert_eq!(bucket.get_str("deviceid").unwrap(), "1");
    assert_eq!(bucket.get_datetime("date").unwrap().try_to_rfc3339_string().unwrap(), "2019-11-15T00:00:00Z");
    // What the producer claims is a field like any other; nothing of the bucket follows it.
    assert_eq!(infos(&world), [doc! { "date": "2019-11-10", "temp": 20 }]);
}

/// <https://github.com/redpanda-data/connect/pull/4009>: loss on a cooperative rebalance, buffers partly full.
#[test]
fn case_03_revoked_with_buffers_partly_full() {
    for drain in ["20s", "0s"] {
        let mut world = World::new("case_03", 4);
        world.settings(&format!("{PATIENT}{SHORT_SESSION}[flow]\ndrain_timeout = \"{drain}\"\n"));
        world.produce(&["--total", "8000", "--devices", "100"]);
        let first = world.start(&LISTEN);
        let pages = Pages::of(&first);
        until("everything is in memory", || pages.sum("sakia_partition_position_offset") >= 8_000);
        assert_eq!(world.n_samples(), 0, "nothing is due");
        let second = world.start(&[]);
        until("two partitions went over", || pages.sum("sakia_partitions_assigned") == 2);
        if drain == "0s" {
            assert_eq!(n_committed(&world, 4), 0, "dropped, so not committed");
        } else {
            until("what was revoked is stored", || world.n_samples() > 0);
        }
        // Whatever is left in their memories is lost to them.
        first.kill();
        second.kill();
        world.catch_up();
        world.check(&[]);
    }
}

/// <https://github.com/redpanda-data/connect/pull/4477>: a write still under way when the revoke returns, its answer late.
#[test]
fn case_04_an_answer_after_the_revoke_commits_nothing() {
    let mongod = Mongod::start();
    let mut world = World::beside("case_04", 2, &mongod.uri());
    world.settings("[bucket]\nflush_age = \"100ms\"\n[flow]\ndrain_timeout = \"1s\"\n");
    world.send((0..2).map(|p| reading(p, "d", NOON, 0.0)));
    let first = world.start(&LISTEN);
    let pages = Pages::of(&first);
    until("both are committed", || world.committed(2) == [Some(1); 2]);
    // It may open its ledger, but not join the group before the server stands still.
    let second = world.start(&LISTEN);
    second.until_log("serving /metrics");
    let paused = mongod.pause();
    world.send((0..200).map(|i| reading(i % 2, "d", NOON + 1 + i64::from(i), 1.0)));
    first.until_log("partitions revoked");
    until("the revoke is over", || pages.sum("sakia_partitions_assigned") == 1);
    let before = world.committed(2);
    drop(paused);
    until("all is committed", || {
        let now = world.committed(2);
        assert!(now.iter().zip(&before).all(|(now, before)| now >= before), "{before:?} went back to {now:?}");
        now == [Some(101); 2]
    });
    second.stop();
    first.stop();
    assert_eq!((world.n_samples(), world.committed(2)), (202, vec![Some(101); 2]));
}

/// <https://github.com/Altinity/clickhouse-sink-connector/issues/1299>: committed before the write was confirmed.
#[test]
fn case_06_commit_before_write_confirmed() {
    let mut world = World::new("case_06", 1);
    world.settings(&format!("{PATIENT}{SHORT_SESSION}"));
    world.send((0..100).map(|i| reading(0, "d", NOON + i, i as f64)));
    let running = world.start(&LISTEN);
    let pages = Pages::of(&running);
    until("all are in memory", || pages.sum("sakia_partition_position_offset") == 100);
    assert_eq!((world.n_samples(), n_committed(&world, 1)), (0, 0));
    running.kill();
    assert_eq!(n_committed(&world, 1), 0);
    world.catch_up();
    let temps: Vec<_> = infos(&world).iter().map(|info| info.get_i32("temp").unwrap()).collect();
    assert_eq!(temps, (0..100).collect::<Vec<_>>());
    assert_eq!(world.committed(1), [Some(100)]);
}

/// <https://github.com/delta-io/kafka-delta-ingest/issues/67>: only offset 0 was read before a rebalance.
#[test]
fn case_07_resumes_after_offset_0() {
    let world = World::new("case_07", 1);
    world.send([reading(0, "d", NOON, 0.0)]);
    let first = world.start(&LISTEN);
    until("the first is stored", || world.n_samples() == 1);
    let second = world.start(&LISTEN);
    let pages = Pages::of(&second);
    until("it is a member", || pages.sum("sakia_rebalances_total") >= 1);
    first.stop();
    until("the partition went over", || pages.sum("sakia_partitions_assigned") == 1);
    world.send([reading(0, "d", NOON + 1, 1.0)]);
    until("the second is stored", || world.n_samples() == 2);
    second.stop();
    assert_eq!(infos(&world), [doc! { "temp": 0 }, doc! { "temp": 1 }]);
    assert_eq!(world.committed(1), [Some(2)]);
}

/// <https://github.com/logstash-plugins/logstash-output-mongodb/issues/86>: a duplicate key on every try, for ever.
#[test]
fn case_10_a_duplicate_on_every_try_stops_one_partition_and_no_other() {
    let world = World::new("case_10", 2);
    world.send((0..2).map(|p| reading(p, "both", NOON, 0.0)));
    let running = world.start(&LISTEN);
    let pages = Pages::of(&running);
    until("both are stored", || world.n_samples() == 2);
    // A unique index of somebody's own: the second bucket of one device is refused on every try.
    let index = doc! {
        "key": { "deviceid": 1, "schema": 1 }, "name": "mine", "unique": true,
        "partialFilterExpression": { "deviceid": "twice" },
    };
    world.command(doc! { "createIndexes": "readings", "indexes": [index] });
    let day = 86_400_000;
    world.send([reading(0, "twice", NOON, 0.0), reading(0, "twice", NOON + day, 1.0), reading(1, "both", NOON, 1.0)]);
    until("its partition stops", || pages.sum("sakia_partitions_stopped") == 1);
    until("the other goes on", || world.n_samples() >= 4);
    let (status, reasons) = pages.get("/ready");
    assert_eq!(status, 503);
    assert!(reasons.contains("/0 is stopped") && reasons.contains("drop that index"), "{reasons}");
    assert!(pages.sum("sakia_retries_total") < 5, "tried again and again");
    running.stop();
    world.command(doc! { "dropIndexes": "readings", "index": "mine" });
    world.catch_up();
    assert_eq!(world.n_samples(), 5);
}

/// <https://github.com/fluent/fluent-plugin-mongo/pull/206>: more than the server takes at once, tried for ever.
#[test]
fn case_11_more_than_the_server_takes_is_split_and_too_large_alone_is_a_dead_letter() {
    let mut world = World::new("case_11", 1);
    world.settings(
        "[bucket]\nflush_age = \"1s\"\nmax_samples = 1000\ntarget_bytes = \"15MiB\"\nmax_sample_bytes = \"600KiB\"\n",
    );
    let sized = |i: i64, n: usize| record("d", NOON + i, &format!(r#""text":"{}""#, "x".repeat(n)));
    // 40 MB of one device at once.
    world.send((0..80).map(|i| sized(i, if i == 7 { 900_000 } else { 500_000 })));
    world.catch_up();
    assert_eq!(world.n_samples(), 79);
    let sizes: Vec<_> = world.buckets().iter().map(|d| d.to_vec().unwrap().len()).collect();
    assert!(sizes.iter().all(|n| *n <= 15 << 20), "{sizes:?}");
    assert_eq!(letters(&world), [(7, "too_large".to_owned())]);
}

/// <https://github.com/apache/flink-connector-mongodb/pull/12>: the last records wait for one that never comes.
#[test]
fn case_25_the_last_records_are_stored_without_a_next_one() {
    let mut world = World::new("case_25", 1);
    world.settings("[bucket]\nflush_age = \"1s\"\n");
    let running = world.start(&LISTEN);
    let pages = Pages::of(&running);
    until("it owns the partition", || pages.sum("sakia_partitions_assigned") == 1);
    world.send((0..37).map(|i| reading(0, "d", NOON + i, i as f64)));
    let sent = Instant::now();
    until("all are stored", || world.n_samples() == 37);
    assert!(sent.elapsed() < Duration::from_secs(3), "{:?}", sent.elapsed());
    running.stop();
}
