//! The process ends at each named crash point, without unwinding or farewell, at its first, second and third pass.
//! Each end is followed by the proof that nothing is lost, doubled or misplaced.

use std::thread;

use super::kills::{BUSY, CHECK_RICH, RICH, is_abort};
use super::marks::check_commits;
use super::world::World;

/// Under live traffic of `seconds`, which must be enough for three passes.
fn crash_three_times(point: &str, seconds: u32) {
    let mut world = World::new(point, 4);
    world.settings(BUSY);
    world.decoder(RICH);
    for count in 1..=3 {
        thread::scope(|scope| {
            let seconds = format!("--seconds={seconds}");
            let load = ["--rate=1500", &seconds, "--devices=60", "--poison=0.01", "--tag-every=10"];
            let load = load.map(str::to_owned);
            let world = &world;
            scope.spawn(move || world.produce(&load.each_ref().map(String::as_str)));
            let (status, log) = world.start_crashing(point, count).wait();
            assert!(is_abort(status), "{point}:{count}: {status}: {log}");
        });
        check_commits(&world, 4);
        world.catch_up();
        world.check(&CHECK_RICH);
    }
}

/// Records were decoded and wait in memory.
#[test]
fn after_take() {
    crash_three_times("after_take", 1);
}

/// A plan is made and nothing of it sent.
#[test]
fn before_write() {
    crash_three_times("before_write", 2);
}

/// One command of a plan is done, the next is not sent.
#[test]
fn between_writes() {
    crash_three_times("between_writes", 3);
}

/// A plan is durable and nobody knows.
#[test]
fn after_write() {
    crash_three_times("after_write", 2);
}

/// What is reserved or durable is not in the ledger.
#[test]
fn before_ledger() {
    crash_three_times("before_ledger", 3);
}

/// What is reserved or durable is in the ledger, and nobody acts on it.
#[test]
fn after_ledger() {
    crash_three_times("after_ledger", 3);
}

/// What is in the ledger is not committed.
#[test]
fn before_commit() {
    crash_three_times("before_commit", 5);
}
