//! How much the client may hold, where records go, and when a full shard's partitions are paused. Pure.

use std::collections::BTreeMap;

use crate::record::Tick;

/// What librdkafka keeps beside each queued record's own bytes: an operation of its own. Measured as resident memory
/// of a million queued records less their bytes: 335 (rdkafka-sys 4.10, x86-64), and some room for the allocator.
pub const RECORD_OVERHEAD_BYTES: u64 = 400;

/// A compressed response of small records becomes up to this many times its size once unpacked and queued: 100-byte
/// records carry four times their size in overhead, and JSON under zstd shrinks 3 to 8 times. Measured: 12 times for
/// 91-byte readings with random digits.
const EXPANSION: u64 = 32;

/// The broker's default for the largest record; librdkafka refuses a smaller `fetch.max.bytes`.
const MIN_FETCH_BYTES: u64 = 1024 * 1024;

/// Larger responses bring nothing: at 16 MiB the round trip no longer shows.
const MAX_FETCH_BYTES: u64 = 16 * 1024 * 1024;

/// Limits for librdkafka. It has no cap on memory, only gates: it asks for no more while its queue is above either
/// queue limit, and then one response a broker may still arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// `fetch.max.bytes` and `fetch.message.max.bytes`.
    pub fetch_bytes: u64,
    /// `queued.max.messages.kbytes`.
    pub queue_kbytes: u64,
    /// `queued.min.messages`, which despite its name closes the gate.
    pub queue_records: u64,
}

impl Limits {
    /// librdkafka gets a quarter of the budget: half of that for a response in flight, unpacked, half for the queue.
    pub fn of(memory_budget_bytes: u64) -> Self {
        let share = memory_budget_bytes / 4;
        let fetch_bytes = (share / 2 / EXPANSION).clamp(MIN_FETCH_BYTES, MAX_FETCH_BYTES);
        let queue = share.saturating_sub(fetch_bytes * EXPANSION).max(share / 5).max(1024 * 1024);
        // Either limit alone may be the one that bites: small records by number, large ones by bytes.
        Self {
            fetch_bytes,
            queue_kbytes: (queue / 2 / 1024).clamp(1, 2_097_151),
            queue_records: (queue / 2 / RECORD_OVERHEAD_BYTES).clamp(1_000, 10_000_000),
        }
    }
}

/// Memory of librdkafka's queue, from its own figures.
pub fn queue_bytes(n_records: u64, payload_bytes: u64) -> u64 {
    payload_bytes + n_records * RECORD_OVERHEAD_BYTES
}

/// The shard of a partition. Neighbouring partitions go to neighbouring shards, so that one topic spreads evenly.
pub fn shard_of(topic: &str, partition: i32, n_shards: usize) -> usize {
    let fnv = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let start = topic.bytes().fold(0xcbf2_9ce4_8422_2325, fnv);
    (start.wrapping_add(partition as u64) % n_shards as u64) as usize
}

/// How long a shard may keep the poll thread waiting before its partitions are paused. Waiting costs nothing, while a
/// pause throws away what is prefetched; but no rebalance is served meanwhile.
pub const PATIENCE_MS: u64 = 2_000;

/// Whether a shard takes records.
#[derive(Clone, Copy, Debug, Default)]
pub struct Valve {
    full_since: Option<Tick>,
    paused: bool,
}

impl Valve {
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// The shard's channel is full at `now`. True = pause its partitions now.
    #[must_use]
    pub fn refused(&mut self, now: Tick) -> bool {
        let since = *self.full_since.get_or_insert(now);
        let pause = !self.paused && now.since(since) >= PATIENCE_MS;
        self.paused |= pause;
        pause
    }

    /// The shard took something.
    pub fn took(&mut self) {
        self.full_since = None;
    }

    /// `n_queued` of `capacity` are in the shard's channel. True = resume its partitions now. Only under a quarter, since
    /// pausing again at once would throw the prefetched records away again.
    #[must_use]
    pub fn drained(&mut self, n_queued: usize, capacity: usize) -> bool {
        let resume = self.paused && n_queued * 4 < capacity.max(1);
        if resume {
            *self = Self::default();
        }
        resume
    }
}

/// Lets one message of a kind through per interval and counts the rest: a broker that is down gives several errors a
/// second for as long as it is down.
#[derive(Debug, Default)]
pub struct Quiet {
    kinds: BTreeMap<i32, (Tick, u64)>,
}

impl Quiet {
    pub const INTERVAL_MS: u64 = 10_000;

    /// `Some(n)` = say it, and that `n` were left out since the last time.
    pub fn pass(&mut self, kind: i32, now: Tick) -> Option<u64> {
        let Some((said, left_out)) = self.kinds.get_mut(&kind) else {
            self.kinds.insert(kind, (now, 0));
            return Some(0);
        };
        if now.since(*said) < Self::INTERVAL_MS {
            *left_out += 1;
            return None;
        }
        *said = now;
        Some(std::mem::take(left_out))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn limits_fit_the_share(budget in 160_u64 << 20..64 << 30) {
            let limits = Limits::of(budget);
            let queue = limits.queue_kbytes * 1024 + limits.queue_records * RECORD_OVERHEAD_BYTES;
            prop_assert!(queue + limits.fetch_bytes * EXPANSION <= budget / 4 + (1 << 20), "{limits:?}");
        }

        #[test]
        fn limits_are_ones_librdkafka_takes(budget in 0_u64..u64::MAX) {
            let limits = Limits::of(budget);
            prop_assert!((1_000_000..=1_000_000_000).contains(&limits.fetch_bytes));
            prop_assert!((1..=2_097_151).contains(&limits.queue_kbytes));
            prop_assert!((1..=10_000_000).contains(&limits.queue_records));
        }

        /// Whatever a shard does, a paused one is resumed once its channel is empty, and never while it is full.
        #[test]
        fn a_valve_never_sticks(steps in proptest::collection::vec((0_u64..3_000, 0_usize..=8), 1..60)) {
            let (mut valve, mut now) = (Valve::default(), Tick(0));
            for (ms, n_queued) in steps {
                now = now.after(ms);
                let was_paused = valve.is_paused();
                if n_queued == 8 {
                    let paused = valve.refused(now);
                    prop_assert!(!(paused && was_paused));
                    prop_assert!(!valve.drained(n_queued, 8));
                } else if !was_paused {
                    valve.took();
                } else {
                    prop_assert_eq!(valve.drained(n_queued, 8), n_queued < 2);
                }
            }
            let was_paused = valve.is_paused();
            prop_assert_eq!(valve.drained(0, 8), was_paused);
            prop_assert!(!valve.is_paused());
        }

        #[test]
        fn partitions_of_a_topic_spread_evenly(topic in "[a-z.]{1,20}", n_shards in 1_usize..9) {
            let mut counts = vec![0; n_shards];
            for partition in 0..(n_shards as i32 * 4) {
                counts[shard_of(&topic, partition, n_shards)] += 1;
            }
            // The sum of hash and partition may wrap around once.
            prop_assert!(counts.iter().all(|n| (3..=5).contains(n)), "{counts:?}");
        }
    }

    #[test]
    fn pause_after_patience_only() {
        let mut valve = Valve::default();
        assert!(!valve.refused(Tick(0)));
        assert!(!valve.refused(Tick(PATIENCE_MS - 1)));
        valve.took();
        assert!(!valve.refused(Tick(PATIENCE_MS)));
        assert!(valve.refused(Tick(2 * PATIENCE_MS)));
        assert!(!valve.refused(Tick(3 * PATIENCE_MS)), "paused once");
    }

    #[test]
    fn quiet_counts_what_it_leaves_out() {
        let mut quiet = Quiet::default();
        assert_eq!(quiet.pass(1, Tick(0)), Some(0));
        assert_eq!(quiet.pass(1, Tick(5)), None);
        assert_eq!(quiet.pass(2, Tick(5)), Some(0));
        assert_eq!(quiet.pass(1, Tick(Quiet::INTERVAL_MS)), Some(1));
        assert_eq!(quiet.pass(1, Tick(2 * Quiet::INTERVAL_MS)), Some(0));
    }
}
