//! Kills at random times and between two writes, each followed by a proof that nothing is lost or doubled.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::thread;
use std::time::Duration;

use mongodb::bson::Document;

use super::marks::{check_commits, is_under_way};
use super::world::{NOON, World, until};

/// Much is under way at any time, in small deltas. A member that takes its predecessor's place in the group need not
/// wait until the group has missed the dead one.
pub(super) const BUSY: &str = r#"
[kafka.options]
"group.instance.id" = "one"
[bucket]
max_samples = 40
min_fill = 15
flush_age = "100ms"
"#;

/// Totals would show a delta that was applied twice even where its samples do not.
pub(super) const RICH: &str = "meta = [\"fw\"]\nstats = [\"temp\", \"speed\"]\n";
pub(super) const CHECK_RICH: [&str; 4] = ["--tag=fw", "--stats=temp", "--stats=speed", "--max-samples=40"];

/// Ended by itself at a crash point.
pub(super) fn is_abort(status: ExitStatus) -> bool {
    const SIGABRT: i32 = 6;
    status.signal() == Some(SIGABRT)
}

#[test]
fn twenty_kills_at_random_times() {
    let mut world = World::new("kills", 4);
    world.settings(BUSY);
    world.decoder(RICH);
    let load = ["--total=1500", "--rate=2000", "--devices=60", "--poison=0.004", "--tag-every=10"];
    let mut n_under_way = 0;
    for _ in 0..20 {
        thread::scope(|scope| {
            scope.spawn(|| world.produce(&load));
            let running = world.start(&[]);
            thread::sleep(Duration::from_millis(fastrand::u64(100..1000)));
            running.kill();
        });
        n_under_way += usize::from(is_under_way(&world, 4));
        check_commits(&world, 4);
        world.catch_up();
        world.check(&CHECK_RICH);
    }
    assert!(n_under_way >= 3, "only {n_under_way} kills hit anything");
}

/// Counts of the buckets, in the order of the chain.
fn counts(buckets: &[Document]) -> Vec<i32> {
    buckets.iter().map(|bucket| bucket.get_i32("count").unwrap()).collect()
}

/// One record that fills two buckets and begins a third. Afterwards its readings are at the places where they would
/// have been without the crash, whichever of the writes it hit.
#[test]
fn a_record_that_straddles_buckets_may_be_killed_between_their_writes() {
    let hits = [("before_write", 1, vec![]), ("after_write", 1, vec![10]), ("before_write", 2, vec![10])];
    for (point, count, stored) in hits.into_iter().chain([("after_write", 2, vec![10, 10])]) {
        let mut world = World::new("straddle", 1);
        world.settings(&BUSY.replace("max_samples = 40", "max_samples = 10").replace("min_fill = 15", "min_fill = 6"));
        world.decoder("explode = \"readings\"");
        let start = format!("--start={NOON}");
        world.produce(&["--total=25", "--readings-per-record=25", "--devices=1", &start, "--span=1m"]);
        let (status, log) = world.start_crashing(point, count).wait();
        assert!(is_abort(status), "{status}: {log}");
        assert_eq!(counts(&world.buckets()), stored, "{point}:{count}");
        check_commits(&world, 1);
        world.catch_up();
        assert_eq!(counts(&world.buckets()), [10, 10, 5], "{point}:{count}");
        world.check(&["--max-samples=10"]);
    }
}

/// The open bucket has room for three of the record's seven readings.
#[test]
fn a_record_that_fills_an_open_bucket_may_be_killed_before_it_begins_the_next() {
    let mut world = World::new("rollover", 1);
    world.settings(&BUSY.replace("max_samples = 40", "max_samples = 10").replace("min_fill = 15", "min_fill = 8"));
    world.decoder("explode = \"readings\"");
    let start = format!("--start={NOON}");
    let seven = ["--total=7", "--readings-per-record=7", "--devices=1", &start, "--span=1m"];
    world.produce(&seven);
    world.catch_up();
    assert_eq!(counts(&world.buckets()), [7]);
    world.produce(&seven);
    // The first write is an insert that is fenced, since the chain is not known yet; the second fills the bucket.
    let (status, log) = world.start_crashing("after_write", 2).wait();
    assert!(is_abort(status), "{status}: {log}");
    assert_eq!(counts(&world.buckets()), [10]);
    world.catch_up();
    assert_eq!(counts(&world.buckets()), [10, 4]);
    world.check(&["--max-samples=10"]);
}

#[test]
fn a_bucket_that_was_open_at_the_end_is_gone_on_with() {
    let mut world = World::new("midbucket", 1);
    world.settings(BUSY);
    let start = format!("--start={NOON}");
    let five = ["--total=5", "--devices=1", &start, "--span=1h"];
    world.produce(&five);
    world.catch_up();
    let [first] = &world.buckets()[..] else { panic!("one bucket, not {:?}", world.buckets()) };
    assert_eq!((first.get_i32("count").unwrap(), first.get_bool("open").unwrap()), (5, true));

    // After an orderly end, and after a kill.
    for n_samples in [10, 15] {
        world.produce(&five);
        let running = world.start(&[]);
        until("the new samples", || world.n_samples() == n_samples);
        running.kill();
        let [bucket] = &world.buckets()[..] else { panic!("one bucket, not {:?}", world.buckets()) };
        assert_eq!(bucket.get("_id"), first.get("_id"));
        assert_eq!(counts(std::slice::from_ref(bucket)), [n_samples as i32]);
        assert!(bucket.get_bool("open").unwrap());
        world.check(&["--max-samples=40"]);
    }
}
