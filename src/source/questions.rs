//! What a hand-over has to know: of the brokers first, then of the ledger. A few questions for all partitions together,
//! since a member may get hundreds at once, and the group waits meanwhile.

use std::collections::BTreeSet;
use std::time::Duration;

use rdkafka::consumer::Consumer;
use rdkafka::error::KafkaResult;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::batch::Place;
use super::poll::Poller;
use super::rebalance::{Places, unanswered};
use super::table::Live;
use super::{Handed, PartitionAsk, Refused, native};
use crate::record::Assignment;

/// Longest wait for one answer of a broker.
const BROKER_WAIT: Duration = Duration::from_secs(10);

impl Poller<'_> {
    /// Where each partition is read from, or why it is not; in the order of `places`.
    pub(super) fn resolve(&mut self, places: &Places) -> Vec<Result<(Live, Handed), Refused>> {
        let asks = match self.ask(places) {
            Ok(asks) => asks,
            Err(reason) => return vec![Err(unanswered(reason)); places.len()],
        };
        let mut lives = Vec::with_capacity(asks.len());
        let mut numbered = Vec::with_capacity(asks.len());
        for ask in asks {
            self.last_assignment += 1;
            let assignment = Assignment(self.last_assignment);
            let place = Place { assignment, topic: ask.topic.as_str().into(), partition: ask.partition };
            lives.push((place, ask.committed, ask.high));
            numbered.push((ask, assignment));
        }
        let answers = self.wiring.resolve.assign(numbered);
        let n_statistics = self.consumer.context().fetches().n;
        let live = |((place, committed, high), answer): (_, Result<Handed, Refused>)| {
            answer.map(|handed| (Live::new(place, &handed.assigned.spans, committed, high, n_statistics), handed))
        };
        lives.into_iter().zip(answers).map(live).collect()
    }

    /// Gathers what the ledger has to know.
    fn ask(&self, places: &Places) -> Result<Vec<PartitionAsk>, String> {
        let failed = |what: &str, error: &dyn std::fmt::Display| format!("{what}: {error}");
        let committed = self.consumer.committed_offsets(list(places, Offset::Invalid), BROKER_WAIT);
        let committed = committed.map_err(|e| failed("committed offsets are not known", &e))?;
        let ends = |which| self.consumer.offsets_for_times(list(places, which), BROKER_WAIT);
        let unknown = |e| failed("ends of the partitions are not known", &e);
        let lows = ends(Offset::Beginning).map_err(unknown)?;
        let highs = ends(Offset::End).map_err(unknown)?;
        let topics: BTreeSet<&str> = places.iter().map(|(topic, _)| topic.as_str()).collect();
        let mut topic_ids = native::topic_ids(self.consumer.client().native_ptr(), &topics, BROKER_WAIT)?;
        let mut asks = Vec::with_capacity(places.len());
        for (topic, partition) in places {
            let end = |ends: &TopicPartitionList| {
                let offset = offset_in(ends, topic, *partition).map_err(|e| failed("end is not known", &e))?;
                offset.ok_or_else(|| format!("an end of partition {topic}/{partition} is not known"))
            };
            let committed = offset_in(&committed, topic, *partition);
            asks.push(PartitionAsk {
                topic: topic.clone(),
                partition: *partition,
                topic_id: topic_ids.entry(topic.clone()).or_insert(Ok(None)).clone()?,
                committed: committed.map_err(|e| failed("committed offset is not known", &e))?,
                low: end(&lows)?,
                high: end(&highs)?,
            });
        }
        Ok(asks)
    }
}

/// `which` stands for a question: where the log begins or ends is asked for as a time before or after all.
fn list(places: &Places, which: Offset) -> TopicPartitionList {
    let mut list = TopicPartitionList::with_capacity(places.len());
    for (topic, partition) in places {
        list.add_partition_offset(topic, *partition, which).expect("invariant: no such offset is out of range");
    }
    list
}

fn offset_in(list: &TopicPartitionList, topic: &str, partition: i32) -> KafkaResult<Option<i64>> {
    let Some(element) = list.find_partition(topic, partition) else { return Ok(None) };
    element.error()?;
    Ok(if let Offset::Offset(offset) = element.offset() { Some(offset) } else { None })
}
