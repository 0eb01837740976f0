//! Servers as they answered, and one sharded cluster, against what is said of them.

use mongodb::bson::{DateTime, Document, doc};

use super::*;
use crate::commands::check::finding::check_problems;
use crate::commands::init::survey::Found;

const NOW: i64 = 1_794_744_000_000;

fn config(more: &str) -> Config {
    let minimal = "kafka.brokers = \"h:1\"\nmongo.uri = \"mongodb://h/?replicaSet=rs0\"\n\
                   decoder = [{ topics = \"t\", device_path = \"@key\", timestamp_missing = \"kafka\" }]\n";
    Config::from_toml(&format!("{minimal}{more}")).unwrap()
}

fn survey(config: &Config) -> Survey {
    let mut survey = Survey::default();
    for name in Names::of(config).all() {
        let found = Found { kind: "collection".into(), options: doc! {} };
        survey.collections.insert(name.to_owned(), found);
    }
    // The server shows a view's options as they were in the command that made it.
    let made = steps::steps(config, &survey).unwrap().steps.into_iter().filter_map(|step| step.command);
    let view =
        made.filter(|command| command.contains_key("viewOn")).map(|options| (Names::of(config).samples, options));
    survey.collections.extend(view.map(|(name, options)| (name, Found { kind: "view".into(), options })));
    let namespace = format!("{}.{}", config.mongo.database, config.mongo.collection);
    survey.header = Some(crate::sink::ledger::header(&namespace, &config.fields));
    survey
}

fn sound(config: &Config) -> Facts {
    let set = doc! { "_id": "rs0", "members": [{ "host": "h:1" }], "writeConcernMajorityJournalDefault": true };
    Facts {
        hosts: vec!["h:1".into()],
        is_direct: false,
        version: Ok("6.0.5".into()),
        topology: Topology::ReplicaSet,
        set: Some(Ok(set)),
        rights: doc! { "authInfo": { "authenticatedUsers": [], "authenticatedUserPrivileges": [] } },
        survey: Ok(survey(config)),
        index_uses: Ok(Vec::new()),
        engine: Ok(Some("wiredTiger".into())),
    }
}

/// The findings that are not ok, each against the words that it must hold.
fn check(config: &Config, facts: &Facts, expected: &[&[&str]]) {
    check_problems(&judge(config, facts, NOW), expected);
}

#[test]
fn a_sound_server_is_ok() {
    check(&config(""), &sound(&config("")), &[]);
}

#[test]
fn the_server_itself() {
    let config = config("");
    let old = Facts { version: Ok("4.4.29".into()), ..sound(&config) };
    check(&config, &old, &[&["Fail", "4.4.29", "older than 5.0", "newer server"]]);
    let memory = Facts { engine: Ok(Some("inMemory".into())), ..sound(&config) };
    check(&config, &memory, &[&["Fail", "inMemory"]]);
    let closed = Facts { engine: Err("denied".into()), index_uses: Err("denied".into()), ..sound(&config) };
    check(&config, &closed, &[&["Note", "storage engine is not known: denied"], &["Note", "not judged: denied"]]);
    let closed = Facts { set: Some(Err("denied".into())), ..sound(&config) };
    check(&config, &closed, &[&["Note", "denied", "journaling is not judged"]]);
}

#[test]
fn the_replica_set() {
    let config = config("");
    let with = |set: Document, is_direct| Facts { set: Some(Ok(set)), is_direct, ..sound(&config) };
    let lax = doc! { "_id": "rs0", "members": [{ "host": "h:1" }], "writeConcernMajorityJournalDefault": false };
    check(&config, &with(lax, false), &[&["Fail", "writeConcernMajorityJournalDefault", "rs.reconfig"]]);
    let arbiter =
        doc! { "_id": "rs0", "members": [{ "host": "a" }, { "host": "b" }, { "host": "c", "arbiterOnly": true }] };
    check(&config, &with(arbiter, false), &[&["Warn", "arbiter"]]);
    let three = doc! { "_id": "rs0", "members": [{ "host": "a" }, { "host": "b" }, { "host": "c" }] };
    check(&config, &with(three.clone(), false), &[]);
    check(&config, &with(three, true), &[&["Warn", "directConnection=true"]]);
}

#[test]
fn rights() {
    let config = config("");
    let may = |actions: &[&str]| doc! { "resource": { "db": "sakia", "collection": "" }, "actions": actions.to_vec() };
    let user = |actions: &[&str]| {
        let users = vec![doc! { "user": "ingest", "db": "admin" }];
        let rights =
            doc! { "authInfo": { "authenticatedUsers": users, "authenticatedUserPrivileges": [may(actions)] } };
        Facts { rights, ..sound(&config) }
    };
    check(&config, &user(&["find", "insert", "update"]), &[]);
    let update = "ingest may not: update on sakia.readings, update on sakia.readings_ledger";
    check(&config, &user(&["find", "insert"]), &[&["Fail", update, "--print-roles"]]);
    let locked = Facts { survey: Err("command find requires authentication (code 13)".into()), ..sound(&config) };
    check(&config, &locked, &[&["Fail", "names no user", "SAKIA_MONGO"], &["Note", "not judged"]]);
}

#[test]
fn collections_that_are_missing_or_other_than_configured() {
    let plain = config("");
    let empty = Facts { survey: Ok(Survey::default()), ..sound(&plain) };
    let missing: &[&str] = &["Warn", "not there yet", "header of readings_ledger", "sakia init"];
    check(&plain, &empty, &[missing]);
    let ttl = config("storage.ttl = \"400d\"\n");
    check(&ttl, &sound(&ttl), &[&["Warn", "not there yet: index that deletes buckets", "sakia init"]]);
    let zstd = config("storage.compressor = \"zstd\"\n");
    check(&zstd, &sound(&zstd), &[&["Note", "block_compressor=snappy", "no effect"]]);
    let mut collated = survey(&plain);
    collated.collections.get_mut("readings").unwrap().options = doc! { "collation": { "locale": "en" } };
    check(&plain, &Facts { survey: Ok(collated), ..sound(&plain) }, &[&["Fail", "collation \"en\""]]);
}

#[test]
fn a_sharded_cluster() {
    let config = config("");
    let sharded = |key: Option<Document>| {
        let mut survey = survey(&config);
        survey.shard_keys.extend(key.map(|key| ("readings".to_owned(), key)));
        Facts { topology: Topology::Sharded, set: None, survey: Ok(survey), ..sound(&config) }
    };
    check(&config, &sharded(Some(doc! { "deviceid": "hashed" })), &[]);
    check(&config, &sharded(Some(doc! { "deviceid": 1, "date": 1 })), &[]);
    check(&config, &sharded(Some(doc! { "site": 1 })), &[&["Fail", "sharded by site", "deviceid and date"]]);
    check(&config, &sharded(None), &[&["Note", "not sharded", "sh.shardCollection(\"sakia.readings\", { deviceid: 1"]]);
}

#[test]
fn indexes() {
    let config = config("");
    let with = |index: Document, ops: i64, age_days: i64| {
        let mut survey = survey(&config);
        let since = DateTime::from_millis(NOW - age_days * DAY_MS);
        let used = doc! { "name": "mine", "accesses": { "ops": ops, "since": since } };
        survey.indexes = vec![doc! { "name": "_id_", "key": { "_id": 1 } }, index];
        Facts { survey: Ok(survey), index_uses: Ok(vec![used]), ..sound(&config) }
    };
    let plain = doc! { "name": "mine", "key": { "meta.site": 1 } };
    check(&config, &with(plain.clone(), 3, 30), &[]);
    check(&config, &with(plain.clone(), 0, 1), &[&["Note", "index mine", "not used", "dropIndex(\"mine\")"]]);
    check(&config, &with(plain, 0, 30), &[&["Warn", "index mine", "not used"]]);
    let unique = doc! { "name": "mine", "key": { "deviceid": 1 }, "unique": true };
    check(&config, &with(unique, 9, 1), &[&["Fail", "unique on deviceid", "dropIndex"]]);
    let expiring = doc! { "name": "mine", "key": { "last": 1 }, "expireAfterSeconds": 60 };
    check(&config, &with(expiring, 9, 1), &[&["Warn", "deletes buckets 60 s after last"]]);
}

#[test]
fn retention_against_window_and_plausible_times() {
    let judged = |more: &str| judge_ttl(&config(more)).map(|f| format!("{:?} {} -> {}", f.state, f.detail, f.mend));
    assert_eq!(judged(""), None);
    assert_eq!(judged("storage.ttl = \"400d\"\n"), None);
    let late = judged("storage.ttl = \"30d\"\n").unwrap();
    assert!(late.starts_with("Note") && late.contains("366 days") && late.contains("\"29d\""), "{late}");
}
