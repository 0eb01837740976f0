//! Whether the marks of an ask are in force, judged by what a majority read shows of the entries. Pure.

use std::collections::BTreeMap;

use super::entry::{Entry, Stream};
use crate::code::{Code, Failure};
use crate::engine::plan::{LedgerAnswer, LedgerAsk, StreamMark};
use crate::record::Origin;

/// The entries that an ask speaks of; one that cannot be read comes with the reason, one that is gone is absent.
pub type Entries = BTreeMap<Origin, Result<Entry, String>>;

/// `None`: some mark is neither in force nor ruled out, so the ask has to be sent again.
pub fn judge(ask: &LedgerAsk, entries: &Entries) -> Option<LedgerAnswer> {
    let mut answer = LedgerAnswer::default();
    for mark in &ask.reserve {
        match find(mark, entries) {
            Err(reason) => broken(&mut answer, mark, reason),
            Ok((stream, entry)) => match stream.to {
                Some(to) if entry.skipped.iter().any(|hole| hole.start == to) => {
                    answer.skipped.push(StreamMark { upto: to, ..mark.clone() });
                }
                Some(to) => answer.closed.push(StreamMark { upto: to, ..mark.clone() }),
                None if stream.reserved >= mark.upto => answer.reserved.push(mark.clone()),
                None => return None,
            },
        }
    }
    for mark in &ask.advance {
        match find(mark, entries) {
            Err(reason) => broken(&mut answer, mark, reason),
            Ok((stream, _)) if stream.next >= mark.upto => answer.advanced.push(mark.clone()),
            Ok(_) => return None,
        }
    }
    Some(answer)
}

/// The answer where nothing of the ask can be had until somebody mends something.
pub fn all_broken(ask: &LedgerAsk, reason: &Failure) -> LedgerAnswer {
    let mut answer = LedgerAnswer::default();
    for mark in ask.reserve.iter().chain(&ask.advance) {
        broken(&mut answer, mark, reason.clone());
    }
    answer
}

fn find<'a>(mark: &StreamMark, entries: &'a Entries) -> Result<(&'a Stream, &'a Entry), Failure> {
    let Origin { topic, incarnation, partition, .. } = &*mark.origin;
    let place = format!("the ledger's entry of {topic}/{partition} (incarnation {incarnation})");
    let entry = match entries.get(&*mark.origin) {
        None => {
            let message =
                format_args!("{place} is gone while it is written: restore it, or run `sakia ledger rebuild`");
            return Err(Failure::new(Code::LedgerEntryUnusable, message));
        }
        Some(Err(reason)) => {
            return Err(Failure::new(Code::LedgerEntryUnusable, format_args!("{place} cannot be used: {reason}")));
        }
        Some(Ok(entry)) => entry,
    };
    let stream = entry.stream(mark.stream).ok_or_else(|| {
        let s = mark.stream.0;
        let message = format_args!("{place} no longer has stream {s}: another writer has taken over");
        Failure::new(Code::StreamTakenOver, message)
    })?;
    Ok((stream, entry))
}

fn broken(answer: &mut LedgerAnswer, mark: &StreamMark, reason: Failure) {
    if answer.broken.iter().all(|(assignment, _)| *assignment != mark.assignment) {
        answer.broken.push((mark.assignment, reason));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::record::{Assignment, StreamId};

    fn origin() -> Origin {
        Origin { cluster: "c".into(), topic: "t".into(), incarnation: 0, partition: 3 }
    }

    fn mark(stream: i64, upto: i64) -> StreamMark {
        StreamMark { assignment: Assignment(1), origin: Arc::new(origin()), stream: StreamId(stream), upto }
    }

    fn entries() -> Entries {
        let closed = Stream { next: 5, ..Stream::new(StreamId(1), 0, Some(10), "a") };
        let live = Stream { next: 12, reserved: 20, ..Stream::new(StreamId(2), 10, None, "b") };
        Entries::from([(origin(), Ok(Entry { streams: vec![closed, live], ..Entry::default() }))])
    }

    #[test]
    fn marks_in_force_are_confirmed() {
        let ask = LedgerAsk { reserve: vec![mark(2, 20)], advance: vec![mark(1, 4), mark(2, 12)] };
        let answer = judge(&ask, &entries()).expect("all is settled");
        assert_eq!((answer.reserved, answer.advanced), (ask.reserve, ask.advance));
        assert!(answer.closed.is_empty() && answer.broken.is_empty());
    }

    #[test]
    fn reserving_on_a_closed_stream_tells_where_it_ends() {
        let ask = LedgerAsk { reserve: vec![mark(1, 30)], advance: vec![] };
        assert_eq!(judge(&ask, &entries()).expect("settled").closed, vec![mark(1, 10)]);
    }

    #[test]
    fn reserving_on_a_stream_that_a_skip_closed_says_so() {
        let mut entries = entries();
        entries.get_mut(&origin()).expect("known").as_mut().expect("sound").skipped.push(10..90);
        let answer = judge(&LedgerAsk { reserve: vec![mark(1, 30)], advance: vec![] }, &entries).expect("settled");
        assert_eq!((answer.closed, answer.skipped), (vec![], vec![mark(1, 10)]));
    }

    #[test]
    fn marks_not_yet_visible_are_asked_again() {
        assert_eq!(judge(&LedgerAsk { reserve: vec![mark(2, 21)], advance: vec![] }, &entries()), None);
        assert_eq!(judge(&LedgerAsk { reserve: vec![], advance: vec![mark(1, 6)] }, &entries()), None);
    }

    #[test]
    fn what_is_gone_is_broken_once() {
        let ask = LedgerAsk { reserve: vec![mark(7, 1)], advance: vec![mark(7, 1)] };
        let broken = judge(&ask, &entries()).expect("settled").broken;
        assert_eq!(broken.len(), 1);
        assert!(broken[0].1.message.contains("no longer has stream 7"), "{broken:?}");
        assert!(
            judge(&ask, &Entries::new()).expect("settled").broken[0].1.message.contains("t/3 (incarnation 0) is gone")
        );
    }
}
