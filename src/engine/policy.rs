//! When a chain's samples are written, and as what. Pure decisions over numbers.

use super::plan::Tail;
use super::samples::Samples;

/// Caps and limits of one engine.
#[derive(Clone, Debug)]
pub struct FlushPolicy {
    pub max_samples: u32,
    pub target_bytes: u32,
    /// A delta of at least this many samples becomes a bucket of its own.
    pub min_fill: u32,
    /// A delta is due at this age or at that many samples.
    pub flush_age_ms: u64,
    pub flush_samples: u32,
    /// Bytes of samples, open and in flight, that this engine may hold.
    pub budget_bytes: usize,
    pub inflight_plans: usize,
    pub plan_statements: usize,
    pub plan_bytes: usize,
    /// How long a ready delta waits for company: a command of one statement costs about three times as much a
    /// statement as one of ten.
    pub linger_ms: u64,
    /// Least time between two asks to the ledger.
    pub ledger_interval_ms: u64,
    /// Bytes of the table of chains; above it those that hold nothing leave, and come back cold.
    pub table_bytes: usize,
}

/// Bytes of a bucket around its samples, device and meta: keys, bounds and numbers of the data model.
const BUCKET_BYTES: u32 = 330;

/// Size of a new bucket without its samples.
pub(super) fn bucket_bytes(device: &str, meta: Option<&[u8]>) -> u32 {
    BUCKET_BYTES + 2 * device.len() as u32 + meta.map_or(0, |m| m.len() as u32)
}

/// What is next for a chain that has samples to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Insert { k: usize, open: bool },
    Append { k: usize, seal: bool },
    Seal,
}

/// What `next_step` looks at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending<'a> {
    pub(super) samples: &'a Samples,
    /// The samples may follow those of the tail: same meta, or none known.
    pub(super) meta_fits: bool,
    /// Samples with another meta wait behind these.
    pub(super) meta_ends: bool,
    /// Most samples a statement may hold, after the server refused more.
    pub(super) limit: usize,
    /// The first sample is to be tried as a bucket of its own.
    pub(super) alone: bool,
    /// Size of an empty bucket of this chain.
    pub(super) empty_bytes: u32,
}

impl FlushPolicy {
    /// Insert first: append only what is too small to stand alone, to a bucket that has room for it.
    pub(super) fn next_step(&self, tail: Option<&Tail>, pending: Pending<'_>) -> Step {
        match tail.filter(|t| t.open) {
            Some(tail) => self.append_or_seal(tail, pending),
            None => self.insert(pending),
        }
    }

    fn append_or_seal(&self, tail: &Tail, pending: Pending<'_>) -> Step {
        let n = pending.samples.len();
        let room_samples = self.max_samples.saturating_sub(tail.count);
        let room_bytes = self.target_bytes.saturating_sub(tail.bytes);
        let first_fits = pending.samples.first_cost() as u32 <= room_bytes;
        let worth_it = n < self.min_fill as usize && pending.meta_fits && !pending.alone;
        if !worth_it || room_samples == 0 || !first_fits {
            return Step::Seal;
        }
        let fitting = pending.samples.fit(room_samples as usize, room_bytes as usize);
        let k = fitting.min(pending.limit);
        let full = tail.count + k as u32 >= self.max_samples || (k == fitting && k < n);
        Step::Append { k, seal: full || (pending.meta_ends && k == n) }
    }

    fn insert(&self, pending: Pending<'_>) -> Step {
        let n = pending.samples.len();
        let room_bytes = self.target_bytes.saturating_sub(pending.empty_bytes);
        let fitting = pending.samples.fit(self.max_samples as usize, room_bytes as usize);
        let k = if pending.alone { 1 } else { fitting.min(pending.limit) };
        let full = k as u32 >= self.max_samples || (k == fitting && k < n);
        let stands_alone = k >= self.min_fill as usize || pending.alone;
        let followed = pending.meta_ends && k == n;
        Step::Insert { k, open: !(full || stands_alone || followed) }
    }
}

/// Wait before a chain that was fenced without visible progress is tried again: doubling from 10 ms to 10 s.
pub(super) fn stuck_backoff_ms(times: u32) -> u64 {
    (10u64 << times.min(10)).min(10_000)
}
