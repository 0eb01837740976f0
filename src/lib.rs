//! Device readings from Kafka into `MongoDB` bucket documents, with exactly-once effect.
//!
//! A record's way: `source` (poll thread) -> `shard` (`decode`, then `engine`) -> `sink` (writer) and back as a report.

#[cfg(feature = "service")]
pub mod cli;
pub mod clock;
pub mod code;
#[cfg(feature = "service")]
pub mod commands;
pub mod config;
pub mod crash;
pub mod decode;
pub mod engine;
#[cfg(feature = "service")]
pub mod pipeline;
pub mod record;
#[cfg(feature = "service")]
pub mod shard;
pub mod sink;
pub mod source;
pub mod telemetry;
