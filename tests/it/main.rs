//! Tests against a real Kafka and a real MongoDB: `make test` starts them. A service that is missing fails the test.
#![cfg(feature = "service")]
#![allow(clippy::unwrap_used, reason = "a test whose world cannot be set up has failed")]
#![allow(clippy::disallowed_methods, reason = "tests wait for the outside world, which has no other clock")]

/// The program as a whole, between real services.
mod e2e;
/// Ledger entries: hand-over, reservation, closing, refusals.
mod ledger;
/// A relay between client and server that can cut a reply off.
mod proxy;
/// Statements, fences, tails and dead letters on a real server.
mod sink;
/// The poll thread: order, hand-over, commits, back-pressure.
mod source;
