use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::code::Code;
use crate::record::{StreamId, Window};

fn span(from: i64, to: Option<i64>) -> Span {
    let window = Window { length_ms: 86_400_000, offset_ms: 0 };
    Span { stream: StreamId(from), from, to, reserved: from, window, stats: Arc::default() }
}

fn live(assignment: u32, spans: &[Span], committed: Option<i64>) -> Live {
    let place = Place { assignment: Assignment(assignment), topic: "t".into(), partition: assignment as i32 };
    Live::new(place, spans, committed, 100, 0)
}

fn table(lives: Vec<Live>) -> Table {
    let row = |l: Live| Held { topic: "t".into(), partition: l.place.partition, shard: 0, state: State::Live(l) };
    Table { rows: lives.into_iter().map(row).collect() }
}

fn commits(pairs: &[(u32, i64)]) -> Posts {
    Posts { commits: pairs.iter().map(|&(a, o)| (Assignment(a), o)).collect(), ..Posts::default() }
}

#[test]
fn a_step_back_is_seen_and_gaps_are_not_steps_back() {
    let mut live = live(1, &[span(5, None)], None);
    let verdicts: Vec<_> = [5, 6, 9, 9, 10].into_iter().map(|o| live.judge(o)).collect();
    assert_eq!(verdicts, [Verdict::Take, Verdict::Take, Verdict::Take, Verdict::StepBack, Verdict::Take]);
}

#[test]
fn a_long_covered_stretch_is_skipped_and_a_short_one_read() {
    let mut live = live(1, &[span(5, Some(7)), span(20, Some(30)), span(1_000_000, None)], None);
    assert_eq!(live.judge(7), Verdict::Take);
    assert_eq!(live.judge(29), Verdict::Take);
    assert_eq!(live.judge(30), Verdict::SkipTo(1_000_000));
    assert_eq!(live.judge(1_000_000), Verdict::Take);
}

#[test]
fn a_late_commit_of_a_former_owner_commits_nothing() {
    let mut table = table(vec![live(2, &[span(5, None)], Some(5))]);
    assert!(table.post(commits(&[(1, 90)])).is_empty());
    assert!(table.take_commits(|_| true).is_empty());
}

#[test]
fn the_group_learns_where_the_ledger_stands() {
    // Reset to 0 by hand, commit lost, moved forward: the first commit tells the truth each time.
    for committed in [Some(0), None, Some(99)] {
        let mut table = table(vec![live(1, &[span(40, None)], committed)]);
        assert_eq!(table.take_commits(|_| true), [("t".into(), 1, 40)]);
        assert!(table.take_commits(|_| true).is_empty());
    }
}

#[test]
fn a_failed_commit_is_made_again() {
    let mut table = table(vec![live(1, &[span(0, None)], Some(0))]);
    table.post(commits(&[(1, 3)]));
    assert_eq!(table.take_commits(|_| true).len(), 1);
    table.doubt_commits();
    assert_eq!(table.take_commits(|_| true), [("t".into(), 1, 3)]);
}

#[test]
fn release_and_stop_are_taken_in() {
    let mut table = table(vec![live(1, &[span(0, None)], None), live(2, &[span(0, None)], None)]);
    let all = [Assignment(1), Assignment(2)];
    let why = Failure::new(Code::BucketVanished, "no");
    let posts = Posts {
        released: [Assignment(1)].into(),
        stopped: BTreeMap::from([(Assignment(2), why.clone()), (Assignment(9), why.clone())]),
        ..Posts::default()
    };
    assert_eq!(table.post(posts), [(1, why)]);
    assert!(table.all_released(&all[..1]) && !table.all_released(&all));
    table.remove("t", 2);
    assert!(table.all_released(&all));
}

proptest! {
    /// Whatever shards post, what is committed of one assignment never falls.
    #[test]
    fn commits_never_go_back(posts in proptest::collection::vec((1_u32..4, 0_i64..50), 0..60)) {
        let mut table = table(vec![live(1, &[span(10, None)], None), live(2, &[span(0, None)], Some(30))]);
        let mut last = BTreeMap::new();
        for post in posts {
            table.post(commits(&[post]));
            for (_, partition, offset) in table.take_commits(|_| true) {
                let before = last.insert(partition, offset).unwrap_or(i64::MIN);
                prop_assert!(offset > before);
            }
        }
    }
}
