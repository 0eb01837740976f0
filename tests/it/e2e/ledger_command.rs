//! `sakia ledger`: looked at, skipped, begun anew for a recreated topic, made again after a loss.

use std::process::{Command, Output, Stdio};

use mongodb::bson::doc;
use serde_json::Value;

use super::stored::{assert_offsets, bytes, crash, numbered, samples, streams};
use super::topics;
use super::world::{NOON, World, until};

/// `sakia ledger ARGS`, without a terminal.
fn ledger(world: &World, args: &[&str]) -> Output {
    let plain = world.sakia("ledger", &[]);
    let all: Vec<_> = plain.get_args().collect();
    let at = all.iter().position(|arg| *arg == "ledger").unwrap() + 1;
    let mut command = Command::new(plain.get_program());
    command.args(&all[..at]).args(args).args(&all[at..]).stdin(Stdio::null());
    for (name, _) in plain.get_envs() {
        command.env_remove(name);
    }
    command.output().unwrap()
}

/// The same where it must succeed: what it prints.
fn told(world: &World, args: &[&str]) -> String {
    let output = ledger(world, args);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{args:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// The same where it must fail and change nothing: what it says, and that it says all of `says`.
fn refused(world: &World, args: &[&str], says: &[&str]) {
    let before = bytes(&world.documents("readings_ledger"));
    let output = ledger(world, args);
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert_eq!(output.status.code(), Some(1), "{args:?}: {text}");
    for words in says {
        assert!(text.contains(words), "{words:?} is missing: {text}");
    }
    assert!(before == bytes(&world.documents("readings_ledger")), "{args:?} changed the ledger");
}

fn shown(world: &World, args: &[&str]) -> Value {
    serde_json::from_str(&told(world, &[&["show", "--json"], args].concat())).unwrap()
}

/// The timeline of the first partition shown, as `from..to state`.
fn timeline(shown: &Value) -> Vec<String> {
    let segments = shown["partitions"][0]["timeline"].as_array().unwrap();
    segments.iter().map(|s| format!("{}..{} {}", s["from"], s["to"], s["state"].as_str().unwrap())).collect()
}

fn at(world: &World, partition: i32) -> String {
    format!("{}/{partition}", world.name)
}

#[test]
fn it_is_shown_to_people_and_to_programs() {
    let world = World::new("show", 2);
    world.send((0..150).map(|i| numbered(i32::from(i >= 100), i, NOON)));
    world.catch_up();
    world.send((150..170).map(|i| numbered(1, i, NOON)));

    let text = told(&world, &[]);
    let of_1 = text.lines().find(|line| line.starts_with(&at(&world, 1))).unwrap();
    assert!(of_1.contains("log 0 to 70") && of_1.contains("lag 20"), "{text}");
    assert!(text.contains("0 to              99") && text.contains("stored") && text.contains("waiting"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");

    let all = shown(&world, &[]);
    assert_eq!(all["partitions"].as_array().unwrap().len(), 2);
    assert_eq!(timeline(&all), ["0..100 stored"]);
    let one = shown(&world, &["--topic", &world.name, "--partition", "1"]);
    assert_eq!(timeline(&one), ["0..50 stored", "50..70 waiting"]);
    assert_eq!((&one["partitions"][0]["lag"], &one["partitions"][0]["log"]["high"]), (&20.into(), &70.into()));
    assert!(one["partitions"][0]["streams"][0]["s"].as_str().unwrap().parse::<i64>().is_ok());

    let contract = &one["contracts"][0];
    let fingerprint = contract["fingerprint"].as_str().unwrap();
    assert!(contract["first_seen"].is_string(), "{contract}");
    let text: Value = serde_json::from_str(&told(&world, &["contract", &fingerprint[..9]])).unwrap();
    assert_eq!(text, contract["contract"]);
    assert_eq!(text["decoder"]["device_path"][0], "deviceid");
    refused(&world, &["contract", "none"], &["error[ledger-refused]", "holds no contract none"]);

    // Kafka need not answer.
    let away = ledger(&world, &["--json", "--set", "kafka.brokers=127.0.0.1:1"]);
    assert!(away.status.success() && String::from_utf8_lossy(&away.stderr).contains("without the ends of the log"));
    assert_eq!(timeline(&serde_json::from_slice(&away.stdout).unwrap()), ["0..100 stored"]);
}

#[test]
fn dangerous_ones_show_what_they_would_do_and_ask() {
    let world = World::new("ask", 1);
    world.send((0..50).map(|i| numbered(0, i, NOON)));
    world.catch_up();
    world.send((50..90).map(|i| numbered(0, i, NOON)));
    let place = at(&world, 0);
    let plan = "offsets 50 to 69 are left out (20); it goes on at 70";
    let asked = ["error[not-confirmed]", "nothing was changed", "--yes", plan];
    refused(&world, &["skip", &place, "--to", "70"], &asked);
    let before = bytes(&world.documents("readings_ledger"));
    assert!(told(&world, &["skip", &place, "--to", "70", "--dry-run"]).contains(plan));
    assert!(before == bytes(&world.documents("readings_ledger")), "a dry run changed the ledger");
    refused(&world, &["skip", &place, "--to", "91", "--yes"], &["error[ledger-refused]", "outside the log"]);
    refused(&world, &["skip", &place, "--to", "50", "--yes"], &["nothing to skip"]);
    refused(&world, &["skip", &at(&world, 7), "--to", "latest", "--yes"], &["has no partition 7"]);
    refused(&world, &["incarnation", &world.name, "--yes"], &["it is the topic that the ledger knows"]);
    refused(&world, &["incarnation", "other", "--yes"], &["no [[decoder]] names topic other"]);
    assert!(told(&world, &["rebuild", "--yes"]).contains("nothing to rebuild"));
}

/// The member cannot know of the skip: it has records of the hole in its hands when it learns.
#[test]
fn a_skip_beside_a_running_member_leaves_out_exactly_the_hole() {
    let world = World::new("skip_live", 1);
    world.send((0..600).map(|i| numbered(0, i, NOON)));
    let running = world.start(&[]);
    until("600 samples and their marks", || world.committed(1) == [Some(600)]);
    running.signal("STOP");
    world.send((600..2_000).map(|i| numbered(0, i, NOON)));
    told(&world, &["skip", &at(&world, 0), "--to", "1500", "--yes"]);
    running.signal("CONT");
    until("the records past the hole", || world.committed(1) == [Some(2_000)]);
    let log = running.stop();
    assert!(log.contains("records were skipped on purpose"), "{log}");
    assert_offsets(&samples(&world), (0..600).chain(1_500..2_000));
    let expected = ["0..600 stored", "600..1500 skipped", "1500..2000 stored"];
    assert_eq!(timeline(&shown(&world, &[])), expected);
    // No commit brings the hole back.
    world.commit(1, 0);
    world.catch_up();
    assert_offsets(&samples(&world), (0..600).chain(1_500..2_000));
}

#[test]
fn what_may_be_under_way_is_finished_before_the_hole() {
    let world = World::new("skip_rest", 1);
    world.send((0..600).map(|i| numbered(0, i, NOON)));
    crash(&world, "after_write", 1);
    let entry = world.ledger().remove(0);
    let [next, reserved] = ["next", "reserved"].map(|name| streams(&entry)[0].get_i64(name).unwrap());
    assert!(next < reserved, "{entry}");
    world.send((600..900).map(|i| numbered(0, i, NOON)));
    let text = told(&world, &["skip", &world.name, "--to", "latest", "--yes"]);
    assert!(text.contains("may be under way and are finished first"), "{text}");
    world.send((900..950).map(|i| numbered(0, i, NOON)));
    world.catch_up();
    assert_offsets(&samples(&world), (0..reserved).chain(900..950));
}

#[test]
fn a_recreated_topic_goes_on_in_a_new_incarnation() {
    let world = World::new("incarnation", 1);
    world.send((0..100).map(|i| numbered(0, i, NOON)));
    world.catch_up();
    world.delete_topic();
    world.create_topic(2);
    until("the new topic", || topics::n_partitions(&world.name) == 2);
    world.send((500..900).map(|i| numbered((i % 2) as i32, i, NOON)));
    let (status, log) = world.start(&["--until-caught-up"]).wait();
    assert!(!status.success() && log.contains("`sakia ledger incarnation"), "{log}");
    let text = told(&world, &["incarnation", &world.name, "--yes"]);
    assert!(text.contains("the ledger knows it as") && text.contains("its 2 partitions"), "{text}");
    world.catch_up();
    assert_offsets(&samples(&world), (0..100).chain(500..900));
    refused(&world, &["incarnation", &world.name, "--yes"], &["it is the topic that the ledger knows"]);
    let text = told(&world, &[]);
    assert!(text.contains("incarnation 0, of a topic that is gone") && text.contains("incarnation 1"), "{text}");
    world.catch_up();
    assert_offsets(&samples(&world), (0..100).chain(500..900));
}

/// Stores most of it, the last part only half, and loses the ledger.
fn lose_ledger(world: &World) {
    world.produce(&["--total", "12000", "--devices", "50", "--poison", "0.002", "--late", "0.01"]);
    world.catch_up();
    world.produce(&["--total", "12000", "--devices", "50", "--poison", "0.002", "--late", "0.01"]);
    crash(world, "after_write", 2);
    world.command(doc! { "drop": "readings_ledger" });
    let (status, log) = world.start(&["--until-caught-up"]).wait();
    assert!(!status.success() && log.contains("`sakia ledger rebuild`"), "{log}");
    told(world, &["rebuild", "--dry-run"]);
    assert!(world.documents("readings_ledger").is_empty(), "a dry run made a ledger");
}

#[test]
fn a_lost_ledger_is_rebuilt_with_the_commits_of_the_group() {
    let world = World::new("rebuild", 3);
    lose_ledger(&world);
    let text = told(&world, &["rebuild", "--yes"]);
    assert!(text.contains("the group has committed") && text.contains("only what is missing is stored"), "{text}");
    world.catch_up();
    world.check(&[]);
    let before = bytes(&world.buckets());
    assert!(told(&world, &["rebuild", "--yes"]).contains("nothing to rebuild"));
    world.catch_up();
    assert!(before == bytes(&world.buckets()), "documents were changed");
}

#[test]
fn a_lost_ledger_is_rebuilt_without_any_commit() {
    let world = World::new("rebuild_blind", 3);
    lose_ledger(&world);
    world.forget_group();
    let text = told(&world, &["rebuild", "--yes"]);
    assert!(text.contains("no commit is known"), "{text}");
    world.catch_up();
    world.check(&[]);
}

#[test]
fn a_rebuild_does_not_read_again_what_was_written_under_another_configuration() {
    let mut world = World::new("rebuild_contract", 1);
    world.send((0..300).map(|i| numbered(0, i, NOON)));
    world.catch_up();
    world.decoder("exclude = [\"volt\"]");
    world.send((300..500).map(|i| numbered(0, i, NOON)));
    world.catch_up();
    let before = bytes(&world.buckets());
    // By the commit, the first stream is complete.
    world.command(doc! { "drop": "readings_ledger" });
    told(&world, &["rebuild", "--yes"]);
    world.catch_up();
    // Without it somebody has to say so.
    world.command(doc! { "drop": "readings_ledger" });
    let blind = ["rebuild", "--ignore-commits", "--yes"];
    refused(&world, &blind, &["offsets 0 to 299", "--older reread", "--older complete"]);
    told(&world, &[&blind[..], &["--older", "complete"]].concat());
    world.catch_up();
    assert!(before == bytes(&world.buckets()), "documents were changed");
    assert_offsets(&samples(&world), 0..500);
    world.command(doc! { "drop": "readings_ledger" });
    world.settings("[bucket]\nflush_age = \"300ms\"\nwindow = \"5m\"\nwindow_offset = \"1m\"\n");
    refused(&world, &["rebuild", "--yes"], &["are not of windows of 300000 ms", "bucket.window"]);
}

#[test]
fn a_rebuild_beside_running_members_is_refused() {
    let world = World::new("rebuild_live", 1);
    world.send((0..50).map(|i| numbered(0, i, NOON)));
    let running = world.start(&[]);
    until("50 samples", || world.committed(1) == [Some(50)]);
    world.command(doc! { "drop": "readings_ledger" });
    refused(&world, &["rebuild", "--yes"], &["1 running members", "stop all of them first"]);
    world.send((50..90).map(|i| numbered(0, i, NOON)));
    running.until_log("is gone while it is written");
    running.stop();
    told(&world, &["rebuild", "--yes"]);
    world.catch_up();
    assert_offsets(&samples(&world), 0..90);
}
