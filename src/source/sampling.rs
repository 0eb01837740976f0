//! Some records of a topic, for people to look at. Read by assignment: no group hears of it.

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::consumer::Consumer;
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::asking::Asker;
use super::native;
use crate::clock::Clock;
use crate::record::{Headers, Record};

const WAIT: Duration = Duration::from_secs(5);
/// Longest time for all records together.
const LIMIT_MS: u64 = 15_000;

/// A record with bytes of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sampled {
    pub topic: String,
    pub partition: i32,
    pub offset: i64,
    pub timestamp: Option<i64>,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    /// Packed, as `Headers` reads them.
    pub headers: Vec<u8>,
}

impl Sampled {
    pub fn record(&self) -> Record<'_> {
        Record {
            topic: &self.topic,
            partition: self.partition,
            offset: self.offset,
            timestamp: self.timestamp,
            key: self.key.as_deref(),
            value: self.value.as_deref(),
            headers: Headers(&self.headers),
        }
    }

    fn of(message: &BorrowedMessage<'_>) -> Self {
        let mut headers = Vec::new();
        native::pack_headers(message, &mut headers);
        Self {
            topic: message.topic().to_owned(),
            partition: message.partition(),
            offset: message.offset(),
            timestamp: message.timestamp().to_millis(),
            key: message.key().map(<[u8]>::to_vec),
            value: message.payload().map(<[u8]>::to_vec),
            headers,
        }
    }
}

impl Asker {
    /// The newest `n` records of a topic, or its first ones, in the order of their timestamps.
    pub fn sample(&self, topic: &str, partitions: &[i32], n: usize, first: bool) -> Result<Vec<Sampled>, KafkaError> {
        let consumer = self.consumer();
        let mut list = TopicPartitionList::new();
        for &partition in partitions {
            let (low, high) = consumer.fetch_watermarks(topic, partition, WAIT)?;
            let from = if first { low } else { low.max(high - n as i64) };
            if from < high {
                list.add_partition_offset(topic, partition, Offset::Offset(from))?;
            }
        }
        consumer.assign(&list)?;
        let clock = Clock::start();
        // Up to `n` of each partition, so that the choice by time is right whichever answers first.
        let mut wanted: BTreeMap<i32, usize> = list.elements().iter().map(|element| (element.partition(), n)).collect();
        let mut sampled = Vec::new();
        while wanted.values().any(|left| *left > 0) && clock.now().0 < LIMIT_MS {
            match consumer.poll(Duration::from_millis(100)) {
                Some(Ok(message)) => {
                    let left = wanted.entry(message.partition()).or_default();
                    if *left > 0 {
                        *left -= 1;
                        sampled.push(Sampled::of(&message));
                    }
                }
                Some(Err(KafkaError::PartitionEOF(partition))) => {
                    wanted.remove(&partition);
                }
                Some(Err(error)) => return Err(error),
                None => {}
            }
        }
        consumer.unassign()?;
        Ok(choose(sampled, n, first))
    }
}

fn choose(mut sampled: Vec<Sampled>, n: usize, first: bool) -> Vec<Sampled> {
    sampled.sort_by_key(|s| (s.timestamp, s.partition, s.offset));
    let too_many = sampled.len().saturating_sub(n);
    if first {
        sampled.truncate(n);
    } else {
        sampled.drain(..too_many);
    }
    sampled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_and_the_newest_go_by_time() {
        let at = |timestamp: i64| Sampled {
            topic: "t".into(),
            partition: 0,
            offset: timestamp,
            timestamp: Some(timestamp),
            key: None,
            value: None,
            headers: Vec::new(),
        };
        let offsets = |first| choose([3, 1, 2].map(at).to_vec(), 2, first).iter().map(|s| s.offset).collect::<Vec<_>>();
        assert_eq!((offsets(true), offsets(false)), (vec![1, 2], vec![2, 3]));
    }
}
