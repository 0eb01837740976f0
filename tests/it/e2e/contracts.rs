//! A mapping or a window that changes: what was begun under the old one is finished under it, all else comes under the
//! new one, and each record is stored once.

use super::stored::{Stored, assert_offsets, crash, numbered, samples, streams};
use super::world::{NOON, World, until};

const DAY: i64 = 86_400_000;
const HOUR: i64 = 3_600_000;

/// How the process ended that wrote under the old contract.
#[derive(Clone, Copy)]
enum End {
    Orderly,
    /// Part of the reserved range is written, none of it is known to the ledger.
    Killed,
}

/// Writes under one contract, ends, goes on under another: every sample, and the offset from which the new one rules.
fn change(purpose: &str, end: End, new: impl FnOnce(&mut World)) -> (Vec<Stored>, i64) {
    let mut world = World::new(purpose, 1);
    world.send((0..600).map(|i| numbered(0, i, NOON)));
    match end {
        End::Orderly => drop(world.catch_up()),
        End::Killed => drop(crash(&world, "after_write", 1)),
    }
    new(&mut world);
    world.send((600..1_000).map(|i| numbered(0, i, NOON)));
    let log = world.catch_up();

    let entry = world.ledger().remove(0);
    let [old, live] = *streams(&entry) else { panic!("two streams: {entry}\n{log}") };
    let to = old.get_i64("to").unwrap();
    assert_eq!(["from", "next"].map(|name| live.get_i64(name).unwrap()), [to, 1_000], "{entry}");
    assert!(log.contains(&format!("decoding was configured anew: it takes effect from offset {to}")), "{log}");
    let has_rest = log.contains("are finished under the old configuration first");
    match end {
        End::Orderly => assert!(to == 600 && !has_rest, "{log}"),
        End::Killed => assert!((1..=600).contains(&to) && has_rest, "{log}"),
    }
    assert!(old.get_i64("next").unwrap() >= to, "the rest is finished: {entry}");

    let stored = samples(&world);
    assert_offsets(&stored, 0..1_000);
    for sample in &stored {
        let stream = if sample.offset < to { old } else { live };
        assert_eq!(stream.get_i64("s").unwrap(), sample.stream, "{sample:?}");
    }
    assert_eq!(world.committed(1), [Some(1_000)]);
    let log = world.catch_up();
    assert!(!log.contains("configured anew"), "{log}");
    assert_eq!(samples(&world), stored);
    (stored, to)
}

fn fields_change(purpose: &str, end: End) {
    let (stored, to) = change(purpose, end, |world| world.decoder("exclude = [\"volt\"]"));
    for sample in stored {
        assert_eq!(sample.info.contains_key("volt"), sample.offset < to, "{sample:?}");
    }
}

#[test]
fn fields_left_out_after_an_orderly_stop() {
    fields_change("fields_orderly", End::Orderly);
}

#[test]
fn fields_left_out_after_a_kill() {
    fields_change("fields_killed", End::Killed);
}

fn window_change(purpose: &str, end: End) {
    let (stored, to) = change(purpose, end, |world| {
        world.settings("[bucket]\nflush_age = \"300ms\"\nwindow = \"1h\"\n");
    });
    for sample in stored {
        let length = if sample.offset < to { DAY } else { HOUR };
        assert_eq!(sample.window, sample.time - sample.time % length, "{sample:?}");
    }
}

#[test]
fn another_window_after_an_orderly_stop() {
    window_change("window_orderly", End::Orderly);
}

#[test]
fn another_window_after_a_kill() {
    window_change("window_killed", End::Killed);
}

/// The environment's decoders stand in place of the file's.
#[test]
fn another_device_path_after_a_kill() {
    let world = World::new("device_path", 1);
    world.send((0..600).map(|i| numbered(0, i, NOON)));
    crash(&world, "after_write", 1);
    world.send((600..900).map(|i| numbered(0, i, NOON)));
    let mut command = world.sakia("run", &["--until-caught-up"]);
    let decoder =
        "topics = [\"TOPIC\"], device_path = \"unit\", timestamp_path = \"ts\", timestamp_format = \"unix_ms\"";
    command.env("SAKIA_DECODER", format!("[{{ {} }}]", decoder.replace("TOPIC", &world.name)));
    let (status, log) = world.start_as(command).wait();
    assert!(status.success(), "{log}");

    let to = streams(&world.ledger()[0])[0].get_i64("to").unwrap();
    let stored = samples(&world);
    assert_offsets(&stored, 0..900);
    for sample in stored {
        let device = match sample.offset {
            offset if offset < to => format!("dev-{}", offset % 5),
            offset => format!("unit-{}", offset % 3),
        };
        assert_eq!(sample.device, device, "{sample:?}");
    }
}

/// A member under the old mapping that does not know it has been replaced: of another group, so that no rebalance
/// tells it. Its stream is closed, so whatever it sends lies below the point from which the new mapping rules.
#[test]
fn a_writer_that_keeps_the_old_mapping_is_fenced_off() {
    let mut world = World::new("zombie", 1);
    world.send((0..300).map(|i| numbered(0, i, NOON)));
    let zombie = world.start(&[]);
    until("300 samples", || world.n_samples() == 300);
    zombie.signal("STOP");
    world.decoder("exclude = [\"volt\"]");
    world.send((300..600).map(|i| numbered(0, i, NOON)));
    let mut command = world.sakia("run", &["--until-caught-up", "--set"]);
    command.arg(format!("kafka.group={}_new", world.name));
    let (status, log) = world.start_as(command).wait();
    assert!(status.success(), "{log}");
    zombie.signal("CONT");
    zombie.until_log("its stream was closed at offset 300");
    zombie.stop();

    let stored = samples(&world);
    assert_offsets(&stored, 0..600);
    for sample in stored {
        assert_eq!(sample.info.contains_key("volt"), sample.offset < 300, "{sample:?}");
    }
}
