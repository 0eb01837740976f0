//! Where one bucket ends and the next begins, and which window a reading goes to.

use mongodb::bson::{Bson, DateTime, Document};

use super::world::{NOON, Running, Sent, World, reading, until};

const DAY: i64 = 86_400_000;
const SETTINGS: &str = "[bucket]\nflush_age = \"100ms\"\nmax_samples = 10\nmin_fill = 10\n";

/// Sends records and waits until the samples are `n` in all, so that what follows meets this tail.
fn send_until(world: &World, records: Vec<Sent>, n: usize) {
    world.send(records);
    until(&format!("{n} samples"), || world.n_samples() == n);
}

fn readings(device: &str, from: i64, n: i64) -> Vec<Sent> {
    (from..from + n).map(|i| reading(0, device, NOON + i, i as f64)).collect()
}

fn record(device: &str, at: i64, fields: &str) -> Sent {
    let value = format!(r#"{{"deviceid":"{device}","ts":{at},{fields}}}"#);
    Sent { partition: 0, key: device.to_owned(), value: Some(value.into_bytes()), timestamp: at }
}

/// Number of samples of each bucket in the order of `_id`, with a `+` while it is open.
fn shape(world: &World) -> Vec<String> {
    let shape = |d: &Document| {
        let count = d.get_i32("count").unwrap();
        assert_eq!(d.get_array("samples").unwrap().len(), count as usize);
        format!("{count}{}", if d.contains_key("open") { "+" } else { "" })
    };
    world.buckets().iter().map(shape).collect()
}

fn ends(world: &World, running: Running, expected: &[&str]) {
    running.stop();
    assert_eq!(shape(world), expected, "{:#?}", world.buckets());
}

#[test]
fn by_count() {
    let mut world = World::new("by_count", 1);
    world.settings(SETTINGS);
    let running = world.start(&[]);
    for i in 0..3 {
        send_until(&world, readings("d", 4 * i, 4), 4 * (i as usize + 1));
    }
    assert_eq!(shape(&world), ["10", "2+"]);
    // More than a bucket at once: what is full is born sealed, the rest stays open.
    send_until(&world, readings("e", 0, 25), 37);
    ends(&world, running, &["10", "2+", "10", "10", "5+"]);
}

#[test]
fn a_restart_goes_on_in_the_same_bucket() {
    let mut world = World::new("by_restart", 1);
    world.settings(SETTINGS);
    for i in 0..3 {
        world.send(readings("d", 4 * i, 4));
        world.catch_up();
    }
    assert_eq!(shape(&world), ["10", "2+"]);
}

#[test]
fn by_bytes() {
    let mut world = World::new("by_bytes", 1);
    world.settings("[bucket]\nflush_age = \"100ms\"\nmax_samples = 100\nmin_fill = 100\ntarget_bytes = \"4KiB\"\n");
    let running = world.start(&[]);
    let text = "x".repeat(900);
    for i in 0..6 {
        send_until(&world, vec![record("d", NOON + i, &format!(r#""text":"{text}""#))], i as usize + 1);
    }
    running.stop();
    let buckets = world.buckets();
    let sizes: Vec<_> = buckets.iter().map(|d| d.to_vec().unwrap().len()).collect();
    assert!(sizes.iter().all(|n| *n <= 4096), "{sizes:?}");
    assert_eq!(shape(&world), ["3", "3+"], "{sizes:?}");
}

#[test]
fn a_reading_larger_than_a_bucket_has_its_own_and_one_beyond_all_limits_is_a_dead_letter() {
    let mut world = World::new("by_size", 1);
    world.settings(
        "[bucket]\nflush_age = \"100ms\"\nmin_fill = 50\ntarget_bytes = \"4KiB\"\nmax_sample_bytes = \"16KiB\"\n",
    );
    let sized = |i: i64, n: usize| record("d", NOON + i, &format!(r#""text":"{}""#, "x".repeat(n)));
    world.send([sized(0, 10), sized(1, 10_000), sized(2, 20_000), sized(3, 10), sized(4, 10)]);
    world.catch_up();
    assert_eq!(shape(&world), ["1", "1", "2+"]);
    let dead = world.dead();
    assert_eq!(dead.len(), 1);
    assert_eq!(dead[0].get_str("reason").unwrap(), "too_large");
    assert_eq!(dead[0].get_i64("offset").unwrap(), 2);
}

#[test]
fn by_a_change_of_the_tags() {
    let mut world = World::new("by_meta", 1);
    world.settings(SETTINGS);
    world.decoder("meta = [\"fw\"]");
    let running = world.start(&[]);
    let tagged = |i: i64, fw: &str| record("d", NOON + i, &format!(r#""fw":"{fw}","temp":{i}"#));
    send_until(&world, vec![tagged(0, "1"), tagged(1, "1")], 2);
    // Without a tag nothing has changed.
    send_until(&world, vec![record("d", NOON + 2, r#""temp":2"#)], 3);
    send_until(&world, vec![tagged(3, "2")], 4);
    send_until(&world, vec![tagged(4, "1"), tagged(5, "2"), tagged(6, "2")], 7);
    running.stop();
    assert_eq!(shape(&world), ["3", "1", "1", "2+"]);
    let tags = |d: &Document| d.get_document("meta").unwrap().get_str("fw").unwrap().to_owned();
    assert_eq!(world.buckets().iter().map(tags).collect::<Vec<_>>(), ["1", "2", "1", "2"]);
}

#[test]
fn by_a_delta_large_enough_to_stand_alone() {
    let mut world = World::new("by_fill", 1);
    world.settings("[bucket]\nflush_age = \"500ms\"\nmax_samples = 100\nmin_fill = 20\nflush_samples = 30\n");
    let running = world.start(&[]);
    send_until(&world, readings("d", 0, 2), 2);
    assert_eq!(shape(&world), ["2+"]);
    send_until(&world, readings("d", 2, 30), 32);
    assert_eq!(shape(&world), ["2", "30"]);
    // The next small one opens a bucket again.
    send_until(&world, readings("d", 32, 3), 35);
    ends(&world, running, &["2", "30", "3+"]);
}

#[test]
fn late_readings_go_to_the_window_of_their_own_time() {
    let world = World::new("late", 1);
    let running = world.start(&[]);
    send_until(&world, readings("d", 0, 3), 3);
    let late = |days: i64, temp: f64| Sent { timestamp: NOON + 10, ..reading(0, "d", NOON - days * DAY, temp) };
    send_until(&world, vec![late(2, 1.0), late(1, 2.0), late(2, 3.0), reading(0, "d", NOON + 10, 4.0)], 7);
    running.stop();
    let midnight = NOON - DAY / 2;
    let of = |d: &Document| (d.get_datetime("date").unwrap().timestamp_millis(), d.get_i32("count").unwrap());
    let windows: Vec<_> = world.buckets().iter().map(of).collect();
    assert_eq!(windows, [(midnight - 2 * DAY, 2), (midnight - DAY, 1), (midnight, 4)]);
}

#[test]
fn equal_times_are_both_kept_in_the_order_of_arrival() {
    let world = World::new("equal", 1);
    world.send([5.0, 7.0, 6.0].map(|temp| reading(0, "d", NOON, temp)));
    world.catch_up();
    let buckets = world.buckets();
    assert_eq!(buckets.len(), 1);
    let temp = |s: &Bson| s.as_document().unwrap().get_document("info").unwrap().get("temp").cloned().unwrap();
    let temps: Vec<_> = buckets[0].get_array("samples").unwrap().iter().map(temp).collect();
    assert_eq!(temps, [5, 7, 6].map(Bson::Int32));
    assert_eq!(buckets[0].get_datetime("first").unwrap(), buckets[0].get_datetime("last").unwrap());
}

#[test]
fn readings_before_1970_are_in_the_day_that_they_name() {
    let world = World::new("before_1970", 1);
    // 1969-10-09 06:36:37 UTC, and the last millisecond before 1970.
    let times = [-7_233_803_000, -1, 0];
    // Kafka has no times before 1970.
    world.send(times.map(|at| Sent { timestamp: 1_000, ..reading(0, "d", at, 1.0) }));
    world.catch_up();
    assert_eq!(world.dead(), Vec::<Document>::new());
    let bounds = |d: &Document| ["date", "first", "last"].map(|name| d.get_datetime(name).unwrap().timestamp_millis());
    let buckets: Vec<_> = world.buckets().iter().map(bounds).collect();
    let day = |at: i64| at.div_euclid(DAY) * DAY;
    assert_eq!(buckets, times.map(|at| [day(at), at, at]));
    assert_eq!(DateTime::from_millis(day(times[0])).try_to_rfc3339_string().unwrap(), "1969-10-09T00:00:00Z");
}
