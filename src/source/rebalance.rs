//! Partitions come, go, and are handed over again.

use std::collections::BTreeMap;
use std::sync::Arc;

use rdkafka::consumer::Consumer;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::counts::add;
use super::flow::shard_of;
use super::kafka::{Shift, max_poll_interval_ms};
use super::poll::Poller;
use super::table::{Held, Live, State};
use super::{Inbound, Refused, SourceError};
use crate::code::{Code, Failure};
use crate::record::{Assignment, Tick};

/// Until a partition is asked for again whose trouble may go away by itself.
const RETRY_MS: u64 = 2_000;
/// Until a partition is tried again that somebody has to mend something for, so that mending it is enough.
const RETRY_UNMENDED_MS: u64 = 60_000;
/// Statistics to wait for after a hand-over until they are believed: the first may be from before, and a partition that
/// has just been assigned is not fetched yet.
const STATISTICS_TO_SETTLE: u64 = 3;

pub(super) type Places = Vec<(String, i32)>;

impl Poller<'_> {
    pub(super) fn shift(&mut self, shift: Shift) -> Result<(), SourceError> {
        add(&self.wiring.counts.rebalances, 1);
        match shift {
            Shift::Assign(places) => {
                // A commit that was under way while the group rebalanced has failed without a word.
                self.table.doubt_commits();
                self.take_over(&places)
            }
            Shift::Revoke(places) => self.give_up(&places),
        }
    }

    /// Partitions were assigned to this member. Each is read from where the ledger says; one that the ledger refuses is
    /// assigned too, since the group counts on it, but paused.
    fn take_over(&mut self, places: &Places) -> Result<(), SourceError> {
        tracing::info!(n_partitions = places.len(), "partitions assigned");
        let now = self.wiring.clock.now();
        let mut list = TopicPartitionList::with_capacity(places.len());
        for ((topic, partition), answer) in places.iter().zip(self.resolve(places)) {
            self.table.remove(topic, *partition);
            let shard = shard_of(topic, *partition, self.outboxes.len());
            let (state, from) = match answer {
                Ok((live, handed)) => {
                    let from = Offset::Offset(live.position);
                    self.send(shard, Inbound::Assigned(Box::new(handed)))?;
                    (State::Live(live), from)
                }
                Err(refused) => {
                    log_refusal(topic, *partition, &refused);
                    (stopped(refused, now), Offset::End)
                }
            };
            if let Err(error) = list.add_partition_offset(topic, *partition, from) {
                tracing::error!(code = %Code::AssignmentFailed, topic, partition, ?from, %error, "offset not assigned");
            }
            self.table.rows.push(Held { topic: topic.as_str().into(), partition: *partition, shard, state });
        }
        if let Err(error) = self.consumer.incremental_assign(&list) {
            // The group has moved on meanwhile; a revocation of these partitions follows.
            tracing::warn!(code = %Code::AssignmentFailed, %error, "assignment not taken up");
        }
        self.pause_unwanted();
        let took_ms = self.wiring.clock.now().since(now);
        tracing::info!(n_partitions = places.len(), took_ms, "partitions handed over");
        Ok(())
    }

    /// Partitions are taken away. What is held of them is written until the deadline, and what is durable committed, so
    /// that the next owner need not read it again. If they are lost, they have another owner already.
    fn give_up(&mut self, places: &Places) -> Result<(), SourceError> {
        let begun = self.wiring.clock.now();
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
        let deadline = begun.after(drain_ms);
        for (shard, assignments) in by_shard {
            let revoked = Inbound::Revoked { assignments: assignments.clone(), deadline, flush: drain_ms > 0 };
            self.send(shard, if is_lost { Inbound::Lost { assignments } } else { revoked })?;
        }
        let mut drained_ms = 0;
        if !is_lost {
            self.wait_released(&gone, deadline, false)?;
            drained_ms = self.wiring.clock.now().since(begun);
            self.commit_now(|live| gone.contains(&live.place.assignment));
        }
        for (topic, partition) in places {
            self.table.remove(topic, *partition);
        }
        self.forget_last_row();
        if let Err(error) = self.consumer.incremental_unassign(&list) {
            tracing::warn!(code = %Code::AssignmentFailed, %error, "assignment not given up");
        }
        let took_ms = self.wiring.clock.now().since(begun);
        tracing::info!(n_partitions = places.len(), drained_ms, took_ms, "partitions given up");
        Ok(())
    }

    /// What was believed about a partition is void, or its shard gave up on it: drop the assignment and ask the ledger.
    pub(super) fn reassign(&mut self, row: usize, reason: Failure) -> Result<(), SourceError> {
        self.halt(row, reason, 0)?;
        self.try_again(&[row])?;
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

    /// Asks again for partitions that could not be handed over; those of one topic at once, since they mostly stop and
    /// are mended together.
    pub(super) fn retry_stopped(&mut self, now: Tick) -> Result<(), SourceError> {
        let mut due: BTreeMap<Arc<str>, Vec<usize>> = BTreeMap::new();
        for (row, held) in self.table.rows.iter().enumerate() {
            if matches!(&held.state, State::Stopped { retry_at, .. } if *retry_at <= now) {
                due.entry(Arc::clone(&held.topic)).or_default().push(row);
            }
        }
        for rows in due.values() {
            if !self.try_again(rows)? {
                // Whoever is down stays down for the other topics too.
                break;
            }
        }
        Ok(())
    }

    /// Asks the ledger for stopped partitions and starts them where it says. False = no answer could be had.
    fn try_again(&mut self, rows: &[usize]) -> Result<bool, SourceError> {
        self.forget_last_row();
        let place = |row: &usize| (self.table.rows[*row].topic.to_string(), self.table.rows[*row].partition);
        let places: Places = rows.iter().map(place).collect();
        let mut may_go_on = true;
        for ((row, (topic, partition)), answer) in rows.iter().zip(&places).zip(self.resolve(&places)) {
            let answer = answer.and_then(|(live, handed)| {
                // Not a seek: it is refused for a partition whose fetching has ended (librdkafka issue 2961).
                let restarted = self.restart(topic, *partition, live.position);
                restarted
                    .map(|()| (live, handed))
                    .map_err(|error| unanswered(format!("the client does not restart it: {error}")))
            });
            match answer {
                Ok((live, handed)) => {
                    tracing::info!(topic, partition, from = live.position, "partition handed over");
                    self.send(self.table.rows[*row].shard, Inbound::Assigned(Box::new(handed)))?;
                    self.table.rows[*row].state = State::Live(live);
                    add(&self.wiring.counts.reassigns, 1);
                }
                Err(refused) => {
                    let state = &mut self.table.rows[*row].state;
                    if !matches!(state, State::Stopped { reason, .. } if *reason == refused.reason) {
                        log_refusal(topic, *partition, &refused);
                    }
                    may_go_on &= !refused.retry;
                    *state = stopped(refused, self.wiring.clock.now());
                }
            }
        }
        self.pause_unwanted();
        Ok(may_go_on)
    }

    fn restart(&self, topic: &str, partition: i32, from: i64) -> rdkafka::error::KafkaResult<()> {
        let mut list = TopicPartitionList::with_capacity(1);
        list.add_partition_offset(topic, partition, Offset::Offset(from))?;
        self.consumer.incremental_unassign(&list)?;
        self.consumer.incremental_assign(&list)?;
        self.consumer.resume(&list)
    }

    fn send(&mut self, shard: usize, event: Inbound) -> Result<(), SourceError> {
        self.outboxes[shard].send(event).map_err(|_| SourceError::ShardGone(shard))
    }
}

/// The broker, or the client on its behalf, does not answer now.
pub(super) fn unanswered(reason: String) -> Refused {
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
