//! What `sakia check` finds: each thing produced once on real services. What these cannot be made to show (brokers that
//! are behind, a cluster of shards, old servers) is judged from facts in unit tests.

use std::time::Duration;

use mongodb::bson::{Document, doc};
use rdkafka::admin::{AdminOptions, NewTopic, TopicReplication};
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use serde_json::Value;
use tokio::runtime::Runtime;

use super::odd_servers::OddServer;
use super::topics;
use super::world::{NOON, World, admin, client, reading, until};

/// The report, and whether it is content.
pub(super) fn report(world: &World, args: &[&str]) -> (Value, bool) {
    let output = world.sakia("check", &[&["--json"], args].concat()).output().unwrap();
    let report = serde_json::from_slice(&output.stdout);
    let report = report.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    (report, output.status.success())
}

/// Asserts that there is a finding of this state whose text holds all of `words`.
pub(super) fn finds(world: &World, args: &[&str], expected: &[(&str, &[&str])]) {
    let (report, is_content) = report(world, args);
    let findings = report["findings"].as_array().unwrap();
    for (state, words) in expected {
        let is_it = |finding: &&Value| {
            let text =
                ["area", "what", "detail", "mend"].map(|key| finding[key].as_str().unwrap_or_default()).join(" ");
            finding["state"] == *state && words.iter().all(|word| text.contains(word))
        };
        assert!(findings.iter().any(|finding| is_it(&finding)), "{state} {words:?} is missing:\n{report:#}");
    }
    assert_eq!(is_content, report["fail"] == 0, "{report:#}");
}

fn init(world: &World) {
    let output = world.sakia("init", &[]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn names(world: &World) -> usize {
    let listed = world.command(doc! { "listCollections": 1, "nameOnly": true });
    listed.get_document("cursor").unwrap().get_array("firstBatch").unwrap().len()
}

#[test]
fn an_installation_in_order_is_ok_and_nothing_is_written() {
    let world = World::new("check", 2);
    finds(
        &world,
        &[],
        &[("warn", &["not there yet: collection readings", "sakia init"]), ("ok", &["group", "is new"])],
    );
    assert_eq!(names(&world), 0, "check made a collection");
    init(&world);
    world.send((0..10).map(|i| reading((i % 2) as i32, "dev", NOON + i, 1.0)));
    world.catch_up();
    let ledger = world.documents("readings_ledger");
    let (found, is_content) = report(&world, &[]);
    assert!(is_content && found["warn"] == 0 && found["note"] == 0, "{found:#}");
    finds(&world, &[], &[("ok", &["ledger", "2 of 2 partitions known, 0 records to store"])]);
    assert_eq!(world.documents("readings_ledger"), ledger, "check changed the ledger");
    let table = world.sakia("check", &[]).output().unwrap();
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    for line in ["configuration\n", "kafka\n", "mongodb\n", "ledger\n", "0 warnings, 0 failures\n", "sakia.toml"] {
        assert!(table.contains(line), "{line:?} is missing:\n{table}");
    }
}

#[test]
fn what_a_topic_and_its_group_suffer_from() {
    let mut world = World::new("check_topic", 1);
    let name = format!("{}_b", world.name);
    let topic = NewTopic::new(&name, 1, TopicReplication::Fixed(1))
        .set("cleanup.policy", "compact,delete")
        .set("retention.ms", "3600000")
        .set("max.message.bytes", "100000000");
    let created = Runtime::new().unwrap().block_on(admin().create_topics([&topic], &AdminOptions::new())).unwrap();
    assert!(created.iter().all(Result::is_ok), "{created:?}");
    topics::beside(&mut world, &name);
    let billing: BaseConsumer = client().set("group.id", &world.name).set("client.id", "billing").create().unwrap();
    billing.subscribe(&[&world.name]).unwrap();
    until("the other member has joined", || {
        billing.poll(Duration::from_millis(100));
        billing.assignment().is_ok_and(|held| held.count() > 0)
    });
    finds(
        &world,
        &[],
        &[
            ("warn", &[&name, "is compacted", "cleanup.policy=delete"]),
            ("note", &[&name, "less than a day"]),
            ("warn", &[&name, "100000000 bytes", "flow.memory_budget"]),
            ("fail", &["billing at ", "kafka.group"]),
        ],
    );
}

#[test]
fn idle_members_are_counted() {
    let world = World::new("check_idle", 1);
    let running = [world.start(&[]), world.start(&[])];
    let idle: (&str, &[&str]) = ("note", &["2 members for 1 partitions: 1 are idle"]);
    until("both have joined", || report(&world, &[]).0.to_string().contains(idle.1[0]));
    finds(&world, &[], &[idle]);
    for member in running {
        member.stop();
    }
}

#[test]
fn records_that_were_or_will_be_lost() {
    let world = World::new("check_lost", 1);
    world.send((0..10).map(|i| reading(0, "dev", NOON + i, 1.0)));
    world.catch_up();
    world.send((10..20).map(|i| reading(0, "dev", NOON + i, 1.0)));
    // Time passes: the records get old in the eyes of a topic that keeps them for less time.
    let old_ms = sakia::clock::wall_ms() - NOON;
    set_retention(&world.name, old_ms + old_ms / 10);
    finds(&world, &[], &[("warn", &["quarter of their retention", "retention.ms"])]);
    set_retention(&world.name, -1);
    topics::delete_records(&world.name, 0, 15);
    finds(&world, &[], &[("fail", &["partition 0", "offsets 10 to 14 were deleted by the broker"])]);
    world.catch_up();
    finds(&world, &[], &[("ok", &["0 records to store"])]);
    world.send((20..30).map(|i| reading(0, "dev", NOON + i, 1.0)));
    world.commit(1, 25);
    finds(&world, &[], &[("warn", &["commit 25 is past offset 20"])]);
}

fn set_retention(topic: &str, ms: i64) {
    use rdkafka::admin::{AlterConfig, ResourceSpecifier};
    let value = ms.to_string();
    let alter = AlterConfig::new(ResourceSpecifier::Topic(topic)).set("retention.ms", &value);
    let altered = Runtime::new().unwrap().block_on(admin().alter_configs([&alter], &AdminOptions::new())).unwrap();
    assert!(altered.iter().all(Result::is_ok), "{altered:?}");
}

#[test]
fn a_ledger_that_does_not_fit() {
    let mut world = World::new("check_ledger", 1);
    world.send((0..10).map(|i| reading(0, "dev", NOON + i, 1.0)));
    world.catch_up();
    world.decoder("exclude = [\"debug\"]");
    finds(&world, &[], &[("note", &["takes effect from offset 10"])]);
    world.decoder("");
    let set = |q: Document, u: Document| {
        let changed = world.command(doc! { "update": "readings_ledger", "updates": [{ "q": q, "u": u }] });
        assert_eq!(changed.get_i32("n").unwrap(), 1, "{changed}");
    };
    let header = || doc! { "_id": "header" };
    let entry = || doc! { "streams": { "$exists": true } };
    set(entry(), doc! { "$set": { "streams.0.contract": "lost", "streams.0.reserved": 15_i64 } });
    finds(&world, &[], &[("fail", &["offsets from 10 cannot be finished", "contract lost is not in the ledger"])]);
    set(entry(), doc! { "$set": { "streams.0.next": "ten" } });
    finds(&world, &[], &[("fail", &["`next` is not an integer", "sakia ledger rebuild"])]);
    set(header(), doc! { "$set": { "schema": 9 } });
    finds(&world, &[], &[("fail", &["readings_ledger has schema 9"])]);
    set(header(), doc! { "$set": { "schema": 1, "fields.samples": "values" } });
    finds(&world, &[], &[("fail", &["fields.samples is \"values\""])]);
    set(header(), doc! { "$set": { "namespace": "other.readings", "fields.samples": "samples" } });
    finds(&world, &[], &[("fail", &["belongs to \"other.readings\""])]);
    world.command(doc! { "drop": "readings_ledger" });
    finds(&world, &[], &[("fail", &["readings holds documents but readings_ledger has no header"])]);
}

#[test]
fn topics_that_are_others_than_the_ledger_knows() {
    let world = World::new("check_recreated", 1);
    world.send((0..10).map(|i| reading(0, "dev", NOON + i, 1.0)));
    world.catch_up();
    world.delete_topic();
    world.create_topic(1);
    let recreated = format!("sakia ledger incarnation {}", world.name);
    finds(&world, &[], &[("fail", &["the broker's id of the topic is", &recreated])]);
    let entry = world.ledger().remove(0);
    let mut moved = entry.clone();
    moved.get_document_mut("_id").unwrap().insert("cluster", "elsewhere");
    world.command(doc! { "insert": "readings_ledger", "documents": [moved] });
    let id = entry.get("_id").unwrap();
    world.command(doc! { "delete": "readings_ledger", "deletes": [{ "q": { "_id": id }, "limit": 1 }] });
    finds(&world, &[], &[("warn", &["was stored from cluster elsewhere", "kafka.brokers"])]);
    let other = "decoder=[{topics=[\"another\"],device_path=\"@key\",timestamp_missing=\"kafka\"}]";
    finds(&world, &["--set", other], &[("note", &["no [[decoder]] names any more", &world.name])]);
}

#[test]
fn collections_and_indexes_that_hurt() {
    let mut world = World::new("check_mongo", 1);
    init(&world);
    let indexes = vec![
        doc! { "key": { "deviceid": 1 }, "name": "mine", "unique": true },
        doc! { "key": { "last": 1 }, "name": "short", "expireAfterSeconds": 3_600 },
        doc! { "key": { "count": 1 }, "name": "idle" },
    ];
    world.command(doc! { "createIndexes": "readings", "indexes": indexes });
    world.settings("[storage]\nttl = \"30d\"\ncompressor = \"zstd\"\n");
    finds(
        &world,
        &[],
        &[
            ("fail", &["index mine", "is unique on deviceid", "dropIndex(\"mine\")"]),
            ("warn", &["index short", "deletes buckets 3600 s after last"]),
            ("note", &["index idle", "was not used", "dropIndex(\"idle\")"]),
            ("warn", &["not there yet: index that deletes buckets", "sakia init"]),
            ("note", &["block_compressor=snappy", "no effect"]),
            ("note", &["plausible.past", "366 days old", "\"29d\""]),
        ],
    );
    init(&world);
    world.settings("[storage]\nttl = \"60d\"\n");
    finds(&world, &[], &[("warn", &["60 days after date", "differs", "sakia init"])]);
    world.settings("[mongo]\ncollection = \"odd\"\n");
    world.command(doc! { "create": "odd", "collation": { "locale": "en" } });
    finds(&world, &[], &[("fail", &["collation \"en\"", "mongo.collection"])]);
}

#[test]
fn a_server_that_acknowledges_what_it_may_lose() {
    let server = OddServer::set(doc! { "writeConcernMajorityJournalDefault": false });
    let world = World::beside("check_journal", 1, &server.admin_uri());
    finds(&world, &[], &[("fail", &["writeConcernMajorityJournalDefault is false", "rs.reconfig"])]);
}

#[test]
fn samples_are_decoded_as_a_run_would() {
    let world = World::new("check_sample", 2);
    world.send((0..30).map(|i| reading((i % 2) as i32, "dev", NOON + i, i as f64)));
    let (newest, is_content) = report(&world, &["--topic", &world.name, "--n", "4"]);
    let temps = |report: &Value| -> Vec<f64> {
        let records = report["records"].as_array().unwrap();
        records.iter().map(|record| record["readings"][0]["fields"]["temp"].as_f64().unwrap()).collect()
    };
    assert!(is_content && newest["summary"]["readings"] == 4, "{newest:#}");
    assert_eq!(temps(&newest), [26.0, 27.0, 28.0, 29.0]);
    assert_eq!(newest["records"][0]["readings"][0]["window"], "2026-11-15T00:00:00Z");
    let (first, _) = report(&world, &["--topic", &world.name, "--n", "3", "--first"]);
    assert_eq!(temps(&first), [0.0, 1.0, 2.0]);
    let path = world.path().join("day.json");
    let now = sakia::clock::wall_ms();
    let long = "x".repeat(200);
    std::fs::write(
        &path,
        format!(
            "{{\"deviceid\":\"a\",\"ts\":{now},\"temp\":1}}\n{{\"deviceid\":\"b\",\"note\":\"{long}\",\"temp\":?}}\n"
        ),
    )
    .unwrap();
    let output = world.sakia("check", &["--sample", path.to_str().unwrap()]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0] == "line 1" && lines[1].starts_with("  ok    a  ") && lines[2] == "line 2", "{text}");
    assert!(lines[3].starts_with("  fail  malformed") && lines[4].contains("...xxx"), "{text}");
    assert_eq!(lines[4].chars().nth(lines[5].find('^').unwrap()), Some('?'), "{text}");
    assert_eq!(lines[6], "2 records: 1 reading, 1 dead letter, 0 skipped");
}
