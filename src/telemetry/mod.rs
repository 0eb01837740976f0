//! What the program tells the world about itself: metrics, probes, logs and the progress line.
//!
//! Each thread owns plain counters (`counts`) and publishes a copy about once a second; nothing here is touched a record.
//! The process is judged by its own threads (`health`), never by whether Kafka or MongoDB answer: a restart mends
//! neither, and restarting every pod makes an outage worse.

pub mod counts;
pub mod distribution;
pub mod health;
pub mod stall;

#[cfg(feature = "service")]
mod catalogue;
#[cfg(feature = "service")]
pub mod http;
#[cfg(feature = "service")]
pub mod log;
#[cfg(feature = "service")]
pub mod metrics;
#[cfg(feature = "service")]
pub mod progress;
