//! The decoder of one contract: from a record to its readings.

use super::compile::{self, Compiled};
use super::finish::{self, Key};
use super::scratch::Span;
use super::{Readings, Reason, Reject, Scratch, SkipReason, Whole, scan};
use crate::config::Contract;
use crate::record::Record;

/// Turns the records of one contract into readings.
#[derive(Clone, Debug)]
pub struct Decoder(Compiled);

impl Decoder {
    /// Fails with what is wrong with the table, for the user.
    pub fn new(contract: &Contract) -> Result<Self, String> {
        compile::compile(contract).map(Self)
    }

    /// Numbers that each reading carries for the statistics.
    pub fn n_stats(&self) -> usize {
        self.0.limits.n_stats
    }

    /// Reads a whole record before it hands anything out. What it hands out lives in `scratch`.
    pub fn decode<'s>(&self, record: &Record<'_>, scratch: &'s mut Scratch) -> Result<Readings<'s>, Whole> {
        scratch.clear();
        let Some(value) = record.value else { return Err(Whole::Skip(SkipReason::Tombstone)) };
        let value = utf8(value).map_err(Whole::Reject)?;
        let key = self.key(record, scratch);
        let Compiled { root, reading, limits, .. } = &self.0;
        scan::value(value, root.as_ref(), reading, *limits, scratch).map_err(Whole::Reject)?;
        if scratch.rows.is_empty() {
            return Err(Whole::Skip(SkipReason::EmptyArray));
        }
        finish::finish(&self.0.sources, record, value, key, scratch);
        Ok(Readings::new(scratch, limits.n_stats))
    }

    /// Notes the spans of the paths into the key.
    fn key<'r>(&self, record: &Record<'r>, scratch: &mut Scratch) -> Key<'r> {
        scratch.spans.resize(self.0.sources.n_key_slots, Span::default());
        let text = record.key.map(std::str::from_utf8).transpose();
        let text = text.map_err(|_| Reject::of(Reason::BadKey, "the key is not UTF-8"));
        let json = match (&self.0.key, text) {
            (Some(tree), Ok(Some(text))) => scan::key(text, tree, scratch),
            _ => Ok(()),
        };
        Key { text, json: json.map_err(|_| Reject::of(Reason::BadKey, "the key is not proper JSON")) }
    }
}

fn utf8(bytes: &[u8]) -> Result<&str, Reject> {
    std::str::from_utf8(bytes).map_err(|e| Reject::at(Reason::NotUtf8, e.valid_up_to(), "the value is not UTF-8 text"))
}
