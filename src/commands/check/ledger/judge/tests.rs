//! Entries as a ledger may hold them, against what is said of them.

use super::*;
use crate::commands::check::finding::check_problems;
use crate::commands::check::kafka::{Group, Partition, Topic};
use crate::sink::ledger::entry::Stream;

fn config() -> Config {
    let text = "kafka.brokers = \"h:1\"\nmongo.uri = \"mongodb://h/?replicaSet=rs0\"\n\
                decoder = [{ topics = \"t\", device_path = \"@key\", timestamp_missing = \"kafka\" }]\n";
    Config::from_toml(text).unwrap()
}

fn own() -> String {
    config().contract_for("t").unwrap().fingerprint()
}

/// A topic of one partition that holds offsets 10 to 99.
fn kafka(committed: Option<i64>, young: Option<i64>) -> kafka::Facts {
    let partition = Partition { number: 0, n_replicas: 1, n_in_sync: 1, ends: Ok((10, 100)), committed, young };
    let topic = Topic {
        name: "t".into(),
        partitions: vec![partition],
        id: Ok(Some("id".into())),
        settings: Ok(BTreeMap::new()),
    };
    kafka::Facts {
        cluster: "c".into(),
        brokers: Vec::new(),
        client: String::new(),
        topics: vec![topic],
        visible: Vec::new(),
        group: Ok(Group::default()),
    }
}

fn origin(cluster: &str, topic: &str, partition: i32) -> Origin {
    Origin { cluster: cluster.into(), topic: topic.into(), incarnation: 0, partition }
}

fn entry(next: i64, contract: &str, topic_id: &str) -> Entry {
    let stream = Stream { next, reserved: next, ..Stream::new(StreamId(7), 0, None, contract) };
    Entry { version: 1, topic_id: Some(topic_id.into()), streams: vec![stream], ..Entry::default() }
}

fn facts(entry: Entry) -> Facts {
    Facts { entries: [(origin("c", "t", 0), entry)].into(), ..Facts::default() }
}

/// The findings that are not ok, each against the words that it must hold.
fn check(facts: &Facts, kafka: &kafka::Facts, expected: &[&[&str]]) {
    check_problems(&judge(&config(), facts, kafka), expected);
}

#[test]
fn a_ledger_in_order_is_ok() {
    check(&Facts::default(), &kafka(None, None), &[]);
    check(&facts(entry(50, &own(), "id")), &kafka(Some(50), Some(20)), &[]);
    let findings = judge(&config(), &facts(entry(50, &own(), "id")), &kafka(Some(50), None));
    assert!(findings[0].detail.contains("50 records to store"), "{findings:?}");
}

#[test]
fn a_topic_that_is_another_is_refused() {
    check(
        &facts(entry(50, &own(), "other")),
        &kafka(None, None),
        &[&["Fail", "partition 0", "sakia ledger incarnation t"]],
    );
    check(&facts(entry(150, &own(), "id")), &kafka(None, None), &[&["Fail", "ends at offset 100", "up to 150"]]);
    // Partition 1 was there before, partition 0 is new: the topic's id tells.
    let beside = Facts { entries: [(origin("c", "t", 1), entry(5, &own(), "other"))].into(), ..Facts::default() };
    check(&beside, &kafka(None, None), &[&["Fail", "partition 0", "sakia ledger incarnation t"]]);
    let elsewhere = Facts { entries: [(origin("d", "t", 0), entry(50, &own(), "id"))].into(), ..Facts::default() };
    check(&elsewhere, &kafka(None, None), &[&["Warn", "from cluster d", "kafka.brokers"]]);
}

#[test]
fn records_that_are_gone_or_will_be() {
    check(&facts(entry(5, &own(), "id")), &kafka(None, None), &[&["Fail", "offsets 5 to 9", "retention.ms"]]);
    check(&facts(entry(50, &own(), "id")), &kafka(None, Some(60)), &[&["Warn", "quarter of their retention"]]);
    // All is stored: nothing is left to lose.
    check(&facts(entry(100, &own(), "id")), &kafka(None, Some(100)), &[]);
}

#[test]
fn a_commit_past_what_is_stored_counts_only_while_nobody_works() {
    check(&facts(entry(50, &own(), "id")), &kafka(Some(70), None), &[&["Warn", "commit 70"]]);
    let mut live = kafka(Some(70), None);
    live.group = Ok(Group { members: vec![("sakia".into(), "h".into())], ..Group::default() });
    check(&facts(entry(50, &own(), "id")), &live, &[]);
}

#[test]
fn what_was_begun_under_another_contract() {
    // All that was reserved is stored: it is closed, and nothing is left of it.
    check(&facts(entry(50, "old", "id")), &kafka(None, None), &[&["Note", "takes effect from offset 50"]]);
    let mut begun = entry(50, "old", "id");
    begun.streams[0].reserved = 60;
    let note: &[&str] = &["Note", "finished under the old"];
    check(
        &facts(begun.clone()),
        &kafka(None, None),
        &[note, &["Fail", "offsets from 50", "contract old is not in the ledger"]],
    );
    let with = |text: &str| Facts { contracts: [("old".to_owned(), text.to_owned())].into(), ..facts(begun.clone()) };
    check(&with(&config().contract_for("t").unwrap().text()), &kafka(None, None), &[note]);
    check(&with(r#"{"decoder_version":99}"#), &kafka(None, None), &[note, &["Fail", "version 99", "release"]]);
}

#[test]
fn entries_that_nobody_reads() {
    let orphan = Facts { entries: [(origin("c", "old", 0), entry(5, &own(), "id"))].into(), ..Facts::default() };
    check(&orphan, &kafka(None, None), &[&["Note", "no [[decoder]] names", "old"]]);
    let broken = Facts { damaged: vec![("{ topic: t }".into(), "no streams".into())], ..Facts::default() };
    assert!(damaged(&broken)[0].detail.contains("no streams") && damaged(&broken)[0].mend.contains("rebuild"));
}
