//! Notices partitions that have work and do not get on with it. Time is an argument.
//!
//! Such a partition looks healthy otherwise: every thread goes round its loop, and the server may answer. A process that
//! stalls is not ready; it is still live, because most causes (a server that takes no writes, a quota) are not mended by
//! a restart, and restarting every process makes an outage worse.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::record::Tick;

/// Longer than a rebalance, a change of the primary, or any wait between two tries of one write.
const LEAST_MS: u64 = 300_000;

/// How far a partition is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub topic: Arc<str>,
    pub partition: i32,
    /// Everything below is durable.
    pub durable: i64,
    /// Records wait to be read, or to become durable.
    pub has_work: bool,
}

/// A partition that stands still.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stall {
    pub topic: Arc<str>,
    pub partition: i32,
    pub durable: i64,
    pub still_ms: u64,
    /// It was not told of before.
    pub is_new: bool,
}

#[derive(Debug)]
struct Since {
    durable: i64,
    at: Tick,
    is_told: bool,
}

#[derive(Debug)]
pub struct Stalls {
    after_ms: u64,
    places: BTreeMap<(Arc<str>, i32), Since>,
}

impl Stalls {
    /// Samples may wait for `flush_age_ms` before they are sent, and for the answer as long as `write_timeout_ms`.
    pub fn new(flush_age_ms: u64, write_timeout_ms: u64) -> Self {
        Self { after_ms: LEAST_MS + 2 * (flush_age_ms + write_timeout_ms), places: BTreeMap::new() }
    }

    /// Looks at all partitions that are read now. Those that are missing are forgotten.
    pub fn look(&mut self, now: Tick, places: &[Place]) -> Vec<Stall> {
        let mut before = std::mem::take(&mut self.places);
        let mut stalls = Vec::new();
        for place in places {
            let key = (Arc::clone(&place.topic), place.partition);
            let moved = Since { durable: place.durable, at: now, is_told: false };
            let mut since = match before.remove(&key) {
                Some(since) if place.has_work && since.durable == place.durable => since,
                _ => moved,
            };
            let still_ms = now.since(since.at);
            if still_ms >= self.after_ms {
                let is_new = !std::mem::replace(&mut since.is_told, true);
                let Place { topic, partition, durable, .. } = place.clone();
                stalls.push(Stall { topic, partition, durable, still_ms, is_new });
            }
            self.places.insert(key, since);
        }
        stalls
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(partition: i32, durable: i64, has_work: bool) -> Place {
        Place { topic: "t".into(), partition, durable, has_work }
    }

    /// Partitions that stall at each look, as `(partition, is new)`; 1 s of flush age and 1 s of write time-out.
    fn check(looks: &[(u64, &[Place])], expected: &[&[(i32, bool)]]) {
        let mut stalls = Stalls::new(1_000, 1_000);
        for ((at_s, places), expected) in looks.iter().zip(expected) {
            let found: Vec<_> =
                stalls.look(Tick(at_s * 1_000), places).iter().map(|s| (s.partition, s.is_new)).collect();
            assert_eq!(found, *expected, "at {at_s} s");
        }
    }

    #[test]
    fn work_without_progress_is_a_stall_and_is_new_once() {
        let both = &[place(0, 7, true), place(1, 7, true)][..];
        let one_moved = &[place(0, 7, true), place(1, 8, true)][..];
        check(
            &[(0, both), (200, one_moved), (303, one_moved), (304, one_moved), (305, one_moved), (306, both)],
            &[&[], &[], &[], &[(0, true)], &[(0, false)], &[(0, false)]],
        );
    }

    #[test]
    fn no_work_is_no_stall_and_work_counts_from_when_it_came() {
        let (idle, busy) = (&[place(0, 7, false)][..], &[place(0, 7, true)][..]);
        check(
            &[(0, idle), (10_000, idle), (10_001, busy), (10_303, busy), (10_304, busy)],
            &[&[], &[], &[], &[], &[(0, true)]],
        );
    }

    #[test]
    fn moving_on_ends_it_and_a_partition_that_left_starts_anew() {
        let (still, on) = (&[place(0, 7, true)][..], &[place(0, 8, true)][..]);
        check(
            &[(0, still), (304, still), (305, on), (306, &[]), (700, still), (701, still)],
            &[&[], &[(0, true)], &[], &[], &[], &[]],
        );
    }
}
