//! A topic and the collections that hold it rightly, made the plain way: one reading after the other, `Document`s only.

use std::collections::BTreeMap;

use loadtest::reading::{Maker, Shape};
use loadtest::verify::names::FieldNames;
use loadtest::verify::report::{Findings, Report};
use loadtest::verify::stored::Stored;
use loadtest::verify::truth::{Origin, Truth};
use loadtest::verify::{Rules, Windows, check};
use mongodb::bson::{Bson, DateTime, Document, RawDocumentBuf, doc};
use serde_json::Value;

pub(crate) const DAY_MS: i64 = 86_400_000;
pub(crate) const TOPIC: &str = "t";

#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) timestamp_ms: i64,
    pub(crate) value: Vec<u8>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Collections {
    pub(crate) buckets: Vec<Document>,
    pub(crate) dead: Vec<Document>,
    pub(crate) ledger: Vec<Document>,
}

/// How the plain writer stores.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writer<'a> {
    pub(crate) topic: &'a str,
    pub(crate) max_samples: usize,
    /// Offsets from here on belong to a second stream.
    pub(crate) second_stream_from: i64,
    /// Field that is a tag of the bucket.
    pub(crate) tag: Option<&'a str>,
}

impl Default for Writer<'_> {
    fn default() -> Self {
        Self { topic: TOPIC, max_samples: 4, second_stream_from: i64::MAX, tag: None }
    }
}

pub(crate) fn shape() -> Shape {
    Shape {
        seed: 3,
        run: 1,
        devices: 5,
        nominal: 200,
        per_record: 1,
        start_ms: 1_700_000_000_000,
        span_ms: 2 * DAY_MS,
        disorder: 0.1,
        late: 0.05,
        equal_times: 0.1,
        poison: 0.02,
        sample_bytes: 79,
        tag_every: 0,
    }
}

/// The first `n` records of a shape, in two partitions.
pub(crate) fn records(shape: Shape, n: u64) -> Vec<Record> {
    let maker = Maker::new(shape);
    let mut next = [0, 100];
    let mut value = Vec::new();
    let mut records = Vec::new();
    for r in 0..n {
        let made = maker.record(r, maker.shape().per_record, &mut value);
        let partition = made.device as usize % 2;
        let offset = next[partition];
        next[partition] += 1;
        let partition = partition as i32;
        records.push(Record { partition, offset, timestamp_ms: made.timestamp_ms, value: value.clone() });
    }
    records
}

impl Writer<'_> {
    pub(crate) fn store(&self, records: &[Record]) -> Collections {
        let mut chains: BTreeMap<(i64, String, i64), Vec<Document>> = BTreeMap::new();
        let mut out = Collections::default();
        for record in records {
            let s = i64::from(record.partition) + if record.offset < self.second_stream_from { 1_000 } else { 2_000 };
            for (index, verdict) in judge(record).into_iter().enumerate() {
                let index = index as i64;
                let (device, at, fields) = match verdict {
                    Ok(reading) => reading,
                    Err(reason) => {
                        out.dead.push(self.dead_letter(record, s, index, reason));
                        continue;
                    }
                };
                let window = at - at.rem_euclid(DAY_MS);
                let chain = chains.entry((window, device, s)).or_default();
                self.append(chain, record, s, index, window, at, &fields);
            }
        }
        for mut chain in chains.into_values() {
            let last = chain.last_mut().expect("a chain has a bucket");
            if last.get_i32("count").unwrap() < self.max_samples as i32 {
                last.insert("open", true);
            }
            out.buckets.extend(chain);
        }
        out.ledger = self.ledger();
        out
    }

    #[allow(clippy::too_many_arguments, reason = "a test's plain writer: what a bucket is made of, by name")]
    fn append(
        &self,
        chain: &mut Vec<Document>,
        record: &Record,
        s: i64,
        index: i64,
        window: i64,
        at: i64,
        fields: &serde_json::Map<String, Value>,
    ) {
        let device = fields["deviceid"].as_str().unwrap();
        let info = |tags: bool| -> Document {
            let kept = fields.iter().filter(|(k, _)| *k != "deviceid" && *k != "ts");
            kept.filter(|(k, _)| (Some(k.as_str()) == self.tag) == tags).map(|(k, v)| (k.clone(), bson(v))).collect()
        };
        let meta = info(true);
        let full = |b: &Document| b.get_array("samples").unwrap().len() >= self.max_samples;
        let other_meta = |b: &Document| b.get_document("meta").ok() != (!meta.is_empty()).then_some(&meta);
        if chain.last().is_none_or(|b| full(b) || other_meta(b)) {
            let start = DateTime::from_millis(window);
            let mut bucket = doc! {
                "_id": { "w": start, "d": device, "s": s, "n": chain.len() as i32 },
                "deviceid": device, "date": start,
                "samples": [], "schema": 1,
                "pos": { "lo": record.offset * 65_536 + index, "hi": 0_i64 },
            };
            if !meta.is_empty() {
                bucket.insert("meta", meta);
            }
            if chain.is_empty() {
                bucket.insert("src", doc! { "topic": self.topic, "partition": record.partition });
            }
            chain.push(bucket);
        }
        let bucket = chain.last_mut().unwrap();
        bucket.get_document_mut("pos").unwrap().insert("hi", record.offset * 65_536 + index);
        let sample = doc! { "time": DateTime::from_millis(at), "info": info(false) };
        bucket.get_array_mut("samples").unwrap().push(sample.into());
        recompute(bucket);
    }

    fn dead_letter(&self, record: &Record, s: i64, index: i64, reason: &str) -> Document {
        doc! {
            "_id": { "s": s, "pos": record.offset * 65_536 + index },
            "topic": self.topic, "partition": record.partition, "offset": record.offset, "index": index as i32,
            "reason": reason,
        }
    }

    fn ledger(&self) -> Vec<Document> {
        let split = self.second_stream_from < i64::MAX;
        let entry = |partition: i32| {
            let first = i64::from(partition);
            let to = split.then_some(self.second_stream_from);
            let mut streams = vec![doc! { "s": 1_000 + first, "from": 0_i64, "to": to, "next": 0_i64 }];
            if split {
                streams.push(doc! { "s": 2_000 + first, "from": self.second_stream_from, "to": null, "next": 0_i64 });
            }
            let id = doc! { "cluster": "c", "topic": self.topic, "incarnation": 0, "partition": partition };
            doc! { "_id": id, "version": 1_i64, "streams": streams }
        };
        vec![doc! { "_id": "header", "schema": 1 }, entry(0), entry(1)]
    }
}

/// Sets what follows from a bucket's samples.
pub(crate) fn recompute(bucket: &mut Document) {
    let samples: Vec<Document> =
        bucket.get_array("samples").unwrap().iter().map(|s| s.as_document().unwrap().clone()).collect();
    let times = || samples.iter().map(|s| *s.get_datetime("time").unwrap());
    let temps: Vec<f64> = samples.iter().filter_map(|s| s.get_document("info").unwrap().get_f64("temp").ok()).collect();
    let min = temps.iter().copied().fold(f64::INFINITY, f64::min);
    let max = temps.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    bucket.insert("first", times().min());
    bucket.insert("last", times().max());
    bucket.insert("count", samples.len() as i32);
    let total = doc! { "min": min, "max": max, "sum": temps.iter().rev().sum::<f64>(), "n": temps.len() as i32 };
    bucket.insert("stats", doc! { "temp": total });
}

type Verdict = Result<(String, i64, serde_json::Map<String, Value>), &'static str>;

fn judge(record: &Record) -> Vec<Verdict> {
    let Ok(value) = serde_json::from_slice::<Value>(&record.value) else { return vec![Err("malformed")] };
    let elements = value.get("readings").and_then(Value::as_array).cloned().unwrap_or_else(|| vec![value]);
    let verdict = |element: Value| {
        let fields = element.as_object().unwrap().clone();
        let device = fields.get("deviceid").and_then(Value::as_str).ok_or("missing_device")?.to_owned();
        let at = fields.get("ts").and_then(Value::as_i64).ok_or("missing_time")?;
        if at < record.timestamp_ms - 366 * DAY_MS {
            return Err("implausible_time");
        }
        Ok((device, at, fields))
    };
    elements.into_iter().map(verdict).collect()
}

fn bson(value: &Value) -> Bson {
    match value {
        Value::String(s) => Bson::String(s.clone()),
        Value::Number(n) => n.as_i64().map_or_else(|| Bson::Double(n.as_f64().unwrap()), |n| Bson::Int32(n as i32)),
        other => panic!("no such value is produced: {other}"),
    }
}

pub(crate) fn rules() -> Rules {
    let windows = Windows { length_ms: DAY_MS, offset_ms: 0 };
    Rules { names: FieldNames::default(), windows, max_samples: 4, target_bytes: 65_536, stats: vec!["temp".into()] }
}

/// The whole checker, on records and documents.
pub(crate) fn verify(records: &[Record], collections: &Collections, rules: Rules, tags: &[&str]) -> Report {
    let mut truth = Truth::new(rules.windows, tags.iter().map(ToString::to_string).collect());
    for partition in 0..2 {
        truth.origins.push(Origin { topic: TOPIC.into(), partition, from: 0, to: 1_000 });
    }
    for record in records {
        truth.record(record.partition as u32, record.offset, record.timestamp_ms, Some(&record.value));
    }
    let mut stored = Stored::new(rules);
    let raw = |document: &Document| RawDocumentBuf::try_from(document).unwrap();
    collections.buckets.iter().for_each(|d| stored.bucket(&raw(d)));
    collections.dead.iter().for_each(|d| stored.dead_letter(&raw(d)));
    collections.ledger.iter().for_each(|d| stored.ledger_entry(&raw(d)));
    let findings: Findings = std::mem::take(&mut stored.findings);
    check::check(truth, stored, findings)
}
