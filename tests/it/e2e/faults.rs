//! A server that pauses, dies and comes back, and a backlog beyond the memory: nothing lost, nothing doubled, and no
//! more memory than was granted.

use std::time::{Duration, Instant};

use super::mongod::Mongod;
use super::pages::{LISTEN, Pages, anonymous_bytes};
use super::world::{NOON, Running, World, reading, until};

const MIB: u64 = 1024 * 1024;
/// What a process needs beside its budget: code, threads, clients, the allocator's slack.
const OVERHEAD: u64 = 150 * MIB;

/// Asserts that what the process counts and what the kernel counts are within the budget.
fn check_memory(running: &Running, pages: &Pages, budget: u64) {
    let counted = pages.sum("sakia_memory_bytes");
    // One batch may be under way when the budget is reached.
    assert!(counted <= budget + 4 * MIB, "{} MiB counted", counted / MIB);
    let anonymous = anonymous_bytes(running.pid());
    assert!(anonymous < budget + OVERHEAD, "{} MiB of anonymous memory", anonymous / MIB);
}

/// Records that are durable. Samples that a resent write finds stored are counted as replayed, not as samples.
fn n_durable(pages: &Pages) -> u64 {
    pages.sum("sakia_partition_watermark_offset")
}

/// Whether nothing moves although there is more to read: the memory is full.
fn is_choked(pages: &Pages) -> bool {
    pages.sum("sakia_memory_bytes") * 2 > pages.sum("sakia_memory_budget_bytes")
}

#[test]
fn a_server_paused_under_load_makes_it_unready_and_nothing_is_lost() {
    let mongod = Mongod::start();
    let mut world = World::beside("paused", 4, &mongod.uri());
    world.settings("[bucket]\nflush_age = \"300ms\"\n[flow]\nmemory_budget = \"64MiB\"\n");
    world.produce(&["--total", "20000", "--devices", "500"]);
    let running = world.start(&LISTEN);
    let pages = Pages::of(&running);
    until("it is ready", || pages.status("/ready") == 200);
    until("it stores", || pages.sum("sakia_samples_total") > 0);
    let paused = mongod.pause();
    let started = Instant::now();
    world.produce(&["--total", "600000", "--devices", "500"]);
    until("not ready", || pages.status("/ready") == 503);
    let reasons = pages.get("/ready").1;
    assert!(reasons.contains("mongodb does not answer"), "{reasons}");
    until("the memory fills", || is_choked(&pages));
    while started.elapsed() < Duration::from_secs(15) {
        check_memory(&running, &pages, 64 * MIB);
        assert_eq!(pages.status("/live"), 200, "a restart would not mend the server");
        std::thread::sleep(Duration::from_millis(250));
    }
    drop(paused);
    until("ready again", || pages.status("/ready") == 200);
    until("everything is stored", || {
        check_memory(&running, &pages, 64 * MIB);
        n_durable(&pages) == 620_000
    });
    running.stop();
    world.catch_up();
    world.check(&[]);
}

#[test]
fn a_server_killed_under_load_and_restarted_neither_loses_nor_doubles() {
    let mut mongod = Mongod::start();
    let mut world = World::beside("killed", 4, &mongod.uri());
    world.settings("[bucket]\nflush_age = \"300ms\"\n[flow]\nmemory_budget = \"64MiB\"\n");
    let running = world.start(&LISTEN);
    let pages = Pages::of(&running);
    for _ in 0..3 {
        let before = n_durable(&pages);
        world.produce(&["--total", "40000", "--devices", "500"]);
        until("in the middle of it", || n_durable(&pages) > before);
        mongod.kill_and_restart();
    }
    until("everything is stored", || n_durable(&pages) == 120_000);
    running.stop();
    world.catch_up();
    world.check(&[]);
}

#[test]
fn a_backlog_far_beyond_the_memory_is_stored_within_it() {
    let mut world = World::new("backlog", 4);
    world.settings("[flow]\nmemory_budget = \"32MiB\"\n");
    world.produce(&["--total", "300000", "--devices", "2000"]);
    let running = world.start(&LISTEN);
    let pages = Pages::of(&running);
    until("everything is stored", || {
        check_memory(&running, &pages, 32 * MIB);
        n_durable(&pages) == 300_000
    });
    running.stop();
    world.check(&[]);
}

/// <https://github.com/vectordotdev/vector/issues/20939>: a backlog of many devices on many partitions, each with little.
#[test]
fn case_27_a_backlog_of_many_devices_is_stored_within_the_memory() {
    let mut world = World::new("devices", 64);
    world.settings("[bucket]\nflush_age = \"1s\"\n[flow]\nmemory_budget = \"16MiB\"\n");
    world.produce(&["--total", "20000", "--devices", "10000", "--span", "12h"]);
    let running = world.start(&LISTEN);
    let pages = Pages::of(&running);
    until("everything is stored", || {
        check_memory(&running, &pages, 16 * MIB);
        n_durable(&pages) == 20_000
    });
    running.stop();
    world.check(&[]);
}

#[test]
fn asked_to_stop_while_the_server_stands_still_it_ends_in_time_and_says_what_is_left() {
    let mongod = Mongod::start();
    let mut world = World::beside("stopping", 2, &mongod.uri());
    world.settings("[bucket]\nflush_age = \"100ms\"\n[flow]\ndrain_timeout = \"2s\"\n");
    for signal in ["TERM", "INT"] {
        let running = world.start(&LISTEN);
        let pages = Pages::of(&running);
        world.produce(&["--total", "1000", "--devices", "50"]);
        until("it stores", || pages.sum("sakia_samples_total") > 0);
        let paused = mongod.pause();
        let position = pages.sum("sakia_partition_position_offset");
        world.produce(&["--total", "1000", "--devices", "50"]);
        until("it reads on", || pages.sum("sakia_partition_position_offset") > position);
        let asked = Instant::now();
        running.signal(signal);
        let (status, log) = running.wait();
        assert!(asked.elapsed() < Duration::from_secs(6), "{signal} took {:?}:\n{log}", asked.elapsed());
        assert_eq!(status.code(), Some(0), "{log}");
        assert!(log.contains("will be read again") && log.contains("n_records="), "{log}");
        drop(paused);
    }
    world.catch_up();
    world.check(&[]);
}

#[test]
fn asked_for_everything_and_stopped_before_it_ends_in_time_and_claims_no_success() {
    let mongod = Mongod::start();
    let mut world = World::beside("unfinished", 1, &mongod.uri());
    world.settings("[bucket]\nflush_age = \"100ms\"\n[flow]\ndrain_timeout = \"1s\"\n");
    world.send([reading(0, "d", NOON, 1.0)]);
    world.catch_up();
    world.send((1..100).map(|i| reading(0, "d", NOON + i, 1.0)));
    let running = world.start(&["--until-caught-up", LISTEN[0], LISTEN[1]]);
    // It has opened its ledger, and cannot get its partition while the server stands still.
    running.until_log("serving /metrics");
    let paused = mongod.pause();
    running.until_log("partitions assigned");
    let asked = Instant::now();
    running.signal("TERM");
    let (status, log) = running.wait();
    assert!(asked.elapsed() < Duration::from_secs(6), "took {:?}:\n{log}", asked.elapsed());
    assert_eq!(status.code(), Some(1), "{log}");
    drop(paused);
    world.catch_up();
    assert_eq!(world.n_samples(), 100);
}
