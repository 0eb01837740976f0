//! Groups that grow and shrink under load. Whoever holds a partition, each reading is stored once. How long hand-overs
//! take is printed; only what would be absurd is asserted, since machines differ.

use std::io::Write as _;
use std::thread;
use std::time::Duration;

use mongodb::bson::{Bson, doc};

use super::marks::{check_commits, n_durable};
use super::members::until_it_has_partitions;
use super::world::{Running, World, until};

const SETTINGS: &str = "[kafka.options]\n\"heartbeat.interval.ms\" = \"500\"\n[bucket]\nflush_age = \"1s\"\n";

fn world(purpose: &str, n_partitions: i32) -> World {
    let mut world = World::new(purpose, n_partitions);
    world.settings(SETTINGS);
    world
}

/// A member that has partitions.
fn joined(world: &World) -> Running {
    let member = world.start(&[]);
    until_it_has_partitions(&member);
    member
}

/// The longest that a member took to take partitions over and to give them up, in milliseconds, by its log.
fn longest_ms(logs: &[String], what: &str) -> u64 {
    let of = |line: &str| {
        let (_, rest) = line.contains(what).then(|| line.split_once("took_ms="))??;
        rest.split_whitespace().next()?.parse().ok()
    };
    logs.iter().flat_map(|log| log.lines()).filter_map(of).max().unwrap_or(0)
}

/// Prints how long partitions were without an owner. The limits are those of a stall, not of a slow machine.
fn report(purpose: &str, logs: &[String]) {
    let (taken, given) = (longest_ms(logs, "partitions handed over"), longest_ms(logs, "partitions given up"));
    writeln!(std::io::stderr(), "{purpose}: longest take-over {taken} ms, longest hand-back {given} ms").ok();
    assert!(taken < 60_000 && given < 30_000, "take-over {taken} ms, hand-back {given} ms");
}

/// Waits until `n_records` are stored, and finds no commit ahead of it on the way.
fn until_stored(world: &World, n_partitions: i32, n_records: i64) {
    until("the end of the topic", || {
        check_commits(world, n_partitions);
        n_durable(world, n_partitions) == n_records
    });
}

fn load(n_records: i64) -> Vec<String> {
    let load = format!("--total={n_records} --rate=3000 --devices=500 --poison=0.001 --disorder=0.02 --late=0.005");
    load.split(' ').map(str::to_owned).collect()
}

/// Runs `members` while `n_records` are produced, then checks that all are stored once.
fn under_load(world: &World, n_partitions: i32, n_records: i64, members: impl FnOnce() -> Vec<Running>) {
    let load = load(n_records);
    let load: Vec<&str> = load.iter().map(String::as_str).collect();
    thread::scope(|scope| {
        let producing = scope.spawn(|| world.produce(&load));
        let left = members();
        producing.join().unwrap();
        until_stored(world, n_partitions, n_records);
        for member in left {
            member.stop();
        }
    });
    world.check(&[]);
}

#[test]
fn two_to_six_members_that_join_and_leave_store_each_reading_once() {
    let world = world("members", 12);
    under_load(&world, 12, 30_000, || {
        let mut members = vec![joined(&world), joined(&world)];
        members.extend((2..6).map(|_| world.start(&[])));
        members.iter().skip(2).for_each(until_it_has_partitions);
        let mut logs = Vec::new();
        while members.len() > 2 {
            logs.push(members.swap_remove(fastrand::usize(..members.len())).stop());
        }
        logs.extend(members.iter().map(Running::log));
        report("2 to 6 to 2 members", &logs);
        members
    });
}

#[test]
fn a_rolling_restart_under_load_stores_each_reading_once() {
    let world = world("rolling", 6);
    under_load(&world, 6, 24_000, || {
        let mut old = vec![joined(&world)];
        old.extend((1..3).map(|_| world.start(&[])));
        old.iter().for_each(until_it_has_partitions);
        let mut logs = Vec::new();
        let mut new = Vec::new();
        for member in old {
            // One more than needed, then one less, as a deployment that surges does it.
            new.push(joined(&world));
            logs.push(member.stop());
        }
        report("rolling restart of 3 members", &logs);
        new
    });
}

/// <https://github.com/vectordotdev/vector/issues/12084>: two members, a third in mid-flush, then one is left.
#[test]
fn case_02_scaling_from_two_to_three_to_one_stores_each_reading_once() {
    let world = world("two_three_one", 6);
    under_load(&world, 6, 24_000, || {
        let (first, second) = (joined(&world), joined(&world));
        let third = joined(&world);
        thread::sleep(Duration::from_millis(fastrand::u64(..1_000)));
        let logs = [first.stop(), third.stop()];
        report("2 to 3 to 1 members", &logs);
        vec![second]
    });
}

/// Writes to the ledger, as the server counts them.
fn ledger_writes(world: &World) -> i64 {
    let stats = doc! { "$collStats": { "latencyStats": {} } };
    let answer = world.command(doc! { "aggregate": "readings_ledger", "pipeline": [stats], "cursor": {} });
    let first =
        answer.get_document("cursor").unwrap().get_array("firstBatch").unwrap()[0].as_document().unwrap().clone();
    let writes = first.get_document("latencyStats").unwrap().get_document("writes").unwrap().clone();
    writes.get("ops").and_then(Bson::as_i64).unwrap()
}

#[test]
fn sixty_four_partitions_change_hands_quickly_and_burden_the_ledger_little() {
    const N: i32 = 64;
    let world = world("many", N);
    under_load(&world, N, 30_000, || {
        let first = joined(&world);
        until("all partitions are written", || world.ledger().len() == N as usize);
        let before = ledger_writes(&world);
        thread::sleep(Duration::from_secs(3));
        let a_second = (ledger_writes(&world) - before) / 3;
        writeln!(std::io::stderr(), "64 partitions: {a_second} writes a second to the ledger").ok();
        let second = joined(&world);
        report("64 partitions", &[first.log(), second.log()]);
        vec![first, second]
    });
}
