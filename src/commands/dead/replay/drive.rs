//! The loop of a run: letters into an engine, its plans to the store, its marks to the letters. As a shard's, but fed
//! from MongoDB.
//!
//! Each partition of the run is an assignment of one closed span. Whatever the engine calls durable below an offset is
//! marked done; a reading that fails again is marked in its own letter where it has one, and gets a new letter, the way
//! every reading does, where its letter stands for more than it.

use std::collections::{BTreeMap, VecDeque};
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;
use tokio::task::JoinSet;

use super::super::letter::{Letter, Scope};
use super::feed::{Feed, Group};
use super::judge::{self, Lane, Verdict};
use super::report::Tally;
use crate::clock::Clock;
use crate::code::{Code, Failure};
use crate::crash;
use crate::decode::Scratch;
use crate::engine::plan::{self, Assigned, DeadLetter, LedgerAnswer, LedgerAsk, Plan, Report, Span};
use crate::engine::{Engine, FlushPolicy, Input, SampleNames};
use crate::record::{Assignment, Headers, Origin, Position, Record, Tick};
use crate::shard::dead_letter;
use crate::sink::bucket::BucketSink;
use crate::sink::ledger::Ledger;
use crate::sink::ledger::replays::{LetterId, Settled};

/// First offset that no partition has: a replay's stream is closed, and nothing of it need be reserved.
const END: i64 = (1 << 47) - 1;
const LOOK_EVERY_MS: u64 = 1_000;
const SAY_EVERY_MS: u64 = 5_000;

/// What is to happen to a letter once everything of its record is durable. Of several readings the last in this order
/// decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Mark {
    Expired,
    Done,
    Back,
}

/// A partition of the run.
struct Part {
    lane: Lane,
    /// Letters that are on their way, by offset.
    marks: VecDeque<(i64, LetterId, Mark)>,
}

/// A plan that was written. No report: the store cannot be reached any more because the process ends.
struct Written {
    report: Option<Report>,
    n_failed: u64,
}

pub(super) struct Drive {
    run: String,
    engine: Engine,
    clock: Clock,
    sink: BucketSink,
    ledger: Arc<Ledger>,
    parts: BTreeMap<Assignment, Part>,
    by_origin: BTreeMap<Origin, Assignment>,
    /// Letters that say themselves what is wrong with the reading at a position.
    owners: BTreeMap<(Assignment, Position), LetterId>,
    writes: JoinSet<Written>,
    scratch: Scratch,
    tally: Tally,
    n_read: u64,
    said: Tick,
}

impl Drive {
    pub(super) fn new(run: &str, policy: FlushPolicy, sink: BucketSink, ledger: Arc<Ledger>) -> Self {
        Self {
            run: run.to_owned(),
            engine: Engine::new(policy),
            clock: Clock::start(),
            sink,
            ledger,
            parts: BTreeMap::new(),
            by_origin: BTreeMap::new(),
            owners: BTreeMap::new(),
            writes: JoinSet::new(),
            scratch: Scratch::default(),
            tally: Tally { run: Some(run.to_owned()), ..Tally::default() },
            n_read: 0,
            said: Tick(0),
        }
    }

    /// Takes on a partition. `dead`: readings that have letters of this run's making already.
    pub(super) fn assign(&mut self, lane: Lane, dead: Vec<LetterId>) {
        let assignment = Assignment(self.parts.len() as u32);
        let span = Span {
            stream: lane.stream,
            from: 0,
            to: Some(END),
            reserved: END,
            window: lane.window(),
            stats: lane.contract.decoder.stats.iter().map(|name| name.as_str().into()).collect(),
        };
        let assigned = Assigned { assignment, origin: Arc::clone(&lane.origin), spans: vec![span], dead };
        self.engine.handle(self.clock.now(), Input::Assigned(assigned));
        self.by_origin.insert((*lane.origin).clone(), assignment);
        self.parts.insert(assignment, Part { lane, marks: VecDeque::new() });
    }

    /// Until every letter of the feed is dealt with, however long the store is away.
    pub(super) async fn run(mut self, feed: &mut Feed<'_>) -> Result<Tally, Failure> {
        let mut is_fed = false;
        loop {
            self.pass_on().await?;
            if is_fed && self.parts.is_empty() {
                break;
            }
            if !is_fed && self.engine.wants_records() {
                if let Some(group) = feed.next_group().await? {
                    self.n_read += group.letters.len() as u64;
                    self.take(&group);
                } else {
                    is_fed = true;
                    self.engine.handle(self.clock.now(), Input::Drain { deadline: Tick(u64::MAX) });
                }
                while let Some(written) = self.writes.try_join_next() {
                    self.written(written);
                }
            } else {
                self.wait().await;
            }
            self.say();
        }
        let counts = self.engine.counts();
        self.tally.stored = counts.samples;
        self.tally.present = counts.replayed;
        self.tally.reasons.clone_from(&counts.dead);
        self.tally.done = self.tally.done.saturating_sub(self.tally.failed);
        Ok(self.tally)
    }

    /// Passes on everything that the engine has to say.
    async fn pass_on(&mut self) -> Result<(), Failure> {
        let now = self.clock.now();
        while let Some(plan) = self.engine.poll_plan(now) {
            self.write(plan);
        }
        if let Some(ask) = self.engine.poll_ledger(now) {
            let answer = self.settle(ask).await?;
            self.engine.handle(self.clock.now(), Input::Ledger(answer));
        }
        // The marks are in the letters; there is no group to commit to.
        while self.engine.poll_commit().is_some() {}
        while let Some((_, reason)) = self.engine.poll_stopped() {
            self.tally.stopped.push(format!("{}: {}", reason.code, reason.message));
        }
        while let Some(assignment) = self.engine.poll_released() {
            self.parts.remove(&assignment);
        }
        Ok(())
    }

    async fn wait(&mut self) {
        let now = self.clock.now();
        let wait = self.engine.next_timeout().map_or(LOOK_EVERY_MS, |at| at.since(now)).min(LOOK_EVERY_MS);
        let joined = async {
            match self.writes.join_next().await {
                Some(written) => written,
                None => std::future::pending().await,
            }
        };
        match tokio::time::timeout(Duration::from_millis(wait), joined).await {
            Ok(written) => self.written(written),
            Err(_) => self.engine.handle(self.clock.now(), Input::Timeout),
        }
    }

    fn written(&mut self, written: Result<Written, tokio::task::JoinError>) {
        let written = written.expect("invariant: writing a plan neither panics nor is cancelled");
        self.tally.failed += written.n_failed;
        if let Some(report) = written.report {
            self.engine.handle(self.clock.now(), Input::Written(report));
        }
    }

    fn take(&mut self, group: &Group) {
        let Some(&assignment) = self.by_origin.get(&group.origin) else {
            return self.tally.back("the run has no stream for its partition", group.letters.len() as u64);
        };
        let Some(taken) = self.engine.accept(assignment, group.offset) else { return };
        let Some(part) = self.parts.get_mut(&assignment) else { return };
        let now = self.clock.now();
        let lane = &part.lane;
        let names = SampleNames { time: &lane.contract.time_name, info: &lane.contract.info_name };
        let (engine, owners, tally) = (&mut self.engine, &mut self.owners, &mut self.tally);
        let (mut n_new, mut marks) = (0, BTreeMap::new());
        let mut note = |letter: &Letter, mark: Mark| {
            let known = marks.entry(letter.id()).or_insert(mark);
            *known = mark.max(*known);
        };
        // Without `explode` the letter of a record is the letter of its only reading.
        let is_one = lane.contract.decoder.explode.is_none();
        judge::judge(group, lane, &mut self.scratch, |letter, verdict| match verdict {
            Verdict::Reading(index, reading) => {
                note(letter, Mark::Done);
                if is_one || !matches!(letter.scope, Scope::Record) {
                    owners.insert((assignment, Position::new(group.offset, index)), letter.id());
                }
                engine.take(now, taken, index, &reading, names);
            }
            Verdict::Expired => {
                note(letter, Mark::Expired);
                tally.expired += 1;
            }
            Verdict::Reject { index, reject, is_all: true } => {
                note(letter, Mark::Done);
                owners.insert((assignment, Position::new(group.offset, index)), letter.id());
                // Its content is in the letter that is marked.
                let record = Record { key: None, value: None, headers: Headers(&[]), ..group.record() };
                engine.reject(dead_letter((taken, index), &lane.origin, plan::Scope::Record, reject, &record, true));
            }
            Verdict::Reject { index, reject, is_all: false } => {
                note(letter, Mark::Done);
                n_new += 1;
                let at = (taken, index);
                engine.reject(dead_letter(at, &lane.origin, plan::Scope::Reading, reject, &group.record(), n_new == 1));
            }
            Verdict::Skip => note(letter, Mark::Done),
            Verdict::Back(why) => {
                tally.back(why, 1);
                note(letter, Mark::Back);
            }
        });
        // One of which nothing was said is covered by the letter of its whole record.
        let mark = |id: LetterId| marks.get(&id).copied().unwrap_or(Mark::Done);
        part.marks.extend(group.letters.iter().map(|letter| (group.offset, letter.id(), mark(letter.id()))));
    }

    /// Starts writing a plan, and marking the letters that failed again, of which a report is due too: the next
    /// statement of a chain waits for it.
    fn write(&mut self, mut plan: Plan) {
        let owner = |letter: &DeadLetter| self.owners.get(&(letter.assignment, letter.pos)).copied();
        let (mut owned, mut others) = (Vec::new(), Vec::new());
        for letter in std::mem::take(&mut plan.dead) {
            match owner(&letter) {
                Some(id) => owned.push((id, letter)),
                None => others.push(letter),
            }
        }
        plan.dead = others;
        let (sink, ledger, run) = (self.sink.clone(), Arc::clone(&self.ledger), self.run.clone());
        self.writes.spawn(async move {
            let failed: Vec<_> =
                owned.iter().map(|(id, letter)| (*id, letter.reason, letter.detail.as_str())).collect();
            let (marked, report) = join(ledger.fail_letters(&run, &failed), sink.write(plan)).await;
            let Some(mut report) = report else { return Written { report: None, n_failed: 0 } };
            match marked {
                Ok(()) => report.dead.extend(owned.iter().map(|(_, l)| (l.assignment, l.stream, l.pos))),
                Err(error) => {
                    let reason =
                        Failure::new(Code::DeadLetterRefused, format_args!("letters cannot be marked: {error}"));
                    let refused = |(_, l): &(LetterId, DeadLetter)| (l.assignment, reason.clone());
                    report.dead_refused.extend(owned.iter().map(refused));
                }
            }
            Written { report: Some(report), n_failed: owned.len() as u64 }
        });
    }

    /// Marks what is durable; the engine takes it for the ledger's answer.
    async fn settle(&mut self, ask: LedgerAsk) -> Result<LedgerAnswer, Failure> {
        let mut settled = Settled::default();
        for mark in &ask.advance {
            let Some(part) = self.parts.get_mut(&mark.assignment) else { continue };
            while let Some((_, id, fate)) = part.marks.pop_front_if(|(offset, ..)| *offset < mark.upto) {
                match fate {
                    Mark::Expired => settled.expired.push(id),
                    Mark::Done => settled.done.push(id),
                    Mark::Back => settled.back.push(id),
                }
            }
            let range = (mark.assignment, Position::NONE)..(mark.assignment, Position::new(mark.upto.min(END), 0));
            let owned: Vec<_> = self.owners.range(range).map(|(at, _)| *at).collect();
            for at in owned {
                self.owners.remove(&at);
            }
        }
        crash::point("replay_before_mark");
        let marked = self.ledger.settle_letters(&self.run, &settled).await;
        marked.map_err(|error| {
            let run = &self.run;
            let message = format_args!(
                "letters of run {run} cannot be marked: {error}; what is stored stays so: mend that, then go on with \
                 `sakia dead replay --resume {run}`"
            );
            Failure::new(Code::ReplayUnfinished, message)
        })?;
        crash::point("replay_after_mark");
        self.tally.done += settled.done.len() as u64;
        self.tally.expired_letters += settled.expired.len() as u64;
        Ok(LedgerAnswer { reserved: ask.reserve, advanced: ask.advance, ..LedgerAnswer::default() })
    }

    fn say(&mut self) {
        let now = self.clock.now();
        if now.since(self.said) >= SAY_EVERY_MS {
            self.said = now;
            // Nobody may be reading it.
            writeln!(std::io::stderr(), "{} letters read, {} dealt with", self.n_read, self.tally.done).ok();
        }
    }
}
