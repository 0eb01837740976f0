//! The whole way, as a user goes it: the `sakia` program as a child process between a real Kafka and a real MongoDB,
//! checked by `loadtest verify`, which shares no code with it.

/// Public reports about comparable systems, each held against this one.
mod cases;
/// A server that pauses, dies and comes back, and a backlog beyond the memory.
mod faults;
/// Kills at random times and at named crash points, each followed by a proof that nothing is lost or doubled.
mod kills;
/// A server of the test's own, to be paused and killed.
mod mongod;
/// The HTTP pages and the memory of a running process.
mod pages;
/// One record for every reason of a dead letter, beside good neighbours.
mod poison;
/// Where one bucket ends and the next begins, and which window a reading goes to.
mod rollover;
/// One topic, one database, one configuration, and what can be done with them.
mod world;
