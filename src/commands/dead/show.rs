//! `sakia dead show`: all there is to know about the letters of one record.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::Args;
use mongodb::bson::{Document, doc};
use serde_json::{Value, json};

use super::{Letters, letter, list, pretty};
use crate::cli::LayerArgs;
use crate::code::{Code, Failure};
use crate::commands::stdout::written;

#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    /// TOPIC/PARTITION/OFFSET, or one reading's letter with /INDEX behind it, as `sakia dead list` prints them
    #[arg(value_name = "RECORD", value_parser = parse_place)]
    place: Place,
    /// One JSON document a letter; what is not text is in hexadecimal digits
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub(super) layer: LayerArgs,
}

#[derive(Clone, Debug, PartialEq)]
struct Place {
    topic: String,
    partition: i32,
    offset: i64,
    index: Option<i32>,
}

pub(super) async fn run(letters: &Letters, args: &ShowArgs) -> Result<ExitCode, Failure> {
    let Place { topic, partition, offset, index } = &args.place;
    let mut filter = doc! { "topic": topic, "partition": partition, "offset": offset };
    if let Some(index) = index {
        filter.insert("index", index);
    }
    let mut found = letters.find(filter, doc! {}).await?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    let mut n_shown = 0;
    while let Some(document) = letters.next(&mut found).await? {
        n_shown += 1;
        let printed = if args.json { show_json(&mut out, &document) } else { show(&mut out, &document) };
        if printed.is_err() {
            return written(printed).map(|()| ExitCode::SUCCESS);
        }
    }
    if n_shown == 0 {
        let advice = "`sakia dead list --state all` prints those that there are";
        let message = format_args!("{topic}/{partition} has no dead letter at offset {offset}; {advice}");
        return Err(Failure::new(Code::DeadLetterUnknown, message));
    }
    written(out.flush()).map(|()| ExitCode::SUCCESS)
}

fn show(out: &mut impl Write, document: &Document) -> io::Result<()> {
    let text = |name: &str| document.get_str(name).unwrap_or("?");
    let detail = text("detail");
    writeln!(out, "{}  {}", letter::place(document), letter::state(document))?;
    writeln!(out, "  reason:   {}", text("reason"))?;
    writeln!(out, "  detail:   {detail}")?;
    writeln!(out, "  stands for: {}", stands_for(document))?;
    if let Some(time) = list::time(document) {
        writeln!(out, "  record:   {time}")?;
    }
    if let Ok(attempts) = document.get_i32("attempts") {
        writeln!(out, "  attempts: {attempts}, each of them failed")?;
    }
    if let Ok(replay) = document.get_document("replay") {
        writeln!(out, "  run:      {}", replay.get_str("run").unwrap_or("?"))?;
    }
    if let Some(id) = document.get("_id") {
        writeln!(out, "  _id:      {id}")?;
    }
    if let Some(key) = document.get("key").and_then(letter::blob) {
        writeln!(out, "  key:      {}", printable(&key))?;
    }
    for (name, value) in letter::header_list(document) {
        let value = value.map_or_else(|| "null".to_owned(), |value| printable(&value));
        writeln!(out, "  header:   {name} = {value}")?;
    }
    show_value(out, document, detail)?;
    writeln!(out)
}

fn show_value(out: &mut impl Write, document: &Document, detail: &str) -> io::Result<()> {
    let Some(value) = document.get("value").and_then(letter::blob) else {
        return writeln!(out, "  value:    with the record's first letter; leave out the index to see it");
    };
    if let Ok(whole) = document.get_i64("value_bytes") {
        writeln!(out, "  value:    the first {} of {whole} bytes", value.len())?;
    } else {
        writeln!(out, "  value:    {} bytes", value.len())?;
    }
    let shown = match sample(document, &value) {
        Some(sample) => format!("{sample:#}\n"),
        None => pretty::value(&value, pretty::byte_of(detail)),
    };
    out.write_all(shown.as_bytes())
}

fn stands_for(document: &Document) -> String {
    match document.get_str("scope") {
        Ok("record") => "its whole record".to_owned(),
        Ok("reading") => "one reading of its record".to_owned(),
        Ok("sample") => format!("a sample of device {:?}", document.get_str("device").unwrap_or("?")),
        _ => "it does not say".to_owned(),
    }
}

/// The sample that the server refused, which is a letter's value in place of a record's.
fn sample(document: &Document, value: &[u8]) -> Option<Value> {
    let is_sample = document.get_str("scope").is_ok_and(|scope| scope == "sample");
    let sample = is_sample.then(|| Document::from_reader(value).ok())??;
    Some(json!(sample))
}

fn printable(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => format!("{text:?}"),
        Err(_) => format!("0x{}", hex(bytes)),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut digits, byte| {
        write!(digits, "{byte:02x}").expect("invariant: writing to a String cannot fail");
        digits
    })
}

fn show_json(out: &mut impl Write, document: &Document) -> io::Result<()> {
    let blob = |bytes: Vec<u8>| match String::from_utf8(bytes) {
        Ok(text) => json!(text),
        Err(error) => json!({ "hex": hex(error.as_bytes()) }),
    };
    let mut shown = list::facts(document);
    let value = document.get("value").and_then(letter::blob);
    shown["key"] = document.get("key").and_then(letter::blob).map_or(Value::Null, blob);
    shown["headers"] =
        letter::header_list(document).map(|(name, value)| json!({ "name": name, "value": value.map(blob) })).collect();
    shown["value"] = match value.as_deref().and_then(|value| sample(document, value)) {
        Some(sample) => sample,
        None => value.map_or(Value::Null, blob),
    };
    writeln!(out, "{shown}")
}

/// A topic's name holds no slash.
fn parse_place(text: &str) -> Result<Place, String> {
    let parts: Vec<_> = text.split('/').collect();
    let (&[topic, partition, offset], index) = match parts.split_first_chunk::<3>() {
        Some((record, [])) => (record, None),
        Some((record, [index])) => (record, Some(index)),
        _ => return Err("write TOPIC/PARTITION/OFFSET, as in readings/3/1234".to_owned()),
    };
    let wrong = |what: &str, text: &str| format!("{text:?} is no {what}");
    Ok(Place {
        topic: topic.to_owned(),
        partition: partition.parse().map_err(|_| wrong("partition", partition))?,
        offset: offset.parse().map_err(|_| wrong("offset", offset))?,
        index: index.map(|index| index.parse().map_err(|_| wrong("index", index))).transpose()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_as_list_prints_them() {
        let place = Place { topic: "a.b-c".into(), partition: 3, offset: 12, index: Some(4) };
        assert_eq!(parse_place("a.b-c/3/12/4"), Ok(place.clone()));
        assert_eq!(parse_place("a.b-c/3/12"), Ok(Place { index: None, ..place }));
        for wrong in ["a", "a/b/12", "a/3", "a/3/x", "a/3/12/4/5"] {
            assert!(parse_place(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_letter_is_shown_with_its_mark() {
        let document = doc! {
            "_id": { "s": 1_i64, "pos": 2_i64 }, "topic": "t", "partition": 0, "offset": 0_i64, "index": 0,
            "scope": "record", "reason": "malformed", "detail": "a value is missing at byte 5", "value": r#"{"a":}"#,
            "key": "k", "headers": [{ "name": "h", "value": null }], "attempts": 1,
        };
        let mut out = Vec::new();
        show(&mut out, &document).unwrap();
        let text = String::from_utf8(out).unwrap();
        for part in ["t/0/0/0  pending", "key:      \"k\"", "h = null", "^ byte 5", "its whole record"] {
            assert!(text.contains(part), "{part:?} is missing:\n{text}");
        }
    }
}
