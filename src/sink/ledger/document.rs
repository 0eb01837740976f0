//! The stored form of the ledger: a header, contracts by fingerprint, and one entry a partition.

use std::ops::Range;

use mongodb::bson::{Bson, Document, doc};

use super::coverage::Edit;
use super::entry::{Entry, Stream};
use crate::config::FieldNames;
use crate::record::{Origin, StreamId};

/// Raised when an older release would misread the ledger.
pub const HEADER_SCHEMA: i32 = 1;

/// The header names the one readings collection that the ledger belongs to, and the names its fields are stored under:
/// with other names the tails of old buckets would not be found, and what they hold would be stored again.
pub fn header(namespace: &str, fields: &FieldNames) -> Document {
    doc! { "_id": "header", "namespace": namespace, "fields": field_names(fields), "schema": HEADER_SCHEMA }
}

fn field_names(fields: &FieldNames) -> Document {
    // Taken apart, so that a new name cannot be forgotten here.
    let FieldNames { deviceid, date, first, last, count, open, meta, samples, time, info, stats, schema, src, pos } =
        fields;
    doc! {
        "deviceid": deviceid, "date": date, "first": first, "last": last, "count": count, "open": open, "meta": meta,
        "samples": samples, "time": time, "info": info, "stats": stats, "schema": schema, "src": src, "pos": pos,
    }
}

/// Field order matters: the server compares `_id` as a whole.
pub(super) fn entry_id(origin: &Origin) -> Document {
    let Origin { cluster, topic, incarnation, partition } = origin;
    doc! { "cluster": cluster, "topic": topic, "incarnation": incarnation, "partition": partition }
}

/// Range of all entries of a topic; ascending by incarnation.
pub(super) fn topic_range(cluster: &str, topic: &str) -> Document {
    doc! {
        "$gte": { "cluster": cluster, "topic": topic },
        "$lt": { "cluster": cluster, "topic": topic, "incarnation": Bson::MaxKey },
    }
}

/// Range of all entries; contracts sort behind it, as their only field's name does.
pub(crate) fn entries_range() -> Document {
    doc! { "$gte": { "cluster": "" }, "$lt": { "contract": "" } }
}

/// Range of all contracts.
pub(super) fn contracts_range() -> Document {
    doc! { "$gte": { "contract": "" }, "$lt": { "contract": Bson::MaxKey } }
}

pub(super) fn contract_id(fingerprint: &str) -> Document {
    doc! { "contract": fingerprint }
}

pub(crate) fn parse_origin(id: &Document) -> Result<Origin, String> {
    let text = |name| id.get_str(name).map(str::to_owned).map_err(|error| format!("`_id.{name}`: {error}"));
    let number = |name| {
        let value = whole(id, name).map_err(|error| format!("`_id.{error}"))?;
        i32::try_from(value).map_err(|_| format!("`_id.{name}` is out of range"))
    };
    Ok(Origin {
        cluster: text("cluster")?,
        topic: text("topic")?,
        incarnation: number("incarnation")?,
        partition: number("partition")?,
    })
}

/// Reads an entry, and refuses one that could have a range written by two streams.
pub(crate) fn parse_entry(document: &Document) -> Result<Entry, String> {
    let streams = array(document, "streams")?.iter().map(parse_stream).collect::<Result<_, _>>()?;
    let topic_id = match document.get("topic_id") {
        None | Some(Bson::Null) => None,
        Some(Bson::String(id)) => Some(id.clone()),
        Some(_) => return Err("`topic_id` is not a string".to_owned()),
    };
    let (lost, skipped) = (parse_ranges(document, "lost")?, parse_ranges(document, "skipped")?);
    let entry = Entry { version: whole(document, "version")?, topic_id, streams, lost, skipped };
    entry.check()?;
    Ok(entry)
}

fn parse_stream(stream: &Bson) -> Result<Stream, String> {
    let stream = stream.as_document().ok_or("an element of `streams` is not a document")?;
    let to = match stream.get("to") {
        Some(Bson::Null) => None,
        _ => Some(whole(stream, "to")?),
    };
    Ok(Stream {
        id: StreamId(whole(stream, "s")?),
        from: whole(stream, "from")?,
        to,
        next: whole(stream, "next")?,
        reserved: whole(stream, "reserved")?,
        contract: stream.get_str("contract").map_err(|error| format!("`streams.contract`: {error}"))?.into(),
    })
}

fn parse_ranges(document: &Document, name: &str) -> Result<Vec<Range<i64>>, String> {
    if !document.contains_key(name) {
        return Ok(Vec::new());
    }
    let parse = |range: &Bson| {
        let range = range.as_document().ok_or_else(|| format!("an element of `{name}` is not a document"))?;
        Ok(whole(range, "from")?..whole(range, "to")?)
    };
    array(document, name)?.iter().map(parse).collect()
}

/// An integer; a shell may have made it a shorter one. A double is refused, for offsets do not survive it.
fn whole(document: &Document, name: &str) -> Result<i64, String> {
    match document.get(name) {
        Some(Bson::Int64(value)) => Ok(*value),
        Some(Bson::Int32(value)) => Ok((*value).into()),
        _ => Err(format!("`{name}` is not an integer")),
    }
}

fn array<'a>(document: &'a Document, name: &str) -> Result<&'a Vec<Bson>, String> {
    document.get_array(name).map_err(|_| format!("`{name}` is not an array"))
}

fn stream_document(stream: &Stream) -> Bson {
    let Stream { id, from, to, next, reserved, contract } = stream;
    doc! { "s": id.0, "from": from, "to": to, "next": next, "reserved": reserved, "contract": &**contract }.into()
}

/// The update that puts `edit` in force. A pipeline, so that the server's clock dates what was lost or skipped.
pub(super) fn edit_update(version: i64, edit: &Edit) -> Vec<Document> {
    let streams: Vec<_> = edit.streams.iter().map(stream_document).collect();
    let added = |name: &str, ranges: &[Range<i64>]| {
        let dated: Vec<_> =
            ranges.iter().map(|range| doc! { "from": range.start, "to": range.end, "at": "$$NOW" }).collect();
        doc! { "$concatArrays": [{ "$ifNull": [format!("${name}"), []] }, dated] }
    };
    vec![doc! { "$set": {
        "version": version,
        "topic_id": { "$literal": edit.topic_id.as_deref() },
        "streams": { "$literal": streams },
        "lost": added("lost", &edit.lost),
        "skipped": added("skipped", &edit.skipped),
    } }]
}

/// The update that keeps a contract's text, and the server's time of the first writer that did.
pub(super) fn contract_update(text: &str) -> Vec<Document> {
    vec![doc! { "$set": {
        "text": { "$ifNull": ["$text", { "$literal": text }] },
        "first_seen": { "$ifNull": ["$first_seen", "$$NOW"] },
    } }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_round_trip() {
        let closed = Stream { next: 5, ..Stream::new(StreamId(1), 0, Some(10), "a") };
        let live = Stream { next: 12, reserved: 20, ..Stream::new(StreamId(i64::MAX), 10, None, "b") };
        let entry = Entry {
            version: 4,
            topic_id: Some("t".into()),
            streams: vec![closed, live],
            lost: vec![2..3, 4..9],
            skipped: vec![5..7],
        };
        let document = doc! {
            "version": 4,
            "topic_id": "t",
            "streams": entry.streams.iter().map(stream_document).collect::<Vec<_>>(),
            "lost": [{ "from": 2_i64, "to": 3_i64 }, { "from": 4, "to": 9 }],
            "skipped": [{ "from": 5_i64, "to": 7_i64 }],
        };
        assert_eq!(parse_entry(&document), Ok(entry));
    }

    #[test]
    fn unfit_entries_say_what_is_wrong() {
        let stream = doc! { "s": 1_i64, "from": 0_i64, "to": null, "next": 0_i64, "reserved": 0_i64, "contract": "a" };
        let check = |name: &str, value: Bson, expected: &str| {
            let mut stream = stream.clone();
            stream.insert(name, value);
            let error = parse_entry(&doc! { "version": 1_i64, "streams": [stream] }).expect_err("unfit");
            assert!(error.contains(expected), "{error}");
        };
        check("next", Bson::Double(3.0), "`next` is not an integer");
        check("to", Bson::Int64(-1), "owns no valid range");
        check("contract", Bson::Null, "`streams.contract`");
        assert_eq!(parse_entry(&doc! { "version": 1 }), Err("`streams` is not an array".into()));
    }
}
