//! The consumer: its settings, and the callbacks that librdkafka makes on the poll thread.
//!
//! A callback only takes note. The poll thread acts on it right after the poll that made it, where it has everything at
//! hand; librdkafka waits for the assign or unassign call in any case. So no state is shared behind a lock, and nothing
//! is locked a record.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rdkafka::client::ClientContext;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::KafkaError;
use rdkafka::statistics::Statistics;
use rdkafka::topic_partition_list::TopicPartitionList;
use rdkafka::types::RDKafkaRespErr;

use super::SourceError;
use super::counts::{SourceCounts, set};
use super::flow::{Limits, Quiet, queue_bytes};
use crate::clock::Clock;
use crate::code::Code;
use crate::config::Kafka;
use crate::config::topics::INTERNAL_TOPICS;

/// How long the other members wait for one that takes part in a rebalance, and how long this one may go without polling.
const MAX_POLL_INTERVAL_MS: u64 = 300_000;

/// Settings of the consumer: ours, then the user's, then those that the protocol owns.
pub fn client_config(kafka: &Kafka, memory_budget_bytes: u64) -> ClientConfig {
    let limits = Limits::of(memory_budget_bytes);
    let mut config = ClientConfig::new();
    // Measured: with the default of 1000 ms the queue runs empty while the client waits; 0.3 against 1.3 M records/s.
    config.set("fetch.queue.backoff.ms", "10");
    config.set("fetch.wait.max.ms", "100");
    config.set("client.id", "sakia");
    // Hides them from patterns.
    config.set("topic.blacklist", INTERNAL_TOPICS);
    for (name, value) in &kafka.options {
        config.set(name, value);
    }
    // Members with one client id make some assignors loop for ever (librdkafka issue 4783).
    let client_id = format!("{}-{:08x}", config.get("client.id").unwrap_or("sakia"), fastrand::u32(..));
    config.set("client.id", client_id);
    config.set("bootstrap.servers", &kafka.brokers);
    config.set("group.id", &kafka.group);
    config.set("enable.auto.commit", "false");
    config.set("enable.auto.offset.store", "false");
    config.set("enable.partition.eof", "false");
    config.set("auto.offset.reset", "error");
    config.set("isolation.level", "read_committed");
    // Assignments are taken up and given up one by one, which the older assignors do not allow. With the newer group
    // protocol they always are; there the brokers choose the assignor, and naming one is an error.
    if config.get("group.protocol") != Some("consumer") {
        config.set("partition.assignment.strategy", "cooperative-sticky");
    }
    config.set("statistics.interval.ms", "1000");
    config.set("fetch.max.bytes", limits.fetch_bytes.to_string());
    config.set("fetch.message.max.bytes", limits.fetch_bytes.to_string());
    config.set("queued.max.messages.kbytes", limits.queue_kbytes.to_string());
    config.set("queued.min.messages", limits.queue_records.to_string());
    config
}

/// How long this member may go without polling before the group takes its partitions away.
pub(super) fn max_poll_interval_ms(kafka: &Kafka) -> u64 {
    kafka.options.get("max.poll.interval.ms").and_then(|v| v.parse().ok()).unwrap_or(MAX_POLL_INTERVAL_MS)
}

/// Settings of a client that only asks questions: of no group, without statistics.
pub(super) fn groupless_config(kafka: &Kafka) -> ClientConfig {
    let mut config = client_config(kafka, 0);
    config.remove("group.id");
    config.set("statistics.interval.ms", "0");
    config
}

/// The cluster's id, which names partitions in the ledger. Asks with a client of its own that joins no group.
pub fn cluster_id(kafka: &Kafka, timeout: Duration) -> Result<String, SourceError> {
    let consumer: BaseConsumer = groupless_config(kafka).create().map_err(SourceError::Client)?;
    let waited_ms = timeout.as_millis() as u64;
    let unreachable = || SourceError::Unreachable { brokers: kafka.brokers.clone(), waited_ms, reason: String::new() };
    consumer.client().fetch_cluster_id(timeout).ok_or_else(unreachable)
}

/// What a rebalance asks for.
#[derive(Debug)]
pub(super) enum Shift {
    Assign(Vec<(String, i32)>),
    Revoke(Vec<(String, i32)>),
}

/// What the statistics say of one partition.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fetch {
    /// Offset that the client asks for next.
    pub(super) next: i64,
    /// Last offset that may be read, and one; -1 = unknown.
    pub(super) end: i64,
    /// Nothing is asked for any more: the offset was out of range, or the client gave up.
    pub(super) is_halted: bool,
}

/// The latest statistics.
#[derive(Debug, Default)]
pub(super) struct Fetches {
    /// Counts the statistics that have come.
    pub(super) n: u64,
    pub(super) partitions: BTreeMap<(String, i32), Fetch>,
    /// Records in librdkafka's queue, of all partitions together.
    pub(super) n_queued: u64,
}

pub(super) type Client = BaseConsumer<Context>;

/// What the callbacks note down.
#[derive(Debug)]
pub struct Context {
    shifts: Mutex<VecDeque<Shift>>,
    fetches: Mutex<Fetches>,
    quiet: Mutex<Quiet>,
    is_closing: AtomicBool,
    counts: Arc<SourceCounts>,
    clock: Clock,
}

impl Context {
    pub(super) fn new(counts: Arc<SourceCounts>, clock: Clock) -> Self {
        Self {
            shifts: Mutex::default(),
            fetches: Mutex::default(),
            quiet: Mutex::default(),
            is_closing: AtomicBool::new(false),
            counts,
            clock,
        }
    }

    pub(super) fn next_shift(&self) -> Option<Shift> {
        lock(&self.shifts).pop_front()
    }

    pub(super) fn fetches(&self) -> MutexGuard<'_, Fetches> {
        lock(&self.fetches)
    }

    /// From now on rebalances are answered at once and bring nothing: nobody polls but the closing client itself.
    pub(super) fn close(&self) {
        self.is_closing.store(true, Ordering::Relaxed);
    }

    /// Whether a message of this kind may be logged now, and how many were left out.
    fn pass(&self, kind: i32) -> Option<u64> {
        lock(&self.quiet).pass(kind, self.clock.now())
    }
}

/// What the callbacks keep is whole after each statement, so a panic elsewhere spoils nothing.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, fac: &str, message: &str) {
        match level {
            RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical | RDKafkaLogLevel::Error => {
                // Also told through `error` below, with a limit.
                tracing::debug!(target: "librdkafka", facility = fac, "{message}");
            }
            RDKafkaLogLevel::Warning => {
                tracing::warn!(target: "librdkafka", code = %Code::Librdkafka, facility = fac, "{message}");
            }
            RDKafkaLogLevel::Notice => tracing::info!(target: "librdkafka", facility = fac, "{message}"),
            RDKafkaLogLevel::Info | RDKafkaLogLevel::Debug => {
                tracing::debug!(target: "librdkafka", facility = fac, "{message}");
            }
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        let code = error.rdkafka_error_code().map_or(i32::MIN, |c| c as i32);
        if let Some(n_left_out) = self.pass(code) {
            tracing::warn!(code = %Code::Librdkafka, %error, reason, n_left_out, "kafka client reports an error");
        }
    }

    fn stats(&self, statistics: Statistics) {
        let mut fetches = self.fetches();
        fetches.n += 1;
        fetches.partitions.clear();
        let (mut n_queued, mut n_bytes) = (0, 0);
        for (name, topic) in statistics.topics {
            for (number, partition) in topic.partitions {
                // All partitions share one queue, and each tells the whole of it.
                n_queued = n_queued.max(partition.fetchq_cnt.max(0) as u64);
                n_bytes = n_bytes.max(partition.fetchq_size);
                let fetch = Fetch {
                    next: partition.next_offset,
                    end: partition.ls_offset,
                    is_halted: matches!(partition.fetch_state.as_str(), "none" | "stopped"),
                };
                fetches.partitions.insert((name.clone(), number), fetch);
            }
        }
        fetches.n_queued = n_queued;
        set(&self.counts.queue_bytes, queue_bytes(n_queued, n_bytes));
    }
}

impl ConsumerContext for Context {
    fn rebalance(&self, consumer: &BaseConsumer<Self>, err: RDKafkaRespErr, list: &mut TopicPartitionList) {
        let is_assign = err == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS;
        if self.is_closing.load(Ordering::Relaxed) {
            let answer =
                if is_assign { consumer.incremental_assign(list) } else { consumer.incremental_unassign(list) };
            if let Err(error) = answer {
                tracing::debug!(%error, "rebalance while closing");
            }
            return;
        }
        let places = list.elements().iter().map(|e| (e.topic().to_owned(), e.partition())).collect();
        lock(&self.shifts).push_back(if is_assign { Shift::Assign(places) } else { Shift::Revoke(places) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kafka(options: &[(&str, &str)]) -> Kafka {
        Kafka {
            brokers: "broker:9092".to_owned(),
            group: "group".to_owned(),
            topics: vec!["topic".to_owned()],
            options: options.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect(),
        }
    }

    #[test]
    fn what_the_protocol_owns_stays_and_the_rest_is_the_users() {
        let options = [("enable.auto.commit", "true"), ("auto.offset.reset", "latest"), ("fetch.wait.max.ms", "5")];
        let config = client_config(&kafka(&options), 256 << 20);
        assert_eq!(config.get("enable.auto.commit"), Some("false"));
        assert_eq!(config.get("auto.offset.reset"), Some("error"));
        assert_eq!(config.get("fetch.wait.max.ms"), Some("5"));
        assert_eq!(config.get("partition.assignment.strategy"), Some("cooperative-sticky"));
    }

    #[test]
    fn the_newer_group_protocol_names_no_assignor() {
        let config = client_config(&kafka(&[("group.protocol", "consumer")]), 256 << 20);
        assert_eq!(config.get("partition.assignment.strategy"), None);
    }

    #[test]
    fn no_two_members_share_a_client_id() {
        let id = || client_config(&kafka(&[("client.id", "west")]), 0).get("client.id").map(str::to_owned);
        let (one, other) = (id(), id());
        assert!(one.as_ref().is_some_and(|id| id.starts_with("west-")));
        assert_ne!(one, other);
    }

    #[test]
    fn librdkafka_takes_the_settings_of_any_budget() {
        for budget in [0, 16 << 20, 256 << 20, 64 << 30] {
            let created: Result<BaseConsumer, KafkaError> = client_config(&kafka(&[]), budget).create();
            assert!(created.is_ok(), "{budget}: {:?}", created.err());
        }
    }
}
