//! Dead letters: to be found, shown and counted; and to be stored once their cause is mended, each reading exactly once,
//! whatever interrupts that.

use std::process::Output;

use mongodb::bson::{Binary, Bson, Document, doc, spec::BinarySubtype};
use serde_json::Value;

use super::kills::is_abort;
use super::stored::{assert_offsets, bytes, numbered, samples};
use super::world::{NOON, Sent, World};

/// Small buckets and commands, so that a run takes several plans of several commands.
const SMALL: &str = "[bucket]\nflush_age = \"100ms\"\nmax_samples = 10\n[flow]\nplan_statements = 4\n";
pub(super) const CHECK_SMALL: [&str; 1] = ["--max-samples=10"];

fn dead(world: &World, args: &[&str]) -> Output {
    world.sakia("dead", args).output().unwrap()
}

pub(super) fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(super) fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A replay's report, and its exit status.
pub(super) fn replay(world: &World, args: &[&str]) -> (Value, Option<i32>) {
    let output = dead(world, &[&["replay", "--json"], args].concat());
    let report = serde_json::from_slice(&output.stdout);
    (report.unwrap_or_else(|_| panic!("{}{}", out(&output), err(&output))), output.status.code())
}

fn lines(world: &World, args: &[&str]) -> Vec<Value> {
    let output = dead(world, args);
    assert!(output.status.success(), "{}", err(&output));
    out(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Letters by what became of them: pending, claimed, done.
pub(super) fn states(world: &World) -> [usize; 3] {
    let count = |is: fn(Option<&str>) -> bool| {
        let state = |letter: &Document| {
            letter.get_document("replay").ok().and_then(|r| r.get_str("state").ok().map(str::to_owned))
        };
        world.dead().iter().filter(|letter| is(state(letter).as_deref())).count()
    };
    [count(|s| s.is_none()), count(|s| matches!(s, Some("claimed" | "writing"))), count(|s| s == Some("done"))]
}

/// A mapping that finds no time, in every record.
const WRONG: &str = "timestamp_path = \"when\"";

/// A world whose `n` numbered records are all dead for want of a time, and whose mapping has been corrected since.
pub(super) fn numbered_dead(purpose: &str, n: i64) -> World {
    let mut world = World::new(purpose, 2);
    world.settings(SMALL);
    world.decoder(WRONG);
    world.send((0..n).map(|i| numbered((i % 2) as i32, i, NOON)));
    world.catch_up();
    assert_eq!((world.n_samples(), world.dead().len()), (0, n as usize));
    world.decoder("");
    world
}

#[test]
fn letters_of_a_wrong_mapping_are_stored_once_it_is_corrected() {
    let world = numbered_dead("dead_replay", 300);
    let (report, code) = replay(&world, &["--dry-run"]);
    assert_eq!((&report["readings"]["stored"], code), (&300.into(), Some(0)), "{report}");
    assert_eq!((world.n_samples(), states(&world)), (0, [300, 0, 0]), "a dry run wrote something");
    let (report, code) = replay(&world, &[]);
    assert_eq!((&report["readings"]["stored"], &report["letters"]["done"]), (&300.into(), &300.into()), "{report}");
    assert_eq!((code, states(&world)), (Some(0), [0, 0, 300]));
    assert_offsets(&samples(&world), 0..300);
    assert!(samples(&world).iter().all(|sample| sample.stream < 0), "a replay's stream is known by its sign");
    let before = bytes(&world.buckets());
    let (report, code) = replay(&world, &[]);
    assert_eq!((&report["readings"]["stored"], code), (&0.into(), Some(0)), "{report}");
    // The member that goes on reading is not confused by any of this.
    world.commit(2, 0);
    world.catch_up();
    assert!(before == bytes(&world.buckets()), "a repeat changed something");
    assert_eq!(states(&world), [0, 0, 300]);
}

/// Everything at once: records that are bad as a whole, single readings, some that stay bad for ever. Three mappings in
/// turn read the topic.
pub(super) fn rich_dead(purpose: &str) -> World {
    let mut world = World::new(purpose, 3);
    world.settings(SMALL);
    let produce = |world: &World| {
        world.produce(&["--total=300", "--devices=15", "--readings-per-record=5", "--poison=0.02"]);
        world.catch_up();
    };
    world.decoder("explode = \"nothing\"");
    produce(&world);
    world.decoder("explode = \"readings\"\ndevice_path = \"nobody\"");
    produce(&world);
    world.decoder("explode = \"readings\"");
    produce(&world);
    assert!(world.n_samples() > 0 && world.n_samples() < 400, "{}", world.n_samples());
    world
}

/// The run that a process said it has begun.
pub(super) fn run_of(output: &Output) -> Option<String> {
    let said = err(output);
    let run = said.lines().find_map(|line| line.strip_prefix("run ")?.split_once("; should it be interrupted"));
    run.map(|(run, _)| run.to_owned())
}

/// Replays until a run comes to its end; the run that a crash leaves behind is the one that is resumed.
pub(super) fn replay_to_the_end(world: &World, crashed: &Output) -> Value {
    if let Some(run) = run_of(crashed) {
        return replay(world, &["--resume", &run]).0;
    }
    // It had no time to say its name. Either its letters are free, or whoever comes next is told of it.
    let output = dead(world, &["replay", "--json"]);
    let said = err(&output);
    match said.lines().find_map(|line| line.strip_prefix("run ")?.split_once(" has not ended")) {
        Some((run, _)) => replay(world, &["--resume", run]).0,
        None => serde_json::from_slice(&output.stdout).unwrap(),
    }
}

pub(super) fn crash_replay(world: &World, point: &str, count: u32, args: &[&str]) -> Output {
    let mut command = world.sakia("dead", &["replay"]);
    command.args(args).env("SAKIA_CRASH_AT", format!("{point}:{count}"));
    let output = command.output().unwrap();
    assert!(is_abort(output.status), "{point}:{count} is not passed: {}{}", out(&output), err(&output));
    output
}

#[test]
fn a_replay_stores_each_reading_once() {
    let world = rich_dead("dead_rich");
    let (report, code) = replay(&world, &[]);
    assert_eq!(code, Some(1), "some are bad for ever: {report}");
    world.check(&CHECK_SMALL);
    assert!(report["failed_again"].as_object().is_some_and(|reasons| reasons.len() > 1), "{report}");
    let failed = world.dead().iter().filter(|letter| letter.contains_key("attempts")).count();
    assert_eq!(Value::from(failed), report["letters"]["failed_again"], "{report}");
    let before = world.dead().len();
    let (again, _) = replay(&world, &[]);
    assert_eq!((&again["readings"]["stored"], world.dead().len()), (&0.into(), before), "{again}");
    world.check(&CHECK_SMALL);
}

#[test]
fn a_run_keeps_to_the_mapping_that_it_was_begun_with() {
    let mut world = numbered_dead("dead_mapping", 200);
    let crashed = crash_replay(&world, "after_write", 1, &[]);
    world.decoder("exclude = [\"volt\"]");
    let report = replay_to_the_end(&world, &crashed);
    assert_eq!(report["letters"]["done"], 200, "{report}");
    assert_offsets(&samples(&world), 0..200);
    assert!(samples(&world).iter().all(|sample| sample.info.contains_key("volt")), "two mappings in one run");
    let output = dead(&world, &["replay", "--resume", "0000"]);
    assert!(err(&output).contains("replay-unknown") && output.status.code() == Some(1), "{}", err(&output));
}

#[test]
fn what_fails_again_stays_with_its_new_reason() {
    let mut world = numbered_dead("dead_again", 20);
    world.decoder("device_path = \"nobody\"");
    for attempts in 1..=2 {
        let (report, code) = replay(&world, &[]);
        assert_eq!((code, &report["failed_again"]["missing_device"]), (Some(1), &20.into()), "{report}");
        assert_eq!((states(&world), world.n_samples()), ([20, 0, 0], 0));
        for letter in world.dead() {
            assert_eq!(letter.get_str("reason").unwrap(), "missing_device", "{letter}");
            assert_eq!(letter.get_i32("attempts").unwrap(), attempts, "{letter}");
        }
    }
    world.decoder("");
    let (report, _) = replay(&world, &["--reason", "missing_time"]);
    assert_eq!(report["letters"]["done"], 0, "{report}");
    assert_eq!(replay(&world, &["--reason", "missing_device"]).1, Some(0));
    assert_offsets(&samples(&world), 0..20);
}

fn validate(world: &World, validator: Document) {
    world.command(doc! { "collMod": "readings", "validator": validator });
}

/// No sample of a record whose offset is a multiple of 7.
fn refuse_sevenths() -> Document {
    doc! { "samples.info.temp": { "$nin": (0..60).map(|i| 7 * i).collect::<Vec<_>>() } }
}

#[test]
fn refused_samples_are_stored_once_the_validator_takes_them() {
    let mut world = World::new("dead_refused", 1);
    world.settings(SMALL);
    world.decoder("meta = [\"unit\"]\nstats = [\"volt\"]");
    assert!(world.sakia("init", &[]).output().unwrap().status.success());
    validate(&world, refuse_sevenths());
    world.send((0..100).map(|i| numbered(0, i, NOON)));
    world.catch_up();
    assert_eq!((world.n_samples(), states(&world)), (85, [15, 0, 0]));
    // Refused again: they stay.
    let (report, code) = replay(&world, &[]);
    assert_eq!((code, &report["failed_again"]["refused_by_server"]), (Some(1), &15.into()), "{report}");
    assert_eq!((world.n_samples(), states(&world)), (85, [15, 0, 0]));
    validate(&world, doc! {});
    assert_eq!(replay(&world, &[]).1, Some(0));
    assert_offsets(&samples(&world), 0..100);
    for bucket in world.buckets() {
        let count = bucket.get_i32("count").unwrap();
        let unit = bucket.get_document("meta").and_then(|meta| meta.get_str("unit")).map(str::to_owned);
        assert!(unit.is_ok(), "a replayed sample has the tags of its first bucket: {bucket}");
        assert_eq!(bucket.get_document("stats").unwrap().get_document("volt").unwrap().get_i32("n").unwrap(), count);
    }
}

/// A validator refuses what a replay decodes: readings of a record get letters of their own, others keep theirs.
#[test]
fn what_the_server_refuses_in_a_replay_stays_too() {
    let mut world = numbered_dead("dead_refuse_replay", 100);
    assert!(world.sakia("init", &[]).output().unwrap().status.success());
    validate(&world, refuse_sevenths());
    let crashed = crash_replay(&world, "after_write", 2, &[]);
    replay_to_the_end(&world, &crashed);
    assert_eq!((world.n_samples(), states(&world)), (85, [15, 0, 85]));
    validate(&world, doc! {});
    assert_eq!(replay(&world, &[]).1, Some(0));
    assert_offsets(&samples(&world), 0..100);

    world.decoder("explode = \"nothing\"");
    let element = |i: i64| String::from_utf8(numbered(0, i, NOON).value.unwrap()).unwrap();
    let record = |i: i64| format!("{{\"r\":[{}]}}", [i, i + 1, i + 2].map(element).join(","));
    let sent = |i: i64| Sent { partition: 0, key: String::new(), value: Some(record(i).into_bytes()), timestamp: NOON };
    world.send((100..160).step_by(3).map(sent));
    world.catch_up();
    world.decoder("explode = \"r\"");
    validate(&world, refuse_sevenths());
    let crashed = crash_replay(&world, "after_write", 3, &[]);
    replay_to_the_end(&world, &crashed);
    let refused = (100..160).filter(|i| i % 7 == 0).count();
    assert_eq!((world.n_samples(), states(&world)[0]), (160 - refused, refused));
    validate(&world, doc! {});
    assert_eq!(replay(&world, &[]).1, Some(0));
    assert_offsets(&samples(&world), 0..160);
}

/// Above 16 KiB the record is in its first letter only.
#[test]
fn the_readings_of_a_large_record_find_their_record() {
    let mut world = World::new("dead_large", 1);
    world.settings(SMALL);
    world.decoder("explode = \"r\"\ndevice_path = \"nobody\"");
    let filler = "x".repeat(2_000);
    let element = |i: i64| format!(r#"{{"deviceid":"dev-{i}","ts":{},"temp":{i},"text":"{filler}"}}"#, NOON + i);
    let value = format!("{{\"r\":[{}]}}", (0..20).map(element).collect::<Vec<_>>().join(","));
    world.send([Sent { partition: 0, key: String::new(), value: Some(value.into_bytes()), timestamp: NOON }]);
    world.catch_up();
    assert_eq!(world.dead().iter().filter(|letter| letter.contains_key("value")).count(), 1);
    world.decoder("explode = \"r\"");
    // The first letter alone, then those that lean on it.
    world.command(doc! { "update": "readings_dead", "updates": [
        { "q": { "index": { "$ne": 0 } }, "u": { "$set": { "reason": "later" } }, "multi": true },
    ] });
    assert_eq!(replay(&world, &["--reason", "missing_device"]).0["readings"]["stored"], 1);
    assert_eq!(replay(&world, &[]).0["readings"]["stored"], 19);
    assert_offsets(&samples(&world), 0..20);
}

#[test]
fn what_cannot_be_replayed_is_said_and_left() {
    let world = numbered_dead("dead_cut", 10);
    world.command(doc! { "update": "readings_dead", "updates": [
        { "q": { "offset": 0 }, "u": { "$set": { "value_bytes": 5_000_000_i64 } }, "multi": true },
        { "q": { "offset": 1, "partition": 0 }, "u": { "$set": { "topic": "another" } } },
        { "q": { "offset": 1, "partition": 1 }, "u": { "$unset": { "value": "" } } },
    ] });
    for args in [&["--dry-run"][..], &[]] {
        let (report, code) = replay(&world, args);
        let left: u64 =
            report["letters"]["not_replayable"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum();
        // The letter of another topic is nobody's who asks for all, and yet is named.
        assert_eq!((code, left, &report["readings"]["stored"]), (Some(1), 4, &6.into()), "{report}");
    }
    assert_eq!((world.n_samples(), states(&world)), (6, [4, 0, 6]));
}

#[test]
fn filters_pick_letters_for_every_command() {
    let world = numbered_dead("dead_filters", 40);
    let n = |args: &[&str]| lines(&world, &[&["list", "--json"], args].concat()).len();
    assert_eq!(n(&[]), 40);
    assert_eq!(n(&["--partition", "1"]), 20);
    assert_eq!(n(&["--partition", "1", "--offsets", "5..10"]), 5);
    assert_eq!(n(&["--reason", "malformed"]), 0);
    assert_eq!(n(&["--topic", &world.name, "--reason", "missing_time", "--reason", "malformed"]), 40);
    assert_eq!(n(&["--state", "done"]), 0);
    assert_eq!(n(&["--limit", "3"]), 3);
    assert_eq!(n(&["--from", "2026-11-15T12:00:10Z", "--to", "2026-11-15T12:00:15Z"]), 5);
    let (report, _) = replay(&world, &["--partition", "1", "--offsets", "..5"]);
    assert_eq!(report["letters"]["done"], 5, "{report}");
    assert_eq!((n(&[]), n(&["--state", "done"]), n(&["--state", "all"])), (35, 5, 40));
    let counted = lines(&world, &["count", "--json"]);
    let letters: Vec<_> =
        counted.iter().map(|row| (row["partition"].as_i64(), row["state"].as_str(), row["letters"].as_i64())).collect();
    let expected =
        [(Some(0), Some("pending"), Some(20)), (Some(1), Some("done"), Some(5)), (Some(1), Some("pending"), Some(15))];
    assert_eq!(letters, expected);
    let table = out(&dead(&world, &["count", "--partition", "1"]));
    assert!(table.lines().last().is_some_and(|line| line.starts_with("all") && line.ends_with(" 20")), "{table}");
    let table = out(&dead(&world, &["list", "--limit", "1"]));
    assert!(table.contains(&format!("{}/0/0/0", world.name)) && table.contains("no timestamp path"), "{table}");
    let misuse = dead(&world, &["list", "--from", "yesterday"]);
    assert!(misuse.status.code() == Some(2) && err(&misuse).contains("2026-11-30"), "{}", err(&misuse));
}

#[test]
fn a_letter_is_shown_with_the_byte_that_is_wrong() {
    let world = World::new("dead_show", 1);
    let sent = |value: &[u8]| Sent { partition: 0, key: "k".into(), value: Some(value.to_vec()), timestamp: NOON };
    world.send([sent(br#"{"deviceid":"d","ts":1,"temp":}"#), sent(b"\xff\xfe{}")]);
    world.catch_up();
    let place = |offset: i64| format!("{}/0/{offset}", world.name);
    let shown = out(&dead(&world, &["show", &place(0)]));
    for part in ["malformed", "key:      \"k\"", "\"temp\": \n", "^ byte 30", "2026-11-15T12:00:00"] {
        assert!(shown.contains(part.trim_end()), "{part:?} is missing:\n{shown}");
    }
    let shown = out(&dead(&world, &["show", &place(1)]));
    assert!(shown.contains("00000000  ff fe 7b 7d") && shown.contains("^^ byte 0"), "{shown}");
    let shown = lines(&world, &["show", &place(1), "--json"]);
    assert_eq!(shown[0]["value"]["hex"], "fffe7b7d", "{shown:?}");
    let unknown = dead(&world, &["show", &place(2)]);
    assert!(unknown.status.code() == Some(1) && err(&unknown).contains("dead-letter-unknown"), "{}", err(&unknown));
    let value = world.dead()[1].get("value").unwrap().clone();
    assert_eq!(value, Bson::Binary(Binary { subtype: BinarySubtype::Generic, bytes: b"\xff\xfe{}".to_vec() }));
}
