//! One bucket document: its parts, its samples folded, and all that can be judged without knowing the topic.

use mongodb::bson::{RawArray, RawBsonRef, RawDocument};

use super::Rules;
use super::fold::{self, Fold};
use super::names::FieldNames;
use super::stats::Totals;

/// A bucket's fields, borrowed from the document.
#[derive(Debug)]
pub struct Parts<'a> {
    pub window_ms: i64,
    pub device: &'a str,
    pub s: i64,
    pub n: i32,
    pub lo: i64,
    pub hi: i64,
    pub open: bool,
    pub source: Option<(&'a str, i32)>,
    fields: Fields<'a>,
}

/// Top-level values under their default names, not judged yet.
#[derive(Debug, Default)]
struct Fields<'a> {
    id: Option<RawBsonRef<'a>>,
    deviceid: Option<RawBsonRef<'a>>,
    date: Option<RawBsonRef<'a>>,
    first: Option<RawBsonRef<'a>>,
    last: Option<RawBsonRef<'a>>,
    count: Option<RawBsonRef<'a>>,
    open: Option<RawBsonRef<'a>>,
    meta: Option<RawBsonRef<'a>>,
    samples: Option<RawBsonRef<'a>>,
    stats: Option<RawBsonRef<'a>>,
    schema: Option<RawBsonRef<'a>>,
    src: Option<RawBsonRef<'a>>,
    pos: Option<RawBsonRef<'a>>,
}

impl<'a> Fields<'a> {
    fn read(document: &'a RawDocument, names: &FieldNames) -> Result<Self, String> {
        let mut fields = Self::default();
        for element in document {
            let (name, value) = element.map_err(|e| format!("cannot be read: {e}"))?;
            let name = name.as_str();
            let slot = match name {
                "_id" => &mut fields.id,
                _ if name == names.deviceid => &mut fields.deviceid,
                _ if name == names.date => &mut fields.date,
                _ if name == names.first => &mut fields.first,
                _ if name == names.last => &mut fields.last,
                _ if name == names.count => &mut fields.count,
                _ if name == names.open => &mut fields.open,
                _ if name == names.meta => &mut fields.meta,
                _ if name == names.samples => &mut fields.samples,
                _ if name == names.stats => &mut fields.stats,
                _ if name == names.schema => &mut fields.schema,
                _ if name == names.src => &mut fields.src,
                _ if name == names.pos => &mut fields.pos,
                // Operators may add fields of their own.
                _ => continue,
            };
            if slot.replace(value).is_some() {
                return Err(format!("has {name} twice"));
            }
        }
        Ok(fields)
    }
}

impl<'a> Parts<'a> {
    /// The parts that tell where the bucket belongs; an error makes it unreadable as a whole.
    pub fn read(document: &'a RawDocument, names: &FieldNames) -> Result<Self, String> {
        let fields = Fields::read(document, names)?;
        let id = fields.id.and_then(RawBsonRef::as_document).ok_or("_id is not a document")?;
        let part = |name: &str| id.get(name).ok().flatten();
        let pos = fields.pos.and_then(RawBsonRef::as_document).ok_or("pos is not a document")?;
        let position = |name: &str| {
            pos.get(name).ok().flatten().and_then(RawBsonRef::as_i64).ok_or_else(|| format!("pos.{name} is not Int64"))
        };
        let open = match fields.open {
            None => false,
            Some(RawBsonRef::Boolean(true)) => true,
            Some(other) => return Err(format!("open is {other:?}; it is true or not there")),
        };
        let source = match fields.src {
            None => None,
            Some(src) => Some(source(src).ok_or("src is not {topic: string, partition: Int32}")?),
        };
        Ok(Self {
            window_ms: part("w").and_then(date).ok_or("_id.w is not a date")?,
            device: part("d").and_then(RawBsonRef::as_str).ok_or("_id.d is not a string")?,
            s: part("s").and_then(RawBsonRef::as_i64).ok_or("_id.s is not Int64")?,
            n: part("n").and_then(RawBsonRef::as_i32).ok_or("_id.n is not Int32")?,
            lo: position("lo")?,
            hi: position("hi")?,
            open,
            source,
            fields,
        })
    }

    /// Folds the samples to `digests` and returns everything that is wrong with the bucket in itself.
    pub fn judge(&self, rules: &Rules, digests: &mut Vec<u64>) -> Result<Vec<String>, String> {
        let mut faults = Vec::new();
        let mut fault = |wrong: bool, text: &dyn Fn() -> String| {
            if wrong {
                faults.push(text());
            }
        };
        let fields = &self.fields;
        let samples = fields.samples.and_then(RawBsonRef::as_array).ok_or("samples is not an array")?;
        let mut totals = Totals::new(fields.stats, &rules.stats)?;
        let tags = tags(fields.meta)?;
        let walked = walk(samples, tags, rules, self.window_ms, digests, &mut totals)?;

        let deviceid = fields.deviceid.and_then(RawBsonRef::as_str);
        fault(deviceid != Some(self.device), &|| format!("deviceid is {deviceid:?}, _id.d is {:?}", self.device));
        let day = fields.date.and_then(date);
        fault(day != Some(self.window_ms), &|| "date is not the window of _id.w".into());
        fault(rules.windows.start(self.window_ms) != self.window_ms, &|| "_id.w is no window's start".into());
        fault(walked.n_outside > 0, &|| format!("{} samples are of another window", walked.n_outside));
        fault(fields.first.and_then(date) != Some(walked.first), &|| "first is not the least time".into());
        fault(fields.last.and_then(date) != Some(walked.last), &|| "last is not the greatest time".into());
        let count = fields.count.and_then(RawBsonRef::as_i32);
        fault(count != Some(walked.n), &|| format!("count is {count:?}, and there are {} samples", walked.n));
        fault(walked.n == 0, &|| "has no samples".into());
        fault(walked.n as u32 > rules.max_samples, &|| format!("{} samples, above the cap", walked.n));
        let heavy = walked.n > 1 && walked.n_bytes > rules.target_bytes as usize;
        fault(heavy, &|| format!("{} bytes of samples, above the cap", walked.n_bytes));
        fault(self.lo > self.hi || self.lo < 0, &|| format!("pos runs from {} to {}", self.lo, self.hi));
        fault(self.source.is_some() != (self.n == 0), &|| "src belongs on n = 0 and there only".into());
        fault(fields.schema.and_then(RawBsonRef::as_i32) != Some(1), &|| "schema is not 1".into());
        faults.extend(totals.faults());
        Ok(faults)
    }
}

/// What a walk over the samples found.
struct Walked {
    n: i32,
    n_bytes: usize,
    n_outside: u32,
    first: i64,
    last: i64,
}

fn walk(
    samples: &RawArray,
    tags: u64,
    rules: &Rules,
    window_ms: i64,
    digests: &mut Vec<u64>,
    totals: &mut Totals<'_>,
) -> Result<Walked, String> {
    let mut walked = Walked { n: 0, n_bytes: 0, n_outside: 0, first: i64::MAX, last: i64::MIN };
    for sample in samples {
        let sample = sample.map_err(|e| e.to_string())?.as_document().ok_or("a sample is not a document")?;
        let (time_ms, info) = halves(sample, &rules.names)?;
        let mut fold = Fold::default();
        for element in info {
            let (name, value) = element.map_err(|e| e.to_string())?;
            fold.name(name.as_str());
            fold_value(value, &mut fold)?;
            totals.add(name.as_str(), value);
        }
        digests.push(fold::reading(time_ms, fold.digest(), tags));
        walked.n += 1;
        walked.n_bytes += sample.as_bytes().len();
        walked.n_outside += u32::from(rules.windows.start(time_ms) != window_ms);
        walked.first = walked.first.min(time_ms);
        walked.last = walked.last.max(time_ms);
    }
    Ok(walked)
}

/// Time and fields of a sample, which has nothing else.
fn halves<'a>(sample: &'a RawDocument, names: &FieldNames) -> Result<(i64, &'a RawDocument), String> {
    let (mut time, mut info) = (None, None);
    for element in sample {
        let (name, value) = element.map_err(|e| e.to_string())?;
        match (name.as_str(), value) {
            (name, RawBsonRef::DateTime(at)) if name == names.time && time.is_none() => {
                time = Some(at.timestamp_millis());
            }
            (name, RawBsonRef::Document(fields)) if name == names.info && info.is_none() => info = Some(fields),
            (name, _) => return Err(format!("a sample's {name} is unknown, doubled or of a wrong type")),
        }
    }
    Ok((time.ok_or("a sample has no time")?, info.ok_or("a sample has no fields")?))
}

fn fold_value(value: RawBsonRef<'_>, fold: &mut Fold) -> Result<(), String> {
    match value {
        RawBsonRef::Double(v) => fold.double(v),
        RawBsonRef::Int32(v) => fold.integer(v.into()),
        RawBsonRef::Int64(v) => fold.integer(v),
        RawBsonRef::String(v) => fold.text(v),
        RawBsonRef::Boolean(v) => fold.boolean(v),
        RawBsonRef::Null => fold.null(),
        RawBsonRef::Document(fields) => {
            fold.open_document();
            for element in fields {
                let (name, value) = element.map_err(|e| e.to_string())?;
                fold.name(name.as_str());
                fold_value(value, fold)?;
            }
            fold.close();
        }
        RawBsonRef::Array(values) => {
            fold.open_array();
            for value in values {
                fold_value(value.map_err(|e| e.to_string())?, fold)?;
            }
            fold.close();
        }
        _ => fold.foreign(),
    }
    Ok(())
}

/// As the truth folds a reading's tags: a sum, so that their order does not matter.
fn tags(meta: Option<RawBsonRef<'_>>) -> Result<u64, String> {
    let Some(meta) = meta else { return Ok(0) };
    let mut sum = 0_u64;
    for element in meta.as_document().ok_or("meta is not a document")? {
        let (name, value) = element.map_err(|e| e.to_string())?;
        let mut fold = Fold::default();
        fold.name(name.as_str());
        fold_value(value, &mut fold)?;
        sum = sum.wrapping_add(fold.digest());
    }
    Ok(sum)
}

fn source(src: RawBsonRef<'_>) -> Option<(&str, i32)> {
    let src = src.as_document()?;
    let topic = src.get("topic").ok()??.as_str()?;
    Some((topic, src.get("partition").ok()??.as_i32()?))
}

fn date(value: RawBsonRef<'_>) -> Option<i64> {
    value.as_datetime().map(mongodb::bson::DateTime::timestamp_millis)
}
