//! Partitions come, go, and are handed over again.

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::consumer::Consumer;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::batch::Place;
use super::counts::add;
use super::flow::shard_of;
use super::kafka::{Shift, max_poll_interval_ms};
use super::poll::Poller;
use super::table::{Held, Live, State};
use super::{Handed, Inbound, PartitionAsk, Refused, SourceError, native};
use crate::code::{Code, Failure};
use crate::record::{Assignment, Tick};

/// Longest wait for one answer of a broker.
const BROKER_WAIT: Duration = Duration::from_secs(10);
/// Until a partition is asked for again whose trouble may go away by itself.
const RETRY_MS: u64 = 2_000;
/// Until a partition is tried again that somebody has to mend something for, so that mending it is enough.
const RETRY_UNMENDED_MS: u64 = 60_000;
/// Statistics to wait for after a hand-over until they are believed: the first may be from before, and a partition that
/// has just been assigned is not fetched yet.
const STATISTICS_TO_SETTLE: u64 = 3;

type Places = Vec<(String, i32)>;

impl Poller<'_> {
    pub(super) fn shift(&mut self, shift: Shift) -> Result<(), SourceError> {
        add(&self.wiring.counts.rebalances, 1);
        match shift {
            Shift::Assign(places) => {
                // A commit that was under way while the group rebalanced has failed without a word.
                self.table.doubt_commits();
                self.take_over(places)
            }
            Shift::Revoke(places) => self.give_up(&places),
        }
    }

    /// Partitions were assigned to this member. Each is read from where the ledger says; one that the ledger refuses is
    /// assigned too, since the group counts on it, but paused.
    fn take_over(&mut self, places: Places) -> Result<(), SourceError> {
        tracing::info!(n_partitions = places.len(), "partitions assigned");
        let now = self.wiring.clock.now();
        let mut asks = self.ask(&places).map_err(unanswered);
        let mut list = TopicPartitionList::with_capacity(places.len());
        for (i, (topic, partition)) in places.into_iter().enumerate() {
            let ask = asks.as_ref().map(|asks| asks[i].clone()).map_err(Clone::clone);
            let end = ask.as_ref().map_or(Offset::End, |ask| Offset::Offset(ask.high));
            let resolved = ask.and_then(|ask| self.resolve(ask));
            self.table.remove(&topic, partition);
            let shard = shard_of(&topic, partition, self.outboxes.len());
            let (state, from) = match resolved {
                Ok((live, handed)) => {
                    let from = Offset::Offset(live.position);
                    self.send(shard, Inbound::Assigned(Box::new(handed)))?;
                    (State::Live(live), from)
                }
                Err(refused) => {
                    log_refusal(&topic, partition, &refused);
                    if refused.retry {
                        // Whoever is down stays down for the other partitions, and each question may take its time-out.
                        asks = Err(refused.clone());
                    }
                    (stopped(refused, now), end)
                }
            };
            if let Err(error) = list.add_partition_offset(&topic, partition, from) {
                tracing::error!(code = %Code::AssignmentFailed, topic, partition, ?from, %error, "offset not assigned");
            }
            self.table.rows.push(Held { topic: topic.into(), partition, shard, state });
        }
        if let Err(error) = self.consumer.incremental_assign(&list) {
            // The group has moved on meanwhile; a revocation of these partitions follows.
            tracing::warn!(code = %Code::AssignmentFailed, %error, "assignment not taken up");
        }
        self.pause_unwanted();
        Ok(())
    }

    /// Partitions are taken away. What is held of them is written until the deadline, and what is durable committed, so
    /// that the next owner need not read it again. If they are lost, they have another owner already.
    fn give_up(&mut self, places: &Places) -> Result<(), SourceError> {
        let is_lost = self.consumer.assignment_lost();
        tracing::info!(n_partitions = places.len(), is_lost, "partitions revoked");
        let mut by_shard: BTreeMap<usize, Vec<Assignment>> = BTreeMap::new();
        let mut list = TopicPartitionList::with_capacity(places.len());
        for (topic, partition) in places {
            list.add_partition(topic, *partition);
            let row = self.table.find(topic, *partition).map(|i| &self.table.rows[i]);
            if let Some((shard, live)) = row.and_then(|r| Some((r.shard, r.live()?))) {
                by_shard.entry(shard).or_default().push(live.place.assignment);
            }
        }
        let gone: Vec<Assignment> = by_shard.values().flatten().copied().collect();
        let drain_ms = self.config.flow.drain_timeout_ms.min(max_poll_interval_ms(&self.config.kafka) / 3);
        let deadline = self.wiring.clock.now().after(drain_ms);
        for (shard, assignments) in by_shard {
            let revoked = Inbound::Revoked { assignments: assignments.clone(), deadline, flush: drain_ms > 0 };
            self.send(shard, if is_lost { Inbound::Lost { assignments } } else { revoked })?;
        }
        if !is_lost {
            self.wait_released(&gone, deadline, false)?;
            self.commit_now(|live| gone.contains(&live.place.assignment));
        }
        for (topic, partition) in places {
            self.table.remove(topic, *partition);
        }
        self.forget_last_row();
        if let Err(error) = self.consumer.incremental_unassign(&list) {
            tracing::warn!(code = %Code::AssignmentFailed, %error, "assignment not given up");
        }
        Ok(())
    }

    /// What was believed about a partition is void, or its shard gave up on it: drop the assignment and ask the ledger.
    pub(super) fn reassign(&mut self, row: usize, reason: Failure) -> Result<(), SourceError> {
        self.halt(row, reason, 0)?;
        self.try_again(row)?;
        Ok(())
    }

    /// Pauses a partition and makes its shard forget it; to be tried again in `retry_ms`.
    pub(super) fn halt(&mut self, row: usize, reason: Failure, retry_ms: u64) -> Result<(), SourceError> {
        let retry_at = self.wiring.clock.now().after(retry_ms);
        let held = &mut self.table.rows[row];
        let (shard, topic, partition) = (held.shard, held.topic.clone(), held.partition);
        let former = held.live().map(|live| live.place.assignment);
        let Failure { code, message } = &reason;
        if retry_ms > 0 {
            tracing::error!(%code, topic = &*topic, partition, reason = message, "partition stopped");
        } else {
            tracing::warn!(%code, topic = &*topic, partition, reason = message, "partition is handed over again");
        }
        held.state = State::Stopped { reason, retry_at, is_final: retry_ms > 0 };
        self.pause_unwanted();
        match former {
            Some(assignment) => self.send(shard, Inbound::Lost { assignments: vec![assignment] }),
            None => Ok(()),
        }
    }

    /// A shard cannot go on with these partitions.
    pub(super) fn halt_unmended(&mut self, stops: Vec<(usize, Failure)>) -> Result<(), SourceError> {
        for (row, reason) in stops {
            self.halt(row, reason, RETRY_UNMENDED_MS)?;
        }
        Ok(())
    }

    /// Partitions that the client has stopped fetching: their offset is out of range, because retention was faster or
    /// the log was cut. The error event names no partition; the statistics do.
    pub(super) fn reassign_halted(&mut self) -> Result<(), SourceError> {
        let halted: Vec<usize> = {
            let fetches = self.consumer.context().fetches();
            let is_halted = |live: &Live| {
                let key = (live.place.topic.to_string(), live.place.partition);
                fetches.n >= live.statistics + STATISTICS_TO_SETTLE
                    && fetches.partitions.get(&key).is_some_and(|fetch| fetch.is_halted)
            };
            let rows = self.table.rows.iter().enumerate();
            rows.filter(|(_, held)| held.live().is_some_and(is_halted)).map(|(row, _)| row).collect()
        };
        for row in halted {
            self.reassign(row, Failure::new(Code::OffsetOutOfRange, "its next offset is out of the log's range"))?;
        }
        Ok(())
    }

    /// Asks again for partitions that could not be handed over.
    pub(super) fn retry_stopped(&mut self, now: Tick) -> Result<(), SourceError> {
        for row in 0..self.table.rows.len() {
            let is_due = matches!(&self.table.rows[row].state, State::Stopped { retry_at, .. } if *retry_at <= now);
            if is_due && !self.try_again(row)? {
                // Whoever is down stays down for the other partitions too.
                break;
            }
        }
        Ok(())
    }

    /// Asks the ledger for a stopped partition and starts it where the ledger says. False = no answer could be had.
    fn try_again(&mut self, row: usize) -> Result<bool, SourceError> {
        self.forget_last_row();
        let held = &self.table.rows[row];
        let (shard, topic, partition) = (held.shard, held.topic.to_string(), held.partition);
        let asks = self.ask(&[(topic.clone(), partition)]).map_err(unanswered);
        let resolved = asks.and_then(|mut asks| self.resolve(asks.remove(0)));
        let resolved = resolved.and_then(|(live, handed)| {
            // Not a seek: it is refused for a partition whose fetching has ended (librdkafka issue 2961).
            let restarted = self.restart(&topic, partition, live.position);
            restarted
                .map(|()| (live, handed))
                .map_err(|error| unanswered(format!("the client does not restart it: {error}")))
        });
        match resolved {
            Ok((live, handed)) => {
                tracing::info!(topic, partition, from = live.position, "partition handed over");
                self.send(shard, Inbound::Assigned(Box::new(handed)))?;
                self.table.rows[row].state = State::Live(live);
                self.pause_unwanted();
                add(&self.wiring.counts.reassigns, 1);
                Ok(true)
            }
            Err(refused) => {
                let is_known =
                    matches!(&self.table.rows[row].state, State::Stopped { reason, .. } if *reason == refused.reason);
                if !is_known {
                    log_refusal(&topic, partition, &refused);
                }
                let may_go_on = !refused.retry;
                self.table.rows[row].state = stopped(refused, self.wiring.clock.now());
                Ok(may_go_on)
            }
        }
    }

    fn restart(&self, topic: &str, partition: i32, from: i64) -> rdkafka::error::KafkaResult<()> {
        let mut list = TopicPartitionList::with_capacity(1);
        list.add_partition_offset(topic, partition, Offset::Offset(from))?;
        self.consumer.incremental_unassign(&list)?;
        self.consumer.incremental_assign(&list)?;
        self.consumer.resume(&list)
    }

    /// Gathers what the ledger has to know.
    fn ask(&self, places: &[(String, i32)]) -> Result<Vec<PartitionAsk>, String> {
        let failed = |what: &str, error: &dyn std::fmt::Display| format!("{what}: {error}");
        let mut list = TopicPartitionList::with_capacity(places.len());
        for (topic, partition) in places {
            list.add_partition(topic, *partition);
        }
        let committed = self.consumer.committed_offsets(list, BROKER_WAIT);
        let committed = committed.map_err(|e| failed("committed offsets are not known", &e))?;
        let mut topic_ids = BTreeMap::new();
        let mut asks = Vec::with_capacity(places.len());
        for (topic, partition) in places {
            if !topic_ids.contains_key(topic) {
                let id = native::topic_id(self.consumer.client().native_ptr(), topic, BROKER_WAIT)?;
                topic_ids.insert(topic.clone(), id);
            }
            let topic_id = topic_ids[topic].clone();
            let ends = self.consumer.fetch_watermarks(topic, *partition, BROKER_WAIT);
            let (low, high) = ends.map_err(|e| failed("ends of the partition are not known", &e))?;
            let element = committed.find_partition(topic, *partition);
            let committed = match element.map(|e| e.error().map(|()| e.offset())).transpose() {
                Ok(Some(Offset::Offset(offset))) => Some(offset),
                Ok(_) => None,
                Err(e) => return Err(failed("committed offset is not known", &e)),
            };
            asks.push(PartitionAsk { topic: topic.clone(), partition: *partition, topic_id, committed, low, high });
        }
        Ok(asks)
    }

    fn resolve(&mut self, ask: PartitionAsk) -> Result<(Live, Handed), Refused> {
        self.last_assignment += 1;
        let assignment = Assignment(self.last_assignment);
        let place = Place { assignment, topic: ask.topic.as_str().into(), partition: ask.partition };
        let (committed, high) = (ask.committed, ask.high);
        let handed = self.wiring.resolve.assign(ask, assignment)?;
        let n_statistics = self.consumer.context().fetches().n;
        Ok((Live::new(place, &handed.assigned.spans, committed, high, n_statistics), handed))
    }

    fn send(&mut self, shard: usize, event: Inbound) -> Result<(), SourceError> {
        self.outboxes[shard].send(event).map_err(|_| SourceError::ShardGone(shard))
    }
}

/// The broker, or the client on its behalf, does not answer now.
fn unanswered(reason: String) -> Refused {
    Refused { reason: Failure::new(Code::KafkaUnanswered, reason), retry: true }
}

fn stopped(refused: Refused, now: Tick) -> State {
    let retry_at = now.after(if refused.retry { RETRY_MS } else { RETRY_UNMENDED_MS });
    State::Stopped { reason: refused.reason, retry_at, is_final: !refused.retry }
}

fn log_refusal(topic: &str, partition: i32, refused: &Refused) {
    let Failure { code, message } = &refused.reason;
    if refused.retry {
        tracing::warn!(%code, topic, partition, reason = message, "partition cannot be handed over yet");
    } else {
        tracing::error!(%code, topic, partition, reason = message, "partition is not read");
    }
}
