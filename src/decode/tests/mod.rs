//! Records in, readings as short texts out.

mod properties;
mod rejects;
mod shapes;
mod tables;
mod values;

use super::*;
use crate::config::contract::{Contract, DECODER_VERSION, DecoderTable, TimestampFormat};
use crate::record::{Headers, Record};

/// 2023-11-14T22:13:20Z, which most tests are written at.
const NOW: i64 = 1_700_000_000_000;

/// A contract for flat records of `id` and `ts` in milliseconds.
fn contract(edit: impl FnOnce(&mut DecoderTable)) -> Contract {
    let mut decoder = DecoderTable {
        name: "test".into(),
        topics: vec!["t".into()],
        device_path: list(&["id"]),
        timestamp_path: list(&["ts"]),
        timestamp_format: vec![TimestampFormat::UnixMs],
        timestamp_missing_kafka: false,
        fields_path: String::new(),
        include: vec![],
        exclude: vec![],
        meta: vec![],
        stats: vec![],
        explode: None,
    };
    edit(&mut decoder);
    Contract {
        decoder_version: DECODER_VERSION,
        decoder,
        window_length_ms: 86_400_000,
        window_offset_ms: 0,
        plausible_past_ms: 366 * 86_400_000,
        plausible_future_ms: 86_400_000,
        max_readings: 65_536,
        max_sample_bytes: 1 << 20,
        isolation_level: "read_committed".into(),
        time_name: "time".into(),
        info_name: "info".into(),
    }
}

fn list(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

/// A record of that value, at `NOW`.
fn record(value: &[u8]) -> Record<'_> {
    Record {
        topic: "t",
        partition: 3,
        offset: 7,
        timestamp: Some(NOW),
        key: None,
        value: Some(value),
        headers: Headers(&[]),
    }
}

/// Each reading as `device ms info [meta]`, or `!reason` with the byte if there is one; a record that fails as a whole
/// gives one line that starts with `skip` or `!!`.
fn decode(contract: &Contract, record: &Record<'_>) -> Vec<String> {
    let decoder = Decoder::new(contract).expect("the contract of this test is sound");
    let mut scratch = Scratch::default();
    let fault = |reject: Reject| {
        let at = reject.byte.map_or(String::new(), |byte| format!("@{byte}"));
        format!("!{}{at}", reject.reason.name())
    };
    match decoder.decode(record, &mut scratch) {
        Err(Whole::Skip(reason)) => vec![format!("skip {}", reason.name())],
        Err(Whole::Reject(reject)) => vec![format!("!{}", fault(reject))],
        Ok(readings) => {
            let n = readings.len();
            let lines: Vec<_> = readings
                .enumerate()
                .map(|(i, (index, reading))| {
                    assert_eq!(usize::from(index), i);
                    reading.map_or_else(fault, |reading| line(&reading))
                })
                .collect();
            assert_eq!(lines.len(), n);
            lines
        }
    }
}

fn line(reading: &Reading<'_>) -> String {
    let info = json(reading.info);
    let meta = if reading.meta.is_empty() { String::new() } else { format!(" {}", json(reading.meta)) };
    format!("{} {} {info}{meta}", reading.device, reading.at.0)
}

fn json(document: &[u8]) -> String {
    let document = bson::Document::from_reader(document).expect("readers take what is stored");
    render(&document.into()).to_string()
}

fn render(value: &bson::Bson) -> serde_json::Value {
    use bson::Bson;
    match value {
        Bson::Document(members) => members.iter().map(|(name, value)| (name.clone(), render(value))).collect(),
        Bson::Array(values) => values.iter().map(render).collect(),
        Bson::String(text) => text.as_str().into(),
        Bson::Boolean(value) => (*value).into(),
        Bson::Int32(value) => (*value).into(),
        Bson::Int64(value) => (*value).into(),
        Bson::Double(value) => (*value).into(),
        Bson::Null => serde_json::Value::Null,
        other => panic!("no JSON becomes {other:?}"),
    }
}

/// The one check of the table tests: this table makes these lines of this value.
fn check(edit: impl FnOnce(&mut DecoderTable), value: &str, want: &[&str]) {
    assert_eq!(decode(&contract(edit), &record(value.as_bytes())), want, "{value}");
}
