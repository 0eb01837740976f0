//! Scenarios of one engine and one partition, answered by hand; here with one device.

mod upkeep;

use std::sync::Arc;

use super::plan::{DeadLetter, Delta, LedgerAnswer, Outcome, Plan, Span, StreamMark, Tail, Write};
use super::*;
use crate::decode::Reading;
use crate::record::{EventTime, Origin, StreamId, Window};

const A: Assignment = Assignment(1);
const S: StreamId = StreamId(9);

struct Bench {
    engine: Engine,
    now: Tick,
    offset: i64,
}

impl Bench {
    fn new() -> Self {
        Self::with_table(100_000)
    }

    /// A table of chains that may take so many bytes.
    fn with_table(table_bytes: usize) -> Self {
        let mut engine = Engine::new(FlushPolicy {
            max_samples: 6,
            target_bytes: 100_000,
            min_fill: 3,
            flush_age_ms: 10,
            flush_samples: 3,
            budget_bytes: 1_000_000,
            inflight_plans: 2,
            plan_statements: 10,
            plan_bytes: 100_000,
            linger_ms: 0,
            ledger_interval_ms: 0,
            table_bytes,
        });
        let window = Window { length_ms: 1_000, offset_ms: 0 };
        let span = Span { stream: S, from: 0, to: None, reserved: 0, window, stats: Arc::default() };
        let assigned = Assigned { assignment: A, origin: origin(), spans: vec![span], dead: Vec::new() };
        engine.handle(Tick(0), Input::Assigned(assigned));
        Self { engine, now: Tick(0), offset: 0 }
    }

    /// `n` more records of one reading each.
    fn read(&mut self, n: usize) -> &mut Self {
        self.read_of("d", 5, n)
    }

    fn read_of(&mut self, device: &str, at: i64, n: usize) -> &mut Self {
        for _ in 0..n {
            self.read_at(A, self.offset, device, at);
            self.offset += 1;
        }
        self
    }

    fn read_at(&mut self, id: Assignment, offset: i64, device: &str, at: i64) {
        let taken = self.engine.accept(id, offset).expect("the span is open");
        let reading = Reading { device, at: EventTime(at), info: &[5, 0, 0, 0, 0], meta: &[], stats: &[] };
        self.engine.take(self.now, taken, 0, &reading, SampleNames { time: "time", info: "info" });
    }

    /// What the ledger is asked to reserve now; it agrees.
    fn reserved(&mut self) -> Vec<Assignment> {
        let Some(ask) = self.engine.poll_ledger(self.now) else { return Vec::new() };
        let asked = ask.reserve.iter().map(|mark| mark.assignment).collect();
        let answer = LedgerAnswer { reserved: ask.reserve, advanced: ask.advance, ..LedgerAnswer::default() };
        self.engine.handle(self.now, Input::Ledger(answer));
        asked
    }

    /// Lets everything grow old and the ledger agree, then takes the next plan.
    fn plan(&mut self) -> Option<Plan> {
        self.now = self.now.after(20_000);
        self.engine.handle(self.now, Input::Timeout);
        while let Some(ask) = self.engine.poll_ledger(self.now) {
            let answer = LedgerAnswer { reserved: ask.reserve, advanced: ask.advance, ..LedgerAnswer::default() };
            self.engine.handle(self.now, Input::Ledger(answer));
        }
        self.engine.poll_plan(self.now)
    }

    /// The next plan's one delta; the store answers `outcome`.
    fn write(&mut self, outcome: impl FnOnce(&Delta) -> Outcome) -> (Write, usize) {
        let mut plan = self.plan().expect("something is due");
        let delta = plan.deltas.pop().expect("a plan of one delta");
        let wrote = (delta.write, delta.samples.len());
        let outcome = outcome(&delta);
        let report = Report { id: plan.id, deltas: vec![(delta, outcome)], ..Report::default() };
        self.engine.handle(self.now, Input::Written(report));
        wrote
    }

    fn applied(&mut self) -> (Write, usize) {
        self.write(|_| Outcome::Applied)
    }

    fn committed(&mut self) -> Option<i64> {
        assert!(self.plan().is_none(), "nothing is left to write");
        std::iter::from_fn(|| self.engine.poll_commit()).last().map(|(_, offset)| offset)
    }
}

fn origin() -> Arc<Origin> {
    Arc::new(Origin { cluster: "c".into(), topic: "t".into(), incarnation: 0, partition: 0 })
}

fn pos(offset: i64) -> Position {
    Position::new(offset, 0)
}

fn tail(n: u32, hi: i64, open: bool) -> Tail {
    Tail { n, hi: pos(hi), count: 1, bytes: 400, open, meta: None }
}

#[test]
fn small_deltas_are_appended_and_large_ones_stand_alone() {
    let mut bench = Bench::new();
    assert_eq!(bench.read(2).applied(), (Write::Insert { n: 0, open: true }, 2));
    assert_eq!(bench.read(2).applied(), (Write::Append { n: 0, hi: pos(1), seal: false }, 2));
    assert_eq!(bench.read(3).applied(), (Write::Seal { n: 0, hi: pos(3) }, 0));
    assert_eq!(bench.applied(), (Write::Insert { n: 1, open: false }, 3));
    assert_eq!(bench.read(1).applied(), (Write::Insert { n: 2, open: true }, 1));
    assert_eq!(bench.committed(), Some(8));
}

#[test]
fn an_append_that_fills_the_bucket_seals_it() {
    let mut bench = Bench::new();
    bench.read(2).applied();
    bench.read(2).applied();
    assert_eq!(bench.read(2).applied(), (Write::Append { n: 0, hi: pos(3), seal: true }, 2));
    assert_eq!(bench.read(1).applied(), (Write::Insert { n: 1, open: true }, 1));
}

#[test]
fn a_lost_reply_counts_as_stored_once() {
    let mut bench = Bench::new();
    bench.read(2).write(|_| Outcome::Fenced(Some(tail(0, 1, true))));
    assert_eq!((bench.engine.counts().samples, bench.engine.counts().replayed), (2, 0));
    assert_eq!(bench.read(1).applied(), (Write::Append { n: 0, hi: pos(1), seal: false }, 1));
    assert_eq!(bench.committed(), Some(3));
}

#[test]
fn a_fence_drops_what_is_there_and_writes_the_rest() {
    let mut bench = Bench::new();
    bench.read(2).write(|_| Outcome::Fenced(Some(tail(4, 0, false))));
    assert_eq!(bench.engine.counts().replayed, 1);
    assert_eq!(bench.applied(), (Write::Insert { n: 5, open: true }, 1));
    assert_eq!(bench.committed(), Some(2));
}

#[test]
fn a_culprit_of_an_append_gets_a_bucket_of_its_own_before_it_dies() {
    let mut bench = Bench::new();
    let refused = |_: &Delta| Outcome::Refused { code: 121, message: "no".into() };
    bench.read(1).applied();
    assert_eq!(bench.read(1).write(refused), (Write::Append { n: 0, hi: pos(0), seal: false }, 1));
    assert_eq!(bench.applied(), (Write::Seal { n: 0, hi: pos(0) }, 0));
    assert_eq!(bench.write(refused), (Write::Insert { n: 1, open: false }, 1));
    bench.read(1);
    let plan = bench.plan().expect("the dead letter");
    assert!(plan.deltas.is_empty(), "the chain waits until its dead letter is durable");
    let dead: Vec<_> = plan.dead.iter().map(|d: &DeadLetter| (d.assignment, d.stream, d.pos)).collect();
    assert_eq!(dead, [(A, S, pos(1))]);
    bench.engine.handle(bench.now, Input::Written(Report { id: plan.id, dead, ..Report::default() }));
    assert_eq!(bench.applied(), (Write::Insert { n: 1, open: true }, 1));
    assert_eq!(bench.committed(), Some(3));
}

#[test]
fn an_append_that_its_tail_agrees_with_is_given_up_in_the_end() {
    let mut bench = Bench::new();
    bench.read(1).write(|_| Outcome::Fenced(Some(tail(0, 0, true))));
    bench.read(1);
    for _ in 0..20 {
        if bench.engine.poll_stopped().is_some_and(|(id, reason)| id == A && reason.message.contains("\"d\"")) {
            return;
        }
        bench.write(|_| Outcome::Fenced(Some(tail(0, 0, true))));
    }
    panic!("it goes on for ever");
}

#[test]
fn nothing_past_reserved_is_sent() {
    let mut bench = Bench::new();
    bench.read(3);
    bench.now = bench.now.after(20_000);
    assert!(bench.engine.poll_plan(bench.now).is_none(), "the ledger was not asked yet");
    assert_eq!(bench.applied(), (Write::Insert { n: 0, open: false }, 3));
}

#[test]
fn a_closed_stream_writes_up_to_its_end_and_stops() {
    let mut bench = Bench::new();
    bench.read(2);
    let ask = bench.engine.poll_ledger(bench.now).expect("two records to reserve");
    let closed = ask.reserve.into_iter().map(|mark| StreamMark { upto: 1, ..mark }).collect();
    bench.engine.handle(bench.now, Input::Ledger(LedgerAnswer { closed, ..LedgerAnswer::default() }));
    assert_eq!(bench.applied(), (Write::Insert { n: 0, open: true }, 1));
    assert_eq!(bench.committed(), Some(1));
    assert!(bench.engine.poll_stopped().is_some_and(|(_, reason)| reason.message.contains("closed at offset 1")));
}

#[test]
fn a_stream_closed_by_a_skip_is_to_be_handed_over_anew() {
    let mut bench = Bench::new();
    bench.read(2);
    let ask = bench.engine.poll_ledger(bench.now).expect("two records to reserve");
    let skipped = ask.reserve.into_iter().map(|mark| StreamMark { upto: 1, ..mark }).collect();
    bench.engine.handle(bench.now, Input::Ledger(LedgerAnswer { skipped, ..LedgerAnswer::default() }));
    assert_eq!(bench.applied(), (Write::Insert { n: 0, open: true }, 1));
    assert_eq!((bench.engine.poll_restart(), bench.engine.poll_stopped()), (Some(A), None));
}

#[test]
fn between_turns_only_partitions_in_a_hurry_ask_the_ledger() {
    const B: Assignment = Assignment(2);
    let mut bench = Bench::new();
    bench.engine.policy.ledger_interval_ms = 1_000;
    let span = bench.engine.held[&A].spans[0].clone();
    let spans = vec![Span { stream: StreamId(10), ..span }];
    bench
        .engine
        .handle(Tick(0), Input::Assigned(Assigned { assignment: B, origin: origin(), spans, dead: Vec::new() }));
    bench.read_at(B, 0, "d", 5);
    assert_eq!(bench.reserved(), [B]);
    bench.read(3).read_at(B, 1, "d", 5);
    assert!(bench.reserved().is_empty(), "nothing waits yet");
    assert!(bench.engine.poll_plan(bench.now).is_none(), "what is due is not reserved");
    assert_eq!(bench.reserved(), [A]);
    bench.now = bench.now.after(1_000);
    assert_eq!(bench.reserved(), [B]);
}

#[test]
fn waits_that_ended_early_are_not_kept_until_their_age() {
    let mut bench = Bench::new();
    bench.engine.policy.flush_age_ms = 86_400_000;
    for _ in 0..5_000 {
        bench.read(3).reserved();
        let mut plan = bench.engine.poll_plan(bench.now).expect("three are enough");
        let deltas = plan.deltas.drain(..).map(|delta| (delta, Outcome::Applied)).collect();
        bench.engine.handle(bench.now, Input::Written(Report { id: plan.id, deltas, ..Report::default() }));
    }
    assert!(bench.engine.ages.len() < 2_000, "{}", bench.engine.ages.len());
}
