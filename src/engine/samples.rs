//! Encoded samples of one chain, in position order.

use crate::record::{EventTime, Position};

/// Samples as BSON documents laid end to end, with what is needed to split and bound them without decoding.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples {
    positions: Vec<Position>,
    times: Vec<EventTime>,
    /// End of each sample's document in `bytes`.
    ends: Vec<u32>,
    bytes: Vec<u8>,
    /// `n_stats` numbers a sample, NaN where the field is absent.
    stats: Vec<f64>,
    n_stats: usize,
}
