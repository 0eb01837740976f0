//! The layers of a configuration, each as typed and with the place of every key: compiled-in defaults < file <
//! environment < command line. Knows the shape of keys, not which keys exist; those are known to the reader.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::Arc;

use figment::value::{Dict, Map, Value};
use figment::{Error, Metadata, Profile, Provider};

use super::file;
use super::problem::Problem;

/// `SAKIA_...` names that are not configuration: `SAKIA_CONFIG` is the file itself, the others belong to the local
/// services and to the tests.
const NOT_KEYS: [&str; 5] =
    ["SAKIA_CONFIG", "SAKIA_LOCAL_DIR", "SAKIA_CRASH_AT", "SAKIA_KAFKA_PORT", "SAKIA_MONGO_PORT"];
const NOT_KEY_PREFIXES: [&str; 1] = ["SAKIA_MONGOD_"];

/// Short names for the two addresses that every installation sets. The long names win over them.
pub(super) const SHORT_NAMES: [(&str, &str); 2] = [("SAKIA_KAFKA", "kafka.brokers"), ("SAKIA_MONGO", "mongo.uri")];

/// A flag of the command line that stands for a key.
#[derive(Clone, Debug)]
pub struct Flag {
    /// As typed, such as `--brokers`.
    pub name: &'static str,
    pub key: &'static str,
    pub value: String,
}

/// A key as typed, whether it exists or not.
#[derive(Clone, Debug)]
pub(super) struct Key {
    pub(super) path: Vec<String>,
    /// A table without keys of its own.
    pub(super) is_section: bool,
}

/// One layer.
#[derive(Clone, Debug, Default)]
pub(super) struct Layer {
    name: &'static str,
    values: Dict,
    /// Every key that is set, those too that no section holds.
    keys: Vec<Key>,
    places: Arc<BTreeMap<Vec<String>, String>>,
}

impl Layer {
    pub(super) fn new(name: &'static str) -> Self {
        Self { name, ..Self::default() }
    }

    /// Sets a key. What stands outside of any section is kept for the list of unknown keys only: as a value it would
    /// hide a whole section of the layers below.
    pub(super) fn set(&mut self, path: &[String], value: Value, place: &str) {
        let path = in_one_piece(path);
        self.mention(&path, place);
        let [sections @ .., key] = path.as_slice() else { return };
        if sections.is_empty() && key != "decoder" {
            return;
        }
        let mut dict = &mut self.values;
        for section in sections {
            let entry = dict.entry(section.clone()).or_insert_with(|| Dict::new().into());
            if entry.as_dict().is_none() {
                *entry = Dict::new().into();
            }
            let Value::Dict(_, inner) = entry else { return };
            dict = inner;
        }
        dict.insert(key.clone(), value);
    }

    /// Notes that a key stands at `place`; its value is part of another key's.
    pub(super) fn mention(&mut self, path: &[String], place: &str) {
        self.note(path, place, false);
    }

    pub(super) fn mention_section(&mut self, path: &[String], place: &str) {
        self.note(path, place, true);
    }

    fn note(&mut self, path: &[String], place: &str, is_section: bool) {
        let path = in_one_piece(path);
        Arc::make_mut(&mut self.places).insert(path.clone(), place.to_owned());
        self.keys.push(Key { path, is_section });
    }

    pub(super) fn keys(&self) -> &[Key] {
        &self.keys
    }

    pub(super) fn find(&self, path: &str) -> Option<&Value> {
        let (first, rest) = path.split_once('.').unwrap_or((path, ""));
        find(self.values.get(first)?, rest)
    }

    pub(super) fn place(&self, path: &str) -> String {
        nearest(&self.places, &path.split('.').collect::<Vec<_>>())
    }

    pub(super) fn is_environment(&self) -> bool {
        self.name == ENVIRONMENT
    }
}

impl Provider for Layer {
    fn metadata(&self) -> Metadata {
        let places = Arc::clone(&self.places);
        Metadata::named(self.name).interpolater(move |_, keys| nearest(&places, keys))
    }

    fn data(&self) -> Result<Map<Profile, Dict>, Error> {
        Ok(Profile::Default.collect(self.values.clone()))
    }
}

/// Names of librdkafka options hold dots: `kafka.options` is flat, however its keys were written.
fn in_one_piece(path: &[String]) -> Vec<String> {
    match path {
        [kafka, options, name @ ..] if kafka == "kafka" && options == "options" && !name.is_empty() => {
            vec![kafka.clone(), options.clone(), name.join(".")]
        }
        _ => path.to_vec(),
    }
}

/// The place of the key or of the nearest table above it.
fn nearest(places: &BTreeMap<Vec<String>, String>, keys: &[&str]) -> String {
    let path = in_one_piece(&keys.iter().map(|&key| key.to_owned()).collect::<Vec<_>>());
    (1..=path.len()).rev().find_map(|n| places.get(&path[..n])).cloned().unwrap_or_default()
}

/// The value below `tree` at a dotted path; array elements go by their number.
pub(super) fn find<'v>(tree: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.').filter(|key| !key.is_empty()).try_fold(tree, |tree, key| match tree {
        Value::Dict(_, dict) => dict.get(key),
        Value::Array(_, items) => items.get(key.parse::<usize>().ok()?),
        _ => None,
    })
}

const ENVIRONMENT: &str = "environment";

/// The layer of `SAKIA_...` variables. An empty variable counts as not set.
pub(super) fn environment(vars: &[(OsString, OsString)], problems: &mut Vec<Problem>) -> Layer {
    let mut layer = Layer::new(ENVIRONMENT);
    let mut named = Vec::new();
    for (name, value) in vars {
        let Some(name) = name.to_str().filter(|name| name.starts_with("SAKIA_")) else { continue };
        if NOT_KEYS.contains(&name) || NOT_KEY_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
            continue;
        }
        match value.to_str() {
            None => problems.push(problem(name, "the value is not valid UTF-8")),
            Some("") => {}
            Some(value) => named.push((name, value)),
        }
    }
    // Short names first, so that long ones win.
    named.sort_by_key(|(name, _)| !SHORT_NAMES.iter().any(|(short, _)| short == name));
    for (name, value) in named {
        let short = SHORT_NAMES.iter().find(|(short, _)| *short == name);
        let key = short.map_or_else(|| key_of_variable(name), |(_, key)| (*key).to_owned());
        set_text(&mut layer, &key, value, name, problems);
    }
    layer
}

fn key_of_variable(name: &str) -> String {
    let key = name["SAKIA_".len()..].to_ascii_lowercase().replace("__", ".");
    match key.strip_prefix("kafka.options.") {
        // librdkafka writes dots where a variable can only have underscores.
        Some(option) => format!("kafka.options.{}", option.replace('_', ".")),
        None => key,
    }
}

/// The variable that sets `key`.
pub(super) fn variable_of_key(key: &str) -> String {
    let (prefix, option) = key.strip_prefix("kafka.options.").map_or((key, None), |o| ("kafka.options", Some(o)));
    let option = option.map(|option| format!("__{}", option.replace('.', "_"))).unwrap_or_default();
    format!("SAKIA_{}{option}", prefix.replace('.', "__")).to_ascii_uppercase()
}

/// The layer of flags and of `--set key=value`.
pub(super) fn command_line(flags: &[Flag], sets: &[String], problems: &mut Vec<Problem>) -> Layer {
    let mut layer = Layer::new("command line");
    for flag in flags {
        set_text(&mut layer, flag.key, &flag.value, flag.name, problems);
    }
    for (i, set) in sets.iter().enumerate() {
        // What was typed is not repeated: it may hold a password.
        match set.split_once('=') {
            Some((key, value)) => {
                set_text(&mut layer, key.trim(), value, &format!("--set {}", key.trim()), problems);
            }
            None => problems.push(problem(
                &format!("--set no. {}", i + 1),
                "has no `=`: write key=value, such as --set bucket.max_samples=200",
            )),
        }
    }
    layer
}

/// Sets a key from plain text. Only the list of decoders has more structure than that: it is written as TOML.
fn set_text(layer: &mut Layer, key: &str, value: &str, place: &str, problems: &mut Vec<Problem>) {
    if key != "decoder" {
        let path: Vec<String> = key.split('.').map(str::to_owned).collect();
        layer.set(&path, value.into(), place);
    } else if let Err(message) = file::read_into(layer, &format!("decoder = {value}"), |_| place.to_owned()) {
        let hint = "write a TOML array of tables, such as [{topics = [\"readings\"], device_path = \"id\"}]";
        problems.push(problem(place, &format!("{}; {hint}", message[0].1)));
    }
}

fn problem(place: &str, message: &str) -> Problem {
    Problem { place: place.to_owned(), key: String::new(), message: message.to_owned() }
}
