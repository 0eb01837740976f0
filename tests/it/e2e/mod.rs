//! The whole way, as a user goes it: the `sakia` program as a child process between a real Kafka and a real MongoDB,
//! checked by `loadtest verify`, which shares no code with it.

/// What the command line promises besides storing: `init`, `--print-config`, problems of a configuration.
mod commands;
/// A mapping or a window that changes: what was begun under the old one is finished under it.
mod contracts;
/// Kills at random times and at named crash points, each followed by a proof that nothing is lost or doubled.
mod kills;
/// The ledger rules: groups moved or lost, records gone, devices and topics that share.
mod protocol;
/// What must stop, says why, and leaves the rest going.
mod refusals;
/// Samples as they are stored, one by one, for tests that know what each record held.
mod stored;
/// Topics beside a world's own, and records that the broker forgets.
mod topics;
/// One topic, one database, one configuration, and what can be done with them.
mod world;
