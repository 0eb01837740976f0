//! What a healthy server stores.

use mongodb::bson::{DateTime, Document, doc};
use sakia::engine::plan::{Outcome, Write};
use sakia::record::{Assignment, Position, StreamId};

use super::fixture::{DAY, Store, append, dead_letter, delta, insert, seal, tail};

#[tokio::test]
async fn a_bucket_is_inserted_appended_to_and_sealed() {
    let store = Store::open().await;
    let at = |second: i64| DateTime::from_millis(DAY + second * 1_000);
    let sample = |second, temp| doc! { "time": at(second), "info": { "temp": temp } };

    let first = delta("d", Write::Insert { n: 0, open: true }, &[(10, 7, 3.0), (11, 5, f64::NAN)]);
    assert_eq!(store.write(vec![first]).await, [Outcome::Applied]);
    let more = delta("d", Write::Append { n: 0, hi: Position(11), seal: false }, &[(20, 9, 1.5), (21, 1, 4.0)]);
    assert_eq!(store.write(vec![more]).await, [Outcome::Applied]);
    let mut bucket = store.bucket("d", 0).await;
    // NaN equals nothing, itself included.
    let samples = bucket.remove("samples").expect("samples");
    assert_eq!(samples.as_array().expect("an array")[2..], [sample(9, 1.5).into(), sample(1, 4.0).into()]);
    let expected = doc! {
        "_id": { "w": at(0), "d": "d", "s": 77_i64, "n": 0 }, "deviceid": "d", "date": at(0),
        "first": at(1), "last": at(9), "count": 4, "open": true,
        "stats": { "temp": { "min": 1.5, "max": 4.0, "sum": 8.5, "n": 3 } }, "schema": 1,
        "src": { "cluster": "c", "topic": "t", "incarnation": 0, "partition": 3 },
        "pos": { "lo": 10_i64, "hi": 21_i64 },
    };
    assert_eq!(bucket, expected);

    assert_eq!(store.write(vec![seal("d", 0, 21)]).await, [Outcome::Applied]);
    assert!(!store.bucket("d", 0).await.contains_key("open"));
    assert_eq!(store.write(vec![insert("d", 1, true, 30)]).await, [Outcome::Applied]);
    let last = delta("d", Write::Append { n: 1, hi: Position(30), seal: true }, &[(31, 0, 1.0)]);
    assert_eq!(store.write(vec![last]).await, [Outcome::Applied]);
    let bucket = store.bucket("d", 1).await;
    assert!(!bucket.contains_key("open") && !bucket.contains_key("src"));
    let totals = store.sink.counts().totals();
    assert_eq!((totals.inserts, totals.appends, totals.seals, totals.fences), (2, 2, 1, 0));
    assert_eq!((totals.commands, totals.body_bytes, totals.tail_reads), (5, 0, 0));
}

#[tokio::test]
async fn a_plan_sent_twice_is_fenced_and_changes_nothing() {
    let store = Store::open().await;
    store.write(vec![insert("old", 0, true, 1), insert("full", 0, true, 1)]).await;
    let plan = || vec![insert("new", 0, false, 5), append("old", 0, 1, 5), seal("full", 0, 1)];
    assert_eq!(store.write(plan()).await, [Outcome::Applied, Outcome::Applied, Outcome::Applied]);
    let before = (store.bucket("new", 0).await, store.bucket("old", 0).await, store.bucket("full", 0).await);
    let again = store.write(plan()).await;
    let tails: Vec<_> = again.iter().map(tail).collect();
    assert_eq!(tails, [(0, 5, 1, false), (0, 5, 2, true), (0, 1, 1, false)]);
    assert_eq!(before, (store.bucket("new", 0).await, store.bucket("old", 0).await, store.bucket("full", 0).await));
    // Each of them found its own effect: nobody else was here.
    assert_eq!(store.sink.counts().totals().fences, 0);
}

#[tokio::test]
async fn a_missed_append_is_told_from_its_neighbours() {
    let store = Store::open().await;
    store.write(vec![insert("a", 0, true, 1), insert("b", 0, true, 1), insert("c", 0, true, 8)]).await;
    // A tail ahead of the belief: somebody else has written.
    let outcomes = store.write(vec![append("a", 0, 1, 9), append("b", 0, 1, 9), append("c", 0, 1, 9)]).await;
    let tails: Vec<_> = outcomes.iter().map(tail).collect();
    assert_eq!(tails, [(0, 9, 2, true), (0, 9, 2, true), (0, 8, 1, true)]);
    assert_eq!(store.sink.counts().totals().fences, 1);
}

#[tokio::test]
async fn unknown_chains_are_read_in_batches() {
    let store = Store::open().await;
    let device = |i: u32| format!("dev-{i}");
    // Chains of several buckets: the last one counts, by number and not by its text.
    for n in 0..11 {
        let outcomes = store.write((0..130).map(|i| insert(&device(i), n, false, i64::from(n))).collect()).await;
        assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Applied));
    }
    let mut outcomes = store.write((0..131).map(|i| insert(&device(i), 0, false, 3)).collect()).await;
    assert_eq!(outcomes.pop(), Some(Outcome::Applied));
    assert!(outcomes.iter().all(|outcome| tail(outcome) == (10, 10, 1, false)));
    assert_eq!(store.sink.counts().totals().tail_reads, 130);
}

#[tokio::test]
async fn meta_comes_back_as_it_was_written() {
    let store = Store::open().await;
    let meta = doc! { "site": "north", "model": 7_i64, "nested": { "b": 1, "a": null } };
    let bytes = meta.to_vec().expect("encodes");
    let mut bucket = insert("d", 0, true, 1);
    bucket.meta = Some(bytes.clone().into());
    store.write(vec![bucket]).await;
    assert_eq!(store.bucket("d", 0).await.get_document("meta").ok(), Some(&meta));
    let outcomes = store.write(vec![insert("d", 0, true, 1)]).await;
    let Outcome::Fenced(Some(tail)) = &outcomes[0] else { panic!("no fence: {outcomes:?}") };
    assert_eq!(tail.meta.as_deref(), Some(bytes.as_slice()));
}

#[tokio::test]
async fn dead_letters_are_durable_once() {
    let store = Store::open().await;
    for _ in 0..2 {
        let report = store.report(vec![], vec![dead_letter(65_536), dead_letter(65_537)]).await;
        let durable = |pos| (Assignment(1), StreamId(77), Position(pos));
        assert_eq!(report.dead, [durable(65_536), durable(65_537)]);
        assert!(report.dead_refused.is_empty() && report.id == 9);
    }
    let dead = store.db.collection::<Document>("readings_dead");
    assert_eq!(dead.count_documents(doc! { "reason": "malformed", "offset": 1_i64 }).await.expect("answers"), 2);
}
