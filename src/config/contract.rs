//! All that decides a reading's device, window, index, verdict and stored names, as one text with a fingerprint.

use serde::{Deserialize, Serialize};

/// One `[[decoder]]` table, validated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecoderTable {
    /// For messages; defaults to the first topic.
    pub name: String,
    /// Exact topic names.
    pub topics: Vec<String>,
    /// One or more paths, first non-null wins. `@key`, `@key.a.b` or a dotted path into the value.
    pub device_path: Vec<String>,
    /// As `device_path`; `@timestamp` is the record's own.
    pub timestamp_path: Vec<String>,
    /// Tried in order.
    pub timestamp_format: Vec<TimestampFormat>,
    /// Where no timestamp path has a value: the record's own timestamp instead of a reject.
    pub timestamp_missing_kafka: bool,
    /// Object that holds the fields; empty: the reading itself.
    pub fields_path: String,
    /// Top-level field names below `fields_path`; empty: all.
    pub include: Vec<String>,
    pub exclude: Vec<String>,
    /// Paths of tags, relative to the reading; stored in `meta` under the last segment's name.
    pub meta: Vec<String>,
    /// Names of top-level numeric fields that get min, max, sum and n.
    pub stats: Vec<String>,
    /// Path of an array in the value: one reading an element. `[]` is the value itself.
    pub explode: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimestampFormat {
    Unix,
    UnixMs,
    UnixUs,
    UnixNs,
    Iso8601,
}

/// What a stream was written under. Kept in the ledger as text, so that a stream's rest can be finished under it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contract {
    /// Raised whenever the same table would decode some record differently.
    pub decoder_version: u32,
    pub decoder: DecoderTable,
    pub window_length_ms: i64,
    pub window_offset_ms: i64,
    pub plausible_past_ms: i64,
    pub plausible_future_ms: i64,
    pub max_readings: u32,
    pub max_sample_bytes: u32,
    pub isolation_level: String,
    /// Stored names inside a sample: they are part of the encoded bytes.
    pub time_name: String,
    pub info_name: String,
}
