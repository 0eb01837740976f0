//! What may be configured, after validation. `raw` holds it as typed; this is what the program runs on.
//!
//! The way of a key: `file` and `layers` (as typed, with its place) -> `raw` (merged) -> `reader` (typed, checked) ->
//! `validate` (what keys owe each other) -> `Config`.

pub mod contract;
mod decoders;
mod file;
mod layers;
mod machine;
mod names;
mod options;
mod print;
mod problem;
mod raw;
mod reader;
mod reference;
mod secrets;
#[cfg(test)]
mod tests;
pub mod topics;
mod units;
mod validate;

use std::collections::BTreeMap;
use std::fmt;

pub use contract::{Contract, ContractError, DecoderTable, TimestampFormat};
pub use decoders::last_segment;
pub use layers::Flag;
pub use machine::Machine;
pub(crate) use problem::did_you_mean;
pub use problem::{Problem, Problems};
pub use raw::{DEFAULTS, OptionCheck, Sources};
pub use reference::reference;
pub use secrets::redact_uri;
#[cfg(feature = "service")]
pub(crate) use units::{parse_duration, parse_size};

use crate::record::Window;

/// Records of aborted transactions are no readings.
const ISOLATION_LEVEL: &str = "read_committed";

#[derive(Clone, Debug)]
pub struct Config {
    pub kafka: Kafka,
    pub mongo: Mongo,
    pub bucket: Bucket,
    pub fields: FieldNames,
    pub flow: Flow,
    pub decoders: Vec<DecoderTable>,
    pub plausible: Plausible,
    pub storage: Storage,
    pub telemetry: Telemetry,
}

#[derive(Clone)]
pub struct Kafka {
    pub brokers: String,
    pub group: String,
    /// Union of the decoders' topics, in order of first mention; some may be patterns (`topics::is_pattern`).
    pub topics: Vec<String>,
    /// librdkafka options passed through; none of the protocol's own is among them.
    pub options: BTreeMap<String, String>,
}

impl fmt::Debug for Kafka {
    /// The values of options stay out: some are passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options: Vec<_> = self.options.keys().collect();
        let mut kafka = f.debug_struct("Kafka");
        kafka.field("brokers", &self.brokers).field("group", &self.group).field("topics", &self.topics);
        kafka.field("options", &options).finish()
    }
}

#[derive(Clone, Debug)]
pub struct Mongo {
    pub uri: Secret,
    pub database: String,
    pub collection: String,
    pub connections: u32,
    /// Deadline of one command on the server (`maxTimeMS`, `wtimeout`); the client gives up somewhat later.
    pub write_timeout_ms: u64,
}

/// Text that is never printed.
#[derive(Clone)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

/// Shape of buckets and when deltas are written.
#[derive(Clone, Debug)]
pub struct Bucket {
    pub window: Window,
    pub max_samples: u32,
    pub target_bytes: u32,
    /// A single sample above this is a dead letter.
    pub max_sample_bytes: u32,
    /// A delta of at least this many samples becomes a bucket of its own rather than an append.
    pub min_fill: u32,
    pub flush_age_ms: u64,
    pub flush_samples: u32,
}

/// Names of the stored fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldNames {
    pub deviceid: String,
    pub date: String,
    pub first: String,
    pub last: String,
    pub count: String,
    pub open: String,
    pub meta: String,
    pub samples: String,
    pub time: String,
    pub info: String,
    pub stats: String,
    pub schema: String,
    pub src: String,
    pub pos: String,
}

/// How much is held and how much is under way.
#[derive(Clone, Debug)]
pub struct Flow {
    pub memory_budget_bytes: u64,
    /// Bytes of open tails that this process may keep in the server's cache; `None` = by what the server says.
    pub cache_budget_bytes: Option<u64>,
    pub shards: u32,
    /// Plans under way a shard.
    pub inflight_plans: u32,
    /// Statements a command.
    pub plan_statements: u32,
    /// Deadline for the drain on revoke and on shutdown.
    pub drain_timeout_ms: u64,
}

/// Plausible event times, relative to the record's own Kafka timestamp.
#[derive(Clone, Copy, Debug)]
pub struct Plausible {
    pub past_ms: i64,
    pub future_ms: i64,
}

/// How the collections are made; the first two are fixed from then on.
#[derive(Clone, Debug)]
pub struct Storage {
    pub compressor: String,
    pub leaf_page_max: Option<String>,
    pub ttl_days: Option<u32>,
    /// Path of a wildcard index, such as `meta`; outside the samples.
    pub wildcard_index: Option<String>,
    pub validator: Validator,
}

/// What the server does with a document that is no bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validator {
    Off,
    /// It says so in its log.
    Warn,
    /// It refuses it.
    Error,
}

#[derive(Clone, Debug)]
pub struct Telemetry {
    /// Address of `/metrics`, `/live` and `/ready`; `None` = off.
    pub listen: Option<std::net::SocketAddr>,
    pub log_format: LogFormat,
    /// A filter such as `info` or `info,sakia::sink=debug`.
    pub log_level: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    Json,
}

/// A configuration with the origin of each of its values.
#[derive(Clone, Debug)]
pub struct Loaded {
    pub config: Config,
    entries: Vec<reader::Entry>,
}

impl Loaded {
    /// The effective configuration as TOML, the origin of each value behind it, secrets masked.
    pub fn print(&self) -> String {
        print::print(&self.entries)
    }

    /// Where the values come from and how many of them, in one line; the lines of a file count as the file.
    pub fn origins(&self) -> String {
        print::origins(&self.entries)
    }
}

impl Config {
    /// Merges all layers and checks the result; reports everything that is wrong with it at once.
    pub fn load(sources: &Sources) -> Result<Loaded, Problems> {
        let (raw, problems) = raw::RawConfig::gather(sources);
        Self::check(&raw, problems, sources.machine, sources.option_check)
    }

    /// `text` over the defaults, on the default machine and without the environment.
    pub fn from_toml(text: &str) -> Result<Self, Problems> {
        let mut problems = Vec::new();
        let layers = vec![raw::defaults(), raw::read_text("config", text, &mut problems)];
        let raw = raw::RawConfig::merge(layers);
        Self::check(&raw, problems, Machine::default(), None).map(|loaded| loaded.config)
    }

    fn check(
        raw: &raw::RawConfig,
        problems: Vec<Problem>,
        machine: Machine,
        option_check: Option<OptionCheck>,
    ) -> Result<Loaded, Problems> {
        let mut reader = reader::Reader::new(raw, problems);
        let config = validate::config(&mut reader, machine, option_check);
        let entries = reader.finish()?;
        Ok(Loaded { config: config.expect("invariant: a section is missing only where a problem says so"), entries })
    }

    /// What readings of this topic are stored under; `None` where no decoder reads it, or no single one.
    pub fn contract_for(&self, topic: &str) -> Option<Contract> {
        self.decoder_for(topic).ok().map(|table| self.contract_of(table))
    }

    /// What readings of this decoder are stored under.
    ///
    /// Its name and its topics are left out: renaming it, adding a topic or widening a pattern decides nothing about a
    /// reading, and must not close streams. So is the order of names that form a set.
    pub fn contract_of(&self, table: &DecoderTable) -> Contract {
        let mut decoder = DecoderTable { name: String::new(), topics: Vec::new(), ..table.clone() };
        decoder.include.sort_unstable();
        decoder.exclude.sort_unstable();
        Contract {
            decoder_version: contract::DECODER_VERSION,
            decoder,
            window_length_ms: self.bucket.window.length_ms,
            window_offset_ms: self.bucket.window.offset_ms,
            plausible_past_ms: self.plausible.past_ms,
            plausible_future_ms: self.plausible.future_ms,
            max_readings: contract::MAX_READINGS,
            max_sample_bytes: self.bucket.max_sample_bytes,
            isolation_level: ISOLATION_LEVEL.to_owned(),
            time_name: self.fields.time.clone(),
            info_name: self.fields.info.clone(),
        }
    }
}
