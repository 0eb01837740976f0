//! Answers the source's question where a partition is read from: asks the ledger.

use std::sync::Arc;

use tokio::runtime::Handle;

use crate::config::Config;
use crate::record::Assignment;
use crate::sink::ledger::{AssignError, Ledger};
use crate::source::{Handed, PartitionAsk, Refused, Resolve, TopicIds};

#[derive(Debug)]
pub(super) struct LedgerResolve {
    runtime: Handle,
    ledger: Arc<Ledger>,
    ids: Arc<TopicIds>,
    config: Config,
}

impl LedgerResolve {
    pub(super) fn new(runtime: Handle, ledger: Arc<Ledger>, ids: Arc<TopicIds>, config: Config) -> Self {
        Self { runtime, ledger, ids, config }
    }
}

impl Resolve for LedgerResolve {
    /// Blocks the poll thread, which is none of the runtime's.
    fn assign(&self, ask: PartitionAsk, assignment: Assignment) -> Result<Handed, Refused> {
        let Some(contract) = self.config.contract_for(&ask.topic) else {
            let reason = format!("no [[decoder]] names topic {:?}", ask.topic);
            return Err(Refused { reason, retry: false });
        };
        let assigned = self.runtime.block_on(self.ledger.assign(&ask, assignment, &contract));
        let claim = assigned.map_err(|error| Refused {
            retry: matches!(error, AssignError::Unavailable(_)),
            reason: error.to_string(),
        })?;
        if let Some(id) = &ask.topic_id {
            self.ids.learn(&ask.topic, id);
        }
        for warning in claim.warnings {
            tracing::warn!(topic = ask.topic, partition = ask.partition, %warning, "the ledger differs");
        }
        Ok(Handed { assigned: claim.assigned, contracts: claim.contracts })
    }
}
