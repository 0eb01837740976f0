//! Reads a whole topic again, from its first offset to where it ends now.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use rdkafka::ClientContext;
use rdkafka::Message as _;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::consumer::{BaseConsumer, Consumer as _, ConsumerContext};
use rdkafka::error::KafkaError;
use rdkafka::{Offset, TopicPartitionList};

use super::truth::{Origin, Truth};
use crate::clock::Stopwatch;

const TIMEOUT: Duration = Duration::from_secs(15);
const POLL: Duration = Duration::from_secs(1);
/// Partitions that are not at their ends must give something within this time.
const SILENCE: Duration = Duration::from_mins(1);

/// The end of a partition is news here, not an error to be printed.
#[derive(Debug)]
struct Quiet;

impl ClientContext for Quiet {
    fn log(&self, _: RDKafkaLogLevel, _: &str, _: &str) {}

    fn error(&self, _: KafkaError, _: &str) {}
}

impl ConsumerContext for Quiet {}

pub(super) fn read(brokers: &str, topic: &str, truth: &mut Truth) -> Result<()> {
    let consumer = consumer(brokers)?;
    let metadata =
        consumer.fetch_metadata(None, TIMEOUT).with_context(|| format!("no answer from Kafka at {brokers}"))?;
    let partitions = metadata.topics().iter().find(|t| t.name() == topic).map_or(0, |t| t.partitions().len());
    ensure!(partitions > 0, "there is no topic {topic} at {brokers}");

    let base = truth.origins.len();
    let mut wanted = TopicPartitionList::new();
    let mut unfinished = vec![false; partitions];
    for partition in 0..partitions as i32 {
        let (from, to) = consumer
            .fetch_watermarks(topic, partition, TIMEOUT)
            .with_context(|| format!("no offsets of {topic}/{partition}"))?;
        truth.origins.push(Origin { topic: topic.to_owned(), partition, from, to });
        if from < to {
            wanted.add_partition_offset(topic, partition, Offset::Offset(from))?;
            unfinished[partition as usize] = true;
        }
    }
    if wanted.count() == 0 {
        return Ok(());
    }
    consumer.assign(&wanted).with_context(|| format!("cannot read topic {topic}"))?;
    let mut heard = Stopwatch::start();
    let mut trouble = None;
    while unfinished.contains(&true) {
        match consumer.poll(POLL) {
            // Also when only an event was served.
            None => {}
            // The offsets before the end may be markers of transactions, which are never handed over.
            Some(Err(KafkaError::PartitionEOF(partition))) => unfinished[partition as usize] = false,
            // A lost connection is made again; what lasts ends in silence.
            Some(Err(error)) => trouble = Some(error),
            Some(Ok(record)) => {
                let partition = record.partition() as usize;
                let to = truth.origins[base + partition].to;
                if record.offset() < to {
                    let time = record.timestamp().to_millis().context("a record has no timestamp")?;
                    truth.record((base + partition) as u32, record.offset(), time, record.payload());
                }
                // Later records, of a producer that goes on, are none of this report.
                unfinished[partition] &= record.offset() + 1 < to;
                heard = Stopwatch::start();
            }
        }
        if heard.elapsed() > SILENCE {
            let why = trouble.map_or_else(String::new, |error| format!(" ({error})"));
            bail!("topic {topic}: nothing came for {SILENCE:?}, and its end is not reached{why}");
        }
    }
    Ok(())
}

fn consumer(brokers: &str) -> Result<BaseConsumer<Quiet>> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers);
    // Never joined and never committed to: assignment by hand needs a name all the same.
    config.set("group.id", "loadtest-verify").set("enable.auto.commit", "false");
    config.set("auto.offset.reset", "error").set("enable.partition.eof", "true");
    config.set("isolation.level", "read_committed").set("check.crcs", "true");
    // The default of one second leaves a fast reader idle most of the time.
    config.set("fetch.queue.backoff.ms", "10");
    config.create_with_context(Quiet).context("cannot create a Kafka consumer")
}
