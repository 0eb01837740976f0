//! Tests against a real Kafka and a real MongoDB: `make test` starts them. A service that is missing fails the test.
#![cfg(feature = "service")]

/// The poll thread: order, hand-over, commits, back-pressure.
mod source;
