use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::*;

fn shape() -> Shape {
    Shape {
        seed: 7,
        run: 1,
        devices: 30,
        nominal: 3_000,
        per_record: 1,
        start_ms: 1_700_000_000_000,
        span_ms: 2 * DAY_MS,
        sample_bytes: BASE_SAMPLE_BYTES,
        ..Shape::default()
    }
}

/// All values of the first `n` records.
fn values(shape: Shape, n: u64) -> Vec<(Made, Vec<u8>)> {
    let maker = Maker::new(shape);
    let mut out = Vec::new();
    (0..n)
        .map(|r| {
            let made = maker.record(r, maker.shape().per_record, &mut out);
            (made, out.clone())
        })
        .collect()
}

#[test]
fn a_record_looks_as_promised_and_repeats() {
    let first = values(shape(), 100);
    assert_eq!(first, values(shape(), 100));
    assert_ne!(first, values(Shape { run: 2, ..shape() }, 100));
    let (made, text) = &first[0];
    let value: Value = serde_json::from_slice(text).unwrap();
    assert_eq!(value["ts"], made.timestamp_ms);
    assert_eq!(value["deviceid"], format!("dev-{:06}", made.device));
    assert!(value["temp"].is_f64() && value["volt"].is_u64() && value["speed"].is_u64());
    assert!((85..=100).contains(&text.len()), "{}", text.len());
}

#[test]
fn every_device_has_its_turn_each_round() {
    let devices: BTreeSet<u32> = values(shape(), 30).iter().map(|(m, _)| m.device).collect();
    assert_eq!(devices, (0..30).collect());
    for devices in [1, 2, 1_000] {
        values(Shape { devices, ..shape() }, 10);
    }
}

#[test]
fn undisturbed_times_rise_through_the_span() {
    let times: Vec<i64> = values(shape(), 3_000).iter().map(|(m, _)| m.timestamp_ms).collect();
    assert!(times.is_sorted());
    assert_eq!(times[0], shape().start_ms);
    assert!(times[2_999] > shape().start_ms + 2 * DAY_MS - 60_000 * 2);
}

#[test]
fn disturbed_shares_are_near_what_was_asked() {
    let disturbed = Shape { late: 0.1, equal_times: 0.1, disorder: 0.1, ..shape() };
    let mut last: BTreeMap<u32, i64> = BTreeMap::new();
    let (mut late, mut equal, mut back) = (0, 0, 0);
    for (made, _) in values(disturbed, 3_000) {
        let before = last.entry(made.device).or_insert(i64::MIN);
        match made.timestamp_ms {
            t if t <= before.saturating_sub(DAY_MS / 2) => late += 1,
            t if t == *before => equal += 1,
            t if t < *before => back += 1,
            _ => {}
        }
        *before = (*before).max(made.timestamp_ms);
    }
    assert!((200..400).contains(&late), "{late}");
    assert!((150..400).contains(&equal), "{equal}");
    assert!((100..400).contains(&back), "{back}");
}

#[test]
fn poison_is_as_many_as_asked_and_of_every_kind() {
    let poisoned = Shape { poison: 0.01, ..shape() };
    let maker = Maker::new(poisoned.clone());
    let mut kinds: BTreeMap<&str, u32> = BTreeMap::new();
    for (r, (made, text)) in values(poisoned, 3_000).into_iter().enumerate() {
        let dead = maker.dead(r as u64, 1);
        assert_eq!(made.poisoned, !dead.is_empty());
        assert_eq!(usize::from(made.n_good), 1 - dead.len());
        let value: Option<Value> = serde_json::from_slice(&text).ok();
        for (_, kind) in dead {
            *kinds.entry(kind.name()).or_default() += 1;
            match kind {
                Poison::Malformed => assert!(value.is_none()),
                Poison::MissingDevice => assert!(value.as_ref().unwrap()["deviceid"].is_null()),
                Poison::MissingTime => assert!(value.as_ref().unwrap()["ts"].is_null()),
                Poison::ImplausibleTime => assert_eq!(value.as_ref().unwrap()["ts"], made.timestamp_ms / 1000),
            }
        }
    }
    assert_eq!(kinds.len(), 4);
    assert_eq!(kinds.values().sum::<u32>(), 30);
}

#[test]
fn many_readings_share_a_record_and_a_broken_one_takes_all_with_it() {
    let many = Shape { per_record: 5, poison: 0.05, tag_every: 2, sample_bytes: 120, ..shape() };
    let maker = Maker::new(many.clone());
    let mut broken = 0;
    for (r, (made, text)) in values(many, 200).into_iter().enumerate() {
        let dead = maker.dead(r as u64, 5);
        let Ok(value) = serde_json::from_slice::<Value>(&text) else {
            assert_eq!((made.n_good, dead), (0, vec![(0, Poison::Malformed)]));
            broken += 1;
            continue;
        };
        assert_eq!(value["readings"].as_array().unwrap().len(), 5);
        assert_eq!(usize::from(made.n_good), 5 - dead.len());
        assert_eq!(value["readings"][0]["state"].as_str().unwrap().len(), 2 + 120 - 79);
        assert_eq!(value["readings"][0]["fw"], format!("v{}", r / 60));
    }
    assert!(broken > 5);
}
