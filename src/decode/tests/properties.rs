//! Any bytes, any JSON: no panic, the grammar of `serde_json`, the bytes of `bson`.

use bson::{Bson, Document};
use proptest::prelude::*;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use super::*;

/// Contracts that between them use every kind of path.
fn contracts() -> Vec<Contract> {
    vec![
        contract(|t| t.stats = list(&["a"])),
        contract(|t| {
            t.fields_path = "a".into();
            t.device_path = list(&["b[0].c", "@key.a", "@key", "id"]);
            t.meta = list(&["a.b", "c", "@topic"]);
            t.timestamp_missing_kafka = true;
        }),
        contract(|t| {
            t.explode = Some("[]".into());
            t.exclude = list(&["c"]);
        }),
        contract(|t| {
            t.explode = Some("a.b".into());
            t.device_path = list(&["$.b", "$.id", "id"]);
            t.timestamp_format = vec![TimestampFormat::Iso8601, TimestampFormat::Unix];
            t.timestamp_path = list(&["ts", "$.ts", "@timestamp"]);
        }),
    ]
}

/// Decodes under every contract, checks what is promised of all outcomes, and that the verdict on the text is that of
/// `serde_json`.
fn check_bytes(value: &[u8], key: Option<&[u8]>) {
    let is_json = std::str::from_utf8(value).is_ok() && serde_json::from_slice::<IgnoredAny>(value).is_ok();
    let mut scratch = Scratch::default();
    for contract in contracts() {
        let decoder = Decoder::new(&contract).unwrap();
        let record = Record { key, ..record(value) };
        match decoder.decode(&record, &mut scratch) {
            Err(Whole::Reject(Reject { reason: Reason::Malformed | Reason::NotUtf8 | Reason::Empty, .. })) => {
                assert!(!is_json, "refused: {value:?}");
            }
            // Told before the end of the text.
            Err(Whole::Reject(_)) => {}
            Err(Whole::Skip(reason)) => assert!(is_json && reason == SkipReason::EmptyArray),
            Ok(readings) => {
                assert!(is_json, "accepted: {value:?}");
                for reading in readings.filter_map(|(_, reading)| reading.ok()) {
                    check_reading(&reading, decoder.n_stats());
                }
            }
        }
    }
}

fn check_reading(reading: &Reading<'_>, n_stats: usize) {
    assert!((1..=1024).contains(&reading.device.len()));
    assert_eq!(reading.stats.len(), n_stats);
    let info = Document::from_reader(reading.info).unwrap();
    assert!(!info.is_empty());
    assert_eq!(info.to_vec().unwrap(), reading.info);
    if !reading.meta.is_empty() {
        assert_eq!(Document::from_reader(reading.meta).unwrap().to_vec().unwrap(), reading.meta);
    }
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => prop::sample::select(vec!["a", "b", "c", "id", "ts", "x.y"]).prop_map(str::to_owned),
        1 => "[^$\\x00]\\PC{0,6}",
    ]
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-300_i64..300).prop_map(Value::from),
        any::<f64>().prop_filter_map("JSON has no such number", |f| f.is_finite().then(|| Value::from(f))),
        any::<String>().prop_map(Value::from),
        Just(Value::from(NOW)),
    ];
    leaf.prop_recursive(5, 60, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
            prop::collection::vec((name(), inner), 0..14)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// The same text by the rules of the decoder, from a tree of values.
fn model(value: &Value) -> Bson {
    match value {
        Value::Null => Bson::Null,
        Value::Bool(value) => Bson::from(*value),
        Value::String(text) => Bson::from(text.as_str()),
        Value::Array(values) => Bson::from(values.iter().map(model).collect::<Vec<_>>()),
        Value::Object(members) => Bson::from(model_document(members)),
        Value::Number(number) => match number.as_i64() {
            Some(value) => i32::try_from(value).map_or(Bson::from(value), Bson::from),
            None => Bson::from(number.as_f64().unwrap()),
        },
    }
}

fn model_document(members: &Map<String, Value>) -> Document {
    members.iter().map(|(name, value)| (name.clone(), model(value))).collect()
}

proptest! {
    #[test]
    fn any_bytes(value in prop::collection::vec(any::<u8>(), 0..60), key in any::<Option<Vec<u8>>>()) {
        check_bytes(&value, key.as_deref());
    }

    #[test]
    fn any_tokens(tokens in prop::collection::vec(prop::sample::select(vec![
        "{", "}", "[", "]", ",", ":", "\"a\"", "\"b\"", "\"id\"", "\"ts\"", "1", "-0.5e1", "true", "null", "1700000000000",
        " ", "\"\\u", "\"\\ud800\"", "01", "-", "1e999", "\\", "\u{e9}",
    ]), 0..20)) {
        check_bytes(tokens.concat().as_bytes(), None);
    }

    #[test]
    fn json_with_some_bytes_changed(
        json in any_json(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        cut in prop::option::weighted(0.2, any::<prop::sample::Index>()),
    ) {
        let mut value = json.to_string().into_bytes();
        for (at, byte) in changes {
            let at = at.index(value.len());
            value[at] = byte;
        }
        if let Some(cut) = cut {
            value.truncate(cut.index(value.len()));
        }
        let key = value.clone();
        check_bytes(&value, Some(&key));
    }

    /// Fields come out as the `bson` crate writes the same content, whatever way the text is written.
    #[test]
    fn fields_are_what_bson_writes(
        members in prop::collection::vec((name(), any_json()), 0..20),
        pretty in any::<bool>(),
        n_neighbours in 0..3_usize,
    ) {
        let mut fields: Map<String, Value> = members.into_iter().filter(|(name, _)| name != "id" && name != "ts").collect();
        let want = model_document(&fields.iter().filter(|(_, v)| !v.is_null()).map(|(n, v)| (n.clone(), v.clone())).collect());
        fields.insert("id".into(), json!("d"));
        fields.insert("ts".into(), json!(NOW));
        let elements = vec![Value::from(fields); n_neighbours + 1];
        let value = if pretty { serde_json::to_vec_pretty(&elements) } else { serde_json::to_vec(&elements) }.unwrap();
        let decoder = Decoder::new(&contract(|t| t.explode = Some("[]".into()))).unwrap();
        let mut scratch = Scratch::default();
        let readings = decoder.decode(&record(&value), &mut scratch).unwrap();
        prop_assert_eq!(readings.len(), n_neighbours + 1);
        for (_, reading) in readings {
            match reading {
                Ok(reading) => prop_assert_eq!(reading.info, want.to_vec().unwrap()),
                Err(reject) => {
                    prop_assert_eq!(reject.reason, Reason::NoFields);
                    prop_assert!(want.is_empty());
                }
            }
        }
    }

    /// What is left in the buffers by one record has no part in the next.
    #[test]
    fn a_pure_function_of_the_record(values in prop::collection::vec(any_json(), 1..6)) {
        let mut shared = Scratch::default();
        for contract in contracts() {
            let decoder = Decoder::new(&contract).unwrap();
            for value in &values {
                let value = value.to_string();
                let lines = |scratch: &mut Scratch| {
                    let readings = decoder.decode(&record(value.as_bytes()), scratch);
                    format!("{:?}", readings.map(Iterator::collect::<Vec<_>>))
                };
                prop_assert_eq!(lines(&mut shared), lines(&mut Scratch::default()));
            }
        }
    }
}
