//! The process ends at each named crash point, without unwinding or farewell, at its first, second and third pass.
//! Each end is followed by the proof that nothing is lost, doubled or misplaced.

use super::kills::{BUSY, CHECK_RICH, RICH, is_abort};
use super::marks::{check_commits, is_under_way};
use super::world::World;

/// Live traffic until the process is gone.
const BURST: [&str; 4] = ["--total=400", "--devices=60", "--poison=0.01", "--tag-every=3"];
/// Far more than any point needs.
const MAX_BURSTS: u32 = 200;

fn crash_three_times(point: &str) {
    let mut world = World::new(point, 4);
    world.settings(BUSY);
    world.decoder(RICH);
    for count in 1..=3 {
        let mut running = world.start_crashing(point, count);
        let mut n_bursts = 0;
        while running.is_alive() {
            assert!(n_bursts < MAX_BURSTS, "{point} is not passed {count} times");
            world.produce(&BURST);
            n_bursts += 1;
        }
        let (status, log) = running.wait();
        assert!(is_abort(status), "{point}:{count}: {status}: {log}");
        let is_in_a_write = point.contains("write");
        assert!(!is_in_a_write || is_under_way(&world, 4), "{point}:{count} hit nothing");
        check_commits(&world, 4);
        world.catch_up();
        world.check(&CHECK_RICH);
    }
}

/// Records were decoded and wait in memory.
#[test]
fn after_take() {
    crash_three_times("after_take");
}

/// A plan is made and nothing of it sent.
#[test]
fn before_write() {
    crash_three_times("before_write");
}

/// One command of a plan is done, the next is not sent.
#[test]
fn between_writes() {
    crash_three_times("between_writes");
}

/// A plan is durable and nobody knows.
#[test]
fn after_write() {
    crash_three_times("after_write");
}

/// What is reserved or durable is not in the ledger.
#[test]
fn before_ledger() {
    crash_three_times("before_ledger");
}

/// What is reserved or durable is in the ledger, and nobody acts on it.
#[test]
fn after_ledger() {
    crash_three_times("after_ledger");
}

/// What is in the ledger is not committed.
#[test]
fn before_commit() {
    crash_three_times("before_commit");
}
