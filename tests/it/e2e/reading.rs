//! The queries of docs/reading.md: the Python ones are run as they stand there, the others are held equal to them.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::world::{NOON, Sent, World, reading};

const PAGE: &str = include_str!("../../../docs/reading.md");
const HOUR: i64 = 3_600_000;
const DAY: i64 = 24 * HOUR;

/// The page's blocks of code in a language, in order.
fn blocks(language: &str) -> Vec<&'static str> {
    let fence = format!("```{language}\n");
    let blocks = PAGE.split(fence.as_str()).skip(1);
    blocks.map(|rest| rest.split("```").next().unwrap()).collect()
}

/// Folder of the driver, which the first caller installs.
fn pymongo() -> String {
    let services = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/local/services.sh");
    let output = Command::new(services).arg("pymongo-dir").stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "no pymongo to run the queries of docs/reading.md with");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Calls the page's functions and prints what they find, times as milliseconds.
const CALLS: &str = r#"
import json, sys

def at(ms):
    return EPOCH + timedelta(milliseconds=ms)

def plain(value):
    return round((value.replace(tzinfo=timezone.utc) - EPOCH) / timedelta(milliseconds=1))

start, end, first, beyond = (at(int(ms)) for ms in sys.argv[1:])
found = {
    "samples": samples("dev-1", start, end),
    "last_point": last_point("dev-1", start, beyond),
    "last_points": last_points(first, beyond),
    "hourly": hourly("dev-1", start, end),
    "daily": daily("dev-1", first, beyond),
    "counts": counts(first, beyond),
    "everything": everything(first, start, end),
}
print(json.dumps({name: list(cursor) for name, cursor in found.items()}, default=plain))
"#;

fn run_page(world: &World, times: [i64; 4]) -> Value {
    let mongo = std::env::var("SAKIA_MONGO").unwrap();
    let address = "MongoClient(\"mongodb://127.0.0.1/?replicaSet=rs0\").telemetry";
    let program = blocks("python").concat();
    assert!(program.contains(address), "the page opens otherwise now");
    let program = program.replace(address, &format!("MongoClient(\"{mongo}\").{}", world.name)) + CALLS;
    let times = times.map(|ms| ms.to_string());
    let mut python = Command::new("python3");
    let output = python.env("PYTHONPATH", pymongo()).args(["-c", &program]).args(times).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn the_python_queries_find_what_was_sent() {
    let mut world = World::new("reading", 1);
    world.settings("[bucket]\nflush_age = \"300ms\"\nmax_samples = 10\nmin_fill = 10\n");
    world.decoder("stats = [\"temp\"]");
    let midnight = NOON - DAY / 2;
    // Three days, every 20 minutes of three devices; the newest of a device does not come last.
    let mut truth: Vec<(i64, i64, i64)> =
        (0..648).map(|i| (midnight - 2 * DAY + i / 3 * (HOUR / 3), i % 3, (i * 37) % 101)).collect();
    truth.swap(640, 643);
    let send =
        |(at, device, temp): &(i64, i64, i64)| -> Sent { reading(0, &format!("dev-{device}"), *at, *temp as f64) };
    world.send(truth.iter().map(send));
    world.catch_up();
    truth.sort_unstable();
    let [start, end, first, beyond] =
        [midnight - DAY + HOUR / 2, midnight + 5 * HOUR, midnight - 2 * DAY, midnight + DAY];
    let found = run_page(&world, [start, end, first, beyond]);

    let of = |device: i64| truth.iter().filter(move |sample| sample.1 == device);
    let point = |sample: &(i64, i64, i64)| json!({ "time": sample.0, "info": { "temp": sample.2 } });
    let within = |sample: &&(i64, i64, i64)| (start..end).contains(&sample.0);
    assert_eq!(found["samples"], of(1).filter(within).map(point).collect::<Value>());
    assert_eq!(found["last_point"], json!([point(of(1).next_back().unwrap())]));
    let points =
        |device: i64| json!({ "_id": format!("dev-{device}"), "newest": point(of(device).next_back().unwrap()) });
    assert_eq!(found["last_points"], (0..3).map(points).collect::<Value>());
    let day = |i: i64| json!({ "_id": first + i * DAY, "samples": 216 });
    assert_eq!(found["counts"], (0..3).map(day).collect::<Value>());
    averages(&found["hourly"], of(1).filter(within), HOUR, "temp");
    averages(&found["daily"], of(1), DAY, "average");
    let mut all: Vec<_> = found["everything"].as_array().unwrap().clone();
    all.sort_by_key(|sample| (sample["time"].as_i64(), sample["deviceid"].to_string()));
    let named =
        |s: &(i64, i64, i64)| json!({ "deviceid": format!("dev-{}", s.1), "time": s.0, "info": { "temp": s.2 } });
    assert_eq!(Value::from(all), truth.iter().filter(within).map(named).collect::<Value>());
}

fn averages<'a>(found: &Value, samples: impl Iterator<Item = &'a (i64, i64, i64)>, length: i64, name: &str) {
    let mut expected = std::collections::BTreeMap::<i64, Vec<f64>>::new();
    for (time, _, temp) in samples {
        expected.entry(time - time % length).or_default().push(*temp as f64);
    }
    let found = found.as_array().unwrap();
    assert_eq!(found.len(), expected.len());
    for (found, (start, temps)) in found.iter().zip(expected) {
        let average = temps.iter().sum::<f64>() / temps.len() as f64;
        assert_eq!(found["_id"], start);
        assert!((found[name].as_f64().unwrap() - average).abs() < 1e-9, "{found} instead of {average}");
    }
}

/// The pipelines of both languages are the same text.
#[test]
fn the_scripts_for_mongosh_and_node_have_the_same_pipelines() {
    let pipelines = |language: &str| -> Vec<String> {
        let calls = blocks(language).into_iter().flat_map(|block| block.split("aggregate(").skip(1));
        let words =
            |call: &str| call.split("\n    ])").next().unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        calls.map(words).collect()
    };
    let python = pipelines("python");
    assert!(python.len() >= 7, "{python:#?}");
    assert_eq!(python, pipelines("js"));
}
