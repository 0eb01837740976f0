//! Deltas to command bodies. A sample's bytes are copied once more and never looked at.
//!
//! `deviceid` and `date` stand in every filter, so that the full shard key is always there. No update inserts:
//! an upsert would recreate a bucket that somebody removed, with only the newest samples in it.

use super::body::Body;
use crate::config::{Config, FieldNames};
use crate::engine::plan::{ChainKey, Delta, Write};
use crate::engine::samples::FieldStats;
use crate::record::Position;

#[cfg(test)]
mod tests;

/// Bodies are closed at this size; the server's limit is twice that.
const MAX_BODY_BYTES: usize = 8 << 20;
/// Room for all of a statement that is not samples, meta, device or stats.
const STATEMENT_BYTES: usize = 512;
/// Room for one field's four stats, beside four times its name.
const STATS_BYTES: usize = 100;
const SCHEMA: i32 = 1;

/// One command: statements of one kind for the deltas at these places of the plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Command {
    pub kind: Kind,
    pub deltas: Vec<usize>,
}

/// What the statements of a command do. Seals travel alone: an append that misses must not put seals in doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Insert,
    Append,
    Seal,
}

impl Kind {
    fn of(write: Write) -> Self {
        match write {
            Write::Insert { .. } => Self::Insert,
            Write::Append { .. } => Self::Append,
            Write::Seal { .. } => Self::Seal,
        }
    }
}

/// Names and limits, fixed for the life of the process.
#[derive(Clone, Debug)]
pub struct Encoder {
    collection: String,
    fields: FieldNames,
    timeout_ms: i32,
    max_statements: usize,
}

impl Encoder {
    pub fn new(config: &Config) -> Self {
        Self {
            collection: config.mongo.collection.clone(),
            fields: config.fields.clone(),
            timeout_ms: i32::try_from(config.mongo.write_timeout_ms).unwrap_or(i32::MAX),
            max_statements: config.flow.plan_statements.max(1) as usize,
        }
    }

    /// Groups deltas into commands, in order, by kind, number and bytes. A delta above the limit goes alone.
    pub fn commands(&self, deltas: &[Delta]) -> Vec<Command> {
        let mut commands = Vec::new();
        for kind in [Kind::Insert, Kind::Append, Kind::Seal] {
            let (mut current, mut n_bytes) = (Vec::new(), 0);
            for (i, delta) in deltas.iter().enumerate().filter(|(_, delta)| Kind::of(delta.write) == kind) {
                let more = statement_bytes(delta);
                if !current.is_empty() && (current.len() == self.max_statements || n_bytes + more > MAX_BODY_BYTES) {
                    commands.push(Command { kind, deltas: std::mem::take(&mut current) });
                    n_bytes = 0;
                }
                current.push(i);
                n_bytes += more;
            }
            if !current.is_empty() {
                commands.push(Command { kind, deltas: current });
            }
        }
        commands
    }

    /// Body of a command of `kind` with one statement for each delta.
    pub fn body<'a>(&self, kind: Kind, deltas: impl Iterator<Item = &'a Delta> + Clone) -> Vec<u8> {
        let capacity = STATEMENT_BYTES + deltas.clone().map(statement_bytes).sum::<usize>();
        let (verb, statements) = match kind {
            Kind::Insert => ("insert", "documents"),
            Kind::Append | Kind::Seal => ("update", "updates"),
        };
        Body::document(capacity, |b| {
            write_head(b, verb, &self.collection, self.timeout_ms);
            b.array(&[statements], |b| {
                for (i, delta) in deltas.enumerate() {
                    b.element(i, |b| self.statement(b, delta));
                }
            });
        })
    }

    fn statement(&self, b: &mut Body, delta: &Delta) {
        match delta.write {
            Write::Insert { n, open } => self.bucket(b, delta, n, open),
            Write::Append { n, hi, seal } => {
                b.embed(&["q"], |b| self.open_at(b, &delta.key, n, hi));
                b.embed(&["u"], |b| self.append(b, delta, seal));
            }
            Write::Seal { n, hi } => {
                b.embed(&["q"], |b| self.open_at(b, &delta.key, n, hi));
                b.embed(&["u"], |b| b.embed(&["$unset"], |b| b.string(&[&self.fields.open], "")));
            }
        }
    }

    /// A whole bucket.
    fn bucket(&self, b: &mut Body, delta: &Delta, n: u32, open: bool) {
        let f = &self.fields;
        let (first, last) = delta.samples.bounds().expect("an insert has samples");
        b.embed(&["_id"], |b| write_id(b, &delta.key, n));
        b.string(&[&f.deviceid], &delta.key.device);
        b.date(&[&f.date], delta.key.window);
        b.date(&[&f.first], first);
        b.date(&[&f.last], last);
        b.int32(&[&f.count], delta.samples.len() as i32);
        if open {
            b.boolean(&[&f.open], true);
        }
        if let Some(meta) = &delta.meta {
            b.embed_raw(&[&f.meta], meta);
        }
        b.array(&[&f.samples], |b| write_samples(b, delta));
        let stats = stats_of(delta);
        if !stats.is_empty() {
            b.embed(&[&f.stats], |b| {
                for (name, stats) in stats {
                    b.embed(&[name], |b| {
                        b.double(&["min"], stats.min);
                        b.double(&["max"], stats.max);
                        b.double(&["sum"], stats.sum);
                        b.int32(&["n"], stats.n as i32);
                    });
                }
            });
        }
        b.int32(&[&f.schema], SCHEMA);
        if n == 0 {
            // On a chain's first bucket only: enough to make a lost ledger again.
            b.embed(&[&f.src], |b| {
                b.string(&["cluster"], &delta.origin.cluster);
                b.string(&["topic"], &delta.origin.topic);
                b.int32(&["incarnation"], delta.origin.incarnation);
                b.int32(&["partition"], delta.origin.partition);
            });
        }
        let (lo, hi) = (delta.samples.first_pos(), delta.samples.last_pos());
        b.embed(&[&f.pos], |b| {
            b.int64(&["lo"], lo.expect("an insert has samples").0);
            b.int64(&["hi"], hi.expect("an insert has samples").0);
        });
    }

    /// Matches bucket `n` only while it is as its writer believes: open, and filled up to `hi`.
    fn open_at(&self, b: &mut Body, key: &ChainKey, n: u32, hi: Position) {
        let f = &self.fields;
        b.embed(&["_id"], |b| write_id(b, key, n));
        b.string(&[&f.deviceid], &key.device);
        b.date(&[&f.date], key.window);
        b.boolean(&[&f.open], true);
        b.int64(&[&f.pos, ".hi"], hi.0);
    }

    fn append(&self, b: &mut Body, delta: &Delta, seal: bool) {
        let f = &self.fields;
        let (first, last) = delta.samples.bounds().expect("an append has samples");
        let stats = stats_of(delta);
        b.embed(&["$push"], |b| b.embed(&[&f.samples], |b| b.array(&["$each"], |b| write_samples(b, delta))));
        b.embed(&["$inc"], |b| {
            b.int32(&[&f.count], delta.samples.len() as i32);
            for (name, stats) in &stats {
                b.double(&[&f.stats, ".", name, ".sum"], stats.sum);
                b.int32(&[&f.stats, ".", name, ".n"], stats.n as i32);
            }
        });
        b.embed(&["$min"], |b| {
            b.date(&[&f.first], first);
            for (name, stats) in &stats {
                b.double(&[&f.stats, ".", name, ".min"], stats.min);
            }
        });
        b.embed(&["$max"], |b| {
            b.date(&[&f.last], last);
            for (name, stats) in &stats {
                b.double(&[&f.stats, ".", name, ".max"], stats.max);
            }
        });
        let hi = delta.samples.last_pos().expect("an append has samples");
        b.embed(&["$set"], |b| b.int64(&[&f.pos, ".hi"], hi.0));
        if seal {
            b.embed(&["$unset"], |b| b.string(&[&f.open], ""));
        }
    }
}

/// What every write command starts with. Without a write concern of its own a raw command takes the cluster's default.
pub(super) fn write_head(b: &mut Body, verb: &str, collection: &str, timeout_ms: i32) {
    b.string(&[verb], collection);
    b.boolean(&["ordered"], false);
    b.embed(&["writeConcern"], |b| {
        b.string(&["w"], "majority");
        b.int32(&["wtimeout"], timeout_ms);
    });
    b.int32(&["maxTimeMS"], timeout_ms);
}

pub(super) fn write_id(b: &mut Body, key: &ChainKey, n: u32) {
    write_chain(b, key);
    b.int32(&["n"], n as i32);
}

/// The fields of `_id` that name the chain; window first, so that all inserts of a day go to one end of the index.
pub(super) fn write_chain(b: &mut Body, key: &ChainKey) {
    b.date(&["w"], key.window);
    b.string(&["d"], &key.device);
    b.int64(&["s"], key.stream.0);
}

fn write_samples(b: &mut Body, delta: &Delta) {
    delta.samples.iter().enumerate().for_each(|(i, (_, _, document))| b.element_raw(i, document));
}

/// Fields with at least one number: NaN and null would stick in `$min`, `$max` and `$inc` for ever.
fn stats_of(delta: &Delta) -> Vec<(&str, FieldStats)> {
    let names = delta.stats.iter().enumerate();
    names.filter_map(|(j, name)| Some((&**name, delta.samples.stats_of(j)?))).collect()
}

/// A little more than the statement will take.
fn statement_bytes(delta: &Delta) -> usize {
    let meta = delta.meta.as_ref().map_or(0, |meta| meta.len());
    let stats = delta.stats.iter().map(|name| STATS_BYTES + 4 * name.len()).sum::<usize>();
    let origin = delta.origin.cluster.len() + delta.origin.topic.len();
    STATEMENT_BYTES + delta.samples.total_cost() + 2 * delta.key.device.len() + meta + stats + origin
}
