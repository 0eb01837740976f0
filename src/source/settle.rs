//! What shards have settled: commits, pauses, figures, and the end.

use std::sync::Arc;
use std::time::Duration;

use rdkafka::consumer::{CommitMode, Consumer};
use rdkafka::error::KafkaResult;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::counts::{Halt, PartitionFigures, add, set};
use super::kafka::{Client, max_poll_interval_ms};
use super::poll::Poller;
use super::table::{Held, Live, State};
use super::{Inbound, Posts, SourceError, Stopped};
use crate::code::{Code, Failure};
use crate::record::{Assignment, Tick};

/// Longest wait for a post, between looks at the clock.
const POST_WAIT: Duration = Duration::from_millis(50);
/// How often everything is committed anew.
const RECOMMIT_MS: u64 = 10_000;
/// Longest wait for the client to close. It may hang for ever when no broker answers (rust-rdkafka issue 509).
const CLOSE_WAIT: Duration = Duration::from_secs(10);

impl Poller<'_> {
    pub(super) fn take_posts(&mut self, posts: Posts) -> Result<(), SourceError> {
        let restarts = self.table.rows_of(&posts.restarts);
        let stops = self.table.post(posts);
        if !stops.is_empty() || !restarts.is_empty() {
            // What is durable of them is known only as long as they are held.
            self.commit(self.wiring.clock.now());
        }
        for row in restarts {
            // Asked for again at the next look, not here: this may be a shard's last drain.
            self.halt(row, Failure::new(Code::StreamClosed, "records were skipped on purpose"), 0)?;
        }
        self.halt_unmended(stops)
    }

    /// Waits until the shards hold nothing of `assignments`, or the deadline, or (if wanted) a stop is asked for.
    pub(super) fn wait_released(
        &mut self,
        assignments: &[Assignment],
        deadline: Tick,
        end_on_stop: bool,
    ) -> Result<(), SourceError> {
        loop {
            let now = self.wiring.clock.now();
            let is_over = now >= deadline || end_on_stop && self.wiring.stop.is_asked();
            if is_over || self.table.all_released(assignments) {
                return Ok(());
            }
            set(&self.wiring.counts.seen, now.0);
            self.pump_all()?;
            let posts = self.wiring.board.wait(POST_WAIT.min(Duration::from_millis(deadline.since(now))));
            self.take_posts(posts)?;
        }
    }

    /// Commits what is durable, without waiting for the answer. One that fails is only logged by librdkafka, nobody is
    /// called back: an idle partition would keep a lag that it does not have. So everything is committed again now and
    /// then.
    pub(super) fn commit(&mut self, now: Tick) {
        if now.since(self.recommitted) >= RECOMMIT_MS {
            self.recommitted = now;
            self.table.doubt_commits();
        }
        match self.commit_list(CommitMode::Async, |_| true) {
            Ok(true) => add(&self.wiring.counts.commits, 1),
            Ok(false) => {}
            Err(error) => {
                add(&self.wiring.counts.commit_errors, 1);
                self.table.doubt_commits();
                tracing::debug!(%error, "commit not sent");
            }
        }
    }

    /// Commits what is durable of some partitions, and waits for the answer. It may fail when the group is rebalancing;
    /// then records are read again and found to be stored.
    pub(super) fn commit_now(&mut self, wanted: impl Fn(&Live) -> bool) {
        match self.commit_list(CommitMode::Sync, wanted) {
            Ok(true) => add(&self.wiring.counts.commits, 1),
            Ok(false) => {}
            Err(error) => {
                add(&self.wiring.counts.commit_errors, 1);
                tracing::warn!(code = %Code::CommitFailed, %error, "last commit failed; the ledger knows what is stored");
            }
        }
    }

    fn commit_list(&mut self, mode: CommitMode, wanted: impl Fn(&Live) -> bool) -> KafkaResult<bool> {
        let commits = self.table.take_commits(wanted);
        let mut list = TopicPartitionList::with_capacity(commits.len());
        for (topic, partition, offset) in &commits {
            list.add_partition_offset(topic, *partition, Offset::Offset(*offset))?;
        }
        if !commits.is_empty() {
            crate::crash::point("before_commit");
            self.consumer.commit(&list, mode)?;
        }
        Ok(!commits.is_empty())
    }

    pub(super) fn pause_shard(&mut self, shard: usize) {
        add(&self.wiring.counts.pauses, 1);
        tracing::info!(shard, "shard stays full, pausing its partitions");
        self.pause_unwanted();
    }

    pub(super) fn resume_shard(&self, shard: usize) {
        tracing::info!(shard, "shard takes records again, resuming its partitions");
        let list = self.list(|held| held.shard == shard && held.live().is_some());
        if let Err(error) = self.consumer.resume(&list) {
            tracing::warn!(code = %Code::PauseFailed, shard, %error, "partitions not resumed");
        }
    }

    /// Pauses what must not be read now: stopped partitions, and those of paused shards. Partitions are assigned
    /// unpaused, so this follows every assignment, before the next poll.
    pub(super) fn pause_unwanted(&self) {
        let list = self.list(|held| held.live().is_none() || self.outboxes[held.shard].valve.is_paused());
        if list.count() == 0 {
            return;
        }
        if let Err(error) = self.consumer.pause(&list) {
            // Their records are dropped as strays, or the shard's channel stays full and polling waits.
            tracing::warn!(code = %Code::PauseFailed, %error, "partitions not paused");
        }
    }

    fn list(&self, wanted: impl Fn(&Held) -> bool) -> TopicPartitionList {
        let mut list = TopicPartitionList::new();
        for held in self.table.rows.iter().filter(|held| wanted(held)) {
            list.add_partition(&held.topic, held.partition);
        }
        list
    }

    /// Whether every partition that can be read has been read up to where it ended when it was handed over.
    pub(super) fn has_caught_up(&self) -> bool {
        let fetches = self.consumer.context().fetches();
        let is_read = |live: &Live| {
            if live.position >= live.end {
                return true;
            }
            // The last records before the end may be transaction markers, which are never delivered: then the client
            // has fetched past them and holds nothing back.
            let key = (live.place.topic.to_string(), live.place.partition);
            let fetch = fetches.partitions.get(&key);
            fetches.n >= live.statistics + 2 && fetches.n_queued == 0 && fetch.is_some_and(|f| f.next >= live.end)
        };
        let is_done = |held: &Held| match &held.state {
            State::Live(live) => is_read(live),
            State::Stopped { is_final, .. } => *is_final,
        };
        !self.table.rows.is_empty() && self.table.rows.iter().all(is_done)
    }

    pub(super) fn publish(&mut self) {
        self.publish_records();
        let counts = &self.wiring.counts;
        let fetches = self.consumer.context().fetches();
        let figures = |live: &Live| {
            let key = (live.place.topic.to_string(), live.place.partition);
            let fetch = fetches.partitions.get(&key);
            let end = fetch.map_or(live.end, |fetch| fetch.end.max(live.end));
            let is_fetched = fetch.is_some_and(|fetch| fetch.next >= end);
            PartitionFigures {
                topic: Arc::clone(&live.place.topic),
                partition: live.place.partition,
                position: live.position,
                durable: live.durable,
                lag: (end - live.durable).max(0),
                has_work: live.durable < live.position || live.position < end && !is_fetched,
            }
        };
        let partitions: Vec<_> = self.table.lives().map(figures).collect();
        let is_ours = |topic: &str| self.table.rows.iter().any(|held| &*held.topic == topic);
        let n_partitions = fetches.partitions.keys().filter(|(topic, number)| *number >= 0 && is_ours(topic)).count();
        set(&counts.n_partitions, n_partitions as u64);
        let halts = self.halts();
        set(&counts.n_live, partitions.len() as u64);
        set(&counts.n_stopped, halts.len() as u64);
        set(&counts.n_paused, self.outboxes.iter().filter(|o| o.valve.is_paused()).count() as u64);
        counts.set_partitions(partitions, halts);
    }

    fn halts(&self) -> Vec<Halt> {
        let halt = |held: &Held| match &held.state {
            State::Live(_) => None,
            State::Stopped { reason, .. } => {
                Some(Halt { topic: Arc::clone(&held.topic), partition: held.partition, reason: reason.clone() })
            }
        };
        self.table.rows.iter().filter_map(halt).collect()
    }

    /// Drains the shards, commits, and closes the client: one deadline for each of the first and the last.
    pub(super) fn stop(mut self, has_caught_up: bool) -> Stopped {
        let now = self.wiring.clock.now();
        let drain_ms = self.config.flow.drain_timeout_ms;
        // Who waits for the end of a topic wants all of it stored, as long as the group allows.
        let patient_ms = drain_ms.max(max_poll_interval_ms(&self.config.kafka) / 3 * 2);
        let deadline = now.after(if has_caught_up { patient_ms } else { drain_ms });
        for outbox in &mut self.outboxes {
            if outbox.send(Inbound::Drain { deadline }).is_err() {
                tracing::debug!("a shard that is gone has nothing to drain");
            }
        }
        let live: Vec<_> = self.table.lives().map(|live| live.place.assignment).collect();
        let mut drained = self.wait_released(&live, deadline, has_caught_up);
        if has_caught_up && drained.is_ok() && !self.table.all_released(&live) {
            let deadline = self.wiring.clock.now().after(drain_ms).min(deadline);
            drained = self.wait_released(&live, deadline, false);
        }
        if let Err(error) = drained {
            tracing::error!(code = %error.code(), %error, "drain ended early");
        }
        self.commit_now(|_| true);
        self.publish();
        let n_unsettled = self.table.lives().map(Live::n_unsettled).sum();
        set(&self.wiring.counts.seen, self.wiring.clock.now().0);
        Stopped { has_caught_up, n_unsettled, halts: self.halts(), is_closed: close(self.consumer) }
    }
}

/// Leaves the group and frees the client, on a thread that may hang without hanging this one.
fn close(consumer: Arc<Client>) -> bool {
    consumer.context().close();
    let (done, closed) = crossbeam::channel::bounded(1);
    let spawned = std::thread::Builder::new().name("kafka-close".to_owned()).spawn(move || {
        drop(consumer);
        drop(done);
    });
    let is_closed = spawned.is_ok()
        && closed.recv_timeout(CLOSE_WAIT) == Err::<(), _>(crossbeam::channel::RecvTimeoutError::Disconnected);
    if !is_closed {
        let waited_ms = CLOSE_WAIT.as_millis() as u64;
        tracing::warn!(code = %Code::KafkaCloseHangs, waited_ms, "kafka client does not close");
    }
    is_closed
}
