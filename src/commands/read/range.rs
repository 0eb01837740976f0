//! All samples of some devices in a span of time, in order, in bounded memory.
//!
//! The span is cut at starts of windows into slices that are read one after the other. Within a slice the server sends
//! buckets by their oldest sample and `merge` holds what overlaps. Where that is too much, because every bucket of a large
//! window also has very late samples, the server sorts the rest of the slice by itself.

use std::collections::BTreeSet;
use std::io::Write;

use super::ReadError;
use super::merge::{Merge, first};
use super::output::Output;
use super::query::Span;
use super::source::Source;

/// Ranges of `_id` asked for at once: a range costs the server about 0.2 ms of planning.
const FIRST_RANGES: usize = 32;
const MAX_RANGES: usize = 256;
/// Bytes a slice should have, so that the server sorts it without its disk.
const SLICE_BYTES: u64 = 16 << 20;

#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    n_samples: u64,
    n_bytes: u64,
}

/// Some windows and the part of the span whose samples they hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Slice {
    pub(super) windows: Vec<i64>,
    pub(super) span: Span,
}

/// What is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    pub(super) devices: &'a [String],
    pub(super) span: Span,
    /// Most bytes held.
    pub(super) memory: usize,
}

/// Cuts a span at starts of windows.
#[derive(Debug)]
pub(super) struct Slices<'a> {
    source: &'a Source,
    starts: &'a [i64],
    wanted: Wanted<'a>,
    /// The next window to start with.
    at: usize,
    n_ranges: usize,
}

impl<'a> Slices<'a> {
    pub(super) fn new(source: &'a Source, starts: &'a [i64], wanted: Wanted<'a>) -> Self {
        Self { source, starts, wanted, at: 0, n_ranges: FIRST_RANGES }
    }

    /// Fits the next slice to the size of the last.
    fn learn(&mut self, n_bytes: u64) {
        self.n_ranges = match n_bytes {
            n if n > SLICE_BYTES => (self.n_ranges / 2).max(1),
            n if n < SLICE_BYTES / 4 => (self.n_ranges * 2).min(MAX_RANGES),
            _ => self.n_ranges,
        };
    }
}

impl Iterator for Slices<'_> {
    type Item = Slice;

    fn next(&mut self) -> Option<Slice> {
        let Wanted { devices, span, .. } = self.wanted;
        let begin = *self.starts.get(self.at)?;
        let n_windows = (self.n_ranges / devices.len().max(1)).max(1);
        let end = (self.at + n_windows).min(self.starts.len());
        let from = if self.at == 0 { span.from } else { begin.max(span.from) };
        let to = self.starts.get(end).copied().unwrap_or(span.to);
        self.at = end;
        // Windows of another length may have begun before, and reach into the slice.
        let windows = self.starts[..end].iter().copied().filter(|start| self.source.windows.end(*start) > from);
        Some(Slice { windows: windows.collect(), span: Span { from, to } })
    }
}

pub(super) async fn read<W: Write>(
    source: &Source,
    wanted: Wanted<'_>,
    output: &mut Output<W>,
) -> Result<u64, ReadError> {
    let starts = source.starts(wanted.span).await?;
    let mut slices = Slices::new(source, &starts, wanted);
    let mut tally = Tally::default();
    while let Some(slice) = slices.next() {
        let before = tally.n_bytes;
        read_slice(source, wanted, &slice, output, &mut tally).await?;
        slices.learn(tally.n_bytes - before);
    }
    Ok(tally.n_samples)
}

async fn read_slice<W: Write>(
    source: &Source,
    wanted: Wanted<'_>,
    slice: &Slice,
    output: &mut Output<W>,
    tally: &mut Tally,
) -> Result<(), ReadError> {
    let fields = &source.queries.fields;
    let mut merge = Merge::default();
    let mut buckets = source.cursor(source.queries.buckets(&slice.windows, wanted.devices, slice.span)).await?;
    while buckets.advance().await? {
        let bucket = buckets.current();
        let unreadable = |reason: String| ReadError::unreadable(source, bucket, &reason);
        let oldest = first(bucket, fields).map_err(unreadable)?;
        while let Some(sample) = merge.pop_before(oldest) {
            output.write(&sample.sample())?;
            tally.n_samples += 1;
        }
        merge.add(bucket, fields, slice.span).map_err(unreadable)?;
        tally.n_bytes += bucket.as_bytes().len() as u64;
        if merge.n_bytes() > wanted.memory {
            // Everything older is out, nothing of this time or later is.
            let rest = Slice { span: Span { from: slice.span.from.max(oldest), ..slice.span }, ..slice.clone() };
            drop(merge);
            return read_sorted(source, wanted.devices, &rest, output, tally).await;
        }
    }
    while let Some(sample) = merge.pop() {
        output.write(&sample.sample())?;
        tally.n_samples += 1;
    }
    Ok(())
}

/// Leaves the sorting to the server.
async fn read_sorted<W: Write>(
    source: &Source,
    devices: &[String],
    slice: &Slice,
    output: &mut Output<W>,
    tally: &mut Tally,
) -> Result<(), ReadError> {
    let mut samples = source.cursor(source.queries.samples(&slice.windows, devices, slice.span)).await?;
    let mut merge = Merge::default();
    while samples.advance().await? {
        let sample = samples.current();
        merge
            .add(sample, &source.queries.fields, slice.span)
            .map_err(|reason| ReadError::unreadable(source, sample, &reason))?;
        while let Some(sample) = merge.pop() {
            output.write(&sample.sample())?;
            tally.n_samples += 1;
        }
    }
    Ok(())
}

/// Names of all fields that occur, sorted: what becomes a column has to be known before the first line.
pub(super) async fn names(source: &Source, wanted: Wanted<'_>) -> Result<Vec<String>, ReadError> {
    let starts = source.starts(wanted.span).await?;
    let mut names = BTreeSet::new();
    for slice in Slices::new(source, &starts, wanted) {
        let found = source.documents(source.queries.names(&slice.windows, wanted.devices, slice.span)).await?;
        names.extend(found.iter().filter_map(|found| found.get_str("_id").ok().map(str::to_owned)));
    }
    Ok(names.into_iter().collect())
}
