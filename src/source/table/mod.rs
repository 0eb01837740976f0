//! The partitions that this member holds: who has them, how far they are read, durable and committed. Pure.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::code::Failure;
use crate::engine::plan::Span;
use crate::record::{Assignment, Tick};
use crate::source::batch::Place;
use crate::source::board::Posts;

/// A gap between spans that is shorter than this is read and left to the engine: a seek throws prefetched records away.
const WORTH_A_SEEK: i64 = 10_000;

/// A partition that is handed over and read.
#[derive(Clone, Debug)]
pub(super) struct Live {
    pub(super) place: Place,
    /// `[from, to)` of each span that is still ahead or under way, ascending, first one last.
    spans: Vec<(i64, i64)>,
    /// Least offset that the next record may have.
    pub(super) position: i64,
    /// Everything below it is durable.
    pub(super) durable: i64,
    /// What the group has; `None` = nothing or unknown.
    pub(super) committed: Option<i64>,
    /// End of the partition when it was handed over.
    pub(super) end: i64,
    /// How many statistics had come by then; earlier ones may speak of an earlier owner.
    pub(super) statistics: u64,
    pub(super) released: bool,
}

/// What to do with a polled record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Take,
    /// Nobody wants it, and nothing before this offset: go there.
    SkipTo(i64),
    /// The offset was passed already: whatever was believed about this partition is void.
    StepBack,
}

impl Live {
    pub(super) fn new(place: Place, spans: &[Span], committed: Option<i64>, end: i64, statistics: u64) -> Self {
        let spans: Vec<_> = spans.iter().rev().map(|s| (s.from, s.to.unwrap_or(i64::MAX))).collect();
        let from = spans.last().map_or(end, |s| s.0);
        Self { place, spans, position: from, durable: from, committed, end, statistics, released: false }
    }

    /// Judges the record at `offset`, and moves on past it if it is taken.
    pub(super) fn judge(&mut self, offset: i64) -> Verdict {
        if offset < self.position {
            return Verdict::StepBack;
        }
        while self.spans.len() > 1 && self.spans.last().is_some_and(|s| s.1 <= offset) {
            self.spans.pop();
        }
        match self.spans.last() {
            Some(&(from, _)) if from - offset >= WORTH_A_SEEK => {
                self.position = from;
                Verdict::SkipTo(from)
            }
            _ => {
                self.position = offset + 1;
                Verdict::Take
            }
        }
    }

    /// Records polled that a successor would read again.
    pub(super) fn n_unsettled(&self) -> u64 {
        (self.position - self.durable).max(0) as u64
    }
}

#[derive(Clone, Debug)]
pub(super) enum State {
    Live(Live),
    /// Paused until it can be handed over, or handed over again.
    Stopped {
        reason: Failure,
        retry_at: Tick,
        /// Somebody has to mend something first.
        is_final: bool,
    },
}

#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) topic: Arc<str>,
    pub(super) partition: i32,
    pub(super) shard: usize,
    pub(super) state: State,
}

impl Held {
    pub(super) fn live(&self) -> Option<&Live> {
        match &self.state {
            State::Live(live) => Some(live),
            State::Stopped { .. } => None,
        }
    }

    pub(super) fn live_mut(&mut self) -> Option<&mut Live> {
        match &mut self.state {
            State::Live(live) => Some(live),
            State::Stopped { .. } => None,
        }
    }
}

/// Linear search is right here: records come in runs of one partition, and the caller remembers the last index.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) rows: Vec<Held>,
}

impl Table {
    pub(super) fn find(&self, topic: &str, partition: i32) -> Option<usize> {
        self.rows.iter().position(|h| h.partition == partition && *h.topic == *topic)
    }

    pub(super) fn remove(&mut self, topic: &str, partition: i32) -> Option<Held> {
        self.find(topic, partition).map(|i| self.rows.swap_remove(i))
    }

    pub(super) fn lives(&self) -> impl Iterator<Item = &Live> {
        self.rows.iter().filter_map(Held::live)
    }

    /// Rows that are live under one of `assignments`.
    pub(super) fn rows_of(&self, assignments: &BTreeSet<Assignment>) -> Vec<usize> {
        let is_one = |held: &Held| held.live().is_some_and(|live| assignments.contains(&live.place.assignment));
        (0..self.rows.len()).filter(|&row| is_one(&self.rows[row])).collect()
    }

    /// Takes in what shards posted and returns the rows they stopped. Posts for an assignment that is not held any more
    /// change nothing: its partition may have a new owner, whose commit a late one would move back.
    pub(super) fn post(&mut self, posts: Posts) -> Vec<(usize, Failure)> {
        let Posts { commits, released, mut stopped, restarts: _ } = posts;
        let mut stops = Vec::new();
        for (i, row) in self.rows.iter_mut().enumerate() {
            let Some(live) = row.live_mut() else { continue };
            let assignment = live.place.assignment;
            if let Some(&offset) = commits.get(&assignment) {
                live.durable = live.durable.max(offset);
            }
            live.released |= released.contains(&assignment);
            if let Some(reason) = stopped.remove(&assignment) {
                stops.push((i, reason));
            }
        }
        stops
    }

    /// Whether none of `assignments` is live and held by its shard any more.
    pub(super) fn all_released(&self, assignments: &[Assignment]) -> bool {
        self.lives().all(|l| l.released || !assignments.contains(&l.place.assignment))
    }

    /// Durable offsets that the group does not have yet, among the partitions that `wanted` picks; taken as committed
    /// from now on.
    pub(super) fn take_commits(&mut self, wanted: impl Fn(&Live) -> bool) -> Vec<(Arc<str>, i32, i64)> {
        let mut commits = Vec::new();
        for live in self.rows.iter_mut().filter_map(Held::live_mut) {
            if live.committed != Some(live.durable) && wanted(live) {
                live.committed = Some(live.durable);
                commits.push((Arc::clone(&live.place.topic), live.place.partition, live.durable));
            }
        }
        commits
    }

    /// A commit failed: what the group has is unknown, so everything is committed again.
    pub(super) fn doubt_commits(&mut self) {
        for live in self.rows.iter_mut().filter_map(Held::live_mut) {
            live.committed = None;
        }
    }
}

#[cfg(test)]
mod tests;
