//! Device readings from Kafka into MongoDB bucket documents, with exactly-once effect.
//!
//! A record's way: `source` (poll thread) -> `shard` (`decode`, then `engine`) -> `sink` (writer) and back as a report.

pub mod clock;
pub mod config;
pub mod crash;
pub mod decode;
pub mod engine;
pub mod record;
#[cfg(feature = "service")]
pub mod shard;
pub mod sink;
pub mod source;
pub mod telemetry;
