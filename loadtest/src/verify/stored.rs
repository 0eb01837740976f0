//! What the collections hold: buckets reduced to where they are and to digests of their samples, dead letters, ledger.

use std::collections::BTreeMap;
use std::ops::Range;

use jiff::Timestamp;
use mongodb::bson::{RawBsonRef, RawDocument};

use super::Rules;
use super::bucket::Parts;
use super::devices::Devices;
use super::report::Findings;

#[derive(Clone, Debug)]
pub struct Bucket {
    pub window_ms: i64,
    /// Number among the stored devices.
    pub device: u32,
    pub s: i64,
    pub n: i32,
    pub lo: i64,
    pub hi: i64,
    pub open: bool,
    /// Topic and partition as the bucket names them.
    pub source: Option<(String, i32)>,
    /// Place of its samples among the digests.
    pub samples: Range<usize>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct DeadLetter {
    pub s: i64,
    pub pos: i64,
    pub topic: String,
    pub partition: i32,
    pub reason: String,
}

/// Offsets `[from, to)` of a partition that were written under one id, or single ones among them by a replay.
#[derive(Clone, Debug, PartialEq)]
pub struct Stream {
    pub topic: String,
    pub partition: i32,
    pub incarnation: i64,
    pub from: i64,
    pub to: Option<i64>,
    /// Holds readings of dead letters that were tried again; covers nothing.
    pub is_replay: bool,
}

/// All that was read from MongoDB.
#[derive(Debug)]
pub struct Stored {
    rules: Rules,
    pub devices: Devices,
    pub buckets: Vec<Bucket>,
    pub digests: Vec<u64>,
    pub dead: Vec<DeadLetter>,
    /// Empty: there is no ledger, and the buckets' own words are all there is.
    pub streams: BTreeMap<i64, Stream>,
    /// What is wrong with single documents.
    pub findings: Findings,
}

impl Stored {
    pub fn new(rules: Rules) -> Self {
        Self {
            rules,
            devices: Devices::default(),
            buckets: Vec::new(),
            digests: Vec::new(),
            dead: Vec::new(),
            streams: BTreeMap::new(),
            findings: Findings::default(),
        }
    }

    pub fn bucket(&mut self, document: &RawDocument) {
        let id = || format!("bucket {:?}", document.get("_id").ok().flatten());
        let parts = match Parts::read(document, &self.rules.names) {
            Ok(parts) => parts,
            Err(text) => return self.findings.misplaced(1, || format!("{}: {text}", id())),
        };
        let start = self.digests.len();
        match parts.judge(&self.rules, &mut self.digests) {
            Ok(faults) => {
                for fault in faults {
                    self.findings.misplaced(1, || format!("{}: {fault}", label(&parts)));
                }
            }
            Err(text) => {
                self.digests.truncate(start);
                self.findings.misplaced(1, || format!("{}: {text}", label(&parts)));
            }
        }
        self.buckets.push(Bucket {
            window_ms: parts.window_ms,
            device: self.devices.number(parts.device),
            s: parts.s,
            n: parts.n,
            lo: parts.lo,
            hi: parts.hi,
            open: parts.open,
            source: parts.source.map(|(topic, partition)| (topic.to_owned(), partition)),
            samples: start..self.digests.len(),
        });
    }

    pub fn dead_letter(&mut self, document: &RawDocument) {
        match dead_letter(document) {
            // Its readings are in buckets, or have letters of their own: it stands for nothing any more.
            Some(_) if is_done(document) => {}
            Some(letter) => self.dead.push(letter),
            None => self.findings.unexpected_dead(|| format!("cannot be understood: {document:?}")),
        }
    }

    /// Takes a ledger document; those that are no partition's entry hold no streams.
    pub fn ledger_entry(&mut self, document: &RawDocument) {
        let Some(streams) = streams(document).or_else(|| replay_streams(document)) else { return };
        for (s, stream) in streams {
            if self.streams.insert(s, stream).is_some() {
                self.findings.problem(|| format!("ledger: stream {s} is there twice"));
            }
        }
    }

    pub fn label(&self, bucket: &Bucket) -> String {
        format!(
            "bucket n {} of {} window {} stream {}",
            bucket.n,
            self.devices.name(bucket.device),
            window(bucket.window_ms),
            bucket.s
        )
    }
}

/// Start of a window, for people.
pub fn window(ms: i64) -> String {
    Timestamp::from_millisecond(ms).map_or_else(|_| ms.to_string(), |t| t.to_string())
}

fn label(parts: &Parts<'_>) -> String {
    format!("bucket n {} of {} window {} stream {}", parts.n, parts.device, window(parts.window_ms), parts.s)
}

fn dead_letter(document: &RawDocument) -> Option<DeadLetter> {
    let get = |name: &str| document.get(name).ok().flatten();
    let id = get("_id")?.as_document()?;
    let pos = id.get_i64("pos").ok()?;
    let (offset, index) = (integer(get("offset")?)?, integer(get("index")?)?);
    if offset * super::truth::PER_RECORD + index != pos {
        return None;
    }
    Some(DeadLetter {
        s: id.get_i64("s").ok()?,
        pos,
        topic: get("topic")?.as_str()?.to_owned(),
        partition: i32::try_from(integer(get("partition")?)?).ok()?,
        reason: get("reason")?.as_str()?.to_owned(),
    })
}

fn streams(document: &RawDocument) -> Option<Vec<(i64, Stream)>> {
    let id = document.get("_id").ok()??.as_document()?;
    let topic = id.get_str("topic").ok()?;
    let partition = i32::try_from(integer(id.get("partition").ok()??)?).ok()?;
    let incarnation = integer(id.get("incarnation").ok()??)?;
    let mut found = Vec::new();
    for stream in document.get("streams").ok()??.as_array()? {
        let stream = stream.ok()?.as_document()?;
        let to = stream.get("to").ok().flatten().and_then(integer);
        let from = integer(stream.get("from").ok()??)?;
        let topic = topic.to_owned();
        let stream_of = Stream { topic, partition, incarnation, from, to, is_replay: false };
        found.push((integer(stream.get("s").ok()??)?, stream_of));
    }
    Some(found)
}

/// The streams of a run that tries dead letters again, which may be of several partitions.
fn replay_streams(document: &RawDocument) -> Option<Vec<(i64, Stream)>> {
    document.get("_id").ok()??.as_document()?.get_str("replay").ok()?;
    let mut found = Vec::new();
    for stream in document.get("streams").ok()??.as_array()? {
        let stream = stream.ok()?.as_document()?;
        let get = |name: &str| stream.get(name).ok().flatten().and_then(integer);
        let of = Stream {
            topic: stream.get_str("topic").ok()?.to_owned(),
            partition: i32::try_from(get("partition")?).ok()?,
            incarnation: get("incarnation")?,
            from: 0,
            to: None,
            is_replay: true,
        };
        found.push((get("s")?, of));
    }
    Some(found)
}

/// Whether a replay has dealt with the letter.
fn is_done(document: &RawDocument) -> bool {
    let replay = document.get("replay").ok().flatten().and_then(RawBsonRef::as_document);
    replay.is_some_and(|replay| replay.get_str("state").is_ok_and(|state| state == "done"))
}

fn integer(value: RawBsonRef<'_>) -> Option<i64> {
    match value {
        RawBsonRef::Int32(v) => Some(v.into()),
        RawBsonRef::Int64(v) => Some(v),
        _ => None,
    }
}
