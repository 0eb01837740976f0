//! Notices that a topic was deleted and created again while it is read.
//!
//! The client does not: it takes up the new topic at the old one's offset (a FIXME in `rd_kafka_topic_metadata_update2`
//! of librdkafka 2.12), and records of the new topic look like the next ones of the old. So each topic's id is asked for
//! after records were polled and before their offsets are reserved: if it is still the one that the partition was handed
//! over with, the records are of that topic, since ids never come back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};

use super::{SourceError, kafka, native};
use crate::config::Kafka;

/// Longest wait for an answer; writing waits as long.
const WAIT: Duration = Duration::from_secs(2);

pub struct TopicIds {
    /// Of no group, so that it may be used and dropped apart from the poll thread.
    client: BaseConsumer,
    /// The id that each topic's partitions were handed over with.
    known: Mutex<BTreeMap<String, String>>,
}

/// A topic is not the one that its partitions were handed over with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    pub was: String,
    pub is: String,
}

impl TopicIds {
    pub fn new(config: &Kafka) -> Result<Self, SourceError> {
        let client = kafka::groupless_config(config).create().map_err(SourceError::Client)?;
        Ok(Self { client, known: Mutex::default() })
    }

    /// The ledger has handed over a partition of `topic` under this id.
    pub fn learn(&self, topic: &str, id: &str) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(topic.to_owned(), id.to_owned());
    }

    /// Asks the broker which of `topics` have changed, all in one question; blocks. A broker that does not answer, or no
    /// longer has a topic, proves nothing: what was polled before is stored all the same, rather than that the store
    /// waits for Kafka.
    pub fn changed(&self, topics: &BTreeSet<&str>) -> BTreeMap<String, Changed> {
        // Nobody else takes this client's events, which would pile up.
        while self.client.poll(Duration::ZERO).is_some() {}
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let asked: BTreeSet<&str> = topics.iter().copied().filter(|topic| known.contains_key(*topic)).collect();
        if asked.is_empty() {
            return BTreeMap::new();
        }
        let ids = native::topic_ids(self.client.client().native_ptr(), &asked, WAIT);
        let ids = ids.unwrap_or_else(|reason| {
            tracing::debug!(reason, "topic ids not known");
            BTreeMap::new()
        });
        let change = |(topic, id): (String, native::TopicId)| match (id, known.get(&topic)) {
            (Ok(Some(is)), Some(was)) if is != *was => Some((topic, Changed { was: was.clone(), is })),
            (Err(reason), _) => {
                tracing::debug!(topic, reason, "topic id not known");
                None
            }
            _ => None,
        };
        ids.into_iter().filter_map(change).collect()
    }
}

impl std::fmt::Debug for TopicIds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TopicIds").field("known", &self.known).finish_non_exhaustive()
    }
}
