//! Which offsets of which partition are covered, and by which stream: the only state besides the buckets themselves.
//!
//! `coverage` decides, `entry` is what it decides on; both are pure. `store` reads and writes the collection.

pub mod coverage;
pub mod entry;
