//! Replays of dead letters that are killed at each of their steps, or that run at once. Each is followed by the proof
//! that every reading is stored exactly once.

use std::process::{Command, Output, Stdio};

use serde_json::Value;

use super::dead::{
    CHECK_SMALL, crash_replay, err, numbered_dead, out, replay, replay_to_the_end, rich_dead, run_of, states,
};
use super::stored::{assert_offsets, bytes, samples};

fn interrupted(point: &str, counts: &[u32]) {
    let world = rich_dead(point);
    let mut crashed = crash_replay(&world, point, counts[0], &[]);
    for count in &counts[1..] {
        let run = run_of(&crashed);
        let args: Vec<_> = run.iter().flat_map(|run| ["--resume", run]).collect();
        crashed = crash_replay(&world, point, *count, &args);
    }
    let report = replay_to_the_end(&world, &crashed);
    assert_eq!(report["not_finished"], Value::Array(vec![]), "{report}");
    assert_eq!(states(&world)[1], 0, "{report}");
    world.check(&CHECK_SMALL);
    // Another one finds nothing but what stays bad.
    let before = bytes(&world.buckets());
    replay(&world, &[]);
    assert!(before == bytes(&world.buckets()), "a repeat stored something");
    world.check(&CHECK_SMALL);
}

/// The letters are claimed, and nobody knows for what.
#[test]
fn killed_after_the_claim() {
    interrupted("replay_claimed", &[1, 1]);
}

#[test]
fn killed_before_the_first_write() {
    interrupted("replay_begun", &[1]);
}

#[test]
fn killed_before_a_write() {
    interrupted("before_write", &[2, 1]);
}

/// Stored, and not marked.
#[test]
fn killed_after_a_write() {
    interrupted("after_write", &[1, 2, 3]);
}

#[test]
fn killed_before_a_mark() {
    interrupted("replay_before_mark", &[1, 1]);
}

#[test]
fn killed_after_a_mark() {
    interrupted("replay_after_mark", &[1]);
}

#[test]
fn killed_before_the_end_of_the_run() {
    interrupted("replay_before_end", &[1]);
}

fn at_once(commands: [Command; 2]) -> Vec<Output> {
    let children = commands.map(|mut command| command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    children.into_iter().map(|child| child.wait_with_output().unwrap()).collect()
}

#[test]
fn two_replays_at_once_have_no_letter_in_common() {
    let world = numbered_dead("dead_two", 600);
    let command = || world.sakia("dead", &["replay", "--json"]);
    let outputs = at_once([command(), command()]);
    let stored = outputs.iter().map(|output| {
        assert!(output.status.success(), "{}", err(output));
        serde_json::from_str::<Value>(&out(output)).unwrap()["readings"]["stored"].as_u64().unwrap()
    });
    assert_eq!(stored.sum::<u64>(), 600);
    assert_offsets(&samples(&world), 0..600);
    assert_eq!(states(&world), [0, 0, 600]);
}

#[test]
fn one_run_resumed_twice_at_once_stores_once() {
    let world = numbered_dead("dead_twice", 600);
    let crashed = crash_replay(&world, "after_write", 2, &[]);
    let run = run_of(&crashed).unwrap();
    let command = || world.sakia("dead", &["replay", "--json", "--resume", &run]);
    for output in at_once([command(), command()]) {
        assert!(output.status.success(), "{}", err(&output));
    }
    assert_offsets(&samples(&world), 0..600);
    assert_eq!(states(&world), [0, 0, 600]);
}
