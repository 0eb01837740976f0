//! How far it is, for a person: one line that is redrawn on a terminal, a log event every ten seconds elsewhere.

use std::fmt;
use std::io::{self, IsTerminal, Write};

use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};
use tracing_subscriber::fmt::MakeWriter;

use super::log::Format;
use crate::record::Tick;

/// Between two log events where there is no terminal; every second would bury the rest of the log.
const LOG_EVERY_MS: u64 = 10_000;
/// Between two drawings of the line; rates over less than this jump about.
const DRAW_EVERY_MS: u64 = 1_000;

/// What is worth a glance. Totals since the start, and levels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    pub readings: u64,
    pub samples: u64,
    /// Buckets inserted.
    pub buckets: u64,
    pub lag_records: u64,
    pub memory_bytes: u64,
    pub memory_budget_bytes: u64,
}

/// The line on the terminal, or nothing. Clones share it: whoever writes to the terminal has to go `around` it.
#[derive(Clone, Debug)]
pub struct Line(Option<ProgressBar>);

impl Line {
    /// Drawn on standard error if that is a terminal and a person reads it.
    pub fn new(format: Format) -> Self {
        let drawn = format == Format::Text && io::stderr().is_terminal();
        Self(drawn.then(|| bar(ProgressDrawTarget::stderr())))
    }

    pub fn hidden() -> Self {
        Self(None)
    }

    pub fn is_drawn(&self) -> bool {
        self.0.is_some()
    }

    /// Runs `write` with the line out of the way, so that what it prints does not land in the middle of it.
    pub fn around<T>(&self, write: impl FnOnce() -> T) -> T {
        match &self.0 {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    fn set(&self, text: String) {
        if let Some(bar) = &self.0 {
            bar.set_message(text);
            bar.tick();
        }
    }

    /// Takes the line away for good.
    pub fn clear(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

fn bar(target: ProgressDrawTarget) -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {wide_msg}").expect("invariant: the template is a constant");
    ProgressBar::with_draw_target(None, target).with_style(style)
}

/// Reports a summary when it is due. Call it about once a second.
#[derive(Debug)]
pub struct Progress {
    line: Line,
    reported: Option<(Tick, u64)>,
}

impl Progress {
    pub fn new(line: Line) -> Self {
        Self { line, reported: None }
    }

    pub fn report(&mut self, now: Tick, summary: &Summary) {
        let Some(readings_per_s) = self.due(now, summary) else { return };
        if self.line.is_drawn() {
            self.line.set(Sentence { readings_per_s, summary }.to_string());
        } else {
            tracing::info!(
                readings_per_s,
                samples = summary.samples,
                buckets = summary.buckets,
                lag_records = summary.lag_records,
                memory_bytes = summary.memory_bytes,
                memory_budget_bytes = summary.memory_budget_bytes,
                "progress"
            );
        }
    }

    /// Takes the line away; the last word belongs to the caller.
    pub fn finish(&self) {
        self.line.clear();
    }

    /// Readings a second since the last report, if it is time for another. The first call only starts the count.
    fn due(&mut self, now: Tick, summary: &Summary) -> Option<u64> {
        let Some((then, readings)) = self.reported else {
            self.reported = Some((now, summary.readings));
            return None;
        };
        let every_ms = if self.line.is_drawn() { DRAW_EVERY_MS } else { LOG_EVERY_MS };
        let elapsed_ms = now.since(then);
        if elapsed_ms < every_ms {
            return None;
        }
        self.reported = Some((now, summary.readings));
        Some(summary.readings.saturating_sub(readings) * 1000 / elapsed_ms)
    }
}

struct Sentence<'a> {
    readings_per_s: u64,
    summary: &'a Summary,
}

impl fmt::Display for Sentence<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Summary { samples, buckets, lag_records, memory_bytes, memory_budget_bytes, .. } = *self.summary;
        // Short enough for 80 columns at common sizes, and what matters most comes first: the rest is cut.
        write!(
            f,
            "{} readings/s, lag {}, {} stored, {} buckets, {}/{} MiB",
            HumanCount(self.readings_per_s),
            HumanCount(lag_records),
            HumanCount(samples),
            HumanCount(buckets),
            memory_bytes >> 20,
            memory_budget_bytes >> 20,
        )
    }
}

/// Wraps where the log goes, so that every event is written around the line.
#[derive(Debug)]
pub(super) struct AroundLine<M> {
    pub(super) line: Line,
    pub(super) inner: M,
}

impl<'a, M: MakeWriter<'a>> MakeWriter<'a> for AroundLine<M> {
    type Writer = AroundLine<M::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        AroundLine { line: self.line.clone(), inner: self.inner.make_writer() }
    }
}

impl<W: Write> Write for AroundLine<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Whole: a short write would let the line back in between the halves of an event.
        self.line.around(|| self.inner.write_all(bytes)).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests;
