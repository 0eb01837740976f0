//! The source against a real broker, with a ledger and shards that keep everything in memory.

mod settings;
mod world;

use std::time::Duration;

use sakia::code::{Code, Failure};
use sakia::record::Assignment;
use sakia::source::{SourceError, kafka};
use settings::config;
use world::{Member, Topic, World, until};

#[test]
fn every_record_comes_once_and_in_order_and_is_committed() {
    let topic = Topic::create("order", 4);
    topic.produce(10_000);
    let world = World::default();
    let stopped = Member::start(&world, &topic, |w| w.until_caught_up = true).join();
    assert_eq!((stopped.n_unsettled, stopped.is_closed), (0, true));
    assert_eq!(stopped.halts, []);
    world.check_once_and_in_order(&topic);
    assert_eq!(topic.committed(), topic.ends());
}

#[test]
fn the_ledger_rules_over_the_commit_of_the_group() {
    let topic = Topic::create("ledger", 1);
    topic.produce(1_000);
    topic.commit(0, 900);
    let world = World::default();
    world.set_next(&topic, 0, 40);
    Member::start(&world, &topic, |w| w.until_caught_up = true).join();
    assert_eq!(world.asks()[0].committed, Some(900));
    assert_eq!(world.offsets(0), (40..1_000).collect::<Vec<_>>());
}

#[test]
fn what_is_stored_already_is_not_read_again() {
    let topic = Topic::create("covered", 1);
    topic.produce(30_000);
    let world = World::default();
    world.cover(10, 25_000);
    let stopped = Member::start(&world, &topic, |w| w.until_caught_up = true).join();
    assert_eq!(stopped.n_unsettled, 0);
    assert_eq!(world.offsets(0), (0..10).chain(25_000..30_000).collect::<Vec<_>>());
}

#[test]
fn a_second_member_takes_over_where_the_first_left() {
    let topic = Topic::create("handover", 4);
    let world = World::default();
    let first = Member::start(&world, &topic, |_| ());
    until("the first member reads", || {
        topic.produce(400);
        world.n_records() >= 400
    });
    let second = Member::start(&world, &topic, |_| ());
    until("both members hold partitions", || {
        topic.produce(400);
        first.n_live() == 2 && second.n_live() == 2
    });
    topic.produce(4_000);
    until("all is read", || world.n_records() as i64 == topic.ends().iter().sum::<i64>());
    let stopped = first.stop();
    assert_eq!((stopped.n_unsettled, stopped.is_closed), (0, true));
    until("the second member holds all", || second.n_live() == 4);
    topic.produce(400);
    until("all is read", || world.n_records() as i64 == topic.ends().iter().sum::<i64>());
    second.stop();
    world.check_once_and_in_order(&topic);
    assert_eq!(topic.committed(), topic.ends());
}

#[test]
fn an_acknowledgement_after_the_revocation_commits_nothing() {
    let topic = Topic::create("late", 2);
    topic.produce(200);
    let world = World::default();
    let first = Member::start(&world, &topic, |_| ());
    until("all is read", || world.n_records() == 200);
    let second = Member::start(&world, &topic, |_| ());
    until("both members hold a partition", || first.n_live() == 1 && second.n_live() == 1);
    let committed = topic.committed();
    // The first member's assignments were 1 and 2; one of them is not its own any more.
    let kept: Vec<_> = first.partitions();
    for assignment in [Assignment(1), Assignment(2)] {
        if !kept.iter().any(|p| world.assignment_of(p.partition) == Some(assignment)) {
            first.board.commit(assignment, 1);
            first.board.released(assignment);
        }
    }
    std::thread::sleep(Duration::from_millis(2_500));
    assert_eq!(topic.committed(), committed);
    first.stop();
    second.stop();
    assert_eq!(topic.committed(), topic.ends());
}

#[test]
fn a_recreated_topic_has_another_id() {
    let topic = Topic::create("recreated", 1);
    let id_of = || {
        topic.produce(10);
        let world = World::default();
        Member::start(&world, &topic, |w| w.until_caught_up = true).join();
        world.asks()[0].topic_id.clone()
    };
    let first = id_of();
    assert!(first.is_some());
    assert_eq!(id_of(), first);
    topic.recreate();
    let second = id_of();
    assert!(second.is_some());
    assert_ne!(second, first);
}

#[test]
fn the_cluster_says_who_it_is() {
    let kafka = config(&Topic::create("cluster", 1)).kafka;
    let id = || kafka::cluster_id(&kafka, Duration::from_secs(10)).unwrap();
    assert!(!id().is_empty());
    assert_eq!(id(), id());
}

#[test]
fn a_broker_that_does_not_answer_is_named_and_does_not_hang_the_end() {
    let topic = Topic::create("nobody", 1);
    let mut config = config(&topic);
    // Port 1 of this host: nobody listens there.
    "127.0.0.1:1".clone_into(&mut config.kafka.brokers);
    let error = kafka::cluster_id(&config.kafka, Duration::from_secs(1)).unwrap_err();
    assert!(matches!(error, SourceError::Unreachable { .. }) && error.to_string().contains("127.0.0.1:1"), "{error}");
    let member = Member::start_with(&World::default(), config, |_| ());
    std::thread::sleep(Duration::from_millis(300));
    assert!(member.stop().is_closed);
}

#[test]
fn a_refused_partition_is_left_alone_and_the_others_go_on() {
    let topic = Topic::create("refused", 3);
    topic.produce(3_000);
    let world = World::default();
    world.refuse(1, "topic was recreated; run `some command`", false);
    let stopped = Member::start(&world, &topic, |w| w.until_caught_up = true).join();
    assert_eq!(stopped.halts.len(), 1);
    assert_eq!((stopped.halts[0].partition, stopped.n_unsettled), (1, 0));
    assert!(world.offsets(1).is_empty());
    assert_eq!(world.n_records(), 2_000);
    assert_eq!(topic.committed()[1], -1);
}

#[test]
fn a_partition_is_asked_for_again_once_the_ledger_answers() {
    let topic = Topic::create("unavailable", 2);
    topic.produce(500);
    let world = World::default();
    world.refuse(0, "no primary", true);
    let member = Member::start(&world, &topic, |_| ());
    until("the ledger was asked in vain", || !world.asks().is_empty());
    std::thread::sleep(Duration::from_millis(500));
    assert!(world.offsets(0).is_empty());
    world.admit(0);
    until("all is read", || world.n_records() == 500);
    member.stop();
    world.check_once_and_in_order(&topic);
}

#[test]
fn a_stopped_partition_is_paused_and_forgotten_by_its_shard() {
    let topic = Topic::create("stopped", 2);
    topic.produce(200);
    let world = World::default();
    let member = Member::start(&world, &topic, |_| ());
    until("all is read", || world.n_records() == 200);
    let assignment = world.assignment_of(0).unwrap();
    member.board.stopped(assignment, Failure::new(Code::DeadLetterRefused, "a dead letter cannot be stored"));
    until("the partition is stopped", || member.n_live() == 1);
    until("the shard forgets it", || world.is_lost(assignment));
    topic.produce(200);
    until("the other goes on", || world.offsets(1).len() == 200);
    let stopped = member.stop();
    assert_eq!(world.offsets(0).len(), 100);
    assert_eq!(stopped.halts[0].reason.message, "a dead letter cannot be stored");
}

#[test]
fn an_offset_out_of_range_is_resolved_again() {
    let topic = Topic::create("range", 1);
    topic.produce(100);
    let world = World::default();
    world.set_next(&topic, 0, 5_000);
    let member = Member::start(&world, &topic, |_| ());
    until("the ledger was asked", || !world.asks().is_empty());
    world.set_next(&topic, 0, 0);
    until("all is read", || world.n_records() == 100);
    member.stop();
    assert_eq!(world.asks().len(), 2);
    world.check_once_and_in_order(&topic);
}

#[test]
fn a_shard_that_stays_full_is_paused_and_resumed_without_loss() {
    let topic = Topic::create("full", 2);
    topic.produce(60_000);
    let world = World::default();
    world.hold();
    let member = Member::start(&world, &topic, |_| ());
    until("its partitions are paused", || member.counts.pauses.load(std::sync::atomic::Ordering::Relaxed) > 0);
    world.go_on();
    until("all is read", || world.n_records() == 60_000);
    let stopped = member.stop();
    assert_eq!(stopped.n_unsettled, 0);
    world.check_once_and_in_order(&topic);
}
