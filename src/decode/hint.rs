//! What a person may have meant whose paths or unit do not fit a record. Never on the record path: it reads the whole
//! record as a tree.

use serde_json::Value;

use super::path::{Base, Path, Segment};
use super::{Reason, Reject};
use crate::config::{DecoderTable, did_you_mean};

/// Names of an object that are listed where none is near.
const MAX_LISTED: usize = 8;
/// How deep a name is looked for elsewhere in the record.
const MAX_DEPTH: usize = 8;

/// What to change in the table so that reading `index` of a record would be taken, as far as that can be told.
pub fn advise(table: &DecoderTable, value: &[u8], index: u16, reject: &Reject) -> Option<String> {
    let root: Value = serde_json::from_slice(value).ok()?;
    let about = |option: &str, paths: &[String]| paths.iter().find_map(|path| about(table, &root, index, option, path));
    match reject.reason {
        Reason::MissingDevice => about("device_path", &table.device_path),
        Reason::MissingTime => about("timestamp_path", &table.timestamp_path),
        Reason::ExplodeNotArray => {
            let explode = table.explode.as_deref()?;
            let path = explode.strip_suffix("[]").unwrap_or(explode).to_owned();
            about("explode", &[path])
        }
        Reason::NoFields | Reason::NotAnObject if !table.fields_path.is_empty() => {
            about("fields_path", std::slice::from_ref(&table.fields_path))
        }
        Reason::NoFields => about("include", &table.include),
        // The decoder found the unit that would have been right.
        Reason::ImplausibleTime => {
            let unit = reject.detail.split_once("; as ")?.1.split(' ').next()?;
            Some(format!("if all times are like this one, set timestamp_format = {unit:?}"))
        }
        _ => None,
    }
}

fn about(table: &DecoderTable, root: &Value, index: u16, option: &str, path: &str) -> Option<String> {
    let parsed = Path::parse(path).ok()?;
    let from = match parsed.base {
        Base::Reading if option != "explode" => element(table, root, index)?,
        Base::Reading | Base::Root => root,
        _ => return None,
    };
    let wrong = Wrong::find(from, &parsed.segments)?;
    let advice = match (wrong.near(), elsewhere(from, wrong.last_name()?, MAX_DEPTH)) {
        (Some(near), _) => format!("did you mean {near:?}?"),
        (None, Some(place)) => format!("it is at {:?}", written(&place)),
        (None, None) => wrong.names(),
    };
    Some(format!("{option} {path:?} leads nowhere in this record; {advice}"))
}

/// What the paths of one reading start from.
fn element<'v>(table: &DecoderTable, root: &'v Value, index: u16) -> Option<&'v Value> {
    let Some(explode) = &table.explode else { return Some(root) };
    let path = Path::parse(explode.strip_suffix("[]").unwrap_or(explode)).ok()?;
    path.segments.iter().try_fold(root, step)?.get(usize::from(index))
}

fn step<'v>(value: &'v Value, segment: &Segment) -> Option<&'v Value> {
    match segment {
        Segment::Name(name) => value.get(name.as_str()),
        Segment::Index(index) => value.get(*index),
    }
}

/// Where a path leaves the record.
struct Wrong<'a> {
    at: &'a Value,
    segments: &'a [Segment],
    /// Number of the segment that is not there.
    n: usize,
}

impl<'a> Wrong<'a> {
    fn find(from: &'a Value, segments: &'a [Segment]) -> Option<Self> {
        let mut at = from;
        for (n, segment) in segments.iter().enumerate() {
            match step(at, segment) {
                Some(next) => at = next,
                None => return Some(Self { at, segments, n }),
            }
        }
        None
    }

    fn keys(&self) -> impl Iterator<Item = &'a str> {
        self.at.as_object().into_iter().flat_map(|object| object.keys().map(String::as_str))
    }

    fn last_name(&self) -> Option<&'a str> {
        self.segments.iter().rev().find_map(|segment| match segment {
            Segment::Name(name) => Some(name.as_str()),
            Segment::Index(_) => None,
        })
    }

    /// The path with the nearest name in the place of the one that is not there.
    fn near(&self) -> Option<String> {
        let Segment::Name(name) = &self.segments[self.n] else { return None };
        let alike = self.keys().find(|key| plain(key) == plain(name));
        let near = alike.or_else(|| did_you_mean(name, self.keys()))?;
        let mut segments = self.segments.to_vec();
        segments[self.n] = Segment::Name(near.to_owned());
        Some(written(&segments))
    }

    fn names(&self) -> String {
        let mut keys: Vec<_> = self.keys().take(MAX_LISTED).collect();
        if self.keys().nth(MAX_LISTED).is_some() {
            keys.push("...");
        }
        let place = written(&self.segments[..self.n]);
        let place = if place.is_empty() { "there".to_owned() } else { format!("at {place:?}") };
        if keys.is_empty() { format!("{place} is no object") } else { format!("{place} are {}", keys.join(", ")) }
    }
}

/// Case and separators aside, which are what people differ in.
fn plain(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

/// The way to a name of that kind, through objects.
fn elsewhere(value: &Value, name: &str, depth: usize) -> Option<Vec<Segment>> {
    let object = value.as_object().filter(|_| depth > 0)?;
    let here = object.keys().find(|key| plain(key) == plain(name)).map(|key| vec![Segment::Name(key.clone())]);
    here.or_else(|| {
        object.iter().find_map(|(key, value)| {
            let mut way = elsewhere(value, name, depth - 1)?;
            way.insert(0, Segment::Name(key.clone()));
            Some(way)
        })
    })
}

/// As a user writes it.
fn written(segments: &[Segment]) -> String {
    let piece = |(i, segment): (usize, &Segment)| match segment {
        Segment::Index(index) => format!("[{index}]"),
        Segment::Name(name) => {
            let dot = if i == 0 { "" } else { "." };
            let is_plain = !name.contains(['.', '[', '"']) && !name.starts_with(['$', '@']);
            if is_plain { format!("{dot}{name}") } else { format!("{dot}\"{name}\"") }
        }
    };
    segments.iter().enumerate().map(piece).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn check(decoder: &str, value: &str, reason: Reason, expected: Option<&str>) {
        let text = format!(
            "kafka.brokers = \"h:1\"\nmongo.uri = \"mongodb://h/?replicaSet=rs0\"\n[[decoder]]\ntopics = [\"t\"]\n\
             {decoder}"
        );
        let config = Config::from_toml(&text).unwrap();
        let reject = Reject::of(reason, "");
        let advice = advise(&config.decoders[0], value.as_bytes(), 0, &reject);
        match expected {
            Some(words) => assert!(advice.as_ref().is_some_and(|advice| advice.contains(words)), "{advice:?}"),
            None => assert_eq!(advice, None),
        }
    }

    const PATHS: &str = "device_path = \"deviceId\"\ntimestamp_path = \"meta.time\"\ntimestamp_format = \"unix_ms\"\n";

    #[test]
    fn near_names_are_suggested_in_their_place() {
        let device = Reason::MissingDevice;
        check(
            PATHS,
            r#"{"deviceid":1}"#,
            device,
            Some(r#"device_path "deviceId" leads nowhere in this record; did you mean "deviceid"?"#),
        );
        check(PATHS, r#"{"device_id":1}"#, device, Some(r#""device_id"?"#));
        check(PATHS, r#"{"devceId":1}"#, device, Some(r#""devceId"?"#));
        check(PATHS, r#"{"data":{"deviceId":1}}"#, device, Some(r#"it is at "data.deviceId""#));
        check(PATHS, r#"{"a":1,"b":2}"#, device, Some("there are a, b"));
        check(PATHS, r#"{"meta":{"tim":1}}"#, Reason::MissingTime, Some(r#""meta.tim"?"#));
        check(PATHS, r#"{"meta":7}"#, Reason::MissingTime, Some(r#"at "meta" is no object"#));
        // It is there, so that something else is wrong.
        check(PATHS, r#"{"deviceId":null}"#, device, None);
        check(PATHS, "no json", device, None);
    }

    #[test]
    fn exploded_readings_start_at_their_element() {
        let explode = format!("{PATHS}explode = \"readings\"\n");
        check(&explode, r#"{"readings":[{"deviceID":1}]}"#, Reason::MissingDevice, Some(r#""deviceID"?"#));
        check(&explode, r#"{"reading":[]}"#, Reason::ExplodeNotArray, Some(r#"explode "readings""#));
        check(&explode, r#"{"reading":[]}"#, Reason::ExplodeNotArray, Some(r#""reading"?"#));
    }

    #[test]
    fn fields_and_units() {
        let fields = format!("{PATHS}fields_path = \"value\"\n");
        check(&fields, r#"{"values":{}}"#, Reason::NoFields, Some(r#"fields_path "value""#));
        let include = format!("{PATHS}include = [\"tmp\"]\n");
        check(&include, r#"{"temp":1}"#, Reason::NoFields, Some(r#"did you mean "temp"?"#));
        let config = Config::from_toml(&format!(
            "kafka.brokers = \"h:1\"\nmongo.uri = \"mongodb://h/?replicaSet=rs0\"\n[[decoder]]\ntopics = [\"t\"]\n{PATHS}"
        ));
        let reject = Reject::of(Reason::ImplausibleTime, "too far; as unix it would be near");
        let advice = advise(&config.unwrap().decoders[0], b"{}", 0, &reject);
        assert!(advice.unwrap().contains("set timestamp_format = \"unix\""));
    }
}
