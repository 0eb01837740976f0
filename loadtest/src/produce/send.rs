//! The sending loop: one thread makes records and polls; librdkafka's threads compress and send.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use rdkafka::config::ClientConfig;
use rdkafka::error::KafkaError;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use rdkafka::types::RDKafkaErrorCode;

use super::delivery::{Deliveries, Tag};
use super::options::{Limits, Options};
use super::pace::Pace;
use crate::clock::Stopwatch;
use crate::manifest::{ExpectedDead, OffsetRange};
use crate::reading::{Maker, push_device};

/// Records between two looks at clock, deliveries and progress.
const STRIDE: u64 = 1_024;
/// Wait for room in the queue or for the pace.
const PAUSE: Duration = Duration::from_millis(5);
const FLUSH_TIMEOUT: Duration = Duration::from_mins(2);

/// What was sent and acknowledged.
#[derive(Debug, Default)]
pub(super) struct Sent {
    pub records: u64,
    /// All readings, poisoned ones too.
    pub readings: u64,
    /// Readings that can be stored.
    pub good: u64,
    pub value_bytes: u64,
    pub seconds: f64,
    pub offsets: Vec<OffsetRange>,
    pub expected_dead: Vec<ExpectedDead>,
}

pub(super) fn all(options: &Options, limits: &Limits, maker: &Maker, stop: &AtomicBool) -> Result<Sent> {
    let producer = producer(&options.brokers)?;
    let bar = progress(limits);
    let watch = Stopwatch::start();
    let mut run = Run { maker, limits, producer: &producer, sent: Sent::default(), key: Vec::new(), value: Vec::new() };
    run.until_done(&options.topic, watch, &bar, stop)?;
    let mut sent = run.sent;
    // An error here is a timeout; the counts below say it better.
    let flushed = producer.flush(FLUSH_TIMEOUT);
    sent.seconds = watch.elapsed().as_secs_f64();
    bar.finish_and_clear();

    let tally = producer.context().tally();
    if let Some(failure) = &tally.failure {
        bail!("{failure}");
    }
    ensure!(
        tally.delivered == sent.records,
        "{} of {} records were acknowledged within {FLUSH_TIMEOUT:?} ({flushed:?})",
        tally.delivered,
        sent.records
    );
    sent.offsets = tally.ranges()?;
    for &(partition, offset, record) in &tally.poisoned {
        let n = n_readings(limits, maker, record);
        let dead = maker.dead(record, n).into_iter();
        sent.expected_dead.extend(dead.map(|(index, reason)| ExpectedDead { partition, offset, index, reason }));
    }
    sent.expected_dead.sort_unstable();
    Ok(sent)
}

fn producer(brokers: &str) -> Result<BaseProducer<Deliveries>> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers);
    // A retry must neither double a record nor put it behind a later one: offsets would not tell the order sent.
    config.set("enable.idempotence", "true").set("acks", "all");
    config.set("compression.codec", "zstd");
    // Java's partitioner, so that a device lands where it would from most other producers.
    config.set("partitioner", "murmur2_random");
    // Large batches, since the broker's work is per batch; but a queue of 400,000 records and batches of 20,000 took a
    // quarter more processor time a record than these, for they no longer fit the processor's cache.
    config.set("linger.ms", "10").set("batch.size", "1000000").set("batch.num.messages", "5000");
    config.set("queue.buffering.max.messages", "60000").set("queue.buffering.max.kbytes", "131072");
    config.set("message.max.bytes", "8000000");
    config.create_with_context(Deliveries::default()).context("cannot create a Kafka producer")
}

fn progress(limits: &Limits) -> ProgressBar {
    let style = "{elapsed_precise} {bar:30} {human_pos}/{human_len} readings, {per_sec}, {eta} left";
    match limits.readings {
        Some(n) => ProgressBar::new(n)
            .with_style(ProgressStyle::with_template(style).expect("invariant: the template is well formed")),
        None => ProgressBar::new_spinner().with_style(
            ProgressStyle::with_template("{elapsed_precise} {human_pos} readings, {per_sec}")
                .expect("invariant: the template is well formed"),
        ),
    }
}

/// Readings in a record: all are full but the last one of a run of so many readings.
fn n_readings(limits: &Limits, maker: &Maker, record: u64) -> u16 {
    let full = maker.shape().per_record;
    let left = limits.readings.map_or(u64::MAX, |n| n.saturating_sub(record * u64::from(full)));
    u16::try_from(left).unwrap_or(u16::MAX).min(full)
}

struct Run<'a> {
    maker: &'a Maker,
    limits: &'a Limits,
    producer: &'a BaseProducer<Deliveries>,
    sent: Sent,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Run<'_> {
    fn until_done(&mut self, topic: &str, watch: Stopwatch, bar: &ProgressBar, stop: &AtomicBool) -> Result<()> {
        let mut pace = Pace::new(self.limits.rate);
        loop {
            let elapsed = watch.elapsed();
            let over = self.limits.time.is_some_and(|t| elapsed >= t);
            if over || stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            let before = self.sent.readings;
            let allowance = pace.allowance(elapsed);
            let mut stride = 0;
            while stride < STRIDE && self.sent.readings - before < allowance {
                let n = n_readings(self.limits, self.maker, self.sent.records);
                if n == 0 {
                    return Ok(());
                }
                self.one(topic, n)?;
                stride += 1;
            }
            pace.spend(self.sent.readings - before);
            bar.set_position(self.sent.readings);
            self.producer.poll(if stride == 0 { PAUSE } else { Duration::ZERO });
            if let Some(failure) = &self.producer.context().tally().failure {
                bail!("{failure}");
            }
        }
    }

    fn one(&mut self, topic: &str, n: u16) -> Result<()> {
        let number = self.sent.records;
        let made = self.maker.record(number, n, &mut self.value);
        self.key.clear();
        push_device(made.device, &mut self.key);
        let tag = Tag { record: number, poisoned: made.poisoned };
        let mut record = BaseRecord::with_opaque_to(topic, tag.pack())
            .key(&self.key)
            .payload(&self.value)
            .timestamp(made.timestamp_ms);
        while let Err((error, back)) = self.producer.send(record) {
            let full = KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull);
            ensure!(error == full, "record {number} cannot be sent: {error}");
            record = back;
            self.producer.poll(PAUSE);
            if let Some(failure) = &self.producer.context().tally().failure {
                bail!("{failure}");
            }
        }
        self.sent.records += 1;
        self.sent.readings += u64::from(made.n_readings);
        self.sent.good += u64::from(made.n_good);
        self.sent.value_bytes += self.value.len() as u64;
        Ok(())
    }
}
