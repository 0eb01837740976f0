//! Notices that a topic was deleted and created again while it is read.
//!
//! The client does not: it takes up the new topic at the old one's offset (a FIXME in `rd_kafka_topic_metadata_update2`
//! of librdkafka 2.12), and records of the new topic look like the next ones of the old. So each topic's id is asked for
//! after records were polled and before their offsets are reserved: if it is still the one that the partition was handed
//! over with, the records are of that topic, since ids never come back.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};

use super::{SourceError, kafka, native};
use crate::clock::Clock;
use crate::config::Kafka;
use crate::record::Tick;

/// Longest wait for the answers of one round; writing waits as long.
const WAIT_MS: u64 = 2_000;

pub struct TopicIds {
    /// Of no group, so that it may be used and dropped apart from the poll thread.
    client: BaseConsumer,
    clock: Clock,
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
    pub fn new(config: &Kafka, clock: Clock) -> Result<Self, SourceError> {
        let client = kafka::groupless_config(config).create().map_err(SourceError::Client)?;
        Ok(Self { client, clock, known: Mutex::default() })
    }

    /// The ledger has handed over a partition of `topic` under this id.
    pub fn learn(&self, topic: &str, id: &str) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(topic.to_owned(), id.to_owned());
    }

    /// Asks the broker which of `topics` have changed; blocks. A broker that does not answer, or no longer has a topic,
    /// proves nothing: what was polled before is stored all the same, rather than that the store waits for Kafka.
    pub fn changed(&self, topics: impl IntoIterator<Item = String>) -> BTreeMap<String, Changed> {
        // Nobody else takes this client's events, which would pile up.
        while self.client.poll(Duration::ZERO).is_some() {}
        let deadline = self.clock.now().after(WAIT_MS);
        let changed = topics.into_iter().filter_map(|topic| Some((self.change_of(&topic, deadline)?, topic)));
        changed.map(|(changed, topic)| (topic, changed)).collect()
    }

    fn change_of(&self, topic: &str, deadline: Tick) -> Option<Changed> {
        let was = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(topic).cloned()?;
        let left_ms = deadline.since(self.clock.now());
        if left_ms == 0 {
            return None;
        }
        match native::topic_id(self.client.client().native_ptr(), topic, Duration::from_millis(left_ms)) {
            Ok(Some(is)) if is != was => Some(Changed { was, is }),
            Ok(_) => None,
            Err(reason) => {
                tracing::debug!(topic, reason, "topic id not known");
                None
            }
        }
    }
}

impl std::fmt::Debug for TopicIds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TopicIds").field("known", &self.known).finish_non_exhaustive()
    }
}
