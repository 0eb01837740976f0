//! The checker must pass what is right and find each thing that is not.

use loadtest::reading::Shape;
use loadtest::verify::Report;
use mongodb::bson::{Bson, DateTime, Document, doc};
use proptest::prelude::*;

use crate::fixture::{Collections, DAY_MS, Record, Writer, recompute, records, rules, shape, verify};

fn right() -> (Vec<Record>, Collections) {
    let records = records(shape(), 200);
    let collections = Writer::default().store(&records);
    (records, collections)
}

fn assert_right(report: &Report) {
    assert_eq!(report.problems, Vec::<String>::new());
    assert!(report.ok);
    assert_eq!((report.lost, report.duplicated, report.misplaced, report.unexpected_dead), (0, 0, 0, 0));
    assert_eq!(report.stored, report.produced);
    assert_eq!(report.dead, report.expected_dead);
}

fn samples(bucket: &mut Document) -> &mut Vec<Bson> {
    bucket.get_array_mut("samples").unwrap()
}

/// Two full buckets in a row of one chain.
fn two_in_a_row(c: &Collections) -> usize {
    let id = |i: usize| c.buckets[i].get_document("_id").unwrap();
    let n = |i: usize| id(i).get_i32("n").unwrap();
    let next = |i: usize| n(i + 1) == n(i) + 1 && c.buckets[i + 1].get_i32("count").unwrap() == 4;
    (0..c.buckets.len() - 1).find(|&i| n(i) == 0 && next(i)).expect("some chain is long enough")
}

#[test]
fn what_is_right_passes() {
    let (records, collections) = right();
    let report = verify(&records, &collections, rules(), &[]);
    assert_right(&report);
    assert_eq!((report.produced, report.expected_dead, report.records), (196, 4, 200));
}

#[test]
fn several_streams_many_readings_a_record_and_tags_pass() {
    let records = records(Shape { per_record: 3, tag_every: 2, poison: 0.05, ..shape() }, 120);
    let writer = Writer { second_stream_from: 30, tag: Some("fw"), ..Writer::default() };
    let collections = writer.store(&records);
    assert_right(&verify(&records, &collections, rules(), &["fw"]));
    // Told nothing of the tag, the checker misses it in every sample.
    let report = verify(&records, &collections, rules(), &[]);
    assert_eq!(report.lost, report.produced);
}

#[test]
fn an_empty_store_has_lost_everything() {
    let (records, _) = right();
    let report = verify(&records, &Collections::default(), rules(), &[]);
    assert_eq!((report.lost, report.duplicated, report.misplaced), (200, 0, 0));
    assert_eq!((report.n_problems > 20, report.problems.len()), (true, 20));
}

/// Corrupts the right collections and returns what is found: `[lost, duplicated, misplaced, unexpected dead letters]`.
fn corrupt(change: impl FnOnce(&mut Collections)) -> ([u64; 4], Vec<String>) {
    let (records, mut collections) = right();
    change(&mut collections);
    let report = verify(&records, &collections, rules(), &[]);
    assert!(!report.ok);
    assert!(!report.problems.is_empty());
    ([report.lost, report.duplicated, report.misplaced, report.unexpected_dead], report.problems)
}

#[track_caller]
fn assert_found(change: impl FnOnce(&mut Collections), faults: [u64; 4], text: &str) {
    let (found, problems) = corrupt(change);
    assert_eq!(found, faults, "{problems:?}");
    assert!(problems.iter().any(|p| p.contains(text)), "{text}: {problems:?}");
}

#[test]
fn a_sample_too_few_or_too_many_is_found() {
    let in_middle = |c: &mut Collections, change: fn(&mut Vec<Bson>)| {
        let i = two_in_a_row(c);
        change(samples(&mut c.buckets[i]));
        recompute(&mut c.buckets[i]);
    };
    assert_found(|c| in_middle(c, |s| drop(s.remove(1))), [1, 0, 0, 0], "lost: dev-");
    assert_found(|c| in_middle(c, |s| drop(s.remove(0))), [1, 0, 0, 0], "offset");
    assert_found(|c| in_middle(c, |s| drop(s.pop())), [1, 0, 0, 0], "offset");
    let twice = |s: &mut Vec<Bson>| s[2] = s[1].clone();
    assert_found(|c| in_middle(c, twice), [1, 1, 0, 0], "stored 2 times");
    let more = |s: &mut Vec<Bson>| s.push(s[3].clone());
    assert_found(|c| in_middle(c, more), [0, 1, 1, 0], "5 samples, above the cap");
}

#[test]
fn a_bucket_too_few_or_too_many_is_found() {
    let remove = |c: &mut Collections| drop(c.buckets.remove(two_in_a_row(c)));
    let (found, problems) = corrupt(remove);
    assert_eq!(found[0], 4);
    assert!(problems.iter().any(|p| p.contains("the one before it is missing")), "{problems:?}");
    let copy = |c: &mut Collections| {
        let mut copy = c.buckets[two_in_a_row(c)].clone();
        copy.get_document_mut("_id").unwrap().insert("s", 7_i64);
        c.buckets.push(copy);
    };
    assert_found(copy, [0, 4, 1, 0], "the ledger has no such stream");
    let twice = |c: &mut Collections| {
        c.ledger.clear();
        copy(c);
    };
    assert_found(twice, [0, 4, 0, 0], "stored 2 times");
}

#[test]
fn a_changed_or_moved_sample_is_found() {
    let info = |c: &mut Collections, name: &str, value: Bson| {
        let i = two_in_a_row(c);
        let sample = samples(&mut c.buckets[i])[1].as_document_mut().unwrap();
        let old = sample.get_document_mut("info").unwrap().insert(name, value);
        recompute(&mut c.buckets[i]);
        old
    };
    assert_found(|c| drop(info(c, "temp", Bson::Double(99.0))), [1, 0, 1, 0], "never produced");
    let same_number = |c: &mut Collections| {
        let old = info(c, "volt", Bson::Null).unwrap().as_i32().unwrap();
        info(c, "volt", Bson::Double(old.into()));
    };
    assert_found(same_number, [1, 0, 1, 0], "never produced");
    let swap = |c: &mut Collections| {
        let i = two_in_a_row(c);
        samples(&mut c.buckets[i]).swap(1, 2);
    };
    assert_found(swap, [0, 0, 1, 0], "in their order");
    let exchange = |c: &mut Collections| {
        let i = two_in_a_row(c);
        let one = samples(&mut c.buckets[i])[1].clone();
        let other = std::mem::replace(&mut samples(&mut c.buckets[i + 1])[1], one);
        samples(&mut c.buckets[i])[1] = other;
        recompute(&mut c.buckets[i]);
        recompute(&mut c.buckets[i + 1]);
    };
    assert_found(exchange, [0, 0, 2, 0], "in their order");
}

#[test]
fn a_sample_of_another_window_or_device_is_found() {
    let later = |c: &mut Collections| {
        let i = two_in_a_row(c);
        let sample = samples(&mut c.buckets[i])[1].as_document_mut().unwrap();
        let time = sample.get_datetime("time").unwrap().timestamp_millis();
        sample.insert("time", DateTime::from_millis(time + DAY_MS));
        recompute(&mut c.buckets[i]);
    };
    assert_found(later, [1, 0, 2, 0], "1 samples are of another window");
    let foreign = |c: &mut Collections| {
        let i = two_in_a_row(c);
        let mut bucket = c.buckets[i].clone();
        bucket.get_document_mut("_id").unwrap().insert("d", "stranger");
        bucket.insert("deviceid", "stranger");
        c.buckets.push(bucket);
    };
    assert_found(foreign, [0, 0, 4, 0], "no such device was produced");
}

#[test]
fn a_bucket_that_contradicts_itself_is_found() {
    let day = |n: i64| DateTime::from_millis(n * DAY_MS);
    let cases: Vec<(&str, Bson, &str)> = vec![
        ("count", 3.into(), "count is Some(3)"),
        ("count", 4_i64.into(), "count is None"),
        ("first", day(1).into(), "first is not"),
        ("last", day(1).into(), "last is not"),
        ("date", day(1).into(), "date is not"),
        ("deviceid", "other".into(), "deviceid is"),
        ("open", true.into(), "not the last of its chain"),
        ("open", false.into(), "open is"),
        ("schema", 2.into(), "schema is not 1"),
        ("src", Bson::Null, "src is not"),
        ("src", doc! { "topic": "t", "partition": 7 }.into(), "the ledger says"),
        ("stats", doc! {}.into(), "stats.temp is missing"),
        ("stats", doc! { "temp": { "min": 0.0, "max": 0.0, "sum": 0.0, "n": 0 } }.into(), "the samples give"),
        ("meta", doc! { "x": 1 }.into(), "never produced"),
        ("samples", 1.into(), "samples is not an array"),
        ("pos", doc! { "lo": 0, "hi": 1_i64 }.into(), "pos.lo is not Int64"),
        ("pos", doc! { "lo": 0_i64, "hi": 1_i64 << 40 }.into(), "overlaps"),
    ];
    for (name, value, text) in cases {
        let (found, problems) = corrupt(|c| {
            let i = two_in_a_row(c);
            c.buckets[i].insert(name, value);
        });
        assert!(found[2] > 0, "{name}: {found:?}");
        assert!(problems.iter().any(|p| p.contains(text)), "{name}: {problems:?}");
    }
}

#[test]
fn each_total_is_computed_again() {
    for part in ["min", "max", "sum", "n"] {
        let change = |c: &mut Collections| {
            let i = two_in_a_row(c);
            let total = c.buckets[i].get_document_mut("stats").unwrap().get_document_mut("temp").unwrap();
            let old = total.get(part).unwrap();
            let old = old.as_f64().or_else(|| old.as_i32().map(f64::from)).unwrap();
            total.insert(part, old + 0.01);
        };
        assert_found(change, [0, 0, 1, 0], "stats.temp is");
    }
}

#[test]
fn caps_are_checked() {
    let (records, collections) = right();
    for capped in [
        loadtest::verify::Rules { max_samples: 3, ..rules() },
        loadtest::verify::Rules { target_bytes: 300, ..rules() },
    ] {
        let report = verify(&records, &collections, capped, &[]);
        assert!(report.misplaced > 10 && report.problems[0].contains("above the cap"), "{:?}", report.problems);
    }
}

#[test]
fn dead_letters_are_accounted_for() {
    let first = |c: &Collections| c.dead[0].clone();
    assert_found(|c| drop(c.dead.remove(0)), [1, 0, 0, 0], "has no dead letter");
    let again = |c: &mut Collections| {
        let mut again = first(c);
        again.get_document_mut("_id").unwrap().insert("s", 7_i64);
        c.dead.push(again);
    };
    assert_found(again, [0, 1, 0, 0], "two dead letters");
    assert_found(|c| drop(c.dead[0].insert("reason", "bored")), [0, 0, 0, 1], "bored, expected");
    assert_found(|c| drop(c.dead[0].insert("index", 1)), [1, 0, 0, 1], "cannot be understood");
    let stored_too = |c: &mut Collections| {
        let i = two_in_a_row(c);
        let lo = c.buckets[i].get_document("pos").unwrap().get_i64("lo").unwrap();
        let partition = c.buckets[i].get_document("src").unwrap().get_i32("partition").unwrap();
        let id = doc! { "s": 1_000_i64, "pos": lo };
        let place = doc! { "_id": id, "topic": "t", "partition": partition, "offset": lo / 65_536, "index": 0_i32 };
        let mut letter = place;
        letter.insert("reason", "refused");
        c.dead.push(letter);
    };
    assert_found(stored_too, [0, 1, 0, 1], "dead letters 1");
    let instead = |c: &mut Collections| {
        stored_too(c);
        let i = two_in_a_row(c);
        samples(&mut c.buckets[i]).remove(0);
        recompute(&mut c.buckets[i]);
    };
    let (found, _) = corrupt(instead);
    assert_eq!((found[0], found[1], found[3]), (0, 0, 1));
}

#[test]
fn what_a_replay_stored_counts_as_stored() {
    let (records, mut c) = right();
    let letter = |c: &Collections, state: &str| {
        let i = two_in_a_row(c);
        let lo = c.buckets[i].get_document("pos").unwrap().get_i64("lo").unwrap();
        let partition = c.buckets[i].get_document("src").unwrap().get_i32("partition").unwrap();
        doc! {
            "_id": { "s": 1_000_i64, "pos": lo }, "topic": "t", "partition": partition, "offset": lo / 65_536,
            "index": 0_i32, "reason": "missing_time", "replay": { "run": "r", "state": state },
        }
    };
    let i = two_in_a_row(&c);
    let (chain, partition) = (c.buckets[i].clone(), c.buckets[i].get_document("src").unwrap().clone());
    let id = chain.get_document("_id").unwrap();
    for bucket in c
        .buckets
        .iter_mut()
        .filter(|b| ["w", "d", "s"].iter().all(|k| b.get_document("_id").unwrap().get(k) == id.get(k)))
    {
        bucket.get_document_mut("_id").unwrap().insert("s", -7_i64);
    }
    let without = verify(&records, &c, rules(), &[]);
    assert!(without.problems[0].contains("no such stream"), "{:?}", without.problems);
    let stream = doc! {
        "s": -7_i64, "cluster": "c", "topic": "t", "incarnation": 0, "partition": partition.get_i32("partition").unwrap(),
    };
    c.ledger.push(doc! { "_id": { "replay": "r" }, "state": "done", "streams": [stream] });
    c.dead.push(letter(&c, "done"));
    assert_right(&verify(&records, &c, rules(), &[]));
    c.dead.pop();
    c.dead.push(letter(&c, "writing"));
    let unfinished = verify(&records, &c, rules(), &[]);
    assert_eq!((unfinished.lost, unfinished.duplicated), (0, 1), "{:?}", unfinished.problems);
    c.dead.pop();
    c.dead.push(letter(&c, "done"));
    let i = two_in_a_row(&c);
    samples(&mut c.buckets[i]).remove(0);
    recompute(&mut c.buckets[i]);
    assert_eq!(verify(&records, &c, rules(), &[]).lost, 1, "a letter that is done is no excuse");
}

#[test]
fn streams_must_not_overlap() {
    let overlap = |c: &mut Collections| {
        let more = doc! { "s": 5_i64, "from": 50_i64, "to": 60_i64, "next": 60_i64 };
        c.ledger[1].get_array_mut("streams").unwrap().push(more.into());
    };
    assert_found(overlap, [0, 0, 0, 0], "overlap");
    let closed = |c: &mut Collections| {
        let stream = c.ledger[1].get_array_mut("streams").unwrap()[0].as_document_mut().unwrap();
        stream.insert("to", 1_i64);
    };
    let (found, problems) = corrupt(closed);
    assert!(found[2] > 0 && problems[0].contains("outside its stream"), "{problems:?}");
}

proptest! {
    // Each case goes through 200 documents; so many take seconds.
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// However many samples are taken away, doubled or changed: exactly these are reported.
    #[test]
    fn faults_are_counted_exactly(picks in proptest::collection::btree_map(0_usize..196, 0_u8..3, 1..20)) {
        // Every reading must differ from all others, else taking one of two alike away cannot be told from the other.
        let records = records(Shape { equal_times: 0.0, ..shape() }, 200);
        let mut collections = Writer::default().store(&records);
        let (mut lost, mut duplicated, mut foreign, mut at) = (0, 0, 0, 0);
        for bucket in &mut collections.buckets {
            let mut kept = Vec::new();
            for sample in samples(bucket).drain(..) {
                match picks.get(&at) {
                    Some(0) => lost += 1,
                    Some(1) => {
                        duplicated += 1;
                        kept.extend([sample.clone(), sample]);
                    }
                    Some(_) => {
                        let mut sample = sample;
                        let info = sample.as_document_mut().unwrap().get_document_mut("info").unwrap();
                        info.insert("temp", -1.0);
                        kept.push(sample);
                        (lost, foreign) = (lost + 1, foreign + 1);
                    }
                    None => kept.push(sample),
                }
                at += 1;
            }
            *samples(bucket) = kept;
        }
        let report = verify(&records, &collections, rules(), &[]);
        prop_assert!(!report.ok);
        prop_assert_eq!((report.lost, report.duplicated), (lost, duplicated));
        prop_assert!(report.misplaced >= foreign);
    }
}
