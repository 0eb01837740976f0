//! One chain as its writer knows it: the tail it believes in, what is under way, what waits.

use std::sync::Arc;

use smallvec::SmallVec;

use super::plan::{ChainKey, Tail};
use super::policy::{FlushPolicy, Pending, Step, bucket_bytes};
use super::samples::Samples;
use super::upkeep::Leave;
use crate::record::{Assignment, Position, Tick};

/// Samples with the same meta.
#[derive(Debug)]
pub(super) struct Run {
    /// `None`: the readings named no meta; they go with whatever the chain has.
    pub(super) meta: Option<Arc<[u8]>>,
    pub(super) samples: Samples,
}

/// A delta that is under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct InFlight {
    pub(super) plan: u64,
    /// When its oldest sample came.
    pub(super) since: Tick,
}

#[derive(Debug)]
pub(super) struct Chain {
    pub(super) key: Arc<ChainKey>,
    pub(super) assignment: Assignment,
    /// Index of the span in its assignment.
    pub(super) span: usize,
    /// The last bucket by the last majority answer; `None`: none known, the chain is new or cold.
    pub(super) tail: Option<Tail>,
    /// Highest position taken, written or seen (rule 5). Nothing at or below it is taken again.
    pub(super) floor: Position,
    /// Samples that wait, oldest first. Nearly always one run, and that lies in the chain itself.
    pub(super) runs: SmallVec<[Run; 1]>,
    pub(super) in_flight: Option<InFlight>,
    /// A refused sample whose dead letter is not durable yet; the chain waits for it.
    pub(super) dying: Option<Position>,
    /// Offset that this chain holds in its partition's watermark.
    pub(super) hold: Option<i64>,
    /// When the oldest waiting sample came, and the mark of that wait in the queue of ages.
    pub(super) since: Tick,
    pub(super) wait: u64,
    /// Write what waits as soon as the chain is free.
    pub(super) due: bool,
    /// In the ready queue.
    pub(super) queued: bool,
    /// Most samples a statement; falls when the server refuses, recovers by doubling.
    pub(super) limit: usize,
    /// The first waiting sample was refused in an append: try it as a bucket of its own.
    pub(super) alone: bool,
    /// Fences in a row without visible progress.
    pub(super) stuck: u32,
    /// The open tail is to be sealed although nothing follows it.
    pub(super) leave: Option<Leave>,
    /// Bytes of the open tail, as they are booked; 0 without one.
    pub(super) open_bytes: u64,
    /// Bytes of device and meta, as they are booked.
    pub(super) text_bytes: usize,
}

impl Chain {
    pub(super) fn new(key: ChainKey, assignment: Assignment, span: usize) -> Self {
        Self {
            key: Arc::new(key),
            assignment,
            span,
            tail: None,
            floor: Position::NONE,
            runs: SmallVec::new(),
            in_flight: None,
            dying: None,
            hold: None,
            since: Tick(0),
            wait: 0,
            due: false,
            queued: false,
            limit: usize::MAX,
            alone: false,
            stuck: 0,
            leave: None,
            open_bytes: 0,
            text_bytes: 0,
        }
    }

    /// Nothing waits, nothing is under way: the chain may be forgotten.
    pub(super) fn is_idle(&self) -> bool {
        self.runs.is_empty() && self.in_flight.is_none() && self.dying.is_none()
    }

    pub(super) fn n_waiting(&self) -> usize {
        self.runs.iter().map(|r| r.samples.len()).sum()
    }

    pub(super) fn waiting_bytes(&self) -> usize {
        self.runs.iter().map(|r| r.samples.row_bytes()).sum()
    }

    /// The run that takes the next sample.
    pub(super) fn run_for(&mut self, meta: &[u8], n_stats: usize) -> &mut Run {
        let joins = self.runs.last().is_some_and(|run| meta.is_empty() || run.meta.as_deref() == Some(meta));
        if !joins {
            if self.runs.is_empty() {
                // Most chains never have a second one, and room for four is the default.
                self.runs.reserve_exact(1);
            }
            let meta = (!meta.is_empty()).then(|| Arc::from(meta));
            self.runs.push(Run { meta, samples: Samples::new(n_stats) });
        }
        self.runs.last_mut().expect("invariant: pushed just now")
    }

    /// First offset that is neither durable nor a dead letter, as far as this chain is concerned.
    pub(super) fn first_waiting(&self) -> Option<i64> {
        Some(self.runs.first()?.samples.first_pos()?.offset())
    }

    pub(super) fn next_step(&self, policy: &FlushPolicy) -> Option<Step> {
        if self.leave.is_some() && self.tail.as_ref().is_some_and(|t| t.open) {
            return Some(Step::Seal);
        }
        let run = self.runs.first()?;
        let tail_meta = self.tail.as_ref().and_then(|t| t.meta.as_ref());
        let pending = Pending {
            samples: &run.samples,
            meta_fits: run.meta.is_none() || run.meta.as_ref() == tail_meta,
            meta_ends: self.runs.len() > 1,
            limit: self.limit,
            alone: self.alone,
            empty_bytes: bucket_bytes(&self.key.device, run.meta.as_deref()),
        };
        Some(policy.next_step(self.tail.as_ref(), pending))
    }

    /// Takes the first `k` waiting samples out, with the meta that a new bucket of them gets.
    pub(super) fn take(&mut self, k: usize) -> (Option<Arc<[u8]>>, Samples) {
        let run = self.runs.first_mut().expect("invariant: a step is planned only for waiting samples");
        let meta = run.meta.clone().or_else(|| self.tail.as_ref().and_then(|t| t.meta.clone()));
        if k < run.samples.len() {
            return (meta, run.samples.split_front(k));
        }
        (meta, self.runs.remove(0).samples)
    }

    /// Puts samples that were not applied back in front of those that wait.
    pub(super) fn put_back(&mut self, meta: Option<Arc<[u8]>>, samples: Samples) {
        if samples.is_empty() {
            return;
        }
        match self.runs.first_mut() {
            Some(run) if run.meta == meta || run.meta.is_none() => {
                run.meta = meta;
                run.samples.prepend(samples);
            }
            _ => self.runs.insert(0, Run { meta, samples }),
        }
    }

    /// The chain already holds every position up to `hi`: drop those that wait.
    pub(super) fn seen(&mut self, hi: Position) -> usize {
        self.floor = self.floor.max(hi);
        self.drop_waiting(|samples| samples.trim_upto(hi))
    }

    /// Positions of offset `to` and above are no longer this stream's.
    pub(super) fn cut(&mut self, to: i64) -> usize {
        self.drop_waiting(|samples| samples.drop_from_offset(to))
    }

    fn drop_waiting(&mut self, drop: impl Fn(&mut Samples)) -> usize {
        let before = self.n_waiting();
        for run in &mut self.runs {
            drop(&mut run.samples);
        }
        self.runs.retain(|run| !run.samples.is_empty());
        before - self.n_waiting()
    }
}
