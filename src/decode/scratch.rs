//! Buffers that live as long as their thread, and the readings that a record left in them.

use super::{Reading, Reject};
use crate::record::EventTime;

/// What a buffer keeps between records. One huge record must not hold its memory for ever.
const KEEP_BYTES: usize = 4 << 20;

/// Reusable working space: a record that fits what earlier ones needed allocates nothing.
#[derive(Debug, Default)]
pub struct Scratch {
    /// Fields of all readings of the record, one document after the other.
    pub(super) info: Vec<u8>,
    pub(super) meta: Vec<u8>,
    pub(super) devices: String,
    pub(super) stats: Vec<f64>,
    pub(super) rows: Vec<Row>,
    /// Spans of the key's paths, then of the root's, then of each reading's.
    pub(super) spans: Vec<Span>,
    pub(super) names: Vec<(usize, usize)>,
    pub(super) nest: Vec<u8>,
    /// A string with its escapes resolved.
    pub(super) word: String,
}

/// One reading: where its parts end in the buffers. They start where those of the one before it end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) info_end: usize,
    pub(super) meta_end: usize,
    pub(super) device_end: usize,
    pub(super) at: EventTime,
    pub(super) fault: Option<Reject>,
}

/// Place of a value in its text. Empty: none was there, or null.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Span {
    pub(super) fn is_empty(self) -> bool {
        self.end == 0
    }
}

impl Scratch {
    /// Forgets the last record.
    pub(super) fn clear(&mut self) {
        fn keep<T>(buffer: &mut Vec<T>) {
            buffer.clear();
            buffer.shrink_to(KEEP_BYTES / size_of::<T>());
        }
        keep(&mut self.info);
        keep(&mut self.meta);
        keep(&mut self.stats);
        keep(&mut self.rows);
        keep(&mut self.spans);
        keep(&mut self.names);
        keep(&mut self.nest);
        for text in [&mut self.devices, &mut self.word] {
            text.clear();
            text.shrink_to(KEEP_BYTES);
        }
    }
}

/// The readings of one record with their index in it, in order. Rejected ones have their index too: it is part of a
/// reading's position, and must not depend on the fate of its neighbours.
#[derive(Clone, Debug)]
pub struct Readings<'s> {
    scratch: &'s Scratch,
    n_stats: usize,
    next: usize,
}

impl<'s> Readings<'s> {
    pub(super) fn new(scratch: &'s Scratch, n_stats: usize) -> Self {
        Self { scratch, n_stats, next: 0 }
    }

    fn get(&self, i: usize) -> Result<Reading<'s>, Reject> {
        let scratch = self.scratch;
        let row = &scratch.rows[i];
        if let Some(fault) = row.fault {
            return Err(fault);
        }
        let before = i.checked_sub(1).map(|i| &scratch.rows[i]);
        let start = |end: fn(&Row) -> usize| before.map_or(0, end);
        Ok(Reading {
            device: &scratch.devices[start(|r| r.device_end)..row.device_end],
            at: row.at,
            info: &scratch.info[start(|r| r.info_end)..row.info_end],
            meta: &scratch.meta[start(|r| r.meta_end)..row.meta_end],
            stats: &scratch.stats[i * self.n_stats..(i + 1) * self.n_stats],
        })
    }
}

impl<'s> Iterator for Readings<'s> {
    type Item = (u16, Result<Reading<'s>, Reject>);

    fn next(&mut self) -> Option<Self::Item> {
        let i = self.next;
        if i == self.scratch.rows.len() {
            return None;
        }
        self.next += 1;
        // A record holds at most `Position::PER_RECORD` readings: `Decoder::new` sees to it.
        Some((i as u16, self.get(i)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let n = self.scratch.rows.len() - self.next;
        (n, Some(n))
    }
}

impl ExactSizeIterator for Readings<'_> {}
