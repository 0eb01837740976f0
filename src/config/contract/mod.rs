//! All that decides a reading's device, window, index, verdict and stored names, as one text with a fingerprint.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::record::Window;

/// What this binary decodes by. Raised whenever the same table would decode some record differently.
pub const DECODER_VERSION: u32 = 1;

/// Readings one record may hold: position gives 16 bits to the index within the record.
pub const MAX_READINGS: u32 = 65_536;

/// One `[[decoder]]` table, validated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DecoderTable {
    /// For messages; defaults to the first topic. Not in a contract, and nor are the topics.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Names, and patterns that start with `^`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
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
///
/// Unknown members are refused on reading: they would be something that decides about readings and that this binary
/// does not know of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contract {
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

/// A contract from the ledger that this binary cannot honour.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContractError {
    #[error(
        "the contract was written under decoder version {found}, this binary knows version {DECODER_VERSION} only: \
         finish the stream with the sakia release that wrote it"
    )]
    UnknownDecoder { found: u32 },
    #[error("the contract's text cannot be read: {0}")]
    Malformed(String),
}

impl Contract {
    /// Canonical JSON: members in declared order, no blanks.
    pub fn text(&self) -> String {
        serde_json::to_string(self).expect("invariant: plain structs of text and numbers always serialise")
    }

    /// First 32 hexadecimal digits of the text's SHA-256.
    pub fn fingerprint(&self) -> String {
        use std::fmt::Write as _;
        Sha256::digest(self.text()).iter().take(16).fold(String::with_capacity(32), |mut hex, byte| {
            write!(hex, "{byte:02x}").expect("invariant: writing to a String cannot fail");
            hex
        })
    }

    /// Reads what `text` wrote.
    pub fn parse(text: &str) -> Result<Self, ContractError> {
        // The version first: under another one the other members may well have changed.
        #[derive(Deserialize)]
        struct Versioned {
            decoder_version: u32,
        }
        let malformed = |error: serde_json::Error| ContractError::Malformed(error.to_string());
        let Versioned { decoder_version } = serde_json::from_str(text).map_err(malformed)?;
        if decoder_version != DECODER_VERSION {
            return Err(ContractError::UnknownDecoder { found: decoder_version });
        }
        serde_json::from_str(text).map_err(malformed)
    }

    /// The window that a contract of any version names; `None` where it names none.
    pub fn window_of(text: &str) -> Option<Window> {
        let contract: serde_json::Value = serde_json::from_str(text).ok()?;
        let length_ms = contract.get("window_length_ms")?.as_i64().filter(|length| *length > 0)?;
        Some(Window { length_ms, offset_ms: contract.get("window_offset_ms")?.as_i64()? })
    }
}

#[cfg(test)]
mod tests;
