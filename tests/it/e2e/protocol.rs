//! The ledger rules: groups moved or lost, records gone, devices and topics that share.

use std::collections::BTreeSet;
use std::time::Duration;

use super::stored::{assert_offsets, bytes, crash, numbered, samples, streams};
use super::topics;
use super::world::{NOON, World, reading, until};

/// The offset up to which partition 0 is stored.
fn next(world: &World) -> i64 {
    streams(&world.ledger()[0]).last().unwrap().get_i64("next").unwrap()
}

#[test]
fn a_group_set_back_to_the_start_changes_no_byte() {
    let world = World::new("reset", 3);
    world.produce(&["--total", "20000", "--devices", "60", "--poison", "0.002", "--late", "0.01"]);
    world.catch_up();
    let before = ["readings", "readings_dead"].map(|collection| bytes(&world.documents(collection)));
    let end = world.committed(3);
    world.commit(3, 0);
    let log = world.catch_up();
    assert!(!log.contains("ERROR"), "{log}");
    let after = ["readings", "readings_dead"].map(|collection| bytes(&world.documents(collection)));
    assert!(before == after, "documents were changed");
    assert_eq!(world.committed(3), end, "the commit is not brought up to what is stored");
    world.produce(&["--total", "5000", "--devices", "60"]);
    world.commit(3, 0);
    world.catch_up();
    world.check(&[]);
}

/// Only offset 0 was ever stored: the place to go on is 1, whether Kafka remembers the commit or not.
/// <https://github.com/delta-io/kafka-delta-ingest/issues/67>
#[test]
fn case_07_goes_on_after_offset_0() {
    let world = World::new("offset0", 1);
    world.send([numbered(0, 0, NOON)]);
    world.catch_up();
    assert_eq!((next(&world), world.committed(1)), (1, vec![Some(1)]));
    let log = world.catch_up();
    assert!(!log.contains("WARN") && !log.contains("ERROR"), "{log}");
    world.commit(1, 0);
    world.send([numbered(0, 1, NOON)]);
    world.catch_up();
    assert_offsets(&samples(&world), 0..2);
    assert_eq!(world.committed(1), [Some(2)]);
}

#[test]
fn a_group_that_kafka_forgot_goes_on_where_the_ledger_says() {
    let world = World::new("forgotten", 2);
    world.produce(&["--total", "8000", "--devices", "50"]);
    world.catch_up();
    let before = bytes(&world.ledger());
    world.forget_group();
    world.catch_up();
    assert!(before == bytes(&world.ledger()), "nothing was to be done");
    world.forget_group();
    world.produce(&["--total", "4000", "--devices", "50"]);
    world.catch_up();
    world.check(&[]);
}

#[test]
fn a_group_moved_forward_is_not_obeyed() {
    let world = World::new("forward", 1);
    world.send((0..300).map(|i| numbered(0, i, NOON)));
    world.catch_up();
    world.send((300..900).map(|i| numbered(0, i, NOON)));
    world.commit(1, 700);
    let log = world.catch_up();
    assert!(log.contains("commit 700 is past offset 300"), "{log}");
    assert!(log.contains("`sakia ledger skip`"), "{log}");
    assert_offsets(&samples(&world), 0..900);
    assert_eq!(world.committed(1), [Some(900)]);
    assert_eq!(streams(&world.ledger()[0]).len(), 1, "the same stream goes on");
}

#[test]
fn records_deleted_while_stopped_are_noted_as_lost() {
    let world = World::new("retention", 1);
    world.send((0..100).map(|i| numbered(0, i, NOON)));
    world.catch_up();
    world.send((100..200).map(|i| numbered(0, i, NOON)));
    topics::delete_records(&world.name, 0, 150);
    let log = world.catch_up();
    assert!(log.contains("offsets 100 to 149 were deleted by the broker"), "{log}");
    assert_offsets(&samples(&world), (0..100).chain(150..200));
    assert_eq!((next(&world), world.committed(1)), (200, vec![Some(200)]));
    let lost = |world: &World| world.ledger()[0].get_array("lost").unwrap().clone();
    let noted = lost(&world);
    assert_eq!(noted.len(), 1, "{noted:?}");
    let log = world.catch_up();
    assert!(!log.contains("deleted by the broker") && noted == lost(&world), "noted twice:\n{log}");
    assert_eq!(streams(&world.ledger()[0]).len(), 1, "the same stream goes on");
}

/// Retention passes a member that runs: its next offset is out of range, and it must find the way by itself.
#[test]
fn records_deleted_under_a_running_member_are_noted_as_lost() {
    let world = World::new("overtaken", 1);
    world.send((0..100).map(|i| numbered(0, i, NOON)));
    let running = world.start(&[]);
    until("100 samples", || world.n_samples() == 100);
    running.signal("STOP");
    // A fetch that waits at the broker would still carry the new records; it is answered within 100 ms.
    std::thread::sleep(Duration::from_millis(500));
    world.send((100..200).map(|i| numbered(0, i, NOON)));
    topics::delete_records(&world.name, 0, 150);
    running.signal("CONT");
    until("the records that are left", || world.n_samples() == 150);
    let log = running.stop();
    assert!(log.contains("offsets 100 to 149 were deleted by the broker"), "{log}");
    assert_offsets(&samples(&world), (0..100).chain(150..200));
    assert_eq!(world.committed(1), [Some(200)]);
}

#[test]
fn two_topics_share_a_collection_and_its_devices() {
    let mut world = World::new("topics", 1);
    let other = format!("{}_b", world.name);
    topics::create_topic(&other, 1);
    topics::beside(&mut world, &other);
    world.send((0..300).map(|i| numbered(0, i, NOON)));
    topics::send(&other, (0..200).map(|i| numbered(0, i, NOON)));
    world.catch_up();
    let streams: BTreeSet<_> = samples(&world).iter().map(|stored| stored.stream).collect();
    assert_eq!((world.ledger().len(), streams.len(), world.n_samples()), (2, 2, 500));
    let before = bytes(&world.buckets());
    world.forget_group();
    world.catch_up();
    assert!(before == bytes(&world.buckets()), "documents were changed");
}

#[test]
fn a_device_in_two_partitions_has_two_chains() {
    let world = World::new("split", 2);
    let at = |i: i64| NOON + 1_000 * i;
    world.send((0..120).map(|i| reading((i % 2) as i32, "same", at(i / 2), i as f64)));
    world.catch_up();
    let stored = samples(&world);
    assert_offsets(&stored, 0..120);
    let chains: BTreeSet<_> = stored.iter().map(|s| (s.stream, s.device.as_str(), s.window)).collect();
    assert_eq!(chains.len(), 2, "one for each partition");
    for pair in stored.chunks(2) {
        assert_eq!(pair[0].time, pair[1].time, "equal times are both kept");
        assert_ne!(pair[0].stream, pair[1].stream);
    }
}

/// The same range again, part of it, an older part, and one that overlaps what is new: only what is new is applied.
/// <https://github.com/ClickHouse/clickhouse-kafka-connect/blob/main/docs/DESIGN.md>
#[test]
fn case_09_replayed_ranges_apply_only_what_is_new() {
    let world = World::new("ranges", 1);
    world.send((0..200).map(|i| numbered(0, i, NOON)));
    // Durable in the buckets, unknown to the ledger and to Kafka: everything is read and written again.
    let log = crash(&world, "after_write", 1);
    assert_eq!(next(&world), 0, "{log}");
    assert!(world.n_samples() > 0, "{log}");
    world.send((200..300).map(|i| numbered(0, i, NOON)));
    world.catch_up();
    assert_offsets(&samples(&world), 0..300);
    for commit in [0, 299, 150] {
        let before = bytes(&world.buckets());
        world.commit(1, commit);
        world.catch_up();
        assert!(before == bytes(&world.buckets()), "documents were changed after a commit of {commit}");
    }
    assert!(world.dead().is_empty());
}
