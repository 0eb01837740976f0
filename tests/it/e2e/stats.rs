//! Minima, maxima and sums of fields, held against the samples.

use mongodb::bson::{Bson, Document};

use super::stored::{bytes, crash};
use super::world::{NOON, Sent, World};

/// Small buckets, so that each round inserts, appends and seals.
const SETTINGS: &str = "[bucket]\nflush_age = \"100ms\"\nmax_samples = 40\nmin_fill = 15\nwindow = \"6h\"\n";
const DECODER: &str = "stats = [\"temp\", \"7\", \"rare\"]\n";
const FIELDS: [&str; 3] = ["temp", "7", "rare"];

/// Values that are no numbers where one is looked for, beside numbers of every form. Sums of quarters are exact.
const VALUES: [&str; 12] = [
    "1",
    "-3",
    "0.25",
    "-0.0",
    "4294967296",
    "2.5e1",
    "null",
    "\"12\"",
    "true",
    "[1]",
    "{\"a\":1}",
    "9007199254740992",
];

fn record(i: i64) -> Sent {
    let (device, value) = (i % 3, VALUES[(i * 7 % 12) as usize]);
    let rare = if i % 31 == 0 { ",\"rare\":1" } else { "" };
    // One in four is of an earlier window.
    let at = NOON + i * 1_000 - if i % 4 == 0 { 8 * 3_600_000 } else { 0 };
    let json = format!(r#"{{"deviceid":"d{device}","ts":{at},"i":{i},"temp":{value},"7":{}{rare}}}"#, i * i - 400);
    Sent { partition: 0, key: "k".to_owned(), value: Some(json.into_bytes()), timestamp: NOON + i * 1_000 }
}

fn number(value: &Bson) -> Option<f64> {
    match value {
        Bson::Int32(n) => Some(f64::from(*n)),
        Bson::Int64(n) => Some(*n as f64),
        Bson::Double(n) => Some(*n),
        _ => None,
    }
}

/// The stats of a bucket, made anew from its samples.
fn recomputed(bucket: &Document) -> Document {
    let samples = bucket.get_array("samples").unwrap().iter();
    let infos: Vec<_> =
        samples.map(|sample| sample.as_document().unwrap().get_document("info").unwrap().clone()).collect();
    let mut stats = Document::new();
    for field in FIELDS {
        let numbers: Vec<f64> = infos.iter().filter_map(|info| number(info.get(field)?)).collect();
        if numbers.is_empty() {
            continue;
        }
        let of = |pick: fn(f64, f64) -> f64| numbers.iter().copied().reduce(pick).unwrap();
        let n = numbers.len() as i32;
        stats.insert(
            field,
            mongodb::bson::doc! { "min": of(f64::min), "max": of(f64::max), "sum": of(|a, b| a + b), "n": n },
        );
    }
    stats
}

/// Fields in the order of their names: whoever was first seen stands first.
fn sorted(stats: &Document) -> Vec<(String, Bson)> {
    let mut fields: Vec<_> = stats.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    fields.sort_by(|a, b| a.0.cmp(&b.0));
    fields
}

fn check(world: &World, n_sent: i64) {
    let buckets = world.buckets();
    for bucket in &buckets {
        let found = bucket.get_document("stats").cloned().unwrap_or_default();
        for (name, stats) in &found {
            let stats = stats.as_document().unwrap();
            let keys: Vec<_> = stats.keys().collect();
            assert_eq!(keys.len(), 4, "{name} of {}", bucket.get("_id").unwrap());
        }
        assert_eq!(by_key(&found), by_key(&recomputed(bucket)), "{}", bucket.get("_id").unwrap());
    }
    assert_eq!(world.n_samples() as i64, n_sent);
    assert_eq!(world.dead(), []);
}

/// With the four figures in one order too: an append makes them in another than an insert.
fn by_key(stats: &Document) -> Vec<(String, Vec<(String, Bson)>)> {
    sorted(stats).into_iter().map(|(name, figures)| (name, sorted(figures.as_document().unwrap()))).collect()
}

#[test]
fn stats_are_those_of_the_samples_after_inserts_appends_kills_and_repeats() {
    let mut world = World::new("stats", 1);
    world.settings(SETTINGS);
    world.decoder(DECODER);
    let mut n_sent = 0;
    for (round, n) in [5, 120, 11, 3, 60, 2].into_iter().enumerate() {
        world.send((n_sent..n_sent + n).map(record));
        n_sent += n;
        match round % 3 {
            // What was written is not known to the ledger: the next one writes it again.
            0 => _ = crash(&world, "after_write", 1),
            1 => _ = crash(&world, "before_ledger", 2),
            _ => {
                world.catch_up();
                check(&world, n_sent);
            }
        }
    }
    world.catch_up();
    check(&world, n_sent);
    let buckets = world.buckets();
    let appended = |d: &Document| d.get_document("stats").is_ok() && d.get_i32("count").unwrap() > 11;
    assert!(buckets.iter().any(appended) && buckets.iter().any(|d| d.contains_key("open")));
    let before = bytes(&buckets);
    world.commit(1, 0);
    world.catch_up();
    assert!(before == bytes(&world.buckets()), "a repeat changed something");
}
