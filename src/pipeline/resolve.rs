//! Answers the source's question where a partition is read from: asks the ledger.

use std::cell::OnceCell;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt as _};
use tokio::runtime::Handle;

use crate::code::{Code, Failure};
use crate::config::Config;
use crate::record::Assignment;
use crate::sink::ledger::{AssignError, Ledger};
use crate::source::{Handed, PartitionAsk, Refused, Resolve, Stop, TopicIds};

/// How often a wait for the ledger looks whether the process is to stop.
const STOP_LOOK: Duration = Duration::from_millis(50);
/// Partitions that the ledger is asked for at the same time: each takes a few round trips, and the group waits.
const AT_ONCE: usize = 32;

#[derive(Debug)]
pub(super) struct LedgerResolve {
    pub(super) runtime: Handle,
    pub(super) ledger: Arc<Ledger>,
    pub(super) ids: Arc<TopicIds>,
    pub(super) config: Config,
    pub(super) stop: Arc<Stop>,
}

impl LedgerResolve {
    async fn stop_asked(&self) {
        let mut look = tokio::time::interval(STOP_LOOK);
        while !self.stop.is_asked() {
            look.tick().await;
        }
    }
}

impl Resolve for LedgerResolve {
    /// Blocks the poll thread, which is none of the runtime's.
    fn assign(&self, asks: Vec<(PartitionAsk, Assignment)>) -> Vec<Result<Handed, Refused>> {
        // Whoever is down stays down for the other partitions, and each question may take its time-out.
        let down = OnceCell::new();
        let answers = asks.into_iter().map(async |(ask, assignment)| {
            if let Some(refused) = down.get() {
                return Err(Refused::clone(refused));
            }
            let answer = self.hand_over(ask, assignment).await;
            if let Err(refused) = answer.as_ref()
                && refused.retry
            {
                down.set(refused.clone()).ok();
            }
            answer
        });
        self.runtime.block_on(stream::iter(answers).buffered(AT_ONCE).collect())
    }
}

impl LedgerResolve {
    /// A stop that is asked for does not wait for a server that is silent: its time-out would come on top of the drain's,
    /// and whoever asked kills the process by then.
    async fn hand_over(&self, ask: PartitionAsk, assignment: Assignment) -> Result<Handed, Refused> {
        let table = self.config.decoder_for(&ask.topic);
        let table = table
            .map_err(|unrouted| Refused { reason: Failure::new(Code::TopicWithoutDecoder, unrouted), retry: false })?;
        let contract = self.config.contract_of(table);
        let assigned = tokio::select! {
            assigned = self.ledger.assign(&ask, assignment, &contract) => assigned,
            () = self.stop_asked() => Err(AssignError::Unavailable("the process is to stop".to_owned())),
        };
        let claim = assigned
            .map_err(|error| Refused { retry: matches!(error, AssignError::Unavailable(_)), reason: error.into() })?;
        if let Some(id) = &ask.topic_id {
            self.ids.learn(&ask.topic, id);
        }
        for warning in claim.warnings {
            let code = warning.code();
            tracing::warn!(%code, topic = ask.topic, partition = ask.partition, %warning, "the ledger differs");
        }
        Ok(Handed { assigned: claim.assigned, contracts: claim.contracts })
    }
}
