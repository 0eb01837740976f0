//! `[[decoder]]` tables, typed and checked.

use std::collections::BTreeMap;

use super::contract::{DecoderTable, TimestampFormat};
use super::names::check_field;
use super::problem::did_you_mean;
use super::reader::Reader;
use super::topics::check_topic;

/// Every key of the table, for the list of known keys even where no decoder is configured.
const KEYS: [&str; 12] = [
    "name",
    "topics",
    "device_path",
    "timestamp_path",
    "timestamp_format",
    "timestamp_missing",
    "fields_path",
    "include",
    "exclude",
    "meta",
    "stats",
    "explode",
];

const FORMATS: [(&str, TimestampFormat); 5] = [
    ("unix", TimestampFormat::Unix),
    ("unix_ms", TimestampFormat::UnixMs),
    ("unix_us", TimestampFormat::UnixUs),
    ("unix_ns", TimestampFormat::UnixNs),
    ("iso8601", TimestampFormat::Iso8601),
];

/// What of a record a path may start from, besides its value.
const SOURCES: [&str; 5] = ["@key", "@timestamp", "@topic", "@partition", "@header"];

const MISSING: &str = "it says where a reading's device and time are. The smallest one:
    [[decoder]]
    topics = [\"readings\"]
    device_path = \"deviceid\"
    timestamp_path = \"ts\"
    timestamp_format = \"unix_ms\"";

pub(super) fn read(r: &mut Reader<'_>) -> Option<Vec<DecoderTable>> {
    for key in KEYS {
        r.known(&format!("decoder.*.{key}"));
    }
    r.known("decoder");
    let Some(n_tables) = r.raw.find("decoder").map_or(Some(0), |value| value.as_array().map(<[_]>::len)) else {
        r.problem("decoder", "is not a list of tables; it is written as [[decoder]]");
        return None;
    };
    if n_tables == 0 {
        r.required("decoder", MISSING);
        return None;
    }
    let tables: Vec<_> = (0..n_tables).map(|i| table(r, i)).collect();
    let tables: Vec<_> = tables.into_iter().collect::<Option<_>>()?;
    check_topics_are_distinct(r, &tables);
    Some(tables)
}

fn table(r: &mut Reader<'_>, i: usize) -> Option<DecoderTable> {
    let at = |key: &str| format!("decoder.{i}.{key}");
    let name = r.text(&at("name"), |_| Ok(()));
    let topics = r.list(&at("topics"), check_topic);
    let device_path = r.list(&at("device_path"), check_path);
    let timestamp_path = r.list(&at("timestamp_path"), check_path);
    let timestamp_format = formats(r, &at("timestamp_format"));
    let missing = r.choice(&at("timestamp_missing"), &[("reject", false), ("kafka", true)]);
    let fields_path = r.text(&at("fields_path"), check_path);
    let [include, exclude] = ["include", "exclude"].map(|key| r.list(&at(key), |_| Ok(())).unwrap_or_default());
    let meta = r.list(&at("meta"), |path| check_path(path).and_then(|()| check_field(last_segment(path))));
    let stats = r.list(&at("stats"), check_field);
    let explode = r.text(&at("explode"), check_path);
    r.required(&at("topics"), "write the names of the topics that this decoder reads");
    r.required(&at("device_path"), "write where the device id is, such as \"deviceid\" or \"@key\"");
    let table = DecoderTable {
        name: name.or_else(|| topics.as_ref()?.first().cloned()).unwrap_or_default(),
        topics: topics?,
        device_path: device_path?,
        timestamp_path: timestamp_path.unwrap_or_default(),
        timestamp_format: timestamp_format.unwrap_or_default(),
        timestamp_missing_kafka: missing.unwrap_or(false),
        fields_path: fields_path.unwrap_or_default(),
        include,
        exclude,
        meta: meta.unwrap_or_default(),
        stats: stats.unwrap_or_default(),
        explode,
    };
    check_whole(r, i, &table);
    Some(table)
}

fn formats(r: &mut Reader<'_>, path: &str) -> Option<Vec<TimestampFormat>> {
    let find = |name: &str| FORMATS.iter().find(|(known, _)| *known == name).map(|(_, format)| *format);
    let names = r.list(path, |name| {
        find(name).map(|_| ()).ok_or_else(|| {
            let all = FORMATS.map(|(name, _)| name).join(", ");
            format!("{name:?} is not one of {all}")
        })
    })?;
    Some(names.iter().filter_map(|name| find(name)).collect())
}

/// What no key alone can say.
fn check_whole(r: &mut Reader<'_>, i: usize, table: &DecoderTable) {
    let at = |key: &str| format!("decoder.{i}.{key}");
    if table.topics.is_empty() {
        r.problem(&at("topics"), "is empty; name at least one topic");
    }
    if table.device_path.is_empty() {
        r.problem(&at("device_path"), "is empty; name at least one path");
    }
    let reads_value = table.timestamp_path.iter().any(|path| path != "@timestamp");
    if table.timestamp_path.is_empty() && !table.timestamp_missing_kafka {
        let hint = "write where the time is, or timestamp_missing = \"kafka\" for the record's own";
        r.required(&at("timestamp_path"), hint);
    }
    if reads_value && table.timestamp_format.is_empty() {
        let hint = "a unit is never guessed; write unix, unix_ms, unix_us, unix_ns or iso8601";
        r.required(&at("timestamp_format"), hint);
    }
    if let Some(name) = table.include.iter().find(|name| table.exclude.contains(name)) {
        r.problem(&at("exclude"), format!("{name:?} stands in include too; take it out of one"));
    }
    for stat in &table.stats {
        let is_left_out = table.exclude.contains(stat) || !(table.include.is_empty() || table.include.contains(stat));
        if is_left_out {
            r.problem(&at("stats"), format!("{stat:?} is not among the fields that are kept"));
        }
    }
    let tags: Vec<_> = table.meta.iter().map(|path| last_segment(path)).collect();
    for (key, names) in [("stats", table.stats.iter().map(String::as_str).collect()), ("meta", tags)] {
        if let Some(name) = first_twice(&names) {
            r.problem(&at(key), format!("{name:?} would be stored twice"));
        }
    }
}

fn first_twice<'n>(names: &[&'n str]) -> Option<&'n str> {
    names.iter().enumerate().find(|(i, name)| names[..*i].contains(name)).map(|(_, name)| *name)
}

fn check_topics_are_distinct(r: &mut Reader<'_>, tables: &[DecoderTable]) {
    let mut owners = BTreeMap::new();
    for (i, table) in tables.iter().enumerate() {
        for topic in &table.topics {
            if let Some(other) = owners.insert(topic, i) {
                let message = format!("topic {topic:?} stands in decoder[{}] too; a topic has one decoder", other + 1);
                r.problem(&format!("decoder.{i}.topics"), message);
            }
        }
    }
}

/// The form of a path. What it leads to is known to the records alone.
fn check_path(path: &str) -> Result<(), String> {
    let quotes = path.matches('"').count();
    if quotes % 2 == 1 {
        return Err(format!("{path:?} has a quote without its partner"));
    }
    if path.contains('\0') {
        return Err(format!("{path:?} holds a NUL"));
    }
    let source = path.split(['.', '[']).next().unwrap_or_default();
    if source.starts_with('@') && !SOURCES.contains(&source) {
        let near = did_you_mean(source, SOURCES).map(|near| format!("; did you mean {near}?")).unwrap_or_default();
        return Err(format!("{source:?} is not a part of a record; there are {}{near}", SOURCES.join(", ")));
    }
    Ok(())
}

/// The name that a tag is stored under: the last segment of its path, without quotes.
pub fn last_segment(path: &str) -> &str {
    match path.strip_suffix('"') {
        Some(quoted) => quoted.rsplit('"').next().unwrap_or(quoted),
        None => path.rsplit('.').next().unwrap_or(path),
    }
}
