//! Buckets in, samples out in order of time. No IO.
//!
//! Buckets come in the order of their oldest samples, so whatever is older than the oldest sample of the next bucket can
//! go out. Only buckets that overlap in time are held.
//!
//! Samples with equal times come out by device, then in the order in which they were read from Kafka.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use std::rc::Rc;

use mongodb::bson::error::Error;
use mongodb::bson::{RawBsonRef, RawDocument};

use super::query::Span;
use crate::config::FieldNames;

/// One sample, on its way out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample<'a> {
    pub(super) device: &'a str,
    pub(super) time: i64,
    pub(super) info: &'a RawDocument,
    pub(super) meta: Option<&'a RawDocument>,
}

/// A bucket's bytes with what orders its samples.
#[derive(Debug)]
struct Bucket {
    bytes: Vec<u8>,
    device: String,
    /// Its place among the device's buckets: first position, stream, number.
    place: (i64, i64, i64),
    meta: Option<Range<usize>>,
}

/// A sample that waits for its turn.
#[derive(Debug)]
pub(super) struct Waiting {
    time: i64,
    bucket: Rc<Bucket>,
    index: usize,
    info: Range<usize>,
}

impl Waiting {
    fn key(&self) -> (i64, &str, (i64, i64, i64), usize) {
        (self.time, &self.bucket.device, self.bucket.place, self.index)
    }

    pub(super) fn sample(&self) -> Sample<'_> {
        let part = |range: &Range<usize>| {
            RawDocument::from_bytes(&self.bucket.bytes[range.clone()]).expect("invariant: was a document when it came")
        };
        Sample {
            device: &self.bucket.device,
            time: self.time,
            info: part(&self.info),
            meta: self.bucket.meta.as_ref().map(part),
        }
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

#[derive(Debug, Default)]
pub(super) struct Merge {
    waiting: BinaryHeap<Reverse<Waiting>>,
    n_bytes: usize,
}

impl Merge {
    /// Takes the samples of a bucket that lie in the span; the error says what makes it unreadable.
    pub(super) fn add(&mut self, bucket: &RawDocument, fields: &FieldNames, span: Span) -> Result<(), String> {
        let parts = parts(bucket, fields)?;
        let kept = Rc::new(Bucket {
            bytes: bucket.as_bytes().to_vec(),
            device: parts.device.to_owned(),
            place: parts.place,
            meta: parts.meta.map(|meta| within(bucket, meta)),
        });
        let before = self.waiting.len();
        let mut take = |index: usize, sample: &RawDocument| {
            let (time, info) = time_and_info(sample, fields)?;
            if span.holds(time) {
                let info = within(bucket, info);
                self.waiting.push(Reverse(Waiting { time, bucket: Rc::clone(&kept), index, info }));
            }
            Ok::<(), String>(())
        };
        match parts.samples {
            RawBsonRef::Array(samples) => {
                for (index, sample) in samples.into_iter().enumerate() {
                    let sample = sample.map_err(|error| error.to_string())?;
                    take(index, sample.as_document().ok_or("a sample is no document")?)?;
                }
            }
            // Taken apart by the server already.
            RawBsonRef::Document(sample) => take(0, sample)?,
            _ => return Err(format!("{:?} is no array", fields.samples)),
        }
        if self.waiting.len() > before {
            self.n_bytes += kept.bytes.len();
        }
        Ok(())
    }

    /// The oldest sample, if it is older than `time`.
    pub(super) fn pop_before(&mut self, time: i64) -> Option<Waiting> {
        self.waiting.peek().filter(|Reverse(oldest)| oldest.time < time)?;
        self.pop()
    }

    pub(super) fn pop(&mut self) -> Option<Waiting> {
        let Reverse(oldest) = self.waiting.pop()?;
        if Rc::strong_count(&oldest.bucket) == 1 {
            self.n_bytes -= oldest.bucket.bytes.len();
        }
        Some(oldest)
    }

    /// Bytes that are held.
    pub(super) fn n_bytes(&self) -> usize {
        self.n_bytes + self.waiting.len() * size_of::<Reverse<Waiting>>()
    }
}

/// The newest sample of a bucket, or of what is left of it.
pub(super) fn only_sample(bucket: &RawDocument, fields: &FieldNames) -> Result<Option<Waiting>, String> {
    let mut merge = Merge::default();
    merge.add(bucket, fields, Span { from: i64::MIN, to: i64::MAX })?;
    Ok(merge.pop())
}

/// Time of the oldest sample.
pub(super) fn first(bucket: &RawDocument, fields: &FieldNames) -> Result<i64, String> {
    let first = bucket.get_datetime(&fields.first).map_err(|error| error.to_string())?;
    Ok(first.timestamp_millis())
}

struct Parts<'a> {
    device: &'a str,
    place: (i64, i64, i64),
    meta: Option<&'a RawDocument>,
    samples: RawBsonRef<'a>,
}

fn parts<'a>(bucket: &'a RawDocument, fields: &FieldNames) -> Result<Parts<'a>, String> {
    let unfit = |error: Error| error.to_string();
    let id = bucket.get_document("_id").map_err(unfit)?;
    let whole = |document: &RawDocument, key: &str| match document.get(key) {
        Ok(Some(RawBsonRef::Int64(value))) => Ok(value),
        Ok(Some(RawBsonRef::Int32(value))) => Ok(value.into()),
        _ => Err(format!("no whole number {key:?}")),
    };
    let pos = bucket.get_document(&fields.pos).map_err(unfit)?;
    let samples = bucket.get(&fields.samples).map_err(unfit)?;
    Ok(Parts {
        device: id.get_str("d").map_err(unfit)?,
        place: (whole(pos, "lo")?, whole(id, "s")?, whole(id, "n")?),
        meta: bucket.get(&fields.meta).map_err(unfit)?.and_then(RawBsonRef::as_document),
        samples: samples.ok_or_else(|| format!("no {:?}", fields.samples))?,
    })
}

fn time_and_info<'a>(sample: &'a RawDocument, fields: &FieldNames) -> Result<(i64, &'a RawDocument), String> {
    let (mut time, mut info) = (None, None);
    for element in sample {
        let (name, value) = element.map_err(|error| error.to_string())?;
        if *name == *fields.time {
            time = value.as_datetime();
        } else if *name == *fields.info {
            info = value.as_document();
        }
    }
    let time = time.ok_or_else(|| format!("a sample has no time {:?}", fields.time))?;
    Ok((time.timestamp_millis(), info.ok_or_else(|| format!("a sample has no {:?}", fields.info))?))
}

/// Where a part of a document lies in its bytes.
fn within(whole: &RawDocument, part: &RawDocument) -> Range<usize> {
    let start = part.as_bytes().as_ptr().addr() - whole.as_bytes().as_ptr().addr();
    start..start + part.as_bytes().len()
}
