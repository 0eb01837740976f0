//! The commands that `read` sends. Pure.
//!
//! All of them find buckets by ranges of the whole `_id`, the one index that is always there. `deviceid` and `date` stand
//! beside each range, so that a router knows the shard.

use mongodb::bson::{Bson, DateTime, Document, doc};

use crate::config::FieldNames;

/// Name for a sample's index within its bucket, where the server takes buckets apart.
const PLACE: &str = "_place";

/// Event times `[from, to)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) from: i64,
    pub(super) to: i64,
}

impl Span {
    pub(super) fn holds(self, time: i64) -> bool {
        (self.from..self.to).contains(&time)
    }
}

/// The collection and the names that its fields are stored under.
#[derive(Clone, Debug)]
pub(super) struct Queries {
    pub(super) collection: String,
    pub(super) fields: FieldNames,
}

pub(super) fn date(ms: i64) -> Bson {
    Bson::DateTime(DateTime::from_millis(ms))
}

impl Queries {
    /// Start of the first window after `after` and before `upto`.
    pub(super) fn next_window(&self, after: i64, upto: i64) -> Document {
        self.window(doc! { "$gt": { "w": date(after), "d": Bson::MaxKey }, "$lt": { "w": date(upto) } }, 1)
    }

    /// Start of the last window before `before`.
    pub(super) fn previous_window(&self, before: i64) -> Document {
        self.window(doc! { "$lt": { "w": date(before) } }, -1)
    }

    fn window(&self, id: Document, direction: i32) -> Document {
        doc! {
            "find": &self.collection, "filter": { "_id": id }, "sort": { "_id": direction }, "limit": 1,
            "singleBatch": true, "projection": { "_id": 1 }, "readConcern": { "level": "majority" },
        }
    }

    /// Buckets that may hold samples of the span, by the time of their oldest one.
    pub(super) fn buckets(&self, windows: &[i64], devices: &[String], span: Span) -> Document {
        doc! {
            "find": &self.collection, "filter": self.in_span(windows, devices, span),
            "sort": { &self.fields.first: 1 }, "allowDiskUse": true, "readConcern": { "level": "majority" },
        }
    }

    /// The same, sample by sample, sorted by the server: it has a disk for what exceeds its memory.
    pub(super) fn samples(&self, windows: &[i64], devices: &[String], span: Span) -> Document {
        let f = &self.fields;
        let time = format!("{}.{}", f.samples, f.time);
        self.aggregate(vec![
            doc! { "$match": self.in_span(windows, devices, span) },
            doc! { "$unwind": { "path": format!("${}", f.samples), "includeArrayIndex": PLACE } },
            doc! { "$match": { &time: { "$gte": date(span.from), "$lt": date(span.to) } } },
            doc! { "$sort": {
                time: 1, "_id.d": 1, format!("{}.lo", f.pos): 1, "_id.s": 1, "_id.n": 1, PLACE: 1,
            } },
        ])
    }

    /// Names of the fields that samples of the span have.
    pub(super) fn names(&self, windows: &[i64], devices: &[String], span: Span) -> Document {
        let f = &self.fields;
        self.aggregate(vec![
            doc! { "$match": self.in_span(windows, devices, span) },
            doc! { "$unwind": format!("${}", f.samples) },
            doc! { "$match": { format!("{}.{}", f.samples, f.time): { "$gte": date(span.from), "$lt": date(span.to) } } },
            doc! { "$project": { "_id": 0, "field": { "$objectToArray": format!("${}.{}", f.samples, f.info) } } },
            doc! { "$unwind": "$field" },
            doc! { "$group": { "_id": "$field.k" } },
        ])
    }

    /// Devices that have a bucket in this window; answered from the index alone.
    pub(super) fn devices(&self, window: i64) -> Document {
        self.aggregate(vec![
            doc! { "$match": { "_id": whole(window) } },
            doc! { "$project": { "_id": 1 } },
            doc! { "$group": { "_id": "$_id.d" } },
        ])
    }

    /// Which bucket of the window holds the newest sample of each device; all devices, where none are named.
    pub(super) fn newest_buckets(&self, window: i64, devices: Option<&[String]>, from: i64) -> Document {
        let f = &self.fields;
        let filter = match devices {
            None => doc! { "_id": whole(window), &f.date: date(window), &f.last: { "$gte": date(from) } },
            Some(devices) => self.in_span(&[window], devices, Span { from, to: i64::MAX }),
        };
        self.aggregate(vec![
            doc! { "$match": filter },
            doc! { "$group": { "_id": "$_id.d", "newest": { "$max": {
                "last": format!("${}", f.last), "lo": format!("${}.lo", f.pos), "s": "$_id.s", "n": "$_id.n", "id": "$_id",
            } } } },
        ])
    }

    /// The newest sample of each of these buckets.
    pub(super) fn newest_samples(&self, ids: &[Bson], devices: &[String]) -> Document {
        let f = &self.fields;
        let (samples, last) = (format!("${}", f.samples), format!("${}", f.last));
        let of_last = doc! { "$filter": {
            "input": &samples, "as": "sample", "cond": { "$eq": [format!("$$sample.{}", f.time), &last] },
        } };
        // Samples arrive in order of time nearly always: then the last one is it, and none of the others is looked at.
        let newest = doc! { "$let": {
            "vars": { "tail": { "$arrayElemAt": [&samples, -1] } },
            "in": { "$cond": [
                { "$eq": [format!("$$tail.{}", f.time), &last] }, "$$tail", { "$arrayElemAt": [of_last, -1] },
            ] },
        } };
        let mut project = doc! { &f.samples: newest };
        project.extend([&f.meta, &f.pos].map(|name| (name.clone(), Bson::Int32(1))));
        self.aggregate(vec![
            doc! { "$match": { "_id": { "$in": ids }, &f.deviceid: { "$in": devices } } },
            doc! { "$project": project },
        ])
    }

    fn aggregate(&self, pipeline: Vec<Document>) -> Document {
        doc! {
            "aggregate": &self.collection, "pipeline": pipeline, "cursor": {}, "allowDiskUse": true,
            "readConcern": { "level": "majority" },
        }
    }

    fn in_span(&self, windows: &[i64], devices: &[String], span: Span) -> Document {
        let f = &self.fields;
        let of = |window: i64, device: &String| {
            let mut branch = doc! {
                "_id": {
                    "$gte": { "w": date(window), "d": device },
                    "$lt": { "w": date(window), "d": device, "s": Bson::MaxKey },
                },
                &f.deviceid: device, &f.date: date(window),
            };
            if span.from > window {
                branch.insert(&f.last, doc! { "$gte": date(span.from) });
            }
            if span.to < i64::MAX {
                branch.insert(&f.first, doc! { "$lt": date(span.to) });
            }
            branch
        };
        let branches: Vec<_> = windows.iter().flat_map(|w| devices.iter().map(|device| of(*w, device))).collect();
        doc! { "$or": branches }
    }
}

/// All of a window.
fn whole(window: i64) -> Document {
    doc! { "$gte": { "w": date(window) }, "$lt": { "w": date(window), "d": Bson::MaxKey } }
}
