//! Reads typed values out of a raw configuration, and keeps the books while doing so: what is wrong, which keys exist,
//! which values are in effect and where they come from. A key exists because somebody reads it; there is no second list.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use figment::value::{Num, Value};

use super::layers;
use super::problem::{Problem, Problems, did_you_mean};
use super::raw::RawConfig;
use super::units::{parse_duration, parse_size, show_duration, show_size};

/// A value in effect, for `--print-config`.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// Table it stands in, such as `bucket`, `kafka.options` or `decoder.0`.
    pub(super) table: String,
    pub(super) key: String,
    /// `None`: not set, and nothing takes its place.
    pub(super) value: Option<toml::Value>,
    pub(super) origin: String,
}

#[derive(Debug)]
pub(super) struct Reader<'a> {
    pub(super) raw: &'a RawConfig,
    pub(super) entries: Vec<Entry>,
    problems: Vec<Problem>,
    known: BTreeSet<String>,
    /// What a key takes, for the reference.
    forms: BTreeMap<String, String>,
    /// A layer could not be read whole: what is not set may stand in the part that was not read.
    incomplete: bool,
}

impl<'a> Reader<'a> {
    pub(super) fn new(raw: &'a RawConfig, problems: Vec<Problem>) -> Self {
        let incomplete = !problems.is_empty();
        Self { raw, entries: Vec::new(), problems, known: BTreeSet::new(), forms: BTreeMap::new(), incomplete }
    }

    /// Reads one key. A wrong value that a higher layer hides is reported too: else it would come to light on the day
    /// that the higher layer goes away.
    pub(super) fn value<T>(
        &mut self,
        path: &str,
        parse: impl Fn(&Value) -> Result<T, String>,
        show: impl Fn(&T) -> toml::Value,
    ) -> Option<T> {
        self.known.insert(pattern(path));
        for layer in self.raw.typed_layers() {
            if let Some(Err(message)) = layer.find(path).map(&parse) {
                self.problems.push(Problem { place: layer.place(path), key: shown(path), message });
            }
        }
        let value = parse(self.raw.find(path)?).ok()?;
        self.enter(path, Some(show(&value)), self.raw.place(path));
        Some(value)
    }

    pub(super) fn integer(&mut self, path: &str, range: RangeInclusive<u32>) -> Option<u32> {
        let range = i128::from(*range.start())..=i128::from(*range.end());
        self.takes(path, format!("whole number, {} to {}", range.start(), range.end()));
        let value = self.value(path, |v| within(integer(v)?, &range, ToString::to_string), |&n| (n as i64).into());
        value.map(|n| n as u32)
    }

    /// Milliseconds.
    pub(super) fn duration(&mut self, path: &str, range: RangeInclusive<i64>) -> Option<i64> {
        self.takes(path, format!("duration, {} to {}", show_duration(*range.start()), show_duration(*range.end())));
        self.value(
            path,
            |v| within(parse_duration(&unit_text(v)?)?, &range, |&ms| show_duration(ms)),
            |&ms| show_duration(ms).into(),
        )
    }

    /// Bytes.
    pub(super) fn size(&mut self, path: &str, range: RangeInclusive<u64>) -> Option<u64> {
        self.takes(path, format!("size, {} to {}", show_size(*range.start()), show_size(*range.end())));
        self.value(
            path,
            |v| within(parse_size(&unit_text(v)?)?, &range, |&bytes| show_size(bytes)),
            |&bytes| show_size(bytes).into(),
        )
    }

    pub(super) fn text(&mut self, path: &str, check: impl Fn(&str) -> Result<(), String>) -> Option<String> {
        self.value(path, |v| text(v).and_then(|t| check(&t).map(|()| t)), |t| t.clone().into())
    }

    /// One of several words.
    pub(super) fn choice<T: Copy>(&mut self, path: &str, choices: &[(&'static str, T)]) -> Option<T> {
        let words: Vec<_> = choices.iter().map(|(name, _)| format!("`{name}`")).collect();
        self.takes(path, words.join(", "));
        let chosen = self.value(path, |v| choose(&text(v)?, choices), |(name, _)| (*name).into());
        chosen.map(|(_, value)| value)
    }

    /// A list of texts; one text stands for a list of one.
    pub(super) fn list(&mut self, path: &str, check: impl Fn(&str) -> Result<(), String>) -> Option<Vec<String>> {
        self.takes(path, "list of texts".to_owned());
        let parse = |v: &Value| {
            let items = texts(v)?;
            items.iter().try_for_each(|item| check(item)).map(|()| items)
        };
        self.value(path, parse, |items| items.clone().into())
    }

    fn takes(&mut self, path: &str, form: String) {
        self.forms.insert(pattern(path), form);
    }

    /// What a key takes; text, where nothing more is known.
    pub(super) fn form(&self, pattern: &str) -> &str {
        self.forms.get(pattern).map_or("text", String::as_str)
    }

    /// The value of a key that nothing sets.
    pub(super) fn derived(&mut self, path: &str, value: impl Into<toml::Value>, reason: &str) {
        self.enter(path, Some(value.into()), format!("derived: {reason}"));
    }

    pub(super) fn unset(&mut self, path: &str) {
        if self.raw.find(path).is_none() {
            self.enter(path, None, String::new());
        }
    }

    /// Reports a required key that nothing sets.
    pub(super) fn required(&mut self, path: &str, hint: &str) {
        if self.raw.find(path).is_none() && !self.incomplete {
            self.problem(path, format!("is not set: {hint}"));
        }
    }

    /// Reports the value in effect at `path`.
    pub(super) fn problem(&mut self, path: &str, message: impl Into<String>) {
        self.problem_at(self.raw.place(path), path, message);
    }

    pub(super) fn problem_at(&mut self, place: String, path: &str, message: impl Into<String>) {
        self.problems.push(Problem { place, key: shown(path), message: message.into() });
    }

    pub(super) fn enter(&mut self, path: &str, value: Option<toml::Value>, origin: String) {
        let (table, key) = path.rsplit_once('.').unwrap_or(("", path));
        self.enter_in(table, key, value, origin);
    }

    pub(super) fn enter_in(&mut self, table: &str, key: &str, value: Option<toml::Value>, origin: String) {
        self.entries.push(Entry { table: table.to_owned(), key: key.to_owned(), value, origin });
    }

    /// Whether nothing is wrong so far.
    pub(super) fn is_clean(&self) -> bool {
        self.problems.is_empty()
    }

    /// Notes that a key exists, or every key below it.
    pub(super) fn known(&mut self, path: &str) {
        self.known.insert(pattern(path));
    }

    /// Call after everything has been read: what is set and was never read does not exist.
    pub(super) fn finish(mut self) -> Result<Vec<Entry>, Problems> {
        for layer in self.raw.typed_layers() {
            for key in layer.keys() {
                let path = key.path.join(".");
                if let Some(message) = self.unknown(&path, key.is_section, layer.is_environment()) {
                    self.problems.push(Problem { place: layer.place(&path), key: shown(&path), message });
                }
            }
        }
        if self.problems.is_empty() { Ok(self.entries) } else { Err(Problems(self.problems)) }
    }

    fn unknown(&self, path: &str, is_section: bool, is_environment: bool) -> Option<String> {
        let path = pattern(path);
        if self.known.contains(&path) || path.starts_with("kafka.options.") {
            return None;
        }
        let is_above = |known: &String| known.strip_prefix(&path).is_some_and(|rest| rest.starts_with('.'));
        if self.known.iter().any(is_above) {
            return (!is_section).then(|| format!("is a section, not a key; it is written as [{path}]"));
        }
        let hint = self.nearest(&path).map(|near| {
            let variable = if is_environment { format!(" ({})", layers::variable_of_key(near)) } else { String::new() };
            format!("; did you mean {}{variable}?", shown(near))
        });
        Some(format!("there is no such key{}", hint.unwrap_or_else(|| "; `sakia reference` lists all".into())))
    }

    /// The key that was probably meant: near as a whole, else near in its last part (the right key in a wrong section).
    fn nearest(&self, path: &str) -> Option<&str> {
        let names = || self.known.iter().map(String::as_str).filter(|name| *name != "decoder");
        did_you_mean(path, names()).or_else(|| {
            let near = did_you_mean(bare(path), names().map(bare))?;
            names().find(|name| bare(name) == near)
        })
    }
}

/// The last part of a key.
fn bare(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}

/// `decoder.3.name` as `decoder.*.name`.
fn pattern(path: &str) -> String {
    let parts = path.split('.').map(|part| if part.parse::<usize>().is_ok() { "*" } else { part });
    parts.collect::<Vec<_>>().join(".")
}

/// `decoder.0.name` as people count: `decoder[1].name`; patterns lose their star.
fn shown(path: &str) -> String {
    let Some(rest) = path.strip_prefix("decoder.") else { return path.to_owned() };
    let (number, key) = rest.split_once('.').unwrap_or((rest, ""));
    let number = number.parse::<usize>().map_or_else(|_| String::new(), |n| format!("[{}]", n + 1));
    if key.is_empty() { format!("decoder{number}") } else { format!("decoder{number}.{key}") }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::String(..) | Value::Char(..) => "text",
        Value::Bool(..) => "true or false",
        Value::Num(_, Num::F32(_) | Num::F64(_)) => "a fraction",
        Value::Num(..) => "a number",
        Value::Empty(..) => "nothing",
        Value::Dict(..) => "a table",
        Value::Array(..) => "a list",
    }
}

pub(super) fn text(value: &Value) -> Result<String, String> {
    let text = value.as_str().ok_or_else(|| format!("is {}; write text in quotes", kind(value)))?;
    if text.trim().is_empty() { Err("is empty".into()) } else { Ok(text.to_owned()) }
}

/// As `text`, for values with a unit: a bare number is the usual slip.
fn unit_text(value: &Value) -> Result<String, String> {
    match value {
        // `parse_duration` and `parse_size` say which units there are.
        Value::Num(..) => Ok(value.to_i128().map(|n| n.to_string()).unwrap_or_default()),
        _ => text(value),
    }
}

fn integer(value: &Value) -> Result<i128, String> {
    // Text too: variables and --set have nothing else.
    let number = value.to_i128().or_else(|| value.as_str()?.trim().parse().ok());
    number.ok_or_else(|| format!("is {}; write a whole number", kind(value)))
}

fn texts(value: &Value) -> Result<Vec<String>, String> {
    match value {
        Value::Array(_, items) => items.iter().map(text).collect(),
        _ => text(value).map(|text| vec![text]).map_err(|_| format!("is {}; write a list of texts", kind(value))),
    }
}

/// A librdkafka option: everything is text to it.
pub(super) fn scalar(value: &Value) -> Result<String, String> {
    match value {
        Value::String(_, text) => Ok(text.clone()),
        Value::Bool(_, flag) => Ok(flag.to_string()),
        Value::Num(_, number) => {
            let whole = value.to_i128().map(|n| n.to_string());
            whole.or_else(|| number.to_f64().map(|n| n.to_string())).ok_or_else(|| "is not a number".into())
        }
        _ => Err(format!("is {}; write text, a number, true or false", kind(value))),
    }
}

fn within<T: PartialOrd>(value: T, range: &RangeInclusive<T>, show: impl Fn(&T) -> String) -> Result<T, String> {
    if range.contains(&value) {
        return Ok(value);
    }
    Err(format!("is out of range: write {} to {}", show(range.start()), show(range.end())))
}

fn choose<T: Copy>(typed: &str, choices: &[(&'static str, T)]) -> Result<(&'static str, T), String> {
    let found = choices.iter().find(|(name, _)| *name == typed);
    found.copied().ok_or_else(|| {
        let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
        format!("{typed:?} is not one of {}", names.join(", "))
    })
}
