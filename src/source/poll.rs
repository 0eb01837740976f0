//! The poll thread: polls the consumer and hands records to the shards. `rebalance` and `settle` are its other parts.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rdkafka::client::ClientContext as _;
use rdkafka::consumer::Consumer;
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::topic_partition_list::Offset;

use super::counts::{add, set};
use super::kafka::{Client, Context, client_config};
use super::outbox::Outbox;
use super::table::{State, Table, Verdict};
use super::{SourceError, Stopped, Wiring, native};
use crate::code::{Code, Failure};
use crate::config::Config;
use crate::config::topics::subscription;
use crate::record::Tick;

/// Longest wait for a record; how late a stop, a release or a full shard's recovery may be noticed.
const IDLE_WAIT: Duration = Duration::from_millis(20);
/// Records polled between two looks at the clock.
const TURN_RECORDS: u32 = 256;
/// A batch waits this long for more while other shards' records keep coming.
const LINGER_MS: u64 = 10;
/// How often shards' posts are taken in.
const LOOK_MS: u64 = 100;
/// How often offsets are committed and figures published. Autoscalers see the lag by what is committed.
const SECOND_MS: u64 = 1_000;
/// One wait for a full shard, between looks at the clock.
const FULL_WAIT: Duration = Duration::from_millis(20);

/// Polls until it is asked to stop, has caught up (if that is wanted) or cannot go on; then drains the shards, commits
/// what is durable and closes the client. Blocks: give it a thread of its own.
pub fn run(config: &Config, wiring: Wiring) -> Result<Stopped, SourceError> {
    let context = Context::new(Arc::clone(&wiring.counts), wiring.clock);
    let consumer: Client = client_config(&config.kafka, config.flow.memory_budget_bytes)
        .create_with_context(context)
        .map_err(SourceError::Client)?;
    let topics = subscription(&config.kafka.topics);
    let topics: Vec<&str> = topics.iter().map(String::as_str).collect();
    consumer.subscribe(&topics).map_err(SourceError::Subscribe)?;
    let mut poller = Poller::new(config, wiring, consumer);
    let ended = poller.poll_until_ended();
    let stopped = poller.stop(matches!(ended, Ok(End::CaughtUp)));
    ended.map(|_| stopped)
}

/// Why polling ended.
enum End {
    Asked,
    CaughtUp,
}

/// The row that the last record belonged to, so that a run of records of one partition is looked up once.
#[derive(Clone, Copy, Debug)]
struct LastRow {
    /// Address of the client's topic object: compared, never followed.
    topic: usize,
    partition: i32,
    row: usize,
}

pub(super) struct Poller<'a> {
    pub(super) config: &'a Config,
    pub(super) wiring: Wiring,
    pub(super) consumer: Arc<Client>,
    pub(super) table: Table,
    pub(super) outboxes: Vec<Outbox>,
    pub(super) last_assignment: u32,
    last_row: Option<LastRow>,
    flushed: Tick,
    looked: Tick,
    published: Tick,
    /// When everything was last committed whether or not it seemed committed already.
    pub(super) recommitted: Tick,
    n_records: u64,
    n_bytes: u64,
}

impl<'a> Poller<'a> {
    fn new(config: &'a Config, wiring: Wiring, consumer: Client) -> Self {
        let outbox = |sender: &crossbeam::channel::Sender<_>| {
            Outbox::new(sender.clone(), Arc::clone(&wiring.counts.batch_bytes))
        };
        Self {
            outboxes: wiring.shards.iter().map(outbox).collect(),
            config,
            wiring,
            consumer: Arc::new(consumer),
            table: Table::default(),
            last_assignment: 0,
            last_row: None,
            flushed: Tick(0),
            looked: Tick(0),
            published: Tick(0),
            recommitted: Tick(0),
            n_records: 0,
            n_bytes: 0,
        }
    }

    fn poll_until_ended(&mut self) -> Result<End, SourceError> {
        let consumer = Arc::clone(&self.consumer);
        let (mut wait, mut n_in_turn) = (IDLE_WAIT, 0);
        while !self.wiring.stop.is_asked() {
            match consumer.poll(wait) {
                Some(Ok(message)) => {
                    wait = Duration::ZERO;
                    self.take(&message)?;
                    n_in_turn += 1;
                    if n_in_turn < TURN_RECORDS {
                        continue;
                    }
                }
                Some(Err(error @ KafkaError::MessageConsumptionFatal(_))) => return Err(SourceError::Fatal(error)),
                // What it means for a partition shows in the statistics; that a topic is gone shows nowhere else.
                Some(Err(error)) => consumer.context().error(error, ""),
                // Either nothing is there, or a rebalance was.
                None => {
                    wait = IDLE_WAIT;
                    while let Some(shift) = consumer.context().next_shift() {
                        self.last_row = None;
                        self.shift(shift)?;
                    }
                    self.send_open()?;
                }
            }
            n_in_turn = 0;
            self.look()?;
            if self.wiring.until_caught_up && self.has_caught_up() {
                return Ok(End::CaughtUp);
            }
        }
        Ok(End::Asked)
    }

    /// Routes one record.
    fn take(&mut self, message: &BorrowedMessage<'_>) -> Result<(), SourceError> {
        let Some(row) = self.row_of(message) else {
            add(&self.wiring.counts.strays, 1);
            return Ok(());
        };
        let held = &mut self.table.rows[row];
        let State::Live(live) = &mut held.state else {
            add(&self.wiring.counts.strays, 1);
            return Ok(());
        };
        match live.judge(message.offset()) {
            Verdict::Take => {
                let batch = &mut self.outboxes[held.shard].open;
                let before = batch.n_bytes();
                let timestamp = message.timestamp().to_millis();
                batch.push(&live.place, message.offset(), timestamp, message.key(), message.payload(), |out| {
                    native::pack_headers(message, out);
                });
                self.n_records += 1;
                self.n_bytes += (batch.n_bytes() - before) as u64;
                if batch.is_full() {
                    let shard = held.shard;
                    return self.deliver(shard);
                }
                Ok(())
            }
            Verdict::SkipTo(offset) => {
                // If it fails, the records in between are read and the shard drops them.
                let (topic, partition) = (message.topic(), message.partition());
                let sought = self.consumer.seek(topic, partition, Offset::Offset(offset), Duration::from_secs(5));
                tracing::info!(topic, partition, offset, ok = sought.is_ok(), "skipping what is stored already");
                Ok(())
            }
            Verdict::StepBack => {
                let message = "the consumer stepped back to an earlier offset";
                self.reassign(row, Failure::new(Code::OffsetSteppedBack, message))
            }
        }
    }

    fn row_of(&mut self, message: &BorrowedMessage<'_>) -> Option<usize> {
        let (topic, partition) = (message.topic_ptr() as usize, message.partition());
        if let Some(last) = self.last_row
            && last.topic == topic
            && last.partition == partition
        {
            return Some(last.row);
        }
        let row = self.table.find(message.topic(), partition)?;
        self.last_row = Some(LastRow { topic, partition, row });
        Some(row)
    }

    /// Hands the open batch to its shard. Waits while the shard is full, but not for ever: then it pauses its partitions.
    fn deliver(&mut self, shard: usize) -> Result<(), SourceError> {
        let gone = |_| SourceError::ShardGone(shard);
        let outbox = &mut self.outboxes[shard];
        if outbox.close_batch() {
            add(&self.wiring.counts.batches, 1);
        }
        outbox.pump(None).map_err(gone)?;
        while outbox.is_backed_up() && !outbox.valve.is_paused() && !self.wiring.stop.is_asked() {
            outbox.pump(Some(FULL_WAIT)).map_err(gone)?;
            let now = self.wiring.clock.now();
            set(&self.wiring.counts.seen, now.0);
            if outbox.is_backed_up() && outbox.valve.refused(now) {
                self.pause_shard(shard);
                break;
            }
        }
        Ok(())
    }

    fn send_open(&mut self) -> Result<(), SourceError> {
        for shard in 0..self.outboxes.len() {
            if !self.outboxes[shard].open.is_empty() {
                self.deliver(shard)?;
            }
        }
        Ok(())
    }

    /// What has to be done from time to time.
    fn look(&mut self) -> Result<(), SourceError> {
        let now = self.wiring.clock.now();
        set(&self.wiring.counts.seen, now.0);
        if now.since(self.flushed) >= LINGER_MS {
            self.flushed = now;
            self.send_open()?;
        }
        if now.since(self.looked) < LOOK_MS {
            return Ok(());
        }
        self.looked = now;
        let posts = self.wiring.board.take();
        self.take_posts(posts)?;
        self.pump_all()?;
        for shard in 0..self.outboxes.len() {
            if self.outboxes[shard].may_resume() {
                self.resume_shard(shard);
            }
        }
        if now.since(self.published) >= SECOND_MS {
            self.published = now;
            self.commit(now);
            self.publish();
            self.reassign_halted()?;
            self.retry_stopped(now)?;
        }
        Ok(())
    }

    pub(super) fn pump_all(&mut self) -> Result<(), SourceError> {
        for (shard, outbox) in self.outboxes.iter_mut().enumerate() {
            outbox.pump(None).map_err(|_| SourceError::ShardGone(shard))?;
        }
        Ok(())
    }

    /// Forgets which row the last record belonged to; needed whenever rows move or the client may reuse a topic object.
    pub(super) fn forget_last_row(&mut self) {
        self.last_row = None;
    }

    pub(super) fn publish_records(&mut self) {
        let counts = &self.wiring.counts;
        counts.records.fetch_add(std::mem::take(&mut self.n_records), Ordering::Relaxed);
        counts.bytes.fetch_add(std::mem::take(&mut self.n_bytes), Ordering::Relaxed);
    }
}
