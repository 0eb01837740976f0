//! Counts acknowledged records by partition; the first failure is kept and ends the run.

use std::sync::{Mutex, MutexGuard};

use anyhow::{Result, ensure};
use rdkafka::ClientContext;
use rdkafka::Message as _;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::KafkaError;
use rdkafka::message::DeliveryResult;
use rdkafka::producer::ProducerContext;

use crate::manifest::OffsetRange;

/// Number of a record of the run, with a mark on those that hold poison: they are looked at again when the run is over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tag {
    pub record: u64,
    pub poisoned: bool,
}

impl Tag {
    pub(super) fn pack(self) -> usize {
        (self.record as usize) << 1 | usize::from(self.poisoned)
    }

    fn unpack(packed: usize) -> Self {
        Self { record: (packed >> 1) as u64, poisoned: packed & 1 == 1 }
    }
}

#[derive(Clone, Copy, Debug)]
struct Partition {
    least: i64,
    greatest: i64,
    n: i64,
}

/// What was acknowledged so far.
#[derive(Debug, Default)]
pub(super) struct Tally {
    partitions: Vec<Option<Partition>>,
    pub delivered: u64,
    /// `(partition, offset, record)` of the records with poison.
    pub poisoned: Vec<(i32, i64, u64)>,
    pub failure: Option<String>,
}

impl Tally {
    fn add(&mut self, partition: i32, offset: i64, tag: Tag) {
        let slot = partition as usize;
        if self.partitions.len() <= slot {
            self.partitions.resize(slot + 1, None);
        }
        let seen = self.partitions[slot].get_or_insert(Partition { least: offset, greatest: offset, n: 0 });
        seen.least = seen.least.min(offset);
        seen.greatest = seen.greatest.max(offset);
        seen.n += 1;
        self.delivered += 1;
        if tag.poisoned {
            self.poisoned.push((partition, offset, tag.record));
        }
    }

    /// The run's offsets. Fails if somebody else's records lie between them: they would pass for readings of this run.
    pub(super) fn ranges(&self) -> Result<Vec<OffsetRange>> {
        let mut ranges = Vec::new();
        for (partition, seen) in self.partitions.iter().enumerate() {
            let Some(seen) = seen else { continue };
            let range = OffsetRange { partition: partition as i32, from: seen.least, to: seen.greatest + 1 };
            ensure!(
                range.to - range.from == seen.n,
                "partition {partition}: {} records were acknowledged at offsets {} to {}: another producer writes to \
                 this topic; use a topic of its own",
                seen.n,
                seen.least,
                seen.greatest
            );
            ranges.push(range);
        }
        Ok(ranges)
    }
}

/// The producer's context. Its callbacks run on the thread that polls, so the lock is never waited for.
#[derive(Debug, Default)]
pub(super) struct Deliveries(Mutex<Tally>);

impl Deliveries {
    pub(super) fn tally(&self) -> MutexGuard<'_, Tally> {
        self.0.lock().expect("invariant: no callback panics while it holds the lock")
    }
}

impl ClientContext for Deliveries {
    fn log(&self, _: RDKafkaLogLevel, _: &str, _: &str) {}

    /// A fatal error means that exact delivery is no longer promised; anything else librdkafka retries by itself.
    fn error(&self, error: KafkaError, reason: &str) {
        if error.rdkafka_error_code() == Some(rdkafka::types::RDKafkaErrorCode::Fatal) {
            self.tally().failure.get_or_insert_with(|| format!("{error}: {reason}"));
        }
    }
}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, packed: usize) {
        let tag = Tag::unpack(packed);
        let mut tally = self.tally();
        match result {
            Ok(message) => tally.add(message.partition(), message.offset(), tag),
            Err((error, _)) => {
                tally.failure.get_or_insert_with(|| format!("record {} was not delivered: {error}", tag.record));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_exact_or_refused() {
        let mut tally = Tally::default();
        for (record, (partition, offset)) in [(2, 11), (0, 5), (2, 10)].into_iter().enumerate() {
            tally.add(partition, offset, Tag { record: record as u64, poisoned: record == 1 });
        }
        let two = OffsetRange { partition: 2, from: 10, to: 12 };
        assert_eq!(tally.ranges().unwrap(), vec![OffsetRange { partition: 0, from: 5, to: 6 }, two]);
        assert_eq!(tally.poisoned, vec![(0, 5, 1)]);
        tally.add(2, 13, Tag { record: 3, poisoned: false });
        assert!(tally.ranges().unwrap_err().to_string().contains("another producer"));
    }

    #[test]
    fn a_tag_survives_packing() {
        let tag = Tag::unpack(Tag { record: 1 << 40, poisoned: true }.pack());
        assert_eq!((tag.record, tag.poisoned), (1 << 40, true));
    }
}
