//! Encoded samples of one chain, in position order: a queue that is filled at the back and leaves from the front.
//!
//! Invariants: positions rise strictly; the columns have equal length (`stats` times `n_stats`). Splitting, trimming
//! and prepending copy bytes, they never decode them.

use crate::record::{EventTime, Position};

#[cfg(test)]
mod tests;

/// What a sample adds to its bucket beside its own document: type byte, array key of up to four digits, terminator.
const ELEMENT_BYTES: usize = 6;

/// Samples as BSON documents laid end to end, with what is needed to split and bound them without decoding.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    positions: Vec<Position>,
    times: Vec<EventTime>,
    /// End of each sample's document in `bytes`.
    ends: Vec<usize>,
    bytes: Vec<u8>,
    /// `n_stats` numbers a sample, NaN where the field is absent.
    stats: Vec<f64>,
    n_stats: usize,
    /// Samples at the front that have left; their room is given back once they outnumber the rest. Moving the rest
    /// on every split instead would make the backlog of one busy device quadratic.
    n_gone: usize,
}

/// Figures of one field over some samples. Doubles, also of whole numbers: an Int64 sum that overflows would be refused
/// with its whole delta, and one that met a double would turn into one. Whole numbers are exact up to 2^53.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FieldStats {
    pub min: f64,
    pub max: f64,
    pub sum: f64,
    pub n: u32,
}

impl Samples {
    /// No samples yet; each will come with `n_stats` numbers.
    pub fn new(n_stats: usize) -> Self {
        Self { n_stats, ..Self::default() }
    }

    /// Adds one sample: `document` is the whole BSON document as it is stored.
    pub fn push(&mut self, pos: Position, at: EventTime, document: &[u8], stats: &[f64]) {
        self.bytes.extend_from_slice(document);
        self.push_columns(pos, at, stats);
    }

    /// Adds the sample `{time_name: at, info_name: info}`, composed in place.
    pub fn push_sample(
        &mut self,
        pos: Position,
        at: EventTime,
        time_name: &str,
        info_name: &str,
        info: &[u8],
        stats: &[f64],
    ) {
        let length = 4 + (1 + time_name.len() + 1 + 8) + (1 + info_name.len() + 1 + info.len()) + 1;
        self.bytes.reserve(length);
        self.bytes.extend_from_slice(&(length as u32).to_le_bytes());
        self.bytes.push(0x09);
        self.bytes.extend_from_slice(time_name.as_bytes());
        self.bytes.push(0);
        self.bytes.extend_from_slice(&at.0.to_le_bytes());
        self.bytes.push(0x03);
        self.bytes.extend_from_slice(info_name.as_bytes());
        self.bytes.push(0);
        self.bytes.extend_from_slice(info);
        self.bytes.push(0);
        self.push_columns(pos, at, stats);
    }

    fn push_columns(&mut self, pos: Position, at: EventTime, stats: &[f64]) {
        debug_assert!(self.last_pos().is_none_or(|last| last < pos), "positions rise");
        debug_assert_eq!(stats.len(), self.n_stats);
        self.positions.push(pos);
        self.times.push(at);
        self.ends.push(self.bytes.len());
        self.stats.extend_from_slice(stats);
    }

    pub fn len(&self) -> usize {
        self.positions.len() - self.n_gone
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sum of the documents' bytes.
    pub fn n_bytes(&self) -> usize {
        self.bytes.len() - self.start(0)
    }

    /// What sample `i` adds to its bucket's size.
    pub fn cost(&self, i: usize) -> usize {
        self.ends[self.n_gone + i] - self.start(i) + ELEMENT_BYTES
    }

    /// What all samples together add to their bucket's size.
    pub fn total_cost(&self) -> usize {
        self.n_bytes() + self.len() * ELEMENT_BYTES
    }

    pub fn first_pos(&self) -> Option<Position> {
        self.positions.get(self.n_gone).copied()
    }

    pub fn last_pos(&self) -> Option<Position> {
        self.positions[self.n_gone..].last().copied()
    }

    /// How many lie below `pos`.
    pub fn n_below(&self, pos: Position) -> usize {
        self.positions[self.n_gone..].partition_point(|p| *p < pos)
    }

    /// Numbers a sample.
    pub fn n_stats(&self) -> usize {
        self.n_stats
    }

    /// Least and greatest event time.
    pub fn bounds(&self) -> Option<(EventTime, EventTime)> {
        let times = &self.times[self.n_gone..];
        Some((times.iter().copied().min()?, times.iter().copied().max()?))
    }

    /// Position, time and document of each sample.
    pub fn iter(&self) -> impl Iterator<Item = (Position, EventTime, &[u8])> {
        (0..self.len()).map(|i| {
            let at = self.n_gone + i;
            (self.positions[at], self.times[at], &self.bytes[self.start(i)..self.ends[at]])
        })
    }

    /// Stats of field `j`; `None` where no sample has a finite number. An infinite value counts as absent: once in a
    /// sum it would stay there for ever.
    pub fn stats_of(&self, j: usize) -> Option<FieldStats> {
        let mut total = FieldStats { min: f64::INFINITY, max: f64::NEG_INFINITY, sum: 0.0, n: 0 };
        for row in self.stats[self.n_gone * self.n_stats..].chunks_exact(self.n_stats.max(1)) {
            if row[j].is_finite() {
                total.min = total.min.min(row[j]);
                total.max = total.max.max(row[j]);
                // Never infinite: with an infinity of the other sign on the server it would become NaN, and stay.
                total.sum = (total.sum + row[j]).clamp(f64::MIN, f64::MAX);
                total.n += 1;
            }
        }
        (total.n > 0).then_some(total)
    }

    /// How many samples of the front fit; the first always does, or a sample above the limit would never leave.
    pub fn fit(&self, max_samples: usize, max_bytes: usize) -> usize {
        let mut room = max_bytes;
        for i in 0..self.len().min(max_samples.max(1)) {
            match room.checked_sub(self.cost(i)) {
                Some(left) => room = left,
                None => return i.max(1),
            }
        }
        self.len().min(max_samples.max(1))
    }

    /// Takes the first `k` samples (all, if there are fewer).
    #[must_use]
    pub fn split_front(&mut self, k: usize) -> Self {
        if k >= self.len() {
            let rest = Self::new(self.n_stats);
            let mut all = std::mem::replace(self, rest);
            all.compact();
            return all;
        }
        let (from, upto) = (self.n_gone, self.n_gone + k);
        let base = self.start(0);
        let front = Self {
            positions: self.positions[from..upto].to_vec(),
            times: self.times[from..upto].to_vec(),
            ends: self.ends[from..upto].iter().map(|end| end - base).collect(),
            bytes: self.bytes[base..self.start(k)].to_vec(),
            stats: self.stats[from * self.n_stats..upto * self.n_stats].to_vec(),
            n_stats: self.n_stats,
            n_gone: 0,
        };
        self.drop_front(k);
        front
    }

    /// Drops all samples at or below `pos`.
    pub fn trim_upto(&mut self, pos: Position) {
        self.drop_front(self.positions[self.n_gone..].partition_point(|p| *p <= pos));
    }

    /// Drops all samples at or past `offset`.
    pub fn drop_from_offset(&mut self, offset: i64) {
        self.truncate(self.positions[self.n_gone..].partition_point(|p| p.offset() < offset));
    }

    /// Drops all samples at or past `pos`.
    pub fn drop_from(&mut self, pos: Position) {
        self.truncate(self.positions[self.n_gone..].partition_point(|p| *p < pos));
    }

    /// Puts back what left from the front: all of its positions lie below.
    pub fn prepend(&mut self, mut front: Self) {
        if front.is_empty() {
            return;
        }
        if !self.is_empty() {
            debug_assert!(front.last_pos() < self.first_pos(), "what left earlier lies below");
            debug_assert_eq!(front.n_stats, self.n_stats);
            front.compact();
            let (from, base, n_bytes) = (self.n_gone, self.start(0), front.bytes.len());
            front.positions.extend_from_slice(&self.positions[from..]);
            front.times.extend_from_slice(&self.times[from..]);
            front.ends.extend(self.ends[from..].iter().map(|end| end - base + n_bytes));
            front.bytes.extend_from_slice(&self.bytes[base..]);
            front.stats.extend_from_slice(&self.stats[from * self.n_stats..]);
        }
        *self = front;
    }

    /// Allocated bytes.
    pub fn memory(&self) -> usize {
        self.positions.capacity() * size_of::<Position>()
            + self.times.capacity() * size_of::<EventTime>()
            + self.ends.capacity() * size_of::<usize>()
            + self.bytes.capacity()
            + self.stats.capacity() * size_of::<f64>()
    }

    /// Start of sample `i`'s document in `bytes`; of the one after the last, their end.
    fn start(&self, i: usize) -> usize {
        (self.n_gone + i).checked_sub(1).map_or(0, |before| self.ends[before])
    }

    fn drop_front(&mut self, k: usize) {
        self.n_gone += k;
        if self.n_gone > self.len() {
            self.compact();
        }
    }

    fn truncate(&mut self, k: usize) {
        self.bytes.truncate(self.start(k));
        let kept = self.n_gone + k;
        self.positions.truncate(kept);
        self.times.truncate(kept);
        self.ends.truncate(kept);
        self.stats.truncate(kept * self.n_stats);
        if self.n_gone > self.len() {
            self.compact();
        }
    }

    /// Gives back the room of what has left, and spare room beyond twice what is held.
    fn compact(&mut self) {
        let base = self.start(0);
        let gone = std::mem::take(&mut self.n_gone);
        self.positions.drain(..gone);
        self.times.drain(..gone);
        self.ends.drain(..gone);
        self.ends.iter_mut().for_each(|end| *end -= base);
        self.bytes.drain(..base);
        self.stats.drain(..gone * self.n_stats);
        let n = 2 * self.len();
        self.positions.shrink_to(n);
        self.times.shrink_to(n);
        self.ends.shrink_to(n);
        self.bytes.shrink_to(2 * self.bytes.len());
        self.stats.shrink_to(n * self.n_stats);
    }
}

/// Equal if they hold the same samples, whatever has left before.
impl PartialEq for Samples {
    fn eq(&self, other: &Self) -> bool {
        let bits = |s: &Self| s.stats[s.n_gone * s.n_stats..].iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        self.n_stats == other.n_stats && self.iter().eq(other.iter()) && bits(self) == bits(other)
    }
}
