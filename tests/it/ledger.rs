//! The ledger on a real server: who may open it, and what its readers are handed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use mongodb::bson::{Bson, Document, doc};
use mongodb::{Client, Database};
use sakia::config::{Config, Contract};
use sakia::engine::plan::{LedgerAsk, StreamMark};
use sakia::record::{Assignment, Origin, Position, StreamId};
use sakia::sink::ledger::coverage::Warning;
use sakia::sink::ledger::{AssignError, Claim, Ledger, OpenError, Refusal};
use sakia::source::PartitionAsk;

/// A database of its own a test, dropped before it is used, so that what a failed test left stays to be looked at.
async fn database() -> Database {
    static N: AtomicU32 = AtomicU32::new(0);
    let uri = std::env::var("SAKIA_MONGO").expect("SAKIA_MONGO names no MongoDB: run `make services-up`");
    let n = N.fetch_add(1, Ordering::Relaxed);
    let client = Client::with_uri_str(uri).await.expect("SAKIA_MONGO is a connection string");
    let db = client.database(&format!("sakia_it_ledger_{n}"));
    db.drop().await.expect("MongoDB answers");
    db
}

/// Contracts differ by where the fields are.
fn config(database: &str, fields_path: &str) -> Config {
    let text = format!(
        r#"
        kafka.brokers = "localhost:9092"
        mongo = {{ uri = "mongodb://localhost", database = "{database}", collection = "readings" }}
        [[decoder]]
        topics = ["t"]
        device_path = "@key"
        timestamp_path = "ts"
        timestamp_format = "unix_ms"
        fields_path = "{fields_path}"
        "#
    );
    Config::from_toml(&text).expect("a valid configuration")
}

fn contract(fields_path: &str) -> Contract {
    config("any", fields_path).contract_for("t").expect("the topic has a decoder")
}

async fn open(db: &Database) -> Result<Ledger, OpenError> {
    Ledger::open(db.clone(), &config(db.name(), "v"), "cluster".to_owned()).await
}

fn ask(committed: Option<i64>) -> PartitionAsk {
    PartitionAsk { topic: "t".to_owned(), partition: 0, topic_id: None, committed, low: 0, high: 1_000 }
}

async fn assign(ledger: &Ledger, ask: &PartitionAsk, contract: &Contract) -> Claim {
    ledger.assign(ask, Assignment(1), contract).await.expect("handed over")
}

/// Spans as `(from, to, reserved)`.
fn spans(handed: &Claim) -> Vec<(i64, Option<i64>, i64)> {
    handed.assigned.spans.iter().map(|span| (span.from, span.to, span.reserved)).collect()
}

fn mark(handed: &Claim, span: usize, upto: i64) -> StreamMark {
    let assigned = &handed.assigned;
    StreamMark {
        assignment: assigned.assignment,
        origin: assigned.origin.clone(),
        stream: assigned.spans[span].stream,
        upto,
    }
}

fn reserve(mark: StreamMark) -> LedgerAsk {
    LedgerAsk { reserve: vec![mark], advance: vec![] }
}

fn advance(mark: StreamMark) -> LedgerAsk {
    LedgerAsk { reserve: vec![], advance: vec![mark] }
}

async fn entries(db: &Database) -> Vec<Document> {
    let mut cursor = db
        .collection::<Document>("readings_ledger")
        .find(doc! { "version": { "$exists": true } })
        .sort(doc! { "_id": 1 })
        .await
        .expect("MongoDB answers");
    let mut found = Vec::new();
    while cursor.advance().await.expect("MongoDB answers") {
        found.push(cursor.deserialize_current().expect("a document"));
    }
    found
}

async fn insert(db: &Database, collection: &str, document: Document) {
    db.collection(collection).insert_one(document).await.expect("MongoDB answers");
}

#[track_caller]
fn refusal(result: Result<Claim, AssignError>) -> Refusal {
    match result {
        Err(AssignError::Refused(refusal)) => refusal,
        other => panic!("not refused: {other:?}"),
    }
}

#[tokio::test]
async fn the_header_is_made_once_and_compared_ever_after() {
    let db = database().await;
    let (one, two) = tokio::join!(open(&db), open(&db));
    one.and(two).expect("opened");
    open(&db).await.expect("opened again");

    let mut other = config(db.name(), "v");
    other.fields.pos = "p".to_owned();
    let error = Ledger::open(db.clone(), &other, "cluster".to_owned()).await.expect_err("other names");
    assert!(error.to_string().contains(r#"pos is "pos" there, "p" here"#), "{error}");

    let ledger = db.collection::<Document>("readings_ledger");
    ledger.update_one(doc! { "_id": "header" }, doc! { "$set": { "namespace": "a.b" } }).await.expect("updated");
    assert!(matches!(open(&db).await, Err(OpenError::OtherNamespace { .. })));
}

#[tokio::test]
async fn an_empty_ledger_beside_readings_is_refused() {
    let db = database().await;
    open(&db).await.expect("both are empty");
    insert(&db, "readings", doc! { "_id": 1 }).await;
    let error = open(&db).await.expect_err("would store all of it again");
    assert!(error.to_string().contains("`sakia ledger rebuild`"), "{error}");
}

#[tokio::test]
async fn a_ledger_without_its_header_is_refused() {
    let db = database().await;
    assign(&open(&db).await.expect("opened"), &ask(None), &contract("v")).await;
    let ledger = db.collection::<Document>("readings_ledger");
    ledger.delete_one(doc! { "_id": "header" }).await.expect("deleted");
    assert!(matches!(open(&db).await, Err(OpenError::NoHeader { .. })));
}

#[tokio::test]
async fn a_ledger_that_is_dropped_while_it_is_open_is_not_begun_anew() {
    let db = database().await;
    let ledger = open(&db).await.expect("opened");
    assign(&ledger, &ask(None), &contract("v")).await;
    db.collection::<Document>("readings_ledger").drop().await.expect("dropped");
    let refused = refusal(ledger.assign(&ask(None), Assignment(2), &contract("v")).await);
    assert!(matches!(refused, Refusal::Lost { .. }), "{refused}");
    assert!(refused.to_string().contains("`sakia ledger rebuild`"), "{refused}");
    assert!(entries(&db).await.is_empty());
}

#[tokio::test]
async fn a_partition_goes_on_where_its_marks_are() {
    let db = database().await;
    let ledger = open(&db).await.expect("opened");
    let handed = assign(&ledger, &ask(Some(40)), &contract("v")).await;
    assert_eq!(spans(&handed), [(40, None, 40)]);
    let ask_both = LedgerAsk { reserve: vec![mark(&handed, 0, 90)], advance: vec![mark(&handed, 0, 60)] };
    let answer = ledger.settle(&ask_both).await.expect("not stopped");
    assert_eq!((answer.reserved, answer.advanced), (ask_both.reserve, ask_both.advance));
    // Marks never fall.
    ledger.settle(&advance(mark(&handed, 0, 50))).await.expect("not stopped");

    let again = assign(&open(&db).await.expect("opened"), &ask(None), &contract("v")).await;
    assert_eq!(spans(&again), [(60, None, 90)]);
    assert_eq!(again.assigned.spans[0].stream, handed.assigned.spans[0].stream);
    assert_eq!(entries(&db).await[0].get_i64("version").ok(), Some(1), "nothing was changed");
}

#[tokio::test]
async fn readers_that_start_at_once_share_one_stream() {
    let db = database().await;
    let ledgers = [open(&db).await.expect("opened"), open(&db).await.expect("opened")];
    for partition in 0..10 {
        let ask = PartitionAsk { partition, ..ask(None) };
        let contract = contract("v");
        let (one, two) = tokio::join!(assign(&ledgers[0], &ask, &contract), assign(&ledgers[1], &ask, &contract));
        assert_eq!(one.assigned.spans, two.assigned.spans);
    }
    assert_eq!(entries(&db).await.len(), 10);
}

#[tokio::test]
async fn another_contract_closes_the_stream_and_leaves_its_rest_to_the_old_one() {
    let db = database().await;
    let ledger = open(&db).await.expect("opened");
    let old = assign(&ledger, &ask(None), &contract("old")).await;
    let marks = LedgerAsk { reserve: vec![mark(&old, 0, 80)], advance: vec![mark(&old, 0, 50)] };
    ledger.settle(&marks).await.expect("not stopped");

    let new = assign(&ledger, &ask(Some(50)), &contract("new")).await;
    assert_eq!(spans(&new), [(50, Some(80), 80), (80, None, 80)]);
    let paths: Vec<_> = new.contracts.iter().map(|contract| contract.decoder.fields_path.as_str()).collect();
    assert_eq!(paths, ["old", "new"]);
    assert_eq!(new.warnings, [Warning::ContractChanged { to: 80, rest: 50..80 }]);

    // The old writer is told where its stream ends, and cannot raise `next` into its neighbour.
    let answer = ledger.settle(&reserve(mark(&old, 0, 120))).await.expect("not stopped");
    assert_eq!((answer.closed, answer.reserved), (vec![mark(&old, 0, 80)], vec![]));
    ledger.settle(&advance(mark(&old, 0, 120))).await.expect("not stopped");
    let again = assign(&ledger, &ask(Some(50)), &contract("new")).await;
    assert_eq!(spans(&again), [(80, None, 80)]);
}

#[tokio::test]
async fn nothing_reserved_while_a_stream_is_closed_lies_past_its_end() {
    let db = database().await;
    let ledger = Arc::new(open(&db).await.expect("opened"));
    let old = assign(&ledger, &ask(None), &contract("old")).await;
    let writer = tokio::spawn({
        let (ledger, old) = (ledger.clone(), old.clone());
        async move {
            let mut confirmed = 0;
            let mut pace = tokio::time::interval(Duration::from_millis(20));
            for upto in 1.. {
                pace.tick().await;
                let answer = ledger.settle(&reserve(mark(&old, 0, upto))).await.expect("not stopped");
                match answer.closed.first() {
                    Some(closed) => return (confirmed, closed.upto),
                    None => confirmed = upto,
                }
            }
            unreachable!("offsets do not end")
        }
    });
    // Wait for the writer to be at it, so that comparisons are lost to it.
    while entries(&db).await[0].get_array("streams").expect("streams")[0]
        .as_document()
        .is_some_and(|stream| stream.get_i64("reserved").unwrap_or(0) < 20)
    {}
    let new = loop {
        match ledger.assign(&ask(None), Assignment(2), &contract("new")).await {
            Err(AssignError::Unavailable(_)) => {}
            handed => break handed.expect("handed over"),
        }
    };
    let (confirmed, to) = writer.await.expect("the writer ends");
    assert_eq!(spans(&new).last(), Some(&(to, None, to)));
    assert!(confirmed <= to, "reserved up to {confirmed}, closed at {to}");
}

#[tokio::test]
async fn an_unknown_decoder_version_is_refused_and_closes_nothing() {
    let db = database().await;
    let ledger = open(&db).await.expect("opened");
    let newer = Contract { decoder_version: 99, ..contract("v") };
    let handed = assign(&ledger, &ask(None), &newer).await;
    ledger.settle(&reserve(mark(&handed, 0, 10))).await.expect("not stopped");
    let before = entries(&db).await;
    let refused = refusal(ledger.assign(&ask(None), Assignment(2), &contract("v")).await);
    assert!(matches!(refused, Refusal::UnknownContract { from: 0, .. }), "{refused}");
    assert!(refused.to_string().contains("99"), "{refused}");
    assert_eq!(entries(&db).await, before);
}

#[tokio::test]
async fn a_recreated_topic_is_refused() {
    let db = database().await;
    let ledger = open(&db).await.expect("opened");
    let known = PartitionAsk { topic_id: Some("first".to_owned()), ..ask(None) };
    let handed = assign(&ledger, &known, &contract("v")).await;
    let marks = LedgerAsk { reserve: vec![mark(&handed, 0, 60)], advance: vec![mark(&handed, 0, 60)] };
    ledger.settle(&marks).await.expect("not stopped");
    // Also of a partition that only the new topic has.
    for partition in [0, 7] {
        let other = PartitionAsk { topic_id: Some("second".to_owned()), partition, ..ask(None) };
        let refused = refusal(ledger.assign(&other, Assignment(2), &contract("v")).await);
        assert!(refused.to_string().contains("`sakia ledger incarnation t`"), "{refused}");
    }
    // Without ids the end of the log tells, but only one that was read after `next` was seen.
    let short = PartitionAsk { high: 59, ..ask(None) };
    let first = ledger.assign(&short, Assignment(2), &contract("v")).await;
    assert!(matches!(first, Err(AssignError::Unavailable(_))), "{first:?}");
    let refused = refusal(ledger.assign(&short, Assignment(2), &contract("v")).await);
    assert!(matches!(refused, Refusal::Recreated { .. }), "{refused}");
    // A newer incarnation of one partition is that of all.
    let Origin { cluster, .. } = (*handed.assigned.origin).clone();
    let id = doc! { "cluster": cluster, "topic": "t", "incarnation": 1, "partition": 0 };
    insert(&db, "readings_ledger", doc! { "_id": id, "version": 1_i64, "topic_id": null, "streams": [] }).await;
    let second = PartitionAsk { topic_id: Some("second".to_owned()), partition: 7, ..ask(None) };
    assert_eq!(assign(&ledger, &second, &contract("v")).await.assigned.origin.incarnation, 1);
}

#[tokio::test]
async fn what_retention_took_is_noted_once() {
    let db = database().await;
    let ledger = open(&db).await.expect("opened");
    assign(&ledger, &ask(Some(10)), &contract("v")).await;
    let late = PartitionAsk { low: 25, ..ask(Some(10)) };
    let handed = assign(&ledger, &late, &contract("v")).await;
    assert_eq!((spans(&handed), handed.warnings), (vec![(25, None, 25)], vec![Warning::Lost(10..25)]));
    assert_eq!(assign(&ledger, &late, &contract("v")).await.warnings, []);
    let entry = entries(&db).await.remove(0);
    let [Bson::Document(lost)] = entry.get_array("lost").expect("noted").as_slice() else { panic!("{entry}") };
    assert_eq!((lost.get_i64("from").ok(), lost.get_i64("to").ok()), (Some(10), Some(25)));
    assert!(lost.get_datetime("at").is_ok(), "{lost}");
}

#[tokio::test]
async fn dead_letters_of_what_is_left_are_handed_over() {
    let db = database().await;
    let ledger = open(&db).await.expect("opened");
    let handed = assign(&ledger, &ask(None), &contract("v")).await;
    let StreamId(s) = handed.assigned.spans[0].stream;
    for (s, offset) in [(s, 9), (s, 10), (s, 12), (s.wrapping_sub(1), 11)] {
        insert(&db, "readings_dead", doc! { "_id": { "s": s, "pos": Position::new(offset, 3).0 } }).await;
    }
    ledger.settle(&advance(mark(&handed, 0, 10))).await.expect("not stopped");
    let dead = assign(&ledger, &ask(None), &contract("v")).await.assigned.dead;
    assert_eq!(dead, [10, 12].map(|offset| (StreamId(s), Position::new(offset, 3))));
}

#[tokio::test]
async fn an_entry_that_is_gone_breaks_its_partition_and_a_stopped_ledger_answers_nothing() {
    let db = database().await;
    let ledger = open(&db).await.expect("opened");
    let handed = assign(&ledger, &ask(None), &contract("v")).await;
    db.collection::<Document>("readings_ledger").drop().await.expect("dropped");
    let answer = ledger.settle(&reserve(mark(&handed, 0, 5))).await.expect("not stopped");
    assert_eq!(answer.broken.len(), 1, "{answer:?}");
    ledger.stop();
    assert_eq!(ledger.settle(&reserve(mark(&handed, 0, 5))).await, None);
    let stopped = ledger.assign(&ask(None), Assignment(2), &contract("v")).await;
    assert!(matches!(stopped, Err(AssignError::Unavailable(_))));
}
