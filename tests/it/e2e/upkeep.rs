//! What is kept in bounded places, and partitions that must get on: chains that leave and come back, open buckets within
//! the server's cache, windows that the server deletes, a partition that is handed back while the server is slow.

use std::time::Duration;

use mongodb::bson::{Bson, Document, doc};
use rdkafka::consumer::{BaseConsumer, Consumer};

use super::marks::n_durable;
use super::pages::{LISTEN, Pages};
use super::relay::Relay;
use super::world::{NOON, SHORT_SESSION, World, client, reading, until};

const MIB: u64 = 1024 * 1024;

fn is_open(bucket: &Document) -> bool {
    bucket.get_bool("open").unwrap_or(false)
}

/// The one value of a series, such as `sakia_seals_total{reason="chain_table"}`.
fn value(pages: &Pages, series: &str) -> u64 {
    let page = pages.get("/metrics").1;
    let line = page.lines().find_map(|line| line.strip_prefix(series));
    line.map_or(0, |rest| rest.trim().parse().unwrap())
}

#[test]
fn chains_beyond_the_table_leave_and_come_back() {
    let mut world = World::new("evictions", 2);
    world.settings("[bucket]\nflush_age = \"200ms\"\n[flow]\nmemory_budget = \"16MiB\"\nshards = 1\n");
    let running = world.start(&LISTEN);
    let pages = Pages::of(&running);
    for round in 1..=2 {
        world.produce(&["--total=12000", "--devices=12000", "--start=2026-11-15T12:00:00Z"]);
        until("a round is stored", || pages.sum("sakia_partition_watermark_offset") == round * 12_000);
    }
    let table = 16 * MIB * 5 / 8 / 3;
    until("the table fits", || value(&pages, "sakia_memory_bytes{place=\"chains\"}") <= table);
    assert!(pages.sum("sakia_evictions_total") > 1_000, "{}", pages.get("/metrics").1);
    assert!(pages.sum("sakia_tail_reads_total") > 0, "{}", pages.get("/metrics").1);
    assert!(value(&pages, "sakia_seals_total{reason=\"chain_table\"}") > 0, "{}", pages.get("/metrics").1);
    // The last ones may be on their way to be sealed, and what is known is told once a second.
    until("the open buckets are those that are known", || {
        let known = pages.sum("sakia_open_chains");
        world.buckets().iter().filter(|bucket| is_open(bucket)).count() as u64 == known
    });
    running.stop();
    world.check(&[]);
}

#[test]
fn open_buckets_stay_within_the_cache_budget() {
    let mut world = World::new("cache", 2);
    world.settings("[bucket]\nflush_age = \"200ms\"\n[flow]\ncache_budget = \"1MiB\"\nshards = 1\n");
    let running = world.start(&LISTEN);
    let pages = Pages::of(&running);
    world.produce(&["--total=12000", "--devices=4000"]);
    until("everything is stored", || pages.sum("sakia_partition_watermark_offset") == 12_000);
    until("the open tails fit", || pages.sum("sakia_open_tail_bytes") <= MIB);
    assert_eq!(pages.sum("sakia_cache_budget_bytes"), MIB);
    assert!(value(&pages, "sakia_seals_total{reason=\"cache_budget\"}") > 0, "{}", pages.get("/metrics").1);
    let open: Vec<_> = world.buckets().into_iter().filter(is_open).collect();
    assert_eq!(open.len() as u64, pages.sum("sakia_open_chains"));
    let n_bytes: usize = open.iter().map(|bucket| bucket.to_vec().unwrap().len()).sum();
    let (n_bytes, booked) = (n_bytes as u64, pages.sum("sakia_open_tail_bytes"));
    assert!(n_bytes > 0 && n_bytes <= booked, "{n_bytes} bytes are open, {booked} are booked");
    running.stop();
    world.check(&[]);
}

#[test]
fn the_servers_cache_is_shared_by_partitions() {
    let world = World::new("share", 4);
    let status = world.command(doc! { "serverStatus": 1 });
    let cache = status.get_document("wiredTiger").unwrap().get_document("cache").unwrap();
    let half = match cache.get("maximum bytes configured").unwrap() {
        Bson::Int32(n) => *n as u64 / 2,
        Bson::Int64(n) => *n as u64 / 2,
        Bson::Double(n) => *n as u64 / 2,
        other => panic!("{other}"),
    };
    let first = world.start(&LISTEN);
    let pages = Pages::of(&first);
    until("all of it", || pages.sum("sakia_cache_budget_bytes") == half);
    let second = world.start(&[]);
    until("half of it", || pages.sum("sakia_cache_budget_bytes") == half / 4 * 2);
    second.stop();
    first.stop();
}

#[test]
fn windows_past_their_time_to_live_are_skipped_and_counted() {
    let mut world = World::new("expired", 1);
    world.settings("[bucket]\nflush_age = \"200ms\"\n[storage]\nttl = \"2d\"\n");
    let hello = world.command(doc! { "hello": 1 });
    let now = hello.get_datetime("localTime").unwrap().timestamp_millis();
    world.send([reading(0, "d", NOON, 1.0), reading(0, "d", now, 2.0), reading(0, "d", now - 3 * 86_400_000, 3.0)]);
    let running = world.start(&LISTEN);
    let pages = Pages::of(&running);
    until("all is settled", || pages.sum("sakia_partition_watermark_offset") == 3);
    assert_eq!(value(&pages, "sakia_skipped_total{reason=\"expired\"}"), 2);
    running.stop();
    assert_eq!((world.n_samples(), world.dead().len()), (1, 0));
    assert_eq!(n_durable(&world, 1), 3);
}

/// <https://github.com/vectordotdev/vector/issues/22006>: a slow sink, the drain's time passes, and the same partitions
/// are handed back at once.
#[test]
fn case_05_a_partition_handed_back_while_the_sink_is_slow_goes_on() {
    let relay = Relay::start();
    let mut world = World::beside("case_05", 2, &relay.uri());
    world.settings(&format!("[bucket]\nflush_age = \"100ms\"\n[flow]\ndrain_timeout = \"1s\"\n{SHORT_SESSION}"));
    let running = world.start(&LISTEN);
    let pages = Pages::of(&running);
    world.produce(&["--total=1000", "--devices=50"]);
    until("it stores", || pages.sum("sakia_partition_watermark_offset") == 1_000);
    relay.freeze();
    world.produce(&["--total=1000", "--devices=50"]);
    until("it reads on", || pages.sum("sakia_partition_position_offset") > 1_000);
    let guest: BaseConsumer = client()
        .set("group.id", &world.name)
        .set("partition.assignment.strategy", "cooperative-sticky")
        .set("session.timeout.ms", "6000")
        .create()
        .unwrap();
    guest.subscribe(&[&world.name]).unwrap();
    until("a partition goes to the guest", || {
        guest.poll(Duration::from_millis(50));
        guest.assignment().unwrap().count() == 1
    });
    guest.unsubscribe();
    drop(guest);
    until("it is back", || running.log().matches("partitions assigned").count() >= 3);
    relay.thaw();
    until("everything is stored", || pages.sum("sakia_partition_watermark_offset") == 2_000);
    world.produce(&["--total=1000", "--devices=50"]);
    until("it goes on", || pages.sum("sakia_partition_watermark_offset") == 3_000);
    until("it is ready", || pages.status("/ready") == 200);
    running.stop();
    world.check(&[]);
}
