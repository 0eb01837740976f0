//! The topic that a run writes to.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::types::RDKafkaErrorCode;

use crate::clock::Stopwatch;

const TIMEOUT: Duration = Duration::from_secs(15);

#[derive(Clone, Copy, Debug)]
pub(super) struct Topic {
    pub partitions: i32,
    pub created: bool,
}

/// Finds the topic or creates it, and waits until each partition has a leader.
pub(super) async fn ensure(brokers: &str, name: &str, partitions: Option<i32>) -> Result<Topic> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers);
    let admin: AdminClient<DefaultClientContext> = config.create().context("cannot create a Kafka client")?;
    let wanted = partitions.unwrap_or(4);
    let created = match n_partitions(&admin, name, brokers)? {
        Some(_) => false,
        None => create(&admin, name, wanted).await?,
    };
    let watch = Stopwatch::start();
    let found = loop {
        match n_partitions(&admin, name, brokers)? {
            Some(found) if !created || found == wanted => break found,
            _ => ensure!(watch.elapsed() < TIMEOUT, "topic {name} has no leaders after {TIMEOUT:?}"),
        }
    };
    ensure!(
        partitions.is_none_or(|n| n == found),
        "topic {name} has {found} partitions, not {}: leave --partitions out or use another topic",
        partitions.unwrap_or_default()
    );
    Ok(Topic { partitions: found, created })
}

/// False: it was there, and the broker that was asked did not know all of it yet.
async fn create(admin: &AdminClient<DefaultClientContext>, name: &str, partitions: i32) -> Result<bool> {
    // Retention by time would delete at once what carries an old event time; -1 copies is the broker's own default.
    let wanted = NewTopic::new(name, partitions, TopicReplication::Fixed(-1)).set("retention.ms", "-1");
    let options = AdminOptions::new().operation_timeout(Some(TIMEOUT)).request_timeout(Some(TIMEOUT));
    let results = admin.create_topics([&wanted], &options).await.context("cannot create the topic")?;
    match results.into_iter().next() {
        Some(Err((_, RDKafkaErrorCode::TopicAlreadyExists))) => Ok(false),
        Some(Err((name, code))) => bail!("cannot create topic {name}: {code}"),
        _ => Ok(true),
    }
}

/// `None`: no such topic, or not all its leaders are known yet.
fn n_partitions(admin: &AdminClient<DefaultClientContext>, name: &str, brokers: &str) -> Result<Option<i32>> {
    // Asking for the one topic could make the broker create it, with one partition and its own retention.
    let all =
        admin.inner().fetch_metadata(None, TIMEOUT).with_context(|| format!("no answer from Kafka at {brokers}"))?;
    let Some(topic) = all.topics().iter().find(|t| t.name() == name) else { return Ok(None) };
    if let Some(error) = topic.error() {
        let code = RDKafkaErrorCode::from(error);
        ensure!(code == RDKafkaErrorCode::LeaderNotAvailable, "topic {name}: {code}");
        return Ok(None);
    }
    let led = topic.partitions().iter().all(|p| p.leader() >= 0);
    Ok((led && !topic.partitions().is_empty()).then_some(topic.partitions().len() as i32))
}
