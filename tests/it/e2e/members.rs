//! Members that join and leave a group under load. Whoever holds a partition, each reading is stored once.

use std::thread;
use std::time::Duration;

use super::marks::{check_commits, n_durable, n_reserved};
use super::world::{Running, World, until};

const N_PARTITIONS: i32 = 6;
const LOAD: [&str; 5] = ["--total=24000", "--rate=3000", "--devices=200", "--poison=0.001", "--disorder=0.02"];
const N_RECORDS: i64 = 24_000;

/// Buffers are partly full most of the time. The group misses a dead member as soon as the broker allows.
const SETTINGS: &str = r#"
[kafka.options]
"session.timeout.ms" = "6000"
"heartbeat.interval.ms" = "500"
[bucket]
flush_age = "1s"
"#;

fn world(purpose: &str, more: &str) -> World {
    let mut world = World::new(purpose, N_PARTITIONS);
    world.settings(&format!("{SETTINGS}{more}"));
    world
}

pub(super) fn until_it_has_partitions(member: &Running) {
    let has = |line: &str| line.contains("partitions assigned") && !line.contains("n_partitions=0");
    until("partitions of the new member", || member.log().lines().any(has));
}

/// Waits until everything is stored, and finds no commit ahead of it on the way.
fn until_all_is_stored(world: &World) {
    until("the end of the topic", || {
        check_commits(world, N_PARTITIONS);
        n_durable(world, N_PARTITIONS) == N_RECORDS
    });
}

/// <https://github.com/vectordotdev/vector/issues/12084>: one member, scaled to three in mid-flush, then back.
#[test]
fn case_02_scaling_to_three_members_and_back_stores_each_reading_once() {
    let world = world("scaling", "");
    thread::scope(|scope| {
        let producing = scope.spawn(|| world.produce(&LOAD));
        let first = world.start(&[]);
        first.until_log("partitions assigned");
        let others = [world.start(&[]), world.start(&[])];
        others.iter().for_each(until_it_has_partitions);
        check_commits(&world, N_PARTITIONS);
        for member in others {
            member.stop();
        }
        producing.join().unwrap();
        until_all_is_stored(&world);
        first.stop();
    });
    world.check(&[]);
}

#[test]
fn a_member_that_is_killed_under_load_leaves_its_partitions_to_the_other() {
    let world = world("widow", "");
    thread::scope(|scope| {
        let producing = scope.spawn(|| world.produce(&LOAD));
        let stays = world.start(&[]);
        let dies = world.start(&[]);
        until_it_has_partitions(&stays);
        until_it_has_partitions(&dies);
        thread::sleep(Duration::from_millis(fastrand::u64(100..1500)));
        dies.kill();
        producing.join().unwrap();
        until_all_is_stored(&world);
        stays.stop();
    });
    world.check(&[]);
}

/// A partition is taken away while its buffers are partly full, and there is no time to write them: nothing of them is
/// committed, and its next owner reads them again.
#[test]
fn what_is_dropped_on_revocation_is_stored_by_the_next_owner() {
    let world = world("dropped", "flush_samples = 200\n[flow]\ndrain_timeout = \"0s\"\n");
    thread::scope(|scope| {
        let producing = scope.spawn(|| world.produce(&LOAD));
        let first = world.start(&[]);
        first.until_log("partitions assigned");
        let second = world.start(&[]);
        until_it_has_partitions(&second);
        check_commits(&world, N_PARTITIONS);
        // Its end is as hasty: it leaves without writing what it holds.
        let log = first.stop();
        assert!(log.contains("read again"), "{log}");
        check_commits(&world, N_PARTITIONS);
        producing.join().unwrap();
        until_all_is_stored(&world);
        second.stop();
    });
    world.check(&[]);
}

/// The group gives up a member that hangs, and another one writes what it held. When it wakes, it still believes to own
/// its partitions, and sends what it has.
#[test]
fn a_member_that_sleeps_through_its_expulsion_doubles_nothing() {
    let world = world("sleeper", "");
    thread::scope(|scope| {
        let producing = scope.spawn(|| world.produce(&LOAD));
        let sleeper = world.start(&[]);
        sleeper.until_log("partitions assigned");
        until("records held", || n_reserved(&world, N_PARTITIONS) > n_durable(&world, N_PARTITIONS));
        sleeper.signal("STOP");
        let other = world.start(&[]);
        until_it_has_partitions(&other);
        producing.join().unwrap();
        until_all_is_stored(&world);
        sleeper.signal("CONT");
        sleeper.until_log("partitions revoked");
        check_commits(&world, N_PARTITIONS);
        sleeper.stop();
        check_commits(&world, N_PARTITIONS);
        other.stop();
    });
    world.check(&[]);
}
