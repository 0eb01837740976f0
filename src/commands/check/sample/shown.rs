//! What became of a sampled record, for people and for programs.

use std::io::{self, Write};

use jiff::Timestamp;
use mongodb::bson::Document;
use serde_json::{Value, json};

use super::excerpt;
use crate::commands::check::finding::plural;
use crate::config::DecoderTable;
use crate::decode::{Decoder, Reject, Scratch, Whole, advise};
use crate::record::{EventTime, Record, Window};

/// Readings of one record that are shown in full; a record may hold 65,536.
const MAX_SHOWN: usize = 20;

#[derive(Clone, Debug)]
pub(super) struct Shown {
    /// Where the record is from, such as `line 3` or `readings/0 offset 17`.
    origin: String,
    /// Passed over, and why.
    skipped: Option<&'static str>,
    readings: Vec<Reading>,
    faults: Vec<Fault>,
}

#[derive(Clone, Debug)]
struct Reading {
    index: u16,
    device: String,
    time: String,
    window: String,
    fields: Value,
    tags: Value,
}

#[derive(Clone, Debug)]
struct Fault {
    index: u16,
    reject: Reject,
    advice: Option<String>,
    /// A line of the record and the column of the byte in it.
    excerpt: Option<(String, usize)>,
}

/// Numbers of all records together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) records: usize,
    pub(super) readings: usize,
    pub(super) faults: usize,
    pub(super) skipped: usize,
}

impl Sums {
    pub(super) fn of(shown: &[Shown]) -> Self {
        Self {
            records: shown.len(),
            readings: shown.iter().map(|s| s.readings.len()).sum(),
            faults: shown.iter().map(|s| s.faults.len()).sum(),
            skipped: shown.iter().filter(|s| s.skipped.is_some()).count(),
        }
    }
}

/// Decodes one record as `sakia run` would.
pub(super) fn show(
    origin: String,
    record: &Record<'_>,
    decoder: &Decoder,
    table: &DecoderTable,
    window: Window,
    scratch: &mut Scratch,
) -> Shown {
    let mut shown = Shown { origin, skipped: None, readings: Vec::new(), faults: Vec::new() };
    let value = record.value.unwrap_or_default();
    let fault = |index, reject: Reject| Fault {
        index,
        advice: advise(table, value, index, &reject),
        excerpt: reject.byte.map(|byte| excerpt::around(value, byte as usize)),
        reject,
    };
    match decoder.decode(record, scratch) {
        Err(Whole::Skip(reason)) => shown.skipped = Some(reason.name()),
        Err(Whole::Reject(reject)) => shown.faults.push(fault(0, reject)),
        Ok(readings) => {
            for (index, decoded) in readings {
                match decoded {
                    Ok(reading) => shown.readings.push(Reading {
                        index,
                        device: reading.device.to_owned(),
                        time: rfc3339(reading.at),
                        window: rfc3339(window.start(reading.at)),
                        fields: to_json(reading.info),
                        tags: to_json(reading.meta),
                    }),
                    Err(reject) => shown.faults.push(fault(index, reject)),
                }
            }
        }
    }
    shown
}

fn rfc3339(at: EventTime) -> String {
    Timestamp::from_millisecond(at.0).map_or_else(|_| format!("{} ms", at.0), |time| time.to_string())
}

fn to_json(bson: &[u8]) -> Value {
    if bson.is_empty() {
        return Value::Null;
    }
    Document::from_reader(bson).map_or(Value::Null, |document| json!(document))
}

pub(super) fn write_text(out: &mut impl Write, shown: &[Shown]) -> io::Result<()> {
    for record in shown {
        writeln!(out, "{}", record.origin)?;
        if let Some(reason) = record.skipped {
            writeln!(out, "  skip  {reason}: nothing to store, nothing wrong")?;
        }
        for reading in record.readings.iter().take(MAX_SHOWN) {
            let Reading { device, time, window, fields, tags, .. } = reading;
            let tags = if tags.is_null() { String::new() } else { format!("  tags {tags}") };
            writeln!(out, "  ok    {device}  {time}  window {window}  {fields}{tags}")?;
        }
        more(out, record.readings.len(), "reading")?;
        for fault in record.faults.iter().take(MAX_SHOWN) {
            write_fault(out, fault)?;
        }
        more(out, record.faults.len(), "dead letter")?;
    }
    let sums = Sums::of(shown);
    writeln!(
        out,
        "{} record{}: {} reading{}, {} dead letter{}, {} skipped",
        sums.records,
        plural(sums.records),
        sums.readings,
        plural(sums.readings),
        sums.faults,
        plural(sums.faults),
        sums.skipped
    )
}

fn more(out: &mut impl Write, n: usize, what: &str) -> io::Result<()> {
    let left = n.saturating_sub(MAX_SHOWN);
    if left == 0 { Ok(()) } else { writeln!(out, "  ...   {left} more {what}{}", plural(left)) }
}

fn write_fault(out: &mut impl Write, fault: &Fault) -> io::Result<()> {
    writeln!(out, "  fail  {} (reading {}): {}", fault.reject.reason.name(), fault.index, fault.reject)?;
    if let Some((line, column)) = &fault.excerpt {
        writeln!(out, "        {line}")?;
        writeln!(out, "        {:column$}^", "")?;
    }
    fault.advice.as_ref().map_or(Ok(()), |advice| writeln!(out, "        -> {advice}"))
}

pub(super) fn to_report(shown: &[Shown]) -> Value {
    let readings = |record: &Shown| -> Vec<Value> {
        let each = record.readings.iter().map(|r| {
            json!({
                "index": r.index, "device": r.device, "time": r.time, "window": r.window, "fields": r.fields,
                "tags": r.tags,
            })
        });
        each.collect()
    };
    let faults = |record: &Shown| -> Vec<Value> {
        let each = record.faults.iter().map(|fault| {
            json!({
                "index": fault.index, "reason": fault.reject.reason.name(), "detail": fault.reject.detail,
                "byte": fault.reject.byte, "advice": fault.advice,
            })
        });
        each.collect()
    };
    let records = shown.iter().map(|record| {
        json!({
            "origin": record.origin, "skipped": record.skipped, "readings": readings(record), "faults": faults(record),
        })
    });
    let sums = Sums::of(shown);
    json!({
        "records": records.collect::<Vec<_>>(),
        "summary": {
            "records": sums.records, "readings": sums.readings, "faults": sums.faults, "skipped": sums.skipped,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::record::Headers;

    fn shown(value: &str) -> Shown {
        let config = Config::from_toml(
            "kafka.brokers = \"h:1\"\nmongo.uri = \"mongodb://h/?replicaSet=rs0\"\n[[decoder]]\ntopics = [\"t\"]\n\
             device_path = \"id\"\ntimestamp_path = \"ts\"\ntimestamp_format = \"unix_ms\"\n",
        );
        let config = config.unwrap();
        let decoder = Decoder::new(&config.contract_for("t").unwrap()).unwrap();
        let record = Record {
            topic: "t",
            partition: 0,
            offset: 0,
            timestamp: Some(1_794_744_000_000),
            key: None,
            value: Some(value.as_bytes()),
            headers: Headers::default(),
        };
        show("line 1".into(), &record, &decoder, &config.decoders[0], config.bucket.window, &mut Scratch::default())
    }

    fn text(value: &str) -> String {
        let mut out = Vec::new();
        write_text(&mut out, &[shown(value)]).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_reading_is_shown_as_it_would_be_stored() {
        assert_eq!(
            text(r#"{"id":"a","ts":1794744000123,"temp":21.5}"#),
            "line 1\n  ok    a  2026-11-15T12:00:00.123Z  window 2026-11-15T00:00:00Z  {\"temp\":21.5}\n1 record: 1 \
             reading, 0 dead letters, 0 skipped\n"
        );
    }

    #[test]
    fn a_fault_is_pointed_at() {
        let text = text(r#"{"id":"a","ts":1794744000123,"temp":x}"#);
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[1].starts_with("  fail  malformed (reading 0): "), "{text}");
        assert_eq!(lines[2].chars().nth(lines[3].find('^').unwrap()), Some('x'), "{text}");
        assert_eq!(lines[4], "1 record: 0 readings, 1 dead letter, 0 skipped");
    }

    #[test]
    fn the_report_has_reason_and_advice() {
        let report = to_report(&[shown(r#"{"Id":"a","ts":1794744000123,"temp":1}"#)]);
        let fault = &report["records"][0]["faults"][0];
        assert_eq!(fault["reason"], "missing_device");
        assert!(fault["advice"].as_str().unwrap().contains("did you mean \"Id\"?"), "{report:#}");
        assert_eq!(report["summary"]["faults"], 1);
    }
}
