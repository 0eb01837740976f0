//! The orderly end: bounded, complete, and cut short by whoever asks twice.

use std::time::{Duration, Instant};

use super::marks::{check_commits, is_all_committed, n_durable, n_reserved};
use super::relay::Relay;
use super::world::{World, until};

/// Small deltas of many devices, held until somebody asks for them. Who ends without leaving the group is followed by
/// a member of the same name, which need not wait until it is missed.
const HOARDING: &str = r#"
[kafka.options]
"group.instance.id" = "one"
[bucket]
flush_age = "1h"
"#;
/// No poison: a dead letter is not held, and what lies below it may be committed.
const LOAD: [&str; 2] = ["--total=5000", "--devices=500"];

/// Everything is polled and nothing written, and the group has been told so.
fn until_all_is_held(world: &World) {
    until("all records polled", || n_reserved(world, 4) == 5000);
    until("commits", || world.committed(4).iter().all(Option::is_some));
    assert_eq!(world.committed(4), [Some(0); 4], "committed what is not durable");
    assert_eq!(world.n_samples(), 0, "written before anybody asked");
}

#[test]
fn a_signal_to_stop_writes_and_commits_all_that_is_held() {
    for signal in ["TERM", "INT"] {
        let mut world = World::new("drain", 4);
        world.settings(HOARDING);
        world.produce(&LOAD);
        let running = world.start(&[]);
        until_all_is_held(&world);

        let asked = Instant::now();
        running.signal(signal);
        let (status, log) = running.wait();
        assert!(status.success(), "{signal}: {status}: {log}");
        assert!(asked.elapsed() < Duration::from_secs(20), "{signal}: {:?}", asked.elapsed());
        assert!(!log.contains("read again"), "{log}");
        assert_eq!(n_durable(&world, 4), 5000);
        assert!(is_all_committed(&world, 4), "{log}");
        world.check(&[]);
    }
}

/// The server does not answer, so that the drain would take all the time that it has.
#[test]
fn a_second_signal_ends_at_once() {
    let relay = Relay::start();
    let mut world = World::beside("twice", 4, &relay.uri());
    world.settings(HOARDING);
    world.produce(&LOAD);
    let running = world.start(&[]);
    until_all_is_held(&world);
    relay.freeze();
    running.signal("TERM");
    running.until_log("a second signal ends at once");
    let asked = Instant::now();
    running.signal("TERM");
    let (status, log) = running.wait();
    assert!(asked.elapsed() < Duration::from_secs(3), "{:?}: {log}", asked.elapsed());
    assert_eq!(status.code(), Some(130), "{log}");
    relay.thaw();
    check_commits(&world, 4);
    world.catch_up();
    world.check(&[]);
}
