//! Device, time and tags of each reading, from the spans that the pass over the text noted.

use std::fmt::Write as _;

use super::compile::{Source, Sources};
use super::encode::{self, Encoder};
use super::lexer::{Lexer, unescape};
use super::scratch::{Scratch, Span};
use super::time::{self, TimeFault};
use super::{Reason, Reject};
use crate::config::TimestampFormat;
use crate::record::{EventTime, Record};

/// Long enough for any identifier; it is repeated in keys, filters and the index.
const MAX_DEVICE_BYTES: usize = 1024;

/// Length of a BSON document without elements.
const EMPTY_DOCUMENT: usize = 5;

/// The record's key, `None` where it has none, and what is wrong with it, which matters only to readings that ask.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key<'r> {
    pub(super) text: Result<Option<&'r str>, Reject>,
    /// As JSON. Only paths into the key need it to be.
    pub(super) json: Result<(), Reject>,
}

/// Completes the rows of all readings that have no fault yet.
pub(super) fn finish(sources: &Sources, record: &Record<'_>, value: &str, key: Key<'_>, out: &mut Scratch) {
    let spans_at = sources.n_key_slots + sources.n_root_slots;
    let mut finish = Finish { sources, record, value, key, out, spans_at };
    let mut info_start = 0;
    for i in 0..finish.out.rows.len() {
        let mut row = finish.out.rows[i];
        let (device_start, meta_start) = (finish.out.devices.len(), finish.out.meta.len());
        if row.fault.is_none() {
            match finish.reading(row.info_end - info_start) {
                Ok(at) => row.at = at,
                Err(fault) => {
                    row.fault = Some(fault);
                    finish.out.devices.truncate(device_start);
                    finish.out.meta.truncate(meta_start);
                    finish.out.names.clear();
                }
            }
        }
        info_start = row.info_end;
        row.device_end = finish.out.devices.len();
        row.meta_end = finish.out.meta.len();
        finish.out.rows[i] = row;
        finish.spans_at += sources.n_reading_slots;
    }
}

struct Finish<'a> {
    sources: &'a Sources,
    record: &'a Record<'a>,
    value: &'a str,
    key: Key<'a>,
    out: &'a mut Scratch,
    /// Where the spans of the reading at hand start.
    spans_at: usize,
}

/// What a path led to.
#[derive(Clone, Copy, Debug)]
enum Found<'a> {
    /// A JSON value other than null. Faults of the key's have no place in the record's value.
    Json {
        text: &'a str,
        span: Span,
        in_key: bool,
    },
    /// Text from beside the value.
    Text(&'a str),
    Integer(i64),
}

impl<'a> Finish<'a> {
    /// Appends device and meta of a reading and returns its time.
    fn reading(&mut self, n_info_bytes: usize) -> Result<EventTime, Reject> {
        let meta_start = self.out.meta.len();
        self.device()?;
        let at = self.time()?;
        if n_info_bytes <= EMPTY_DOCUMENT {
            return Err(Reject::of(Reason::NoFields, "no field is left to store"));
        }
        if !self.sources.meta.is_empty() {
            self.meta()?;
        }
        if n_info_bytes + self.out.meta.len() - meta_start > self.sources.max_stored_bytes {
            return Err(Reject::of(Reason::TooLarge, "the reading is larger than a sample may be"));
        }
        Ok(at)
    }

    /// The first of the sources that has a value.
    fn first(&self, sources: &'a [Source]) -> Result<Option<Found<'a>>, Reject> {
        for source in sources {
            if let Some(found) = self.found(source)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn found(&self, source: &'a Source) -> Result<Option<Found<'a>>, Reject> {
        let json = |text, slot: usize, in_key| {
            let span = self.out.spans[slot];
            if span.is_empty() { None } else { Some(Found::Json { text, span, in_key }) }
        };
        Ok(match source {
            Source::Reading(slot) => json(self.value, self.spans_at + slot, false),
            Source::Root(slot) => json(self.value, self.sources.n_key_slots + slot, false),
            Source::KeyPath(slot) => self.key.json.and(self.key.text)?.and_then(|key| json(key, *slot, true)),
            Source::Key => self.key.text?.map(Found::Text),
            Source::Header(name) => self.header(name)?.map(Found::Text),
            Source::Timestamp => self.record.timestamp.map(Found::Integer),
            Source::Topic => Some(Found::Text(self.record.topic)),
            Source::Partition => Some(Found::Integer(self.record.partition.into())),
        })
    }

    /// The last header of a name, as Kafka's own clients have it.
    fn header(&self, name: &str) -> Result<Option<&'a str>, Reject> {
        let value = self.record.headers.iter().filter(|(known, _)| *known == name).last();
        let Some((_, Some(value))) = value else { return Ok(None) };
        std::str::from_utf8(value).map(Some).map_err(|_| Reject::of(Reason::NotUtf8, "a header is not UTF-8"))
    }

    fn device(&mut self) -> Result<(), Reject> {
        let start = self.out.devices.len();
        let Some(found) = self.first(&self.sources.device)? else {
            return Err(Reject::of(Reason::MissingDevice, "no device path has a value"));
        };
        let is_text = found.push_text(&mut self.out.devices)?;
        let device = &self.out.devices[start..];
        let wrong = if !is_text {
            "the device is neither a text nor a number"
        } else if device.is_empty() {
            "the device is an empty text"
        } else if device.len() > MAX_DEVICE_BYTES {
            "the device is longer than 1024 bytes"
        } else if device.as_bytes().contains(&0) {
            "the device holds a NUL"
        } else {
            return Ok(());
        };
        Err(found.fault(Reason::BadDevice, wrong))
    }

    fn time(&mut self) -> Result<EventTime, Reject> {
        let mut found = self.first(&self.sources.time)?;
        if found.is_none() && self.sources.time_from_record {
            found = self.record.timestamp.map(Found::Integer);
        }
        let Some(found) = found else { return Err(Reject::of(Reason::MissingTime, "no timestamp path has a value")) };
        let text = match found {
            Found::Integer(ms) => return self.plausible(&found, time::in_range(ms), None),
            Found::Text(text) => text,
            Found::Json { text, span, .. } if matches!(text.as_bytes()[span.start], b'-' | b'0'..=b'9') => {
                &text[span.start..span.end]
            }
            Found::Json { .. } => {
                self.out.word.clear();
                if !found.push_text(&mut self.out.word)? {
                    return Err(found.fault(Reason::BadTime, "the time is neither a text nor a number"));
                }
                &self.out.word
            }
        };
        let mut unreadable = "";
        for &format in &self.sources.time_formats {
            match time::parse(text, format) {
                // What the text format finds wrong is of more use than that a text is not a number.
                Err(TimeFault::Unreadable(detail)) if format == TimestampFormat::Iso8601 || unreadable.is_empty() => {
                    unreadable = detail;
                }
                Err(TimeFault::Unreadable(_)) => {}
                time => return self.plausible(&found, time, Some((text, format))),
            }
        }
        Err(found.fault(Reason::BadTime, unreadable))
    }

    /// Judges a time against the record's own, never the clock: a record that is read again meets the same fate.
    fn plausible(
        &self,
        found: &Found<'_>,
        time: Result<i64, TimeFault>,
        source: Option<(&str, TimestampFormat)>,
    ) -> Result<EventTime, Reject> {
        let is_plausible = |ms: i64| {
            let of = |record: i64| {
                record.saturating_sub(self.sources.past_ms)..=record.saturating_add(self.sources.future_ms)
            };
            self.record.timestamp.is_none_or(|record| of(record).contains(&ms))
        };
        match time {
            Ok(ms) if is_plausible(ms) => return Ok(EventTime(ms)),
            _ => {}
        }
        // The unit is obeyed and never guessed, but the person who reads the dead letter may like to know.
        let hint = source.filter(|_| self.record.timestamp.is_some()).and_then(|(text, declared)| {
            let others = UNITS.iter().filter(|(unit, _)| *unit != declared && declared != TimestampFormat::Iso8601);
            others.clone().find(|(unit, _)| time::parse(text, *unit).is_ok_and(is_plausible)).map(|(_, hint)| *hint)
        });
        let plain = if time.is_ok() {
            "the time is too far from the record's own timestamp"
        } else {
            "the time is outside of the years 0 to 9999"
        };
        Err(found.fault(Reason::ImplausibleTime, hint.unwrap_or(plain)))
    }

    /// Appends the tags that are there as a document; nothing if there are none.
    fn meta(&mut self) -> Result<(), Reject> {
        let start = encode::open(&mut self.out.meta);
        for (name, source) in &self.sources.meta {
            let Some(found) = self.found(source)? else { continue };
            match found {
                Found::Text(text) => encode::string(&mut self.out.meta, name, text),
                Found::Integer(value) => encode::integer(&mut self.out.meta, name, value),
                Found::Json { text, span, .. } => {
                    let limit = start.saturating_add(self.sources.max_stored_bytes);
                    let mut encoder = Encoder { out: &mut self.out.meta, names: &mut self.out.names, limit };
                    encoder
                        .named(&mut Lexer::standing_at(text, span.start), name)
                        .map_err(|fault| found.place(fault))?;
                }
            }
        }
        if self.out.meta.len() - start == 4 {
            self.out.meta.truncate(start);
        } else {
            encode::close(&mut self.out.meta, start);
        }
        Ok(())
    }
}

const UNITS: [(TimestampFormat, &str); 4] = [
    (TimestampFormat::UnixMs, "the time is too far from the record's own timestamp; as unix_ms it would be near"),
    (TimestampFormat::Unix, "the time is too far from the record's own timestamp; as unix it would be near"),
    (TimestampFormat::UnixUs, "the time is too far from the record's own timestamp; as unix_us it would be near"),
    (TimestampFormat::UnixNs, "the time is too far from the record's own timestamp; as unix_ns it would be near"),
];

impl Found<'_> {
    /// Appends a text, or the exact digits of a number; false if it is neither.
    fn push_text(&self, out: &mut String) -> Result<bool, Reject> {
        let (text, span) = match *self {
            Found::Text(text) => {
                out.push_str(text);
                return Ok(true);
            }
            Found::Integer(value) => return Ok(write!(out, "{value}").is_ok()),
            Found::Json { text, span, .. } => (text, span),
        };
        let token = &text[span.start..span.end];
        match token.as_bytes()[0] {
            b'"' => {
                let lone = unescape(&token[1..token.len() - 1], |piece| out.push_str(piece));
                lone.map_err(|_| self.fault(Reason::NotUtf8, "lone surrogate in a string"))?;
            }
            b'-' | b'0'..=b'9' => out.push_str(token),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn fault(&self, reason: Reason, detail: &'static str) -> Reject {
        match self {
            Found::Json { span, .. } => self.place(Reject::at(reason, span.start, detail)),
            _ => Reject::of(reason, detail),
        }
    }

    fn place(&self, fault: Reject) -> Reject {
        match self {
            Found::Json { in_key: true, .. } => Reject { byte: None, ..fault },
            _ => fault,
        }
    }
}
