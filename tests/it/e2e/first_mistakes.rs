//! What a newcomer does wrong: each mistake gives a message that names it and what mends it, from `check`, and from
//! `run` where the user meets it first.

use std::io::Write as _;
use std::process::{Output, Stdio};
use std::time::Instant;

use mongodb::bson::{Document, doc};

use super::odd_servers::OddServer;
use super::topics;
use super::world::{NOON, World, reading, until};

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Runs a command that has to end with status 1 and to say all of `words`.
fn says(world: &World, command: &str, args: &[&str], words: &[&str]) {
    let output = world.sakia(command, args).output().unwrap();
    let text = text(&output);
    assert_eq!(output.status.code(), Some(1), "{command} {args:?}:\n{text}");
    for word in words {
        assert!(text.contains(word), "{command} {args:?}: {word:?} is missing:\n{text}");
    }
}

#[test]
fn a_wrong_broker_is_named_with_the_reason() {
    let world = World::new("no_broker", 1);
    let wrong = ["--set", "kafka.brokers=127.0.0.1:1"];
    let started = Instant::now();
    let run = world.sakia("run", &wrong).stderr(Stdio::piped()).spawn().unwrap();
    let words = ["no kafka broker of 127.0.0.1:1 answers", "Connection refused", "check kafka.brokers"];
    says(&world, "check", &wrong, &words);
    let output = run.wait_with_output().unwrap();
    assert!(started.elapsed().as_secs() < 30, "{:?}", started.elapsed());
    let log = text(&output);
    assert_eq!(output.status.code(), Some(1), "{log}");
    assert!(log.contains("error[kafka-unreachable]") && words.iter().all(|word| log.contains(word)), "{log}");
}

/// A decoder for this topic, in place of the world's.
fn decoder(topics: &str) -> String {
    format!(
        "decoder=[{{topics=[{topics}],device_path=\"deviceid\",timestamp_path=\"ts\",timestamp_format=\"unix_ms\"}}]"
    )
}

#[test]
fn a_wrong_topic_is_named_with_the_nearest() {
    let world = World::new("no_topic", 1);
    let wrong = decoder(&format!("\"{}x\"", world.name));
    let near = format!("did you mean {:?}?", world.name);
    let words = [near.as_str(), "does not exist on this cluster"];
    says(&world, "check", &["--set", &wrong], &words);
    says(&world, "check", &["--set", &wrong, "--topic", &format!("{}x", world.name)], &words);
    let words = [&words[..], &["error[topic-missing]"]].concat();
    says(&world, "run", &["--set", &wrong], &words);
    says(&world, "run", &["--set", &wrong, "--until-caught-up"], &words);
}

#[test]
fn a_topic_that_is_made_later_does_not_keep_the_others_waiting() {
    let mut world = World::new("late_topic", 1);
    let late = format!("{}_late", world.name);
    topics::beside(&mut world, &late);
    world.send([reading(0, "early", NOON, 1.0)]);
    let running = world.start(&["--set", "kafka.options.topic.metadata.refresh.interval.ms=1000"]);
    running.until_log("topic is not read until it is there");
    until("the topic that is there", || world.n_samples() == 1);
    topics::create_topic(&late, 1);
    topics::send(&late, [reading(0, "late", NOON, 2.0)]);
    until("the late topic", || world.n_samples() == 2);
    let log = running.stop();
    assert!(log.contains("topic-missing"), "{log}");
}

#[test]
fn a_server_that_stands_alone_is_refused() {
    let server = OddServer::alone();
    let world = World::beside("alone", 1, &server.admin_uri());
    let words = ["stands alone", "rs.initiate()"];
    for uri in [server.admin_uri(), server.uri("", "replicaSet=rs0&serverSelectionTimeoutMS=1000")] {
        let uri = format!("mongo.uri={uri}");
        says(&world, "check", &["--set", &uri], &words);
        says(&world, "run", &["--set", &uri], &["error[mongo-unsuitable]", words[0], words[1]]);
    }
    assert!(world.documents("readings_ledger").is_empty(), "nothing is written there");
}

#[test]
fn a_wrong_server_or_set_is_named() {
    let world = World::new("wrong_server", 1);
    let nobody = "mongo.uri=mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=1000";
    says(&world, "check", &["--set", nobody], &["127.0.0.1:1", "Connection refused", "mongo.uri"]);
    let server = OddServer::set(doc! {});
    let other = format!("mongo.uri={}", server.uri("", "replicaSet=rs9&serverSelectionTimeoutMS=1000"));
    let words = ["replicaSet=rs9", "is called rs0", "write replicaSet=rs0"];
    says(&world, "check", &["--set", &other], &words);
    says(&world, "run", &["--set", &other], &["error[mongo-unsuitable]", words[1]]);
}

/// A user of the server, with these actions on every collection of the database.
fn create_user(server: &OddServer, name: &str, database: &str, actions: &[&str]) {
    let privilege = doc! { "resource": { "db": database, "collection": "" }, "actions": actions.to_vec() };
    server.admin(doc! { "createRole": name, "privileges": [privilege], "roles": Vec::<Document>::new() }).unwrap();
    server.admin(doc! { "createUser": name, "pwd": "pw", "roles": [name] }).unwrap();
}

#[test]
fn rights_that_are_missing_are_named() {
    let server = OddServer::guarded();
    let world = World::beside("rights", 1, &server.admin_uri());
    world.send([reading(0, "dev", NOON, 1.0)]);
    create_user(&server, "reader", &world.name, &["find"]);
    create_user(&server, "writer", &world.name, &["find", "insert", "update"]);
    let as_user = |login: &str| format!("mongo.uri={}", server.uri(login, "replicaSet=rs0"));
    let nobody = as_user("");
    says(&world, "check", &["--set", &nobody], &["names no user", "SAKIA_MONGO"]);
    says(&world, "run", &["--set", &nobody], &["error[rights-missing]", "names no user", "SAKIA_MONGO"]);
    let stranger = as_user("writer:wrong@");
    says(&world, "check", &["--set", &stranger], &["refuses the login", "check user, password and authSource"]);
    says(&world, "run", &["--set", &stranger], &["error[mongo-refused]", "check user, password and authSource"]);
    let reader = as_user("reader:pw@");
    let missing = format!("insert on {0}.readings, update on {0}.readings, insert on {0}.readings_ledger", world.name);
    says(&world, "check", &["--set", &reader], &["reader may not", &missing]);
    says(&world, "run", &["--set", &reader], &["error[rights-missing]", &missing]);
    let (status, log) = world.start(&["--set", &as_user("writer:pw@"), "--until-caught-up"]).wait();
    assert!(status.success(), "{log}");
    assert_eq!(world.n_samples(), 1);
}

#[test]
fn seconds_instead_of_milliseconds_are_recognised() {
    let world = World::new("seconds", 1);
    let mut sent = reading(0, "dev", NOON, 1.0);
    sent.value = Some(format!(r#"{{"deviceid":"dev","ts":{},"temp":1}}"#, NOON / 1000).into_bytes());
    world.send([sent]);
    let log = world.catch_up();
    assert!(log.contains("dead-letters") && log.contains("implausible_time"), "{log}");
    assert!(log.contains("`sakia check --topic TOPIC`"), "{log}");
    let dead = world.dead();
    assert_eq!(dead[0].get_str("reason").unwrap(), "implausible_time");
    assert!(dead[0].get_str("detail").unwrap().contains("as unix it would be near"), "{dead:?}");
    says(&world, "check", &["--topic", &world.name], &["implausible_time", "set timestamp_format = \"unix\""]);
}

#[test]
fn a_wrong_path_is_named_with_the_nearest() {
    let mut world = World::new("path", 1);
    world.decoder("device_path = \"deviceId\"");
    world.send([reading(0, "dev", NOON, 1.0)]);
    let log = world.catch_up();
    assert!(log.contains("dead-letters") && log.contains("missing_device"), "{log}");
    assert_eq!(world.dead()[0].get_str("reason").unwrap(), "missing_device");
    let words = ["device_path \"deviceId\" leads nowhere", "did you mean \"deviceid\"?"];
    says(&world, "check", &["--topic", &world.name], &words);
    let mut sample = world.sakia("check", &["--sample", "-", "--json"]);
    let mut child = sample.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(br#"{"device_id":"a","ts":1,"temp":1}"#).unwrap();
    let output = child.wait_with_output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let fault = &report["records"][0]["faults"][0];
    assert_eq!((&fault["reason"], output.status.code()), (&serde_json::json!("missing_device"), Some(1)));
    assert!(fault["advice"].as_str().unwrap().contains("did you mean \"device_id\"?"), "{report:#}");
}
