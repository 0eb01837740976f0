//! The whole way, as a user goes it: the `sakia` program as a child process between a real Kafka and a real MongoDB,
//! checked by `loadtest verify`, which shares no code with it.

/// Public reports about comparable systems, each held against this one.
mod cases;
/// Those of them that are about what a record or a configuration holds.
mod cases_input;
/// What `sakia check` finds, each thing once.
mod check;
/// What the command line promises besides storing: `init`, `--print-config`, problems of a configuration.
mod commands;
/// A mapping or a window that changes: what was begun under the old one is finished under it.
mod contracts;
/// The process ends at each named crash point, three times over.
mod crash_points;
/// Dead letters found, shown, counted, and stored once their cause is mended.
mod dead;
/// Replays of dead letters that are killed, and replays at once.
mod dead_kills;
/// What arrives is stored once, in every shape that a record may have.
mod exact;
/// A server that pauses, dies and comes back, and a backlog beyond the memory.
mod faults;
/// What a newcomer does wrong, and is told.
mod first_mistakes;
/// Kills at random times and at named crash points, each followed by a proof that nothing is lost or doubled.
mod kills;
/// `sakia ledger`: looked at, skipped, begun anew, made again after a loss.
mod ledger_command;
/// Judges a page of metrics as a scraper would, and against its documentation.
mod lint;
/// A ledger that is lost beside dead letters and their replays.
mod lost_ledger;
/// How far the partitions of a world are: by the ledger, and by the group.
mod marks;
/// Members that join and leave a group under load.
mod members;
/// A server of the test's own, to be paused and killed.
mod mongod;
/// Servers as a newcomer may have them.
mod odd_servers;
/// The HTTP pages and the memory of a running process.
mod pages;
/// Topics that are found by pattern.
mod patterns;
/// One record for every reason of a dead letter, beside good neighbours.
mod poison;
/// The ledger rules: groups moved or lost, records gone, devices and topics that share.
mod protocol;
/// `sakia read` and the view against what was produced.
mod read;
/// The queries of docs/reading.md, run as they stand there.
mod reading;
/// What must stop, says why, and leaves the rest going.
mod refusals;
/// A way to MongoDB that can be blocked.
mod relay;
/// The printed roles: enough for each command, and nothing less is.
mod roles;
/// Where one bucket ends and the next begins, and which window a reading goes to.
mod rollover;
/// The program as a child process.
mod running;
/// Groups that grow and shrink under load: many members, many partitions, many topics.
mod scaling;
/// The orderly end.
mod shutdown;
/// Minima, maxima and sums of fields, held against the samples.
mod stats;
/// Samples as they are stored, one by one, for tests that know what each record held.
mod stored;
/// Topics beside a world's own, and records that the broker forgets.
mod topics;
/// What is kept in bounded places, and partitions that must get on.
mod upkeep;
/// The validator of `storage.validator`, and one of an operator's own.
mod validator;
/// One topic, one database, one configuration, and what can be done with them.
mod world;
