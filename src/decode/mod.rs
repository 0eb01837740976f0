//! Bytes of a record to readings. A pure function of record and contract: never panics, never blocks, no clock.
//!
//! One pass over the JSON text: fields become BSON element bytes straight from the tokens, and what the paths of the
//! table name is noted as spans of the text (`scan`). Devices, times and tags are taken from those spans once the whole
//! text has proved well formed (`finish`), so that a record with a broken tail hands out nothing at all.
//!
//! Rules that a user meets:
//! - A fault of one reading is that reading's own; its neighbours in an exploded array are unharmed. Only text that is
//!   not JSON, an `explode` path without an array and too many readings condemn the record as a whole.
//! - Integers are stored exactly (Int32, else Int64), all other numbers as the nearest double, including integers beyond
//!   64 bits. `null` omits a top-level field; further inside it is kept.
//! - A device, timestamp or `meta` path that names a field at the top of the fields object takes that field out of the
//!   stored fields, since it would be stored twice; listing it in `include` keeps it. `exclude` beats `include`.
//! - Field names that are empty, hold NUL or start with `$` are refused at any depth, where they would be stored; dots
//!   stay as they are. The same name twice in one object is refused too: readers disagree on which one counts.

mod compile;
mod decoder;
mod encode;
mod finish;
mod hint;
mod lexer;
mod path;
mod reject;
mod scan;
mod scratch;
mod time;
mod tree;

#[cfg(test)]
mod tests;

pub use decoder::Decoder;
pub use hint::advise;
pub use reject::{Reason, Reject, SkipReason, Whole};
pub use scratch::{Readings, Scratch};

use crate::record::EventTime;

/// One decoded measurement event of one device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading<'a> {
    pub device: &'a str,
    pub at: EventTime,
    /// The fields as one BSON document, written once from the JSON tokens.
    pub info: &'a [u8],
    /// Slowly changing tags as one BSON document; empty where none are configured or present.
    pub meta: &'a [u8],
    /// One number for each field of the decoder's `stats` list; NaN where absent or not a number.
    pub stats: &'a [f64],
}
