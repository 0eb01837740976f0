//! Lost replies, refusals, removed buckets and servers that are away.

use std::time::Duration;

use mongodb::Client;
use mongodb::bson::{Bson, Document, doc};
use sakia::code::Code;
use sakia::engine::plan::{Outcome, Plan};
use sakia::record::{EventTime, Position};

use super::fixture::{Store, append, dead_letter, delta, insert, seal, tail};
use crate::proxy::Fault;

/// Writes one insert and one append, each with its reply spoiled.
async fn check_spoiled(fault: Fault) -> Vec<Outcome> {
    let (store, proxy) = Store::open_through_proxy().await;
    proxy.spoil(fault);
    let mut outcomes = store.write(vec![insert("d", 0, true, 1)]).await;
    assert!(proxy.is_spent(), "the reply was spoiled");
    proxy.spoil(fault);
    outcomes.extend(store.write(vec![append("d", 0, 1, 2)]).await);
    assert!(proxy.is_spent(), "the reply was spoiled");
    assert_eq!(store.bucket("d", 0).await.get_i32("count").ok(), Some(2));
    let resends = store.sink.counts().totals().resends;
    assert_eq!(resends.iter().map(|(_, n)| n).sum::<u64>(), 2);
    outcomes
}

#[tokio::test]
async fn a_lost_reply_ends_in_a_fence_that_shows_the_effect() {
    for fault in [Fault::LostReply, Fault::NotPrimary, Fault::WriteConcernError] {
        let outcomes = check_spoiled(fault).await;
        let tails: Vec<_> = outcomes.iter().map(tail).collect();
        assert_eq!(tails, [(0, 1, 1, true), (0, 2, 2, true)], "{fault:?}");
    }
}

#[tokio::test]
async fn a_removed_or_older_tail_has_vanished() {
    let store = Store::open().await;
    store.write(vec![insert("gone", 0, true, 1), insert("older", 0, true, 5), insert("fine", 0, true, 1)]).await;
    store.readings().delete_one(doc! { "deviceid": "gone" }).await.expect("deletes");
    let plan = vec![append("gone", 0, 1, 9), append("older", 0, 7, 9), append("fine", 0, 1, 9), seal("older", 1, 7)];
    let outcomes = store.write(plan).await;
    assert_eq!(outcomes[..2], [Outcome::Vanished, Outcome::Vanished]);
    assert_eq!(tail(&outcomes[2]), (0, 9, 2, true));
    assert_eq!(outcomes[3], Outcome::Vanished);
    assert_eq!(store.readings().count_documents(doc! {}).await.expect("counts"), 2, "no append has inserted");
    assert_eq!(store.sink.counts().totals().vanished, 3);
}

#[tokio::test]
async fn a_refused_statement_leaves_its_neighbours_alone() {
    let store = Store::open().await;
    let validator = doc! { "samples.info.temp": { "$not": { "$gt": 100.0 } } };
    store.db.create_collection("readings").validator(validator).await.expect("creates");
    store.write(vec![insert("a", 0, true, 1), insert("b", 0, true, 1)]).await;
    let hot = |write| delta("a", write, &[(2, 0, 1.0), (3, 0, 500.0)]);
    let refused = hot(append("a", 0, 1, 2).write);
    let outcomes = store.write(vec![refused, append("b", 0, 1, 2)]).await;
    assert!(matches!(&outcomes[0], Outcome::Refused { code: 121, .. }), "{outcomes:?}");
    assert_eq!(outcomes[1], Outcome::Applied);
    let mut refused = hot(insert("c", 0, false, 1).write);
    refused.key = insert("c", 0, false, 1).key;
    let outcomes = store.write(vec![insert("d", 0, false, 1), refused]).await;
    assert_eq!(outcomes[0], Outcome::Applied);
    assert!(matches!(&outcomes[1], Outcome::Refused { code: 121, .. }), "{outcomes:?}");
    assert_eq!(store.sink.counts().totals().refused, 2);
}

/// The server checks nesting before it runs anything, so the whole command fails.
#[tokio::test]
async fn a_command_refused_as_a_whole_is_halved_down_to_the_culprit() {
    let store = Store::open().await;
    let nested = (0..300).fold(doc! {}, |inner, _| doc! { "x": inner });
    let mut culprit = delta("culprit", insert("", 0, false, 1).write, &[]);
    let bytes = nested.to_vec().expect("encodes");
    culprit.samples.push_sample(Position(1), EventTime(0), "time", "info", &bytes, &[f64::NAN]);
    let mut plan: Vec<_> = (0..10).map(|i| insert(&format!("d{i}"), 0, false, 1)).collect();
    plan.insert(3, culprit);
    let outcomes = store.write(plan).await;
    assert!(matches!(&outcomes[3], Outcome::Refused { .. }), "{:?}", outcomes[3]);
    assert!((0..11).all(|i| i == 3 || outcomes[i] == Outcome::Applied), "{outcomes:?}");
    assert!(store.sink.counts().totals().commands > 1, "it was refused as a whole");
}

#[tokio::test]
async fn a_tail_without_an_int64_position_breaks_its_partition() {
    let store = Store::open().await;
    for (device, hi) in [("double", Bson::Double(1.0)), ("int32", Bson::Int32(1)), ("none", Bson::Null)] {
        store.write(vec![insert(device, 0, true, 1)]).await;
        let set = doc! { "$set": { "pos.hi": hi } };
        store.readings().update_one(doc! { "deviceid": device }, set).await.expect("updates");
        let outcomes = store.write(vec![insert(device, 0, true, 2)]).await;
        let Outcome::Broken(reason) = &outcomes[0] else { panic!("not broken: {outcomes:?}") };
        assert_eq!(reason.code, Code::BucketUnusable);
        assert!(reason.message.contains("no Int64 \"pos.hi\"") && reason.message.contains(device), "{reason}");
    }
}

#[tokio::test]
async fn a_unique_index_of_somebody_else_breaks() {
    let store = Store::open().await;
    let index = doc! { "key": { "count": 1 }, "name": "count_1", "unique": true };
    let create = doc! { "createIndexes": "readings", "indexes": [index] };
    store.db.run_command(create).await.expect("creates");
    let outcomes = store.write(vec![insert("a", 0, true, 1), insert("b", 0, true, 1)]).await;
    assert!(
        outcomes.iter().all(|outcome| matches!(outcome, Outcome::Broken(why) if why.code == Code::ForeignUniqueIndex))
    );
}

#[tokio::test]
async fn a_dead_letter_that_cannot_be_stored_is_told() {
    let store = Store::open().await;
    let validator = doc! { "reason": "something else" };
    store.db.create_collection("readings_dead").validator(validator).await.expect("creates");
    let report = store.report(vec![insert("d", 0, true, 1)], vec![dead_letter(65_536)]).await;
    assert_eq!((report.deltas[0].1.clone(), report.dead.len()), (Outcome::Applied, 0));
    let (_, reason) = &report.dead_refused[0];
    assert_eq!(reason.code, Code::DeadLetterRefused);
    assert!(reason.message.contains("t/3 offset 1") && reason.message.contains("121"), "{reason}");
}

#[tokio::test]
async fn a_store_that_is_away_is_tried_until_stopped() {
    let store = Store::open().await;
    let uri = "mongodb://127.0.0.1:1/?directConnection=true&serverSelectionTimeoutMS=100";
    let away = Client::with_uri_str(uri).await.expect("a connection string").database(store.db.name());
    let Store { sink, stop, .. } = Store::of(store.db.clone(), away);
    let counting = sink.clone();
    let plan = Plan { id: 1, deltas: vec![insert("d", 0, true, 1)], dead: vec![] };
    let write = tokio::spawn(async move { sink.write(plan).await });
    let mut look = tokio::time::interval(Duration::from_millis(20));
    while counting.counts().totals().resends.iter().map(|(_, n)| n).sum::<u64>() < 2 {
        look.tick().await;
    }
    stop.send_replace(true);
    assert!(write.await.expect("no panic").is_none());
    assert_eq!(store.db.collection::<Document>("readings").count_documents(doc! {}).await.expect("counts"), 0);
}
