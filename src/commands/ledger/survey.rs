//! What buckets and dead letters tell of the streams that they belong to.

use std::collections::BTreeMap;

use mongodb::bson::{Bson, Document, doc};

use super::{Access, failed};
use crate::code::{Code, Failure};
use crate::record::{Origin, Position, StreamId};
use crate::sink::ledger::coverage::rebuild::Found;

/// Streams by the partition that they are of.
pub(super) type Streams = BTreeMap<Origin, Vec<Found>>;

/// One stream as the server has added it up.
struct Sum {
    found: Found,
    origin: Option<Origin>,
}

/// Reads all buckets and dead letters once.
pub(super) fn survey(access: &Access<'_>) -> Result<Streams, Failure> {
    let collection = &access.config.mongo.collection;
    let mut sums: BTreeMap<StreamId, Sum> = BTreeMap::new();
    let letters = sums_of(access, &format!("{collection}_dead"), &letters_group())?;
    for document in sums_of(access, collection, &buckets_group(access))?.iter().chain(&letters) {
        let sum = parse(access, document)?;
        match sums.get_mut(&sum.found.stream) {
            None => _ = sums.insert(sum.found.stream, sum),
            Some(known) => {
                known.found.first = known.found.first.min(sum.found.first);
                known.found.last = known.found.last.max(sum.found.last);
                known.origin = known.origin.take().or(sum.origin);
            }
        }
    }
    let mut streams = Streams::new();
    for Sum { found, origin } in sums.into_values() {
        let origin = origin.ok_or_else(|| {
            let (s, src) = (found.stream.0, &access.config.fields.src);
            unusable(format_args!("no bucket of stream {s} in {collection} says by {src:?} which partition it is of"))
        })?;
        streams.entry(origin).or_default().push(found);
    }
    Ok(streams)
}

fn buckets_group(access: &Access<'_>) -> Document {
    let fields = &access.config.fields;
    let (lo, hi) = (format!("${}.lo", fields.pos), format!("${}.hi", fields.pos));
    let window = access.config.bucket.window;
    let shifted = doc! { "$add": [{ "$toLong": "$_id.w" }, window.offset_ms] };
    let is_foreign = doc! { "$or": [{ "$ne": [{ "$type": &lo }, "long"] }, { "$ne": [{ "$type": &hi }, "long"] }] };
    let count = |condition: Document| doc! { "$sum": { "$cond": [condition, 1, 0] } };
    doc! {
        "_id": "$_id.s", "lo": { "$min": &lo }, "hi": { "$max": &hi },
        // Of buckets n = 0 only; the others have none, which is less than any document.
        "src": { "$max": format!("${}", fields.src) },
        "foreign": count(is_foreign),
        "misplaced": count(doc! { "$ne": [{ "$mod": [shifted, window.length_ms] }, 0] }),
    }
}

fn letters_group() -> Document {
    let src = ["cluster", "topic", "incarnation", "partition"];
    let src: Document = src.iter().map(|name| ((*name).to_owned(), Bson::from(format!("${name}")))).collect();
    doc! { "_id": "$_id.s", "lo": { "$min": "$_id.pos" }, "hi": { "$max": "$_id.pos" }, "src": { "$first": src } }
}

/// Takes as long as it takes: the whole collection is read.
fn sums_of(access: &Access<'_>, collection: &str, group: &Document) -> Result<Vec<Document>, Failure> {
    // A replay's streams are negative and cover no offsets: theirs are of other streams too.
    let of_members = doc! { "$match": { "_id.s": { "$gte": 0_i64 } } };
    let command = doc! {
        "aggregate": collection, "pipeline": [of_members, { "$group": group.clone() }], "allowDiskUse": true,
        "cursor": { "batchSize": 1_000_000 }, "readConcern": { "level": "majority" },
    };
    let reply = access.runtime.block_on(access.server.run(command)).map_err(|error| {
        Failure::new(Code::MongoRefused, format_args!("the streams of {collection} cannot be added up: {error}"))
    })?;
    let cursor = reply.get_document("cursor").ok();
    let batch = cursor.and_then(|cursor| cursor.get_array("firstBatch").ok());
    match (batch, cursor.and_then(|cursor| cursor.get_i64("id").ok())) {
        (Some(batch), Some(0)) => Ok(batch.iter().filter_map(|sum| sum.as_document().cloned()).collect()),
        _ => Err(failed(format_args!("{collection} has more streams than fit into one reply"))),
    }
}

fn parse(access: &Access<'_>, sum: &Document) -> Result<Sum, Failure> {
    let collection = &access.config.mongo.collection;
    let n = |name| sum.get_i32(name).unwrap_or(0);
    if n("foreign") > 0 {
        let (n, pos) = (n("foreign"), &access.config.fields.pos);
        return Err(unusable(format_args!(
            "{n} buckets of {collection} have no position in {pos:?}: set [fields] to the names they were written under"
        )));
    }
    if n("misplaced") > 0 {
        return Err(unusable(format_args!(
            "{} buckets of {collection} are not of windows of {} ms: set bucket.window and bucket.window_offset to what \
             they were written under",
            n("misplaced"),
            access.config.bucket.window.length_ms
        )));
    }
    let number = |name| sum.get_i64(name).map_err(|error| unusable(format_args!("a stream of {collection}: {error}")));
    let (lo, hi) = (Position(number("lo")?), Position(number("hi")?));
    let found = Found { stream: StreamId(number("_id")?), first: lo.offset(), last: hi.offset() };
    Ok(Sum { found, origin: sum.get_document("src").ok().and_then(origin) })
}

fn origin(src: &Document) -> Option<Origin> {
    Some(Origin {
        cluster: src.get_str("cluster").ok()?.to_owned(),
        topic: src.get_str("topic").ok()?.to_owned(),
        incarnation: src.get_i32("incarnation").ok()?,
        partition: src.get_i32("partition").ok()?,
    })
}

fn unusable(message: impl std::fmt::Display) -> Failure {
    Failure::new(Code::LedgerRefused, message)
}
