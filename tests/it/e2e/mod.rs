//! The whole way, as a user goes it: the `sakia` program as a child process between a real Kafka and a real MongoDB,
//! checked by `loadtest verify`, which shares no code with it.

/// Public reports about comparable systems, each held against this one.
mod cases;
/// What the command line promises besides storing: `init`, `--print-config`, problems of a configuration.
mod commands;
/// A mapping or a window that changes: what was begun under the old one is finished under it.
mod contracts;
/// The process ends at each named crash point, three times over.
mod crash_points;
/// What arrives is stored once, in every shape that a record may have.
mod exact;
/// A server that pauses, dies and comes back, and a backlog beyond the memory.
mod faults;
/// Kills at random times and at named crash points, each followed by a proof that nothing is lost or doubled.
mod kills;
/// Judges a page of metrics as a scraper would, and against its documentation.
mod lint;
/// How far the partitions of a world are: by the ledger, and by the group.
mod marks;
/// Members that join and leave a group under load.
mod members;
/// A server of the test's own, to be paused and killed.
mod mongod;
/// The HTTP pages and the memory of a running process.
mod pages;
/// One record for every reason of a dead letter, beside good neighbours.
mod poison;
/// The ledger rules: groups moved or lost, records gone, devices and topics that share.
mod protocol;
/// What must stop, says why, and leaves the rest going.
mod refusals;
/// A way to MongoDB that can be blocked.
mod relay;
/// Where one bucket ends and the next begins, and which window a reading goes to.
mod rollover;
/// The program as a child process.
mod running;
/// The orderly end.
mod shutdown;
/// Samples as they are stored, one by one, for tests that know what each record held.
mod stored;
/// Topics beside a world's own, and records that the broker forgets.
mod topics;
/// One topic, one database, one configuration, and what can be done with them.
mod world;
