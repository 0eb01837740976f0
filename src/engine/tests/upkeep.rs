//! Chains that leave and come back, tails that make room, windows that are past their time to live.

use super::*;

impl Bench {
    fn bounds(&mut self, cache_bytes: u64, horizon: i64) -> &mut Self {
        let bounds = Bounds { cache_bytes, horizon: EventTime(horizon) };
        self.engine.handle(self.now, Input::Bounds(bounds));
        self
    }
}

#[test]
fn a_chain_leaves_sealed_and_comes_back_cold() {
    let mut bench = Bench::with_table(0);
    assert_eq!(bench.read(1).applied(), (Write::Insert { n: 0, open: true }, 1));
    assert_eq!(bench.applied(), (Write::Seal { n: 0, hi: pos(0) }, 0));
    assert_eq!((bench.engine.levels().chains, bench.engine.counts().evictions), (0, 1));
    assert_eq!(bench.engine.counts().seals["chain_table"], 1);
    assert_eq!(
        bench.read(1).write(|_| Outcome::Fenced(Some(tail(0, 0, false)))),
        (Write::Insert { n: 0, open: false }, 1)
    );
    assert_eq!(bench.applied(), (Write::Insert { n: 1, open: false }, 1), "the next would only be sealed again");
    assert_eq!(bench.committed(), Some(2));
}

#[test]
fn a_sealed_chain_leaves_without_a_word() {
    let mut bench = Bench::with_table(0);
    assert_eq!(bench.read(3).applied(), (Write::Insert { n: 0, open: false }, 3));
    assert_eq!(bench.committed(), Some(3));
    assert_eq!(bench.engine.levels().chains, 0);
}

#[test]
fn a_chain_that_comes_back_while_it_is_sealed_stays_and_holds_the_watermark() {
    let mut bench = Bench::with_table(0);
    bench.read(1).applied();
    let plan = bench.plan().expect("a seal");
    assert_eq!(plan.deltas[0].write, Write::Seal { n: 0, hi: pos(0) });
    bench.read(1);
    assert!(bench.plan().is_none(), "the seal is under way");
    let polled = std::iter::from_fn(|| bench.engine.poll_commit()).last();
    assert_eq!(polled, Some((A, 1)), "what came meanwhile is not durable");
    let deltas = plan.deltas.into_iter().map(|delta| (delta, Outcome::Applied)).collect();
    bench.engine.handle(bench.now, Input::Written(Report { id: plan.id, deltas, ..Report::default() }));
    assert_eq!(bench.applied(), (Write::Insert { n: 1, open: false }, 1), "the next would only be sealed again");
    assert_eq!(bench.committed(), Some(2));
}

#[test]
fn the_coldest_tail_is_sealed_when_the_cache_is_full() {
    let mut bench = Bench::new();
    bench.bounds(800, i64::MIN);
    bench.read_of("a", 5, 1).applied();
    bench.read_of("b", 5, 1).applied();
    assert_eq!(bench.engine.levels().open_tails, 2);
    bench.read_of("a", 5, 1).applied();
    bench.read_of("c", 5, 1);
    let mut plan = bench.plan().expect("a new bucket");
    assert_eq!(plan.deltas.len(), 1);
    let delta = plan.deltas.remove(0);
    let report = Report { id: plan.id, deltas: vec![(delta, Outcome::Applied)], ..Report::default() };
    bench.engine.handle(bench.now, Input::Written(report));
    let plan = bench.plan().expect("room is made");
    let sealed: Vec<_> = plan.deltas.iter().map(|d| (&*d.key.device, matches!(d.write, Write::Seal { .. }))).collect();
    assert_eq!(sealed, [("b", true)]);
    assert!(bench.engine.levels().open_bytes > 800, "it is open until the server says otherwise");
    let deltas = plan.deltas.into_iter().map(|delta| (delta, Outcome::Applied)).collect();
    bench.engine.handle(bench.now, Input::Written(Report { id: plan.id, deltas, ..Report::default() }));
    assert!(bench.engine.levels().open_bytes <= 800);
    assert_eq!(bench.engine.levels().open_tails, 2);
    assert_eq!(bench.engine.counts().seals["cache_budget"], 1);
}

#[test]
fn a_window_past_its_time_to_live_is_skipped_and_holds_nothing() {
    let mut bench = Bench::new();
    bench.read(1).applied();
    bench.bounds(u64::MAX, 1_000).bounds(u64::MAX, 0);
    bench.read(2).read_of("d", 1_005, 1);
    assert_eq!(bench.applied(), (Write::Insert { n: 0, open: true }, 1));
    assert_eq!(bench.engine.counts().expired, 2, "the horizon does not fall back");
    assert_eq!(bench.committed(), Some(4));
}

#[test]
fn a_bucket_that_its_time_to_live_deleted_is_no_loss() {
    let mut bench = Bench::new();
    bench.bounds(u64::MAX, -10_000);
    bench.read(1).applied();
    assert_eq!(bench.read(1).write(|_| Outcome::Vanished), (Write::Append { n: 0, hi: pos(0), seal: false }, 1));
    assert!(bench.engine.poll_stopped().is_none());
    assert_eq!(bench.engine.counts().expired, 1);
    assert_eq!(bench.committed(), Some(2));
}

#[test]
fn a_bucket_that_somebody_deleted_stops_its_partition() {
    let mut bench = Bench::new();
    bench.bounds(u64::MAX, -1_000_000);
    bench.read(1).applied();
    bench.read(1).write(|_| Outcome::Vanished);
    let stopped = bench.engine.poll_stopped();
    assert!(stopped.is_some_and(|(id, reason)| id == A && reason.code == crate::code::Code::BucketVanished));
}

#[test]
fn writes_without_effect_are_told_of_once() {
    let mut bench = Bench::new();
    bench.read(1);
    let told: Vec<usize> = (0..20)
        .filter(|_| {
            bench.write(|_| Outcome::Fenced(None));
            matches!(bench.engine.poll_event(), Some(Event::Stuck { times: 5, .. }))
        })
        .collect();
    assert_eq!(told, [4], "an insert is tried on, but said once");
}
