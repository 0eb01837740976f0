//! Whether the process is alive and whether it is ready, judged from what its threads report. Time is an argument.
//!
//! *Live* speaks of the process alone: its poll thread and its shards go round their loops. *Ready* is live, plus a
//! joined consumer group, a sink that answers and no partition that is stopped or stands still.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::code::{Code, Failure};
use crate::record::Tick;

/// Shared by all threads. A beat is one relaxed store; the locks are taken when something changes, and by probes.
#[derive(Debug)]
pub struct Health {
    stale_after_ms: u64,
    poll_beat: AtomicU64,
    shard_beats: Box<[AtomicU64]>,
    group_joined: AtomicBool,
    /// Why the sink does not answer; starts as "not tried yet".
    sink_failure: Mutex<Option<String>>,
    /// Stopped partitions by topic and number, with the reason.
    stopped: Mutex<BTreeMap<(String, i32), Failure>>,
    /// What stands still although it has work, one reason a partition.
    stalled: Mutex<Vec<String>>,
}

impl Health {
    /// All threads count as having been seen at `now`, so that each has `stale_after_ms` to start.
    pub fn new(n_shards: usize, stale_after_ms: u64, now: Tick) -> Self {
        Self {
            stale_after_ms,
            poll_beat: AtomicU64::new(now.0),
            shard_beats: (0..n_shards).map(|_| AtomicU64::new(now.0)).collect(),
            group_joined: AtomicBool::new(false),
            sink_failure: Mutex::new(Some("not reached yet".to_owned())),
            stopped: Mutex::default(),
            stalled: Mutex::default(),
        }
    }

    /// The poll thread went round its loop.
    pub fn beat_poll(&self, now: Tick) {
        self.poll_beat.store(now.0, Ordering::Relaxed);
    }

    /// A shard went round its loop. Waiting for records is progress; waiting for a lock is not.
    pub fn beat_shard(&self, shard: usize, now: Tick) {
        self.shard_beats[shard].store(now.0, Ordering::Relaxed);
    }

    pub fn set_group_joined(&self, joined: bool) {
        self.group_joined.store(joined, Ordering::Relaxed);
    }

    pub fn sink_answered(&self) {
        *locked(&self.sink_failure) = None;
    }

    pub fn sink_failed(&self, reason: impl Into<String>) {
        *locked(&self.sink_failure) = Some(reason.into());
    }

    pub fn stop_partition(&self, topic: &str, partition: i32, reason: Failure) {
        locked(&self.stopped).insert((topic.to_owned(), partition), reason);
    }

    /// The partition went on, or is no longer ours.
    pub fn clear_partition(&self, topic: &str, partition: i32) {
        locked(&self.stopped).remove(&(topic.to_owned(), partition));
    }

    /// Replaces what stands still.
    pub fn set_stalled(&self, reasons: Vec<String>) {
        *locked(&self.stalled) = reasons;
    }

    /// Why the process is not live, one reason a line, its code first; empty = live.
    pub fn not_live(&self, now: Tick) -> Vec<String> {
        let threads = std::iter::once(("poll thread".to_owned(), &self.poll_beat))
            .chain(self.shard_beats.iter().enumerate().map(|(i, beat)| (format!("shard {i}"), beat)));
        threads
            .filter_map(|(name, beat)| {
                let silent_ms = now.since(Tick(beat.load(Ordering::Relaxed)));
                (silent_ms > self.stale_after_ms)
                    .then(|| format!("{}: {name} has made no progress for {} s", Code::ThreadSilent, silent_ms / 1000))
            })
            .collect()
    }

    /// Why the process is not ready, one reason a line, its code first; empty = ready.
    pub fn not_ready(&self, now: Tick) -> Vec<String> {
        let mut reasons = self.not_live(now);
        if !self.group_joined.load(Ordering::Relaxed) {
            reasons.push(format!("{}: not a member of the consumer group", Code::GroupNotJoined));
        }
        if let Some(reason) = &*locked(&self.sink_failure) {
            reasons.push(format!("{}: mongodb does not answer: {reason}", Code::MongoUnreachable));
        }
        for ((topic, partition), Failure { code, message }) in &*locked(&self.stopped) {
            reasons.push(format!("{code}: partition {topic}/{partition} is stopped: {message}"));
        }
        reasons.extend(locked(&self.stalled).iter().cloned());
        // A server's error text may span lines; a reader counts lines as reasons.
        reasons.into_iter().map(|reason| reason.replace(['\n', '\r'], " ")).collect()
    }
}

/// A thread that panicked while it held the lock left whole values behind, and probes must go on answering.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready() -> Health {
        let health = Health::new(2, 10_000, Tick(1_000));
        health.set_group_joined(true);
        health.sink_answered();
        health
    }

    #[test]
    fn every_thread_has_to_keep_going() {
        let health = ready();
        assert!(health.not_live(Tick(11_000)).is_empty());
        health.beat_poll(Tick(11_000));
        health.beat_shard(0, Tick(11_000));
        assert_eq!(health.not_live(Tick(12_000)), ["thread-silent: shard 1 has made no progress for 11 s"]);
        health.beat_shard(1, Tick(12_000));
        assert!(health.not_live(Tick(12_000)).is_empty());
        assert_eq!(health.not_live(Tick(30_000)).len(), 3);
        assert_eq!(health.not_ready(Tick(30_000)).len(), 3);
    }

    #[test]
    fn a_beat_from_the_future_is_not_silence() {
        let health = ready();
        health.beat_poll(Tick(50_000));
        assert!(health.not_live(Tick(9_000)).is_empty());
    }

    #[test]
    fn starts_unready_and_live() {
        let health = Health::new(1, 10_000, Tick(0));
        assert!(health.not_live(Tick(0)).is_empty());
        let reasons = health.not_ready(Tick(0));
        let group = "group-not-joined: not a member of the consumer group";
        assert_eq!(reasons, [group, "mongo-unreachable: mongodb does not answer: not reached yet"]);
    }

    #[test]
    fn an_outage_makes_it_unready_but_not_dead() {
        let health = ready();
        assert!(health.not_ready(Tick(1_000)).is_empty());
        health.sink_failed("no primary\nin sight");
        assert_eq!(health.not_ready(Tick(1_000)), ["mongo-unreachable: mongodb does not answer: no primary in sight"]);
        assert!(health.not_live(Tick(1_000)).is_empty());
        health.sink_answered();
        assert!(health.not_ready(Tick(1_000)).is_empty());
    }

    #[test]
    fn a_stall_makes_it_unready_but_not_dead() {
        let health = ready();
        health.set_stalled(vec!["partition readings/3 stands still".to_owned()]);
        assert_eq!(health.not_ready(Tick(1_000)), ["partition readings/3 stands still"]);
        assert!(health.not_live(Tick(1_000)).is_empty());
        health.set_stalled(Vec::new());
        assert!(health.not_ready(Tick(1_000)).is_empty());
    }

    #[test]
    fn stopped_partitions_are_named_until_cleared() {
        let health = ready();
        health.stop_partition("readings", 3, Failure::new(Code::TopicRecreated, "was recreated"));
        let reasons = health.not_ready(Tick(1_000));
        assert_eq!(reasons, ["topic-recreated: partition readings/3 is stopped: was recreated"]);
        health.clear_partition("readings", 3);
        assert!(health.not_ready(Tick(1_000)).is_empty());
    }
}
