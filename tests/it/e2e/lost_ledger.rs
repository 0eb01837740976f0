//! A ledger that is lost beside dead letters and their replays: what covers offsets is told apart from what does not.

use std::process::Output;

use mongodb::bson::{Document, doc};

use super::dead::{crash_replay, err, numbered_dead, out, replay, run_of, states};
use super::stored::{assert_offsets, bytes, numbered, samples};
use super::world::{NOON, World};

fn lose(world: &World) {
    world.command(doc! { "drop": "readings_ledger" });
}

fn rebuild(world: &World, args: &[&str]) -> Output {
    world.sakia("ledger", &[]).args(["rebuild", "--yes"]).args(args).output().unwrap()
}

/// The same where it must succeed: what it prints.
fn rebuilt(world: &World, args: &[&str]) -> String {
    let output = rebuild(world, args);
    assert!(output.status.success(), "{}{}", out(&output), err(&output));
    out(&output)
}

/// Letters that were stored later, a stream before and one after the mapping was corrected, and nothing forgotten.
#[test]
fn replays_cover_no_offsets() {
    let world = numbered_dead("rebuild_replayed", 200);
    world.send((200..400).map(|i| numbered((i % 2) as i32, i, NOON)));
    world.catch_up();
    assert_eq!(replay(&world, &[]).1, Some(0));
    assert_offsets(&samples(&world), 0..400);
    let before = bytes(&world.buckets());
    assert!(rebuilt(&world, &[]).contains("nothing to rebuild"), "a replay's stream is no stranger");

    lose(&world);
    rebuilt(&world, &[]);
    assert!(
        world.documents("readings_ledger").iter().all(|found| found.get_document("_id").is_err() || !is_run(found))
    );
    world.catch_up();
    assert!(before == bytes(&world.buckets()), "documents were changed");

    lose(&world);
    world.forget_group();
    let refused = rebuild(&world, &[]);
    assert!(!refused.status.success() && err(&refused).contains("--older reread"), "{}", err(&refused));
    rebuilt(&world, &["--older", "reread"]);
    world.catch_up();
    assert!(before == bytes(&world.buckets()), "what a replay had stored was stored again");
    assert_eq!(states(&world), [0, 0, 200]);
}

fn is_run(found: &Document) -> bool {
    found.get_document("_id").is_ok_and(|id| id.contains_key("replay"))
}

#[test]
fn letters_alone_need_a_ledger_too() {
    let world = numbered_dead("rebuild_letters", 40);
    lose(&world);
    world.forget_group();
    let (status, log) = world.start(&["--until-caught-up"]).wait();
    assert!(!status.success() && log.contains("readings_dead is not") && log.contains("ledger-empty"), "{log}");
    rebuilt(&world, &[]);
    world.catch_up();
    assert_eq!((world.n_samples(), states(&world)), (0, [40, 0, 0]), "a letter's record was stored beside it");
}

/// What its letters came to is known to nobody: they are left alone, until a person has everything replayed again.
#[test]
fn a_replay_that_lost_its_ledger_is_refused_and_can_be_mended() {
    let world = numbered_dead("rebuild_replaying", 200);
    let crashed = crash_replay(&world, "after_write", 2, &[]);
    let run = run_of(&crashed).unwrap();
    let n_stored = world.n_samples();
    assert!(0 < n_stored && n_stored < 200, "{n_stored}");
    lose(&world);
    let resume = || world.sakia("dead", &["replay", "--resume", &run]).output().unwrap();
    assert!(err(&resume()).contains("ledger-empty"), "{}", err(&resume()));
    let text = rebuilt(&world, &[]);
    assert!(text.contains(&format!("replay {run} was under way and cannot be resumed")), "{text}");
    assert!(!world.documents("readings_ledger").iter().any(is_run), "a run was made up");
    world.catch_up();

    let refused = resume();
    let said = err(&refused);
    assert!(!refused.status.success() && said.contains("replay-unknown") && said.contains("left alone"), "{said}");
    assert_eq!(replay(&world, &[]).0["readings"]["stored"], 0, "letters that may be stored were taken");
    assert_eq!((world.n_samples(), states(&world)[1]), (n_stored, states(&world)[1]));

    // As docs/dead-letters.md says.
    let all = |filter: Document| doc! { "q": filter, "limit": 0 };
    let of_replays = doc! { "_id.s": { "$lt": 0 } };
    world.command(doc! { "delete": "readings", "deletes": [all(of_replays.clone())] });
    world.command(doc! { "delete": "readings_dead", "deletes": [all(of_replays)] });
    let free = doc! { "q": { "replay": { "$exists": true } }, "u": { "$unset": { "replay": "" } }, "multi": true };
    world.command(doc! { "update": "readings_dead", "updates": [free] });
    assert_eq!(replay(&world, &[]).1, Some(0));
    assert_offsets(&samples(&world), 0..200);
    assert_eq!(states(&world), [0, 0, 200]);
}

#[test]
fn letters_past_their_time_to_live_are_neither_stored_nor_called_done() {
    let mut world = World::new("dead_expired", 1);
    let settings = "[bucket]\nflush_age = \"100ms\"\n[storage]\nttl = \"2d\"\n";
    world.settings(settings);
    world.decoder("timestamp_path = \"when\"");
    let now = world.command(doc! { "hello": 1 }).get_datetime("localTime").unwrap().timestamp_millis();
    world.send((0..10).map(|i| numbered(0, i, NOON)));
    world.send((10..30).map(|i| numbered(0, i, now - 60_000)));
    world.catch_up();
    world.decoder("");
    for args in [&["--dry-run"][..], &[]] {
        let (report, code) = replay(&world, args);
        let (letters, readings) = (&report["letters"], &report["readings"]);
        assert_eq!((code, &readings["stored"], &readings["expired"]), (Some(0), &20.into(), &10.into()), "{report}");
        assert_eq!((&letters["done"], &letters["expired"]), (&20.into(), &10.into()), "{report}");
    }
    assert_offsets(&samples(&world), 10..30);
    let count = world.sakia("dead", &["count", "--state", "expired"]).output().unwrap();
    assert!(out(&count).lines().any(|line| line.contains(" expired ") && line.ends_with(" 10")), "{}", out(&count));
    assert_eq!(states(&world), [0, 0, 20]);
    let (report, code) = replay(&world, &[]);
    assert_eq!((&report["readings"]["expired"], code), (&0.into(), Some(0)), "{report}");
}
