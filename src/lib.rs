//! Device readings from Kafka into MongoDB bucket documents, with exactly-once effect.
//!
//! A record's way: `source` (poll thread) -> `shard` (`decode`, then `engine`) -> `sink` (writer) and back as a report.

#[cfg(feature = "service")]
pub mod cli;
pub mod clock;
#[cfg(feature = "service")]
pub mod commands;
pub mod config;
pub mod crash;
pub mod decode;
pub mod engine;
pub mod record;
pub mod sink;
pub mod telemetry;
