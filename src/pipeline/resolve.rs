//! Answers the source's question where a partition is read from: asks the ledger.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use crate::code::{Code, Failure};
use crate::config::Config;
use crate::record::Assignment;
use crate::sink::ledger::{AssignError, Ledger};
use crate::source::{Handed, PartitionAsk, Refused, Resolve, Stop, TopicIds};

/// How often a wait for the ledger looks whether the process is to stop.
const STOP_LOOK: Duration = Duration::from_millis(50);

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
    /// Blocks the poll thread, which is none of the runtime's. A stop that is asked for does not wait for a server that
    /// is silent: its time-out would come on top of the drain's, and whoever asked kills the process by then.
    fn assign(&self, ask: PartitionAsk, assignment: Assignment) -> Result<Handed, Refused> {
        let Some(contract) = self.config.contract_for(&ask.topic) else {
            let message = format_args!("no [[decoder]] names topic {:?}", ask.topic);
            return Err(Refused { reason: Failure::new(Code::TopicWithoutDecoder, message), retry: false });
        };
        let assigned = self.runtime.block_on(async {
            tokio::select! {
                assigned = self.ledger.assign(&ask, assignment, &contract) => assigned,
                () = self.stop_asked() => Err(AssignError::Unavailable("the process is to stop".to_owned())),
            }
        });
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
