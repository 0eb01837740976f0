//! The whole way, as a user goes it: the `sakia` program as a child process between a real Kafka and a real MongoDB,
//! checked by `loadtest verify`, which shares no code with it.

/// Kills at random times and at named crash points, each followed by a proof that nothing is lost or doubled.
mod kills;
/// One topic, one database, one configuration, and what can be done with them.
mod world;
