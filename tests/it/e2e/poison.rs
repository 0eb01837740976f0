//! One record for every reason of a dead letter, beside good neighbours.

use std::collections::BTreeSet;

use mongodb::bson::{Bson, Document, doc};
use sakia::decode::Reason;

use super::world::{NOON, SHORT_SESSION, Sent, World};

const KEY: &str = r#"{"site":"north"}"#;
const DECODER: &str = "explode = \"readings\"\nmeta = [\"@key.site\"]";

/// A bad reading or a bad record, with its reason.
enum Bad {
    /// An element of the array; its neighbours are stored.
    Reading(&'static str, String),
    /// A whole value.
    Value(&'static str, Vec<u8>),
    /// A key, which every reading of the record needs.
    Key(&'static str),
}

fn good(i: i64) -> String {
    fields(i, r#""temp":1"#)
}

fn fields(i: i64, fields: &str) -> String {
    format!(r#"{{"deviceid":"d","ts":{},{fields}}}"#, NOON + i)
}

fn every_kind() -> Vec<Bad> {
    let deep = format!("{}1{}", "[".repeat(70), "]".repeat(70));
    let reading = |reason, text: &str| Bad::Reading(reason, text.to_owned());
    let value = |reason, text: &str| Bad::Value(reason, text.as_bytes().to_vec());
    vec![
        value("empty", " "),
        value("malformed", r#"{"readings":[{"deviceid":"d""#),
        Bad::Value("not_utf8", b"{\"readings\":[\"\xff\"]}".to_vec()),
        value("explode_not_array", r#"{"readings":{}}"#),
        Bad::Value("too_many_readings", format!("{{\"readings\":[{}]}}", vec!["1"; 65_537].join(",")).into_bytes()),
        reading("not_an_object", "7"),
        reading("too_deep", &fields(0, &format!(r#""temp":{deep}"#))),
        reading("too_large", &fields(0, &format!(r#""text":"{}""#, "x".repeat(5_000)))),
        reading("forbidden_name", &fields(0, r#""$cmd":1"#)),
        reading("duplicate_name", &fields(0, r#""temp":1,"temp":2"#)),
        reading("bad_number", &fields(0, r#""temp":1e999"#)),
        reading("missing_device", &format!(r#"{{"ts":{NOON},"temp":1}}"#)),
        reading("bad_device", &format!(r#"{{"deviceid":"","ts":{NOON},"temp":1}}"#)),
        Bad::Key("bad_key"),
        reading("missing_time", r#"{"deviceid":"d","temp":1}"#),
        reading("bad_time", r#"{"deviceid":"d","ts":"soon","temp":1}"#),
        reading("implausible_time", r#"{"deviceid":"d","ts":5,"temp":1}"#),
        reading("no_fields", &format!(r#"{{"deviceid":"d","ts":{NOON}}}"#)),
    ]
}

/// What a dead letter must say: offset, index, reason, value.
type Letter = (i64, i32, &'static str, Vec<u8>);

/// Record 2i is bad in the i-th way, record 2i + 1 is good.
fn records(kinds: Vec<Bad>) -> (Vec<Sent>, Vec<Letter>, usize) {
    let (mut records, mut letters, mut n_good) = (Vec::new(), Vec::new(), 0);
    for (i, bad) in (0_i64..).zip(kinds) {
        let offset = 2 * i;
        let sent = |key: &str, value: &[u8]| Sent {
            partition: 0,
            key: key.to_owned(),
            value: Some(value.to_vec()),
            timestamp: NOON,
        };
        match bad {
            Bad::Reading(reason, text) => {
                let value = format!(r#"{{"readings":[{},{text},{}]}}"#, good(10 * i), good(10 * i + 1)).into_bytes();
                records.push(sent(KEY, &value));
                letters.push((offset, 1, reason, value));
                n_good += 2;
            }
            Bad::Value(reason, value) => {
                records.push(sent(KEY, &value));
                letters.push((offset, 0, reason, value));
            }
            Bad::Key(reason) => {
                let value = format!(r#"{{"readings":[{}]}}"#, good(10 * i)).into_bytes();
                records.push(sent("no json", &value));
                letters.push((offset, 0, reason, value));
            }
        }
        records.push(sent(KEY, format!(r#"{{"readings":[{}]}}"#, good(10 * i + 2)).as_bytes()));
        n_good += 1;
    }
    (records, letters, n_good)
}

fn bytes(value: &Bson) -> Vec<u8> {
    match value {
        Bson::String(text) => text.clone().into_bytes(),
        Bson::Binary(binary) => binary.bytes.clone(),
        other => panic!("{other} is no value of a dead letter"),
    }
}

fn check_letters(dead: &[Document], letters: &[Letter], stream: i64, topic: &str) {
    assert_eq!(dead.len(), letters.len(), "{dead:#?}");
    for (dead, (offset, index, reason, value)) in dead.iter().zip(letters) {
        assert_eq!(dead.get_str("reason").unwrap(), *reason, "{dead:#?}");
        let pos = offset * 65_536 + i64::from(*index);
        assert_eq!(dead.get_document("_id").unwrap(), &doc! { "s": stream, "pos": pos }, "{reason}");
        assert_eq!((dead.get_i64("offset").unwrap(), dead.get_i32("index").unwrap()), (*offset, *index), "{reason}");
        assert_eq!((dead.get_str("topic").unwrap(), dead.get_i32("partition").unwrap()), (topic, 0), "{reason}");
        assert_eq!(dead.get_datetime("timestamp").unwrap().timestamp_millis(), NOON);
        assert!(!dead.get_str("detail").unwrap().is_empty(), "{reason}");
        assert!(bytes(dead.get("value").unwrap()) == *value, "{reason}: another value");
    }
}

#[test]
fn every_reason_has_its_dead_letter_and_harms_no_neighbour() {
    let mut world = World::new("poison", 1);
    world.settings(&format!("[bucket]\nflush_age = \"100ms\"\nmax_sample_bytes = \"4KiB\"\n{SHORT_SESSION}"));
    world.decoder(DECODER);
    let (records, letters, n_good) = records(every_kind());
    let tried: BTreeSet<_> = letters.iter().map(|letter| letter.2).collect();
    assert_eq!(tried, Reason::ALL.iter().map(|reason| reason.name()).collect(), "a reason without a record");
    world.send(records);
    // The first process dies with dead letters stored that the ledger does not know of yet.
    let (status, log) = world.start_crashing("before_ledger", 2).wait();
    assert!(!status.success(), "{log}");
    world.catch_up();
    assert_eq!(world.n_samples(), n_good);
    let stream = world.buckets()[0].get_document("_id").unwrap().get_i64("s").unwrap();
    check_letters(&world.dead(), &letters, stream, &world.name);
    let stored = (world.buckets(), world.dead());
    // Read again from the start, as an operator may ask for.
    world.commit(1, 0);
    world.catch_up();
    assert!(stored == (world.buckets(), world.dead()), "a repeat changed something");
}

#[test]
fn nothing_to_store_is_no_dead_letter() {
    let mut world = World::new("nothing", 1);
    world.decoder(DECODER);
    let sent = |value: Option<&str>| Sent {
        partition: 0,
        key: KEY.to_owned(),
        value: value.map(|text| text.as_bytes().to_vec()),
        timestamp: NOON,
    };
    world.send([sent(None), sent(Some(r#"{"readings":[]}"#)), sent(None)]);
    world.catch_up();
    assert_eq!((world.n_samples(), world.dead().len()), (0, 0));
    assert_eq!(world.committed(1), [Some(3)]);
}
