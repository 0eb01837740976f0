//! Encoded samples of one chain, in position order: a queue that is filled at the back and leaves from the front.
//!
//! One buffer holds them as rows, one after the other: position, time, length, numbers for the stats, document. With a
//! column for each, every reading would touch five places of memory of a chain that was last touched thousands of
//! readings ago.
//!
//! Invariants: positions rise strictly; each row has `n_stats` numbers. Splitting, trimming and prepending copy bytes,
//! they never decode them.

use crate::record::{EventTime, Position};

#[cfg(test)]
mod tests;

/// What a sample adds to its bucket beside its own document: type byte, array key of up to four digits, terminator.
const ELEMENT_BYTES: usize = 6;

/// Position, time and length at the start of a row.
const HEAD_BYTES: usize = 8 + 8 + 4;

/// Samples as BSON documents, with what is needed to split and bound them without decoding.
#[derive(Clone, Debug)]
pub struct Samples {
    rows: Vec<u8>,
    /// Bytes at the front that have left; their room is given back once they outnumber the rest. Moving the rest on
    /// every split instead would make the backlog of one busy device quadratic.
    gone: usize,
    len: usize,
    last: Position,
    /// `n_stats` numbers a sample, NaN where the field is absent.
    n_stats: usize,
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

/// One sample where it lies.
#[derive(Clone, Copy, Debug)]
struct Row<'a> {
    pos: Position,
    at: EventTime,
    stats: &'a [u8],
    document: &'a [u8],
    n_bytes: usize,
}

/// Walks rows from the front.
#[derive(Clone, Debug)]
struct Rows<'a> {
    rest: &'a [u8],
    n_stats: usize,
}

impl<'a> Iterator for Rows<'a> {
    type Item = Row<'a>;

    fn next(&mut self) -> Option<Row<'a>> {
        let (pos, rest) = self.rest.split_first_chunk()?;
        let (at, rest) = rest.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (stats, rest) = rest.split_at(8 * self.n_stats);
        let (document, rest) = rest.split_at(u32::from_le_bytes(*length) as usize);
        let n_bytes = self.rest.len() - rest.len();
        self.rest = rest;
        let (pos, at) = (Position(i64::from_le_bytes(*pos)), EventTime(i64::from_le_bytes(*at)));
        Some(Row { pos, at, stats, document, n_bytes })
    }
}

impl Samples {
    /// No samples yet; each will come with `n_stats` numbers.
    pub fn new(n_stats: usize) -> Self {
        Self { rows: Vec::new(), gone: 0, len: 0, last: Position::NONE, n_stats }
    }

    /// Adds one sample: `document` is the whole BSON document as it is stored.
    pub fn push(&mut self, pos: Position, at: EventTime, document: &[u8], stats: &[f64]) {
        self.push_head(pos, at, document.len(), stats);
        self.rows.extend_from_slice(document);
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
        self.push_head(pos, at, length, stats);
        let rows = &mut self.rows;
        rows.extend_from_slice(&(length as u32).to_le_bytes());
        rows.push(0x09);
        rows.extend_from_slice(time_name.as_bytes());
        rows.push(0);
        rows.extend_from_slice(&at.0.to_le_bytes());
        rows.push(0x03);
        rows.extend_from_slice(info_name.as_bytes());
        rows.push(0);
        rows.extend_from_slice(info);
        rows.push(0);
    }

    /// Starts a row whose document of `length` bytes is to follow.
    fn push_head(&mut self, pos: Position, at: EventTime, length: usize, stats: &[f64]) {
        debug_assert!(self.is_empty() || self.last < pos, "positions rise");
        debug_assert_eq!(stats.len(), self.n_stats);
        self.rows.reserve(HEAD_BYTES + size_of_val(stats) + length);
        self.rows.extend_from_slice(&pos.0.to_le_bytes());
        self.rows.extend_from_slice(&at.0.to_le_bytes());
        self.rows.extend_from_slice(&(length as u32).to_le_bytes());
        for number in stats {
            self.rows.extend_from_slice(&number.to_le_bytes());
        }
        self.len += 1;
        self.last = pos;
    }

    fn rows(&self) -> Rows<'_> {
        Rows { rest: &self.rows[self.gone..], n_stats: self.n_stats }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Sum of the documents' bytes.
    pub fn n_bytes(&self) -> usize {
        self.row_bytes() - self.len * (HEAD_BYTES + 8 * self.n_stats)
    }

    /// Bytes of documents and all that is kept beside them: what the memory budget is charged.
    pub fn row_bytes(&self) -> usize {
        self.rows.len() - self.gone
    }

    /// Allocated bytes.
    pub fn memory(&self) -> usize {
        self.rows.capacity()
    }

    /// What the first sample adds to its bucket's size; 0 if there is none.
    pub fn first_cost(&self) -> usize {
        self.rows().next().map_or(0, |row| row.document.len() + ELEMENT_BYTES)
    }

    /// What all samples together add to their bucket's size.
    pub fn total_cost(&self) -> usize {
        self.n_bytes() + self.len * ELEMENT_BYTES
    }

    pub fn first_pos(&self) -> Option<Position> {
        self.rows().next().map(|row| row.pos)
    }

    pub fn last_pos(&self) -> Option<Position> {
        (self.len > 0).then_some(self.last)
    }

    /// How many lie below `pos`.
    pub fn n_below(&self, pos: Position) -> usize {
        if self.last < pos { self.len } else { self.rows().take_while(|row| row.pos < pos).count() }
    }

    /// Least and greatest event time.
    pub fn bounds(&self) -> Option<(EventTime, EventTime)> {
        let first = self.rows().next()?.at;
        Some(self.rows().fold((first, first), |(least, greatest), row| (least.min(row.at), greatest.max(row.at))))
    }

    /// Position, time and document of each sample.
    pub fn iter(&self) -> impl Iterator<Item = (Position, EventTime, &[u8])> {
        self.rows().map(|row| (row.pos, row.at, row.document))
    }

    /// Stats of field `j`; `None` where no sample has a finite number. An infinite value counts as absent: once in a
    /// sum it would stay there for ever.
    pub fn stats_of(&self, j: usize) -> Option<FieldStats> {
        let mut total = FieldStats { min: f64::INFINITY, max: f64::NEG_INFINITY, sum: 0.0, n: 0 };
        for row in self.rows() {
            let number = row.stats[8 * j..].first_chunk().expect("invariant: a row has n_stats numbers");
            let number = f64::from_le_bytes(*number);
            if number.is_finite() {
                total.min = total.min.min(number);
                total.max = total.max.max(number);
                // Never infinite: with an infinity of the other sign on the server it would become NaN, and stay.
                total.sum = (total.sum + number).clamp(f64::MIN, f64::MAX);
                total.n += 1;
            }
        }
        (total.n > 0).then_some(total)
    }

    /// How many samples of the front fit; the first always does, or a sample above the limit would never leave.
    pub fn fit(&self, max_samples: usize, max_bytes: usize) -> usize {
        let max_samples = max_samples.max(1);
        if self.len <= max_samples && self.total_cost() <= max_bytes {
            return self.len;
        }
        let mut room = max_bytes;
        let fits = |row: &Row<'_>| match room.checked_sub(row.document.len() + ELEMENT_BYTES) {
            Some(left) => {
                room = left;
                true
            }
            None => false,
        };
        self.rows().take(max_samples).take_while(fits).count().max(1).min(self.len)
    }

    /// Takes the first `k` samples (all, if there are fewer).
    #[must_use]
    pub fn split_front(&mut self, k: usize) -> Self {
        if k >= self.len {
            let rest = Self::new(self.n_stats);
            let mut all = std::mem::replace(self, rest);
            all.compact();
            return all;
        }
        let mut front = Self::new(self.n_stats);
        let mut n_bytes = 0;
        for row in self.rows().take(k) {
            n_bytes += row.n_bytes;
            front.last = row.pos;
        }
        front.rows = self.rows[self.gone..self.gone + n_bytes].to_vec();
        front.len = k;
        self.drop_front(k, n_bytes);
        front
    }

    /// Drops all samples at or below `pos`.
    pub fn trim_upto(&mut self, pos: Position) {
        let (mut k, mut n_bytes) = (0, 0);
        for row in self.rows().take_while(|row| row.pos <= pos) {
            k += 1;
            n_bytes += row.n_bytes;
        }
        self.drop_front(k, n_bytes);
    }

    /// Drops all samples at or past `offset`.
    pub fn drop_from_offset(&mut self, offset: i64) {
        self.keep_while(|pos| pos.offset() < offset);
    }

    /// Drops all samples at or past `pos`.
    pub fn drop_from(&mut self, pos: Position) {
        self.keep_while(|p| p < pos);
    }

    /// Keeps the front up to the first sample that is not `wanted`.
    fn keep_while(&mut self, wanted: impl Fn(Position) -> bool) {
        let (mut k, mut n_bytes, mut last) = (0, 0, Position::NONE);
        for row in self.rows().take_while(|row| wanted(row.pos)) {
            k += 1;
            n_bytes += row.n_bytes;
            last = row.pos;
        }
        self.rows.truncate(self.gone + n_bytes);
        (self.len, self.last) = (k, last);
        self.compact_if_worth_it();
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
            front.rows.extend_from_slice(&self.rows[self.gone..]);
            front.len += self.len;
            front.last = self.last;
        }
        *self = front;
    }

    fn drop_front(&mut self, k: usize, n_bytes: usize) {
        self.len -= k;
        self.gone += n_bytes;
        self.compact_if_worth_it();
    }

    fn compact_if_worth_it(&mut self) {
        if self.gone > self.row_bytes() {
            self.compact();
        }
    }

    /// Gives back the room of what has left, and spare room beyond twice what is held.
    fn compact(&mut self) {
        self.rows.drain(..std::mem::take(&mut self.gone));
        self.rows.shrink_to(2 * self.rows.len());
    }
}

impl Default for Samples {
    fn default() -> Self {
        Self::new(0)
    }
}

/// Equal if they hold the same samples, whatever has left before.
impl PartialEq for Samples {
    fn eq(&self, other: &Self) -> bool {
        self.n_stats == other.n_stats && self.rows[self.gone..] == other.rows[other.gone..]
    }
}
