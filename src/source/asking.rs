//! A client that only asks questions: it never joins the group, and changes nothing.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::KafkaError;
use rdkafka::metadata::Metadata;

use super::{SourceError, kafka, native};
use crate::clock::Clock;
use crate::config::Kafka;

/// One try, after which it is looked whether the client has given a reason.
const TRY: Duration = Duration::from_secs(2);
/// Between two looks for a topic.
const LOOK: Duration = Duration::from_millis(250);
/// Different reasons that are kept: one a broker is enough.
const MAX_HEARD: usize = 4;

/// Keeps what the client says is wrong: the answers themselves only say that there was none in time.
#[derive(Debug, Default)]
pub struct Heard(Mutex<Vec<String>>);

impl Heard {
    fn hear(&self, reason: &str) {
        let mut heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if heard.len() < MAX_HEARD && !heard.iter().any(|known| known == reason) {
            heard.push(reason.to_owned());
        }
    }

    fn told(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).join("; ")
    }
}

impl ClientContext for Heard {
    fn log(&self, _: RDKafkaLogLevel, facility: &str, message: &str) {
        tracing::debug!(target: "librdkafka", facility, "{message}");
    }

    fn error(&self, error: KafkaError, reason: &str) {
        use rdkafka::types::RDKafkaErrorCode::AllBrokersDown;
        // That all are down follows from each being down, and says less.
        if error.rdkafka_error_code() != Some(AllBrokersDown) {
            self.hear(plain(reason));
        }
    }
}

impl ConsumerContext for Heard {}

/// Reasons start with the client's name, such as `sakia-1f#consumer-1: `, and end in how long it took and how often:
/// that tells nobody anything, and makes equal ones differ.
fn plain(reason: &str) -> &str {
    let reason = match reason.split_once(": ") {
        Some((name, rest)) if name.contains("#consumer") => rest,
        _ => reason,
    };
    reason.split(" (after ").next().unwrap_or(reason)
}

pub struct Asker {
    consumer: BaseConsumer<Heard>,
    brokers: String,
}

impl std::fmt::Debug for Asker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Asker").field("brokers", &self.brokers).finish_non_exhaustive()
    }
}

impl Asker {
    pub fn new(kafka: &Kafka) -> Result<Self, SourceError> {
        let mut config = kafka::client_config(kafka, 0);
        config.set("statistics.interval.ms", "0");
        // Whoever reads a few records wants to know that there are no more.
        config.set("enable.partition.eof", "true");
        let consumer = config.create_with_context(Heard::default()).map_err(SourceError::Client)?;
        Ok(Self { consumer, brokers: kafka.brokers.clone() })
    }

    /// Brokers, and all topics that this client may see.
    pub fn metadata(&self, timeout: Duration) -> Result<Metadata, SourceError> {
        let clock = Clock::start();
        loop {
            if let Ok(metadata) = self.consumer.fetch_metadata(None, TRY.min(timeout)) {
                return Ok(metadata);
            }
            // Serves the callbacks, by which the reasons come.
            while self.consumer.poll(Duration::ZERO).is_some() {}
            if clock.now().0 >= timeout.as_millis() as u64 {
                return Err(self.unreachable(timeout));
            }
        }
    }

    /// As `metadata`; waits `patience` for topics that are missing: one that was just made is not known to all brokers.
    pub fn metadata_of(
        &self,
        topics: &[String],
        timeout: Duration,
        patience: Duration,
    ) -> Result<Metadata, SourceError> {
        let clock = Clock::start();
        loop {
            let metadata = self.metadata(timeout)?;
            let is_there = |name: &String| metadata.topics().iter().any(|topic| topic.name() == name);
            if topics.iter().all(is_there) || clock.now().0 >= patience.as_millis() as u64 {
                return Ok(metadata);
            }
            // Nothing is assigned to this client, so that it only waits.
            self.consumer.poll(LOOK);
        }
    }

    pub fn cluster_id(&self, timeout: Duration) -> Result<String, SourceError> {
        self.consumer.client().fetch_cluster_id(timeout).ok_or_else(|| self.unreachable(timeout))
    }

    fn unreachable(&self, waited: Duration) -> SourceError {
        let told = self.consumer.context().told();
        let reason = if told.is_empty() { String::new() } else { format!(" ({told})") };
        SourceError::Unreachable { brokers: self.brokers.clone(), waited_ms: waited.as_millis() as u64, reason }
    }

    /// Given anew whenever a topic is created; `None` where the broker gives none.
    pub fn topic_id(&self, topic: &str, timeout: Duration) -> Result<Option<String>, String> {
        native::topic_id(self.consumer.client().native_ptr(), topic, timeout)
    }

    /// For questions about offsets, and to read records by assignment.
    pub fn consumer(&self) -> &BaseConsumer<Heard> {
        &self.consumer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_kept_once_and_without_the_clients_name() {
        let heard = Heard::default();
        for reason in ["refused", "refused", "resolve"] {
            heard.hear(reason);
        }
        assert_eq!(heard.told(), "refused; resolve");
        let told =
            plain("sakia-1#consumer-2: h:1/bootstrap: Connect to h:1 failed: refused (after 0ms in state CONNECT)");
        assert_eq!(told, "h:1/bootstrap: Connect to h:1 failed: refused");
        assert_eq!(plain("h:1: failed"), "h:1: failed");
    }
}
