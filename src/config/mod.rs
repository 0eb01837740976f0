//! What may be configured, after validation. `raw` holds it as typed; this is what the program runs on.

pub mod contract;

use std::collections::BTreeMap;

pub use contract::{Contract, DecoderTable, TimestampFormat};

use crate::record::Window;

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

#[derive(Clone, Debug)]
pub struct Kafka {
    pub brokers: String,
    pub group: String,
    /// Union of the decoders' topics, in order of first mention.
    pub topics: Vec<String>,
    /// librdkafka options passed through; none of the protocol's own is among them.
    pub options: BTreeMap<String, String>,
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

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
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

/// Options fixed when the collections are created.
#[derive(Clone, Debug)]
pub struct Storage {
    pub compressor: String,
    pub leaf_page_max: Option<String>,
    pub ttl_days: Option<u32>,
    /// Path of a wildcard index, such as `meta`; outside the samples.
    pub wildcard_index: Option<String>,
}

#[derive(Clone, Debug)]
pub struct Telemetry {
    /// Address of `/metrics`, `/live` and `/ready`; `None` = off.
    pub listen: Option<std::net::SocketAddr>,
}
