//! What Kafka says of topics: ids, partitions, ends, and the group's commits. Joins no group.

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::consumer::Consumer as _;
use rdkafka::metadata::MetadataPartition;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use crate::code::{Code, Failure};
use crate::config::Kafka;
use crate::source::asking::Asker;

/// Longest wait for one answer: somebody waits at a terminal.
const WAIT: Duration = Duration::from_secs(10);

pub(super) struct Broker<'a> {
    kafka: &'a Kafka,
    asker: Asker,
    pub(super) cluster: String,
}

/// First offset that is still there, and the one past the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) low: i64,
    pub(super) high: i64,
}

impl<'a> Broker<'a> {
    pub(super) fn connect(kafka: &'a Kafka) -> Result<Self, Failure> {
        let asker = Asker::new(kafka)?;
        // It is this that collects the reasons of brokers that do not answer.
        asker.metadata(WAIT)?;
        let cluster = asker.cluster_id(WAIT)?;
        Ok(Self { kafka, asker, cluster })
    }

    /// Partitions of a topic; empty if there is no such topic.
    pub(super) fn partitions(&self, topic: &str) -> Result<Vec<i32>, Failure> {
        let metadata = self.asker.consumer().fetch_metadata(Some(topic), WAIT);
        let metadata = metadata.map_err(|error| unanswered(topic, "partitions", &error))?;
        let of_topic = metadata.topics().iter().filter(|found| found.name() == topic);
        let mut partitions: Vec<_> =
            of_topic.flat_map(|found| found.partitions().iter().map(MetadataPartition::id)).collect();
        partitions.sort_unstable();
        Ok(partitions)
    }

    pub(super) fn topic_id(&self, topic: &str) -> Result<Option<String>, Failure> {
        self.asker.topic_id(topic, WAIT).map_err(|reason| unanswered(topic, "id", &reason))
    }

    pub(super) fn ends(&self, topic: &str, partition: i32) -> Result<Ends, Failure> {
        let ends = self.asker.consumer().fetch_watermarks(topic, partition, WAIT);
        let (low, high) = ends.map_err(|error| unanswered(topic, "ends", &error))?;
        Ok(Ends { low, high })
    }

    /// What the configured group has committed.
    pub(super) fn committed(&self, topic: &str, partitions: &[i32]) -> Result<BTreeMap<i32, i64>, Failure> {
        let mut list = TopicPartitionList::new();
        for &partition in partitions {
            list.add_partition(topic, partition);
        }
        let committed = self
            .asker
            .consumer()
            .committed_offsets(list, WAIT)
            .map_err(|error| unanswered(topic, "commits", &error))?;
        let known = committed.elements_for_topic(topic);
        let known = known.iter().filter_map(|element| match element.offset() {
            Offset::Offset(offset) => Some((element.partition(), offset)),
            _ => None,
        });
        Ok(known.collect())
    }

    /// Members of the configured group that run now.
    pub(super) fn n_members(&self) -> Result<usize, Failure> {
        let group = &self.kafka.group;
        let listed = self.asker.consumer().client().fetch_group_list(Some(group), WAIT);
        let listed = listed.map_err(|error| unanswered(group, "members of group", &error))?;
        Ok(listed.groups().iter().filter(|found| found.name() == group).map(|found| found.members().len()).sum())
    }
}

fn unanswered(of: &str, what: &str, reason: &dyn std::fmt::Display) -> Failure {
    Failure::new(Code::KafkaUnreachable, format_args!("kafka does not tell the {what} of {of}: {reason}"))
}
