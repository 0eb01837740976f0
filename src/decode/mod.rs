//! Bytes of a record to readings. A pure function of record and contract: never panics, never blocks, no clock.

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
