//! The coverage rule by example: each test is one situation of a partition and the spans that follow from it.

use super::*;

fn stream(id: i64, from: i64, to: Option<i64>, next: i64, contract: &str) -> Stream {
    let reserved = to.unwrap_or(next);
    Stream { next, reserved, ..Stream::new(StreamId(id), from, to, contract) }
}

fn ask(committed: Option<i64>) -> Ask<'static> {
    Ask { topic_id: None, committed, low: 0, high: 1_000, contract: "a" }
}

/// Ids from 100 on, so that they are told apart from those of the entry at hand.
fn ids() -> impl FnMut() -> StreamId {
    let mut last = 99;
    move || {
        last += 1;
        StreamId(last)
    }
}

/// Spans as `(stream, from, to)`.
type Spans<'a> = &'a [(i64, i64, Option<i64>)];

#[track_caller]
fn check(streams: &[Stream], ask: &Ask<'_>, expected: Spans<'_>) -> Decision {
    let entry = Entry { version: 1, streams: streams.to_vec(), ..Entry::default() };
    let entry = (!streams.is_empty()).then_some(&entry);
    let decision = decide(entry, ask, ids()).expect("not recreated");
    let spans: Vec<_> = decision.spans.iter().map(|s| (s.stream.0, s.from, s.to)).collect();
    assert_eq!(spans, expected);
    decision
}

#[test]
fn unknown_partition_starts_at_the_commit_else_at_the_first_record() {
    let low = Ask { low: 7, ..ask(None) };
    assert!(check(&[], &low, &[(100, 7, None)]).warnings.is_empty());
    assert!(check(&[], &ask(Some(40)), &[(100, 40, None)]).warnings.is_empty());
    let decision = check(&[], &Ask { low: 7, ..ask(Some(5)) }, &[(100, 7, None)]);
    assert_eq!(decision.edit.expect("new entry").lost.first(), Some(&(5..7)));
    let decision = check(&[], &Ask { low: 7, ..ask(Some(1_001)) }, &[(100, 7, None)]);
    assert_eq!(decision.warnings, vec![Warning::CommitPastEnd { committed: 1_001, high: 1_000 }]);
}

#[test]
fn restart_goes_on_at_next_even_without_a_commit() {
    let live = [stream(1, 0, None, 50, "a")];
    for committed in [None, Some(50), Some(30)] {
        let decision = check(&live, &ask(committed), &[(1, 50, None)]);
        assert_eq!((decision.edit, decision.warnings), (None, vec![]));
    }
}

#[test]
fn group_reset_to_the_start_fills_only_what_nobody_owns() {
    check(&[stream(1, 0, None, 50, "a")], &ask(Some(0)), &[(1, 50, None)]);
    let streams = [stream(1, 10, Some(20), 20, "a"), stream(2, 30, Some(40), 33, "a"), stream(3, 40, None, 50, "a")];
    let expected = [(100, 0, Some(10)), (101, 20, Some(30)), (2, 33, Some(40)), (3, 50, None)];
    let decision = check(&streams, &ask(Some(0)), &expected);
    assert!(decision.spans.iter().all(|span| span.to.is_none_or(|to| span.reserved == to)));
    // From within an unfinished stream: still from its `next`.
    check(&streams, &ask(Some(36)), &[(2, 33, Some(40)), (3, 50, None)]);
}

#[test]
fn commit_past_next_is_not_obeyed() {
    let decision = check(&[stream(1, 0, None, 50, "a")], &ask(Some(60)), &[(1, 50, None)]);
    assert_eq!(decision.edit, None);
    assert_eq!(decision.warnings, vec![Warning::CommitNotObeyed { committed: 60, next: 50 }]);
    assert!(decision.warnings[0].to_string().contains("`sakia ledger skip`"));
    // A hole that was left on purpose is not filled for it.
    let skipped = [stream(1, 0, Some(30), 30, "a"), stream(2, 40, None, 50, "a")];
    check(&skipped, &ask(Some(60)), &[(2, 50, None)]);
    check(&skipped, &ask(None), &[(2, 50, None)]);
}

#[test]
fn what_was_skipped_stays_a_hole_and_its_rest_is_finished() {
    // The rest is 50..60, the hole 60..200; the group's commit lies before, within and past the hole.
    let entry = Entry {
        version: 1,
        streams: vec![stream(1, 0, Some(60), 50, "a"), stream(2, 200, None, 200, "a")],
        skipped: vec![60..200],
        ..Entry::default()
    };
    for committed in [None, Some(0), Some(50), Some(100), Some(200), Some(900)] {
        let decision = decide(Some(&entry), &ask(committed), ids()).expect("not recreated");
        let spans: Vec<_> = decision.spans.iter().map(|s| (s.stream.0, s.from, s.to)).collect();
        assert_eq!((spans, decision.edit), (vec![(1, 50, Some(60)), (2, 200, None)], None), "{committed:?}");
    }
    // What nobody owned before is a gap still.
    let early = Entry { skipped: vec![10..20, 60..200], streams: entry.streams.clone(), ..entry };
    let early = Entry { streams: vec![stream(1, 30, Some(60), 60, "a"), early.streams[1].clone()], ..early };
    let decision = decide(Some(&early), &ask(Some(0)), ids()).expect("not recreated");
    let spans: Vec<_> = decision.spans.iter().map(|s| (s.from, s.to)).collect();
    assert_eq!(spans, [(0, Some(10)), (20, Some(30)), (200, None)]);
}

#[test]
fn another_contract_closes_the_live_stream_at_what_is_reserved() {
    let live = Stream { reserved: 80, ..stream(1, 0, None, 50, "old") };
    let decision = check(std::slice::from_ref(&live), &ask(Some(50)), &[(1, 50, Some(80)), (100, 80, None)]);
    let contracts: Vec<_> = decision.spans.iter().map(|span| &*span.contract).collect();
    assert_eq!(contracts, ["old", "a"]);
    assert_eq!(decision.warnings, vec![Warning::ContractChanged { to: 80, rest: 50..80 }]);
    assert_eq!(
        decision.edit.expect("closes").streams,
        [stream(1, 0, Some(80), 50, "old"), stream(100, 80, None, 80, "a")]
    );
    // Moving the commit over the rest loses nothing.
    let closed = [stream(1, 0, Some(80), 50, "old"), stream(2, 80, None, 80, "a")];
    for committed in [None, Some(80), Some(90)] {
        check(&closed, &ask(committed), &[(1, 50, Some(80)), (2, 80, None)]);
    }
    // After a drained stop there is no rest, and what was never used leaves no trace.
    let drained = [stream(1, 0, None, 50, "old")];
    check(&drained, &ask(Some(50)), &[(100, 50, None)]);
    let unused = [stream(1, 50, None, 50, "old")];
    let edit = check(&unused, &ask(Some(50)), &[(100, 50, None)]).edit.expect("replaces");
    assert_eq!(edit.streams, [stream(100, 50, None, 50, "a")]);
}

#[test]
fn only_closed_streams_are_followed_by_a_live_one() {
    let closed = [stream(1, 0, Some(30), 30, "a"), stream(2, 60, Some(80), 70, "a")];
    check(&closed, &ask(Some(80)), &[(100, 80, None)]);
    check(&closed, &ask(Some(40)), &[(101, 40, Some(60)), (2, 70, Some(80)), (100, 80, None)]);
}

#[test]
fn retention_is_noted_once_and_the_same_stream_goes_on() {
    let late = Ask { low: 70, ..ask(Some(50)) };
    let decision = check(&[stream(1, 0, None, 50, "a")], &late, &[(1, 70, None)]);
    let edit = decision.edit.expect("notes the loss");
    assert_eq!((edit.lost.first(), decision.warnings), (Some(&(50..70)), vec![Warning::Lost(50..70)]));
    assert_eq!(check(&edit.streams, &late, &[(1, 70, None)]).edit, None);
    // A rest that is gone as a whole is no span any more.
    let closed = [stream(1, 0, Some(60), 50, "a"), stream(2, 60, None, 60, "a")];
    let decision = check(&closed, &late, &[(2, 70, None)]);
    assert_eq!(decision.edit.expect("notes the loss").lost, vec![50..60, 60..70]);
}

#[test]
fn recreated_topic_is_refused() {
    let entry = |id: &str| Entry {
        topic_id: Some(id.to_owned()),
        streams: vec![stream(1, 0, None, 50, "a")],
        ..Entry::default()
    };
    let with_id = Ask { topic_id: Some("new"), ..ask(Some(50)) };
    let refused = decide(Some(&entry("old")), &with_id, ids());
    assert_eq!(refused, Err(Recreated::TopicId { was: "old".to_owned(), is: "new".to_owned() }));
    let short = Ask { high: 49, ..ask(Some(49)) };
    assert_eq!(decide(Some(&entry("old")), &short, ids()), Err(Recreated::Behind { high: 49, next: 50 }));
    assert!(decide(Some(&entry("new")), &with_id, ids()).is_ok());
}

#[test]
fn topic_id_is_learned_when_the_broker_starts_to_tell_it() {
    let live = [stream(1, 0, None, 50, "a")];
    let decision = check(&live, &Ask { topic_id: Some("t"), ..ask(None) }, &[(1, 50, None)]);
    assert_eq!(decision.edit.expect("learns").topic_id.as_deref(), Some("t"));
}

#[test]
fn taken_ids_are_drawn_again() {
    let mut draws = [1, 1, 2].into_iter();
    let entry = Entry { streams: vec![stream(1, 0, None, 50, "old")], ..Entry::default() };
    let decision = decide(Some(&entry), &ask(None), || StreamId(draws.next().expect("enough ids")));
    assert_eq!(decision.expect("not recreated").spans[0].stream, StreamId(2));
}
