//! Writes plans into the buckets and dead letters, and reports what is known by majority afterwards.
//!
//! A plan may be written again at any time, so dropping a write half done loses nothing: what it has applied fences
//! the repeat.

use futures_util::future::{join, join_all};
use mongodb::Database;
use tokio::sync::watch;

use super::call::Caller;
use super::counts::{SinkCounts, add};
use super::dead::DeadEncoder;
use super::encode::{Command, Encoder, Kind};
use super::outcome::Counting;
use super::settle::{Fate, settle};
use super::tails::{Found, ReadLevel, TailReader};
use crate::code::{Code, Failure};
use crate::config::Config;
use crate::crash;
use crate::engine::plan::{ChainKey, DeadLetter, Delta, Outcome, Plan, Report, Tail, Write};

/// The store of one readings collection.
#[derive(Clone, Debug)]
pub struct BucketSink {
    caller: Caller,
    encoder: Encoder,
    dead: DeadEncoder,
    tails: TailReader,
    stop: watch::Receiver<bool>,
}

impl BucketSink {
    /// Once `stop` turns true, or its sender is gone, writes end without a report.
    pub fn new(db: Database, config: &Config, stop: watch::Receiver<bool>) -> Self {
        let caller = Caller::new(db, config.mongo.write_timeout_ms);
        Self {
            encoder: Encoder::new(config),
            dead: DeadEncoder::new(config),
            tails: TailReader::new(caller.clone(), config),
            caller,
            stop,
        }
    }

    pub fn counts(&self) -> &SinkCounts {
        self.caller.counts()
    }

    /// Writes the plan, however long the store is away; `None` only on `stop`.
    pub async fn write(&self, plan: Plan) -> Option<Report> {
        let mut stop = self.stop.clone();
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => None,
            report = self.settle(plan) => Some(report),
        }
    }

    async fn settle(&self, plan: Plan) -> Report {
        crash::point("before_write");
        let (outcomes, dead) = join(self.write_deltas(&plan.deltas), self.write_dead(&plan.dead)).await;
        crash::point("after_write");
        let mut report =
            Report { id: plan.id, deltas: plan.deltas.into_iter().zip(outcomes).collect(), ..Report::default() };
        for (i, fate) in dead {
            let letter = &plan.dead[i];
            match fate {
                Fate::Applied | Fate::Present => report.dead.push((letter.assignment, letter.stream, letter.pos)),
                fate => report.dead_refused.push((letter.assignment, refusal(letter, &fate))),
            }
        }
        report
    }

    /// One outcome a delta, in their order.
    async fn write_deltas(&self, deltas: &[Delta]) -> Vec<Outcome> {
        let commands = self.encoder.commands(deltas);
        let settled = if crash::is_armed("between_writes") {
            let mut settled = Vec::new();
            for (i, command) in commands.iter().enumerate() {
                if i > 0 {
                    crash::point("between_writes");
                }
                settled.push(self.write_command(command, deltas).await);
            }
            settled
        } else {
            join_all(commands.iter().map(|command| self.write_command(command, deltas))).await
        };
        let mut outcomes: Vec<_> = settled.into_iter().flatten().collect();
        outcomes.sort_unstable_by_key(|(i, _)| *i);
        debug_assert_eq!(outcomes.len(), deltas.len());
        outcomes.into_iter().map(|(_, outcome)| outcome).collect()
    }

    async fn write_command(&self, command: &Command, deltas: &[Delta]) -> Vec<(usize, Outcome)> {
        let counting = if command.kind == Kind::Insert { Counting::Each } else { Counting::Sum };
        let body = |group: &[usize]| self.encoder.body(command.kind, group.iter().map(|i| &deltas[*i]));
        add(self.counts().statements(command.kind), command.deltas.len());
        let fates = settle(&self.caller, counting, &command.deltas, body).await;
        let (mut outcomes, mut unclear) = (Vec::with_capacity(fates.len()), Vec::new());
        for (i, fate) in fates {
            match fate {
                Fate::Applied => outcomes.push((i, Outcome::Applied)),
                Fate::Present | Fate::Doubtful => unclear.push(i),
                Fate::Refused { code, message } => {
                    add(&self.counts().refused, 1);
                    outcomes.push((i, Outcome::Refused { code, message }));
                }
                Fate::Broken(reason) => outcomes.push((i, Outcome::Broken(reason))),
            }
        }
        outcomes.extend(self.look(&unclear, deltas).await);
        outcomes
    }

    /// Reads the chains of these deltas back (rule 4). A tail behind what this writer saw confirmed may be the view
    /// of a primary that was replaced without knowing it, so it is read once more in a way that such a one cannot answer.
    async fn look(&self, unclear: &[usize], deltas: &[Delta]) -> Vec<(usize, Outcome)> {
        let found = self.read(unclear, deltas, ReadLevel::Majority).await;
        let is_behind = |(i, found): &(usize, Found)| matches!(found, Ok(tail) if lags(tail.as_ref(), &deltas[*i]));
        let (behind, sound): (Vec<_>, Vec<_>) = found.into_iter().partition(is_behind);
        let behind: Vec<_> = behind.into_iter().map(|(i, _)| i).collect();
        let again = self.read(&behind, deltas, ReadLevel::Linearizable).await;
        let judged = sound.into_iter().chain(again).map(|(i, found)| {
            let outcome = match found {
                Err(reason) => Outcome::Broken(reason),
                Ok(tail) if lags(tail.as_ref(), &deltas[i]) => {
                    add(&self.counts().vanished, 1);
                    Outcome::Vanished
                }
                Ok(tail) => {
                    // Neighbours of a missed update are read too: most have had their effect.
                    add(&self.counts().fences, usize::from(!tail.as_ref().is_some_and(|tail| deltas[i].leaves(tail))));
                    Outcome::Fenced(tail)
                }
            };
            (i, outcome)
        });
        judged.collect()
    }

    async fn read(&self, of: &[usize], deltas: &[Delta], level: ReadLevel) -> Vec<(usize, Found)> {
        let keys: Vec<&ChainKey> = of.iter().map(|i| &*deltas[*i].key).collect();
        of.iter().copied().zip(self.tails.read(&keys, level).await).collect()
    }

    async fn write_dead(&self, letters: &[DeadLetter]) -> Vec<(usize, Fate)> {
        let commands = self.dead.commands(letters);
        let body = |group: &[usize]| self.dead.body(group.iter().map(|i| &letters[*i]));
        let settled = commands.iter().map(|group| settle(&self.caller, Counting::Each, group, body));
        join_all(settled).await.into_iter().flatten().collect()
    }
}

/// Whether a tail is absent or behind what the delta's writer has seen confirmed.
fn lags(tail: Option<&Tail>, delta: &Delta) -> bool {
    match delta.write {
        Write::Insert { .. } => false,
        Write::Append { n, hi, .. } | Write::Seal { n, hi } => {
            tail.is_none_or(|tail| tail.n < n || (tail.n == n && tail.hi < hi))
        }
    }
}

fn refusal(letter: &DeadLetter, fate: &Fate) -> Failure {
    let why = match fate {
        Fate::Refused { code, message } => format!("{message} (code {code})"),
        Fate::Broken(reason) => reason.message.clone(),
        other => format!("{other:?}"),
    };
    let origin = &letter.origin;
    let message = format_args!(
        "dead letter of {}/{} offset {} cannot be stored, its partition stops: {why}; mend the dead letter collection \
         (validator, indexes, privileges) and start again",
        origin.topic,
        origin.partition,
        letter.pos.offset()
    );
    Failure::new(Code::DeadLetterRefused, message)
}
