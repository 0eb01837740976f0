//! `sakia read` against what was produced: streams, windows that change, late and equal times, other names.

use std::collections::BTreeMap;
use std::process::{Command, Output, Stdio};

use mongodb::bson::{Bson, DateTime, Document, doc};
use serde_json::{Value, json};

use super::world::{NOON, Sent, World, reading};

const HOUR: i64 = 3_600_000;
const DAY: i64 = 24 * HOUR;

/// (time, device, offset), which is the order that `read` promises within a partition.
type Truth = Vec<(i64, String, i64)>;

fn run(mut command: Command) -> (Output, String, String) {
    let output = command.output().unwrap();
    let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    (output, out, err)
}

/// Standard output of a read that succeeds.
fn read(world: &World, args: &[&str]) -> String {
    let (output, out, err) = run(world.sakia("read", args));
    assert!(output.status.success() && err.contains(" samples in "), "{err}");
    out
}

fn rfc3339(ms: i64) -> String {
    DateTime::from_millis(ms).try_to_rfc3339_string().unwrap()
}

fn parsed(out: &str) -> Truth {
    let of = |line: &str| {
        let sample: Value = serde_json::from_str(line).unwrap();
        let text = |name: &str| sample[name].as_str().unwrap().to_owned();
        let time = DateTime::parse_rfc3339_str(text("time")).unwrap().timestamp_millis();
        (time, text("deviceid"), sample["info"]["temp"].as_i64().unwrap())
    };
    out.lines().map(of).collect()
}

/// Records whose `temp` is their offset: times jump to and fro over ten days, many are equal, some are days late.
fn jumping(offsets: std::ops::Range<i64>) -> (Vec<Sent>, Truth) {
    let of = |offset: i64| {
        let late = if offset % 11 == 0 { 5 * DAY } else { 0 };
        let time = NOON + (offset * 7_919 % 97) * 2 * HOUR - late;
        (time, format!("dev-{}", offset % 3), offset)
    };
    let truth: Truth = offsets.map(of).collect();
    (truth.iter().map(|(time, device, offset)| reading(0, device, *time, *offset as f64)).collect(), truth)
}

/// Three streams, each in windows of its own that overlap those of the others; small buckets.
fn written(world: &mut World) -> Truth {
    let mut all = Truth::new();
    for (i, window) in
        ["window = \"1d\"", "window = \"1h\"", "window = \"7d\"\nwindow_offset = \"25h\""].iter().enumerate()
    {
        world.settings(&format!("[bucket]\nflush_age = \"300ms\"\nmax_samples = 5\nmin_fill = 5\n{window}\n"));
        let from = 300 * i as i64;
        let (records, truth) = jumping(from..from + 300);
        world.send(records);
        world.catch_up();
        all.extend(truth);
    }
    // Streams that are no longer configured are found by the ledger alone.
    world.settings("[bucket]\nflush_age = \"300ms\"\nwindow = \"6h\"\n");
    all.sort();
    all
}

fn of<'a>(truth: &'a Truth, devices: &'a [&str]) -> impl Iterator<Item = (i64, String, i64)> + 'a {
    truth.iter().filter(|(_, device, _)| devices.contains(&device.as_str())).cloned()
}

#[test]
fn samples_of_all_streams_and_windows_in_order_of_time() {
    let mut world = World::new("read", 1);
    let truth = written(&mut world);
    for devices in [vec!["dev-0"], vec!["dev-2", "dev-1"], vec!["dev-0", "dev-1", "dev-2", "dev-0"]] {
        let args: Vec<&str> = devices.iter().flat_map(|device| ["--device", device]).collect();
        let expected: Truth = of(&truth, &devices).collect();
        let out = read(&world, &args);
        assert_eq!(parsed(&out), expected, "{devices:?}");
        // The server sorts where next to nothing may be held.
        assert!(read(&world, &[args.as_slice(), &["--memory", "1B"]].concat()) == out, "sorted by the server");
    }
    for (from, to) in [(NOON, NOON + 1), (NOON - DAY, NOON + 2 * DAY), (NOON + 3 * DAY + 7, NOON + 40 * DAY)] {
        let times = [rfc3339(from), rfc3339(to)];
        let out = read(&world, &["--device", "dev-1", "--from", &times[0], "--to", &times[1]]);
        let expected: Truth = of(&truth, &["dev-1"]).filter(|(time, ..)| (from..to).contains(time)).collect();
        assert_eq!(parsed(&out), expected, "{times:?}");
    }
    newest(&world, &truth);
}

fn newest(world: &World, truth: &Truth) {
    let mut newest = BTreeMap::new();
    for sample in truth {
        newest.insert(sample.1.clone(), sample.clone());
    }
    let mut expected: Truth = newest.into_values().collect();
    expected.sort();
    assert_eq!(parsed(&read(world, &["--last"])), expected);
    let one = expected.iter().find(|(_, device, _)| device == "dev-1").unwrap();
    assert_eq!(parsed(&read(world, &["--last", "--device", "dev-1", "--device", "none"])), std::slice::from_ref(one));
    let out = read(world, &["--last", "--from", &rfc3339(one.0)]);
    assert_eq!(parsed(&out), expected.iter().filter(|sample| sample.0 >= one.0).cloned().collect::<Truth>());
    let csv = read(world, &["--last", "--device", "dev-1", "--format", "csv"]);
    assert_eq!(csv, format!("deviceid,time,temp\ndev-1,{},{}\n", rfc3339(one.0).replace("00Z", "00.000Z"), one.2));
}

/// A device that is silent for long is still found; one of the windows between is another device's.
#[test]
fn the_newest_of_a_device_that_was_long_silent() {
    let world = World::new("read_silent", 1);
    let at = |device: &str, days: i64| reading(0, device, NOON - days * DAY, days as f64);
    world.send([at("old", 300), at("new", 0), at("new", 100), at("old", 301)]);
    world.catch_up();
    let expected = vec![(NOON - 300 * DAY, "old".to_owned(), 300), (NOON, "new".to_owned(), 0)];
    assert_eq!(parsed(&read(&world, &["--last"])), expected);
    assert_eq!(parsed(&read(&world, &["--last", "--device", "old"])), expected[..1]);
    assert_eq!(parsed(&read(&world, &["--last", "--from", &rfc3339(NOON - 200 * DAY)])), expected[1..]);
}

/// <https://github.com/influxdata/influxdb/issues/4150>: 600 and 700 at one instant; both are read, also after a replay.
#[test]
fn case_19_equal_times_are_both_read_in_the_order_of_arrival_also_after_a_replay() {
    let world = World::new("read_19", 1);
    world.send([700.0, 600.0, 650.0].map(|temp| reading(0, "d", NOON, temp)));
    world.catch_up();
    let out = read(&world, &["--device", "d"]);
    assert_eq!(parsed(&out).iter().map(|sample| sample.2).collect::<Vec<_>>(), [700, 600, 650]);
    world.commit(1, 0);
    world.catch_up();
    assert_eq!(read(&world, &["--device", "d"]), out);
    assert_eq!(parsed(&read(&world, &["--last"]))[0].2, 650, "the last one that arrived");
}

#[test]
fn renamed_fields_are_found_by_the_ledger_and_by_the_view() {
    let mut world = World::new("read_names", 1);
    let (settings, names) = ("[bucket]\nflush_age = \"300ms\"\nmax_samples = 5\nmin_fill = 5\n", {
        "deviceid = \"dev\"\ndate = \"day\"\nfirst = \"f\"\nlast = \"l\"\nsamples = \"data points\"\ntime = \"date\"\n\
         info = \"values\"\npos = \"p\"\nmeta = \"tags\"\n"
    });
    world.settings(&format!("{settings}[fields]\n{names}"));
    world.decoder("meta = [\"unit\"]");
    let tagged = |i: i64| Sent {
        value: Some(format!(r#"{{"deviceid":"d","ts":{},"temp":{i},"unit":"u"}}"#, NOON + i % 7).into_bytes()),
        ..reading(0, "d", NOON, 0.0)
    };
    world.send((0..20).map(tagged));
    assert!(world.sakia("init", &[]).output().unwrap().status.success());
    world.catch_up();
    let out = read(&world, &["--device", "d"]);
    let mut expected: Truth = (0..20).map(|i| (NOON + i % 7, "d".to_owned(), i)).collect();
    expected.sort();
    assert_eq!(parsed(&out), expected);
    assert!(out.lines().all(|line| line.ends_with(r#","meta":{"unit":"u"}}"#)), "{out}");
    let last = read(&world, &["--last"]);
    assert_eq!(parsed(&last), [expected.last().unwrap().clone()]);

    let mut viewed = world.documents("readings_samples");
    let order = |d: &Document| (d.get_datetime("time").unwrap().timestamp_millis(), lo(d), d.get_i64("place").unwrap());
    viewed.sort_by_key(order);
    let temps: Vec<_> = viewed.iter().map(|d| d.get_document("info").unwrap().get_i32("temp").unwrap()).collect();
    assert_eq!(temps, expected.iter().map(|sample| sample.2 as i32).collect::<Vec<_>>());
    assert!(viewed.iter().all(|d| d.get_str("deviceid").unwrap() == "d" && d.contains_key("date")), "{viewed:?}");
    assert_eq!(viewed[0].get_document("meta").unwrap(), &doc! { "unit": "u" });

    // Without the names in the configuration, the ledger still has them.
    world.settings(settings);
    assert_eq!(read(&world, &["--device", "d"]), out);
    assert_eq!(read(&world, &["--last"]), last);
}

fn lo(sample: &Document) -> i64 {
    sample.get_document("pos").unwrap().get_i64("lo").unwrap()
}

#[test]
fn nothing_found_is_no_failure_and_says_where_it_looked() {
    let world = World::new("read_none", 1);
    let nothing = |args: &[&str]| {
        let (output, out, err) = run(world.sakia("read", args));
        assert!(output.status.success() && out.is_empty(), "{out}{err}");
        assert!(
            err.contains("read 0 samples") && err.contains(&format!("{}.readings holds nothing", world.name)),
            "{err}"
        );
    };
    nothing(&["--device", "d"]);
    nothing(&["--last"]);
    world.send([reading(0, "d", NOON, 0.0)]);
    world.catch_up();
    nothing(&["--device", "unknown"]);
    nothing(&["--device", "d", "--to", &rfc3339(NOON)]);
    nothing(&["--last", "--from", "-1m", "--device", "unknown"]);
    assert_eq!(read(&world, &["--device", "unknown", "--format", "csv"]), "deviceid,time\n");
}

#[test]
fn slips_are_named_before_anything_is_read() {
    let world = World::new("read_slips", 1);
    let slip = |args: &[&str], status: i32, expected: &str| {
        let (output, out, err) = run(world.sakia("read", args));
        assert!(output.status.code() == Some(status) && out.is_empty() && err.contains(expected), "{args:?}: {err}");
    };
    slip(&["--device", "d", "--from", "1700000000"], 2, "seconds or milliseconds?");
    slip(&["--device", "d", "--from", "2026-11-15T12:00"], 2, "names no zone");
    slip(&["--device", "d", "--from", "2026-11-15", "--to", "2026-11-15"], 1, "is not before");
    slip(&["--device", "d", "--fields", "temp"], 1, "--format csv");
    slip(&["--last", "--to", "-1d"], 2, "cannot be used with");
    slip(&[], 2, "--device");
}

#[test]
fn csv_quotes_what_must_be_quoted_and_knows_all_columns() {
    let world = World::new("read_csv", 1);
    let sent = |i: i64, info: &str| Sent {
        value: Some(format!(r#"{{"deviceid":"a,b","ts":{},{info}}}"#, NOON + i).into_bytes()),
        ..reading(0, "a,b", NOON + i, 0.0)
    };
    world.send([
        sent(1, r#""x":1.5,"text":"say \"hi\", twice""#),
        sent(0, r#""b":[1,{"c":null}],"x":2"#),
        sent(2, r#""e":"""#),
    ]);
    world.catch_up();
    let time = |i: i64| rfc3339(NOON + i).replace("00Z", "00.000Z");
    let expected = format!(
        "deviceid,time,b,e,text,x\n\"a,b\",{},\"[1,{{\"\"c\"\":null}}]\",,,2\n\"a,b\",{},,,\"say \"\"hi\"\", twice\",1.5\n\
         \"a,b\",{},,\"\",,\n",
        time(0),
        time(1),
        time(2)
    );
    assert_eq!(read(&world, &["--device", "a,b", "--format", "csv"]), expected);
    let out = read(&world, &["--device", "a,b", "--format", "csv", "--fields", "x,none"]);
    assert_eq!(out.lines().take(2).collect::<Vec<_>>(), ["deviceid,time,x,none", &format!("\"a,b\",{},2,", time(0))]);
}

#[test]
fn explain_shows_ranges_of_the_index_and_no_scan() {
    let mut world = World::new("read_explain", 1);
    let truth = written(&mut world);
    let from = rfc3339(NOON - DAY);
    for args in [
        &["--device", "dev-1", "--from", &from, "--explain"][..],
        &["--last", "--explain"],
        &["--last", "--device", "dev-1", "--explain"],
    ] {
        let (output, out, err) = run(world.sakia("read", args));
        assert!(output.status.success(), "{err}");
        assert!(out.contains("IXSCAN _id_") && !out.contains("COLLSCAN"), "{out}");
        assert!(!out.contains("MinKey"), "bounds are tight: {out}");
        assert!(!args.contains(&"dev-1") || out.contains(r#", d: "dev-1", s: MaxKey })"#), "{out}");
        assert!(args.len() != 2 || out.lines().last().unwrap().contains(" 0 documents examined"), "index alone: {out}");
    }
    let (_, out, _) = run(world.sakia("read", &["--device", "dev-1", "--from", &from, "--explain"]));
    let counts: Vec<Vec<u64>> = out
        .lines()
        .filter(|line| line.contains(" keys and "))
        .map(|line| line.split(' ').filter_map(|word| word.parse().ok()).collect())
        .collect();
    let n_buckets = world.buckets().len() as u64;
    let [_, buckets] = &counts[..] else { panic!("{out}") };
    assert!(
        buckets[1] < n_buckets / 2,
        "one device of three: {out} of {n_buckets} buckets and {} samples",
        truth.len()
    );
}

/// `head` takes what it wants and goes.
#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let world = World::new("read_pipe", 1);
    let text = "x".repeat(1_000);
    let value = |i: i64| format!(r#"{{"deviceid":"d","ts":{},"text":"{text}"}}"#, NOON + i);
    world.send((0..300).map(|i| Sent { value: Some(value(i).into_bytes()), ..reading(0, "d", NOON + i, 0.0) }));
    world.catch_up();
    let mut child =
        world.sakia("read", &["--device", "d"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Which matches on the view use the index, as docs/reading.md says.
#[test]
fn the_view_hands_ranges_of_the_id_down_to_the_index() {
    let mut world = World::new("read_view", 1);
    let truth = written(&mut world);
    assert!(world.sakia("init", &[]).output().unwrap().status.success());
    assert_eq!(world.documents("readings_samples").len(), truth.len());
    let plan = |filter: Document| {
        let pipeline = [doc! { "$match": filter }, doc! { "$sort": { "time": 1 } }];
        let query = doc! { "aggregate": "readings_samples", "pipeline": pipeline.to_vec(), "cursor": {} };
        json!(world.command(doc! { "explain": query, "verbosity": "queryPlanner" })).to_string()
    };
    let window = Bson::DateTime(DateTime::from_millis(NOON - DAY / 2));
    let low = doc! { "w": &window, "d": "dev-1" };
    let range = doc! { "_id": { "$gte": low, "$lt": { "w": &window, "d": "dev-1", "s": Bson::MaxKey } } };
    for filter in [
        range.clone(),
        doc! { "$or": [range.clone()], "time": { "$gte": &window } },
        doc! { "_id": { "$gte": { "w": &window } }, "deviceid": "dev-1" },
    ] {
        let plan = plan(filter);
        assert!(plan.contains("IXSCAN") && !plan.contains("COLLSCAN"), "{plan}");
    }
    for filter in [doc! { "deviceid": "dev-1" }, doc! { "_id.d": "dev-1" }, doc! { "time": { "$gte": &window } }] {
        assert!(plan(filter).contains("COLLSCAN"));
    }
}
