//! Buckets with the semantics of the write protocol's statements, majority-committed at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fastrand::Rng;
use sakia::engine::plan::{ChainKey, Delta, Outcome, Tail, Write};
use sakia::record::{Position, StreamId};
use sakia::sink::ledger::coverage::rebuild::Found;

use crate::log::Log;

#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    pub(crate) positions: Vec<Position>,
    pub(crate) hi: Position,
    pub(crate) open: bool,
    pub(crate) bytes: u32,
    pub(crate) meta: Option<Arc<[u8]>>,
}

/// `(device, window, stream)`.
pub(crate) type Chain = (String, i64, i64);

#[derive(Debug, Default)]
pub(crate) struct Store {
    pub(crate) buckets: BTreeMap<(Chain, u32), Bucket>,
    pub(crate) dead: BTreeSet<(StreamId, Position)>,
    pub(crate) n_fenced: u64,
    pub(crate) n_refused: u64,
    pub(crate) n_expired: u64,
}

fn chain_of(key: &ChainKey) -> Chain {
    (key.device.to_string(), key.window.0, key.stream.0)
}

impl Store {
    pub(crate) fn write(&mut self, log: &Log, delta: &Delta) -> Outcome {
        let chain = chain_of(&delta.key);
        let positions: Vec<Position> = delta.samples.iter().map(|(pos, ..)| pos).collect();
        let outcome = match delta.write {
            Write::Insert { n, open } => self.insert(log, &chain, n, open, delta, positions),
            Write::Append { n, hi, seal } => self.append(log, &chain, n, hi, seal, delta, &positions),
            Write::Seal { n, hi } => match self.matching(&chain, n, hi) {
                Some(bucket) => {
                    bucket.open = false;
                    Outcome::Applied
                }
                None => Outcome::Fenced(None),
            },
        };
        match outcome {
            Outcome::Fenced(_) => {
                self.n_fenced += 1;
                let tail = self.tail(&chain);
                if is_behind(tail.as_ref(), delta) { Outcome::Vanished } else { Outcome::Fenced(tail) }
            }
            Outcome::Refused { .. } => {
                self.n_refused += 1;
                outcome
            }
            other => other,
        }
    }

    fn insert(
        &mut self,
        log: &Log,
        chain: &Chain,
        n: u32,
        open: bool,
        delta: &Delta,
        positions: Vec<Position>,
    ) -> Outcome {
        if self.buckets.contains_key(&(chain.clone(), n)) {
            return Outcome::Fenced(None);
        }
        if positions.iter().any(|p| log.hard.contains(p)) {
            return refused();
        }
        let hi = *positions.last().expect("an insert has samples");
        let bytes = 400 + delta.samples.n_bytes() as u32;
        let bucket = Bucket { positions, hi, open, bytes, meta: delta.meta.clone() };
        self.buckets.insert((chain.clone(), n), bucket);
        Outcome::Applied
    }

    #[allow(clippy::too_many_arguments, reason = "one statement's parts")]
    fn append(
        &mut self,
        log: &Log,
        chain: &Chain,
        n: u32,
        hi: Position,
        seal: bool,
        delta: &Delta,
        positions: &[Position],
    ) -> Outcome {
        let Some(bucket) = self.matching(chain, n, hi) else { return Outcome::Fenced(None) };
        if positions.iter().any(|p| log.hard.contains(p) || log.soft.contains(p)) {
            return refused();
        }
        bucket.positions.extend_from_slice(positions);
        bucket.hi = *positions.last().expect("an append has samples");
        bucket.bytes += delta.samples.n_bytes() as u32;
        bucket.open = !seal;
        Outcome::Applied
    }

    fn matching(&mut self, chain: &Chain, n: u32, hi: Position) -> Option<&mut Bucket> {
        self.buckets.get_mut(&(chain.clone(), n)).filter(|b| b.open && b.hi == hi)
    }

    fn tail(&self, chain: &Chain) -> Option<Tail> {
        let range = (chain.clone(), 0)..=(chain.clone(), u32::MAX);
        let ((_, n), bucket) = self.buckets.range(range).next_back()?;
        Some(Tail {
            n: *n,
            hi: bucket.hi,
            count: bucket.positions.len() as u32,
            bytes: bucket.bytes,
            open: bucket.open,
            meta: bucket.meta.clone(),
        })
    }

    /// First and last offset of each stream that anything is stored of.
    pub(crate) fn streams(&self) -> Vec<Found> {
        let mut found: BTreeMap<StreamId, Found> = BTreeMap::new();
        let buckets = self.buckets.iter();
        let stored =
            buckets.flat_map(|((chain, _), bucket)| bucket.positions.iter().map(|pos| (StreamId(chain.2), *pos)));
        for (stream, pos) in stored.chain(self.dead.iter().copied()) {
            let offset = pos.offset();
            let of = found.entry(stream).or_insert(Found { stream, first: offset, last: offset });
            (of.first, of.last) = (of.first.min(offset), of.last.max(offset));
        }
        found.into_values().collect()
    }

    /// What the server does with a bucket of the first window once that is past its time to live.
    pub(crate) fn expire_one(&mut self, rng: &mut Rng) {
        let expired: Vec<_> = self.buckets.keys().filter(|(chain, _)| chain.1 == 0).cloned().collect();
        if let Some(key) = rng.choice(&expired) {
            self.buckets.remove(key);
            self.n_expired += 1;
        }
    }

    pub(crate) fn lose_one(&mut self) {
        let bucket = self.buckets.values_mut().next().expect("something was stored");
        bucket.positions.pop();
    }

    pub(crate) fn double_one(&mut self) {
        let bucket = self.buckets.values_mut().next().expect("something was stored");
        let last = *bucket.positions.last().expect("a bucket holds samples");
        bucket.positions.push(last);
    }
}

/// Whether the tail is behind what the delta's writer saw confirmed.
fn is_behind(tail: Option<&Tail>, delta: &Delta) -> bool {
    match delta.write {
        Write::Insert { .. } => false,
        Write::Append { n, hi, .. } | Write::Seal { n, hi } => tail.is_none_or(|t| (t.n, t.hi) < (n, hi)),
    }
}

fn refused() -> Outcome {
    Outcome::Refused { code: 121, message: "document failed validation".into() }
}
