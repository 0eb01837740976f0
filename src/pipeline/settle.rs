//! Takes the shards' asks to the ledger, but none for records of a topic that is no longer the one handed over.

use std::sync::Arc;

use crossbeam::channel::Sender;
use tokio::sync::mpsc;

use crate::code::Failure;
use crate::engine::plan::{LedgerAsk, StreamMark};
use crate::record::Assignment;
use crate::shard::Answer;
use crate::sink::ledger::coverage::Recreated;
use crate::sink::ledger::{Ledger, Refusal};
use crate::source::{Changed, TopicIds};

/// Settles one ask after the other, until the shard is gone or the ledger is stopped.
pub(super) async fn settle_asks(
    ledger: Arc<Ledger>,
    ids: Arc<TopicIds>,
    mut asks: mpsc::Receiver<LedgerAsk>,
    answers: Sender<Answer>,
) {
    while let Some(ask) = asks.recv().await {
        crate::crash::point("before_ledger");
        let (ask, broken) = sift(&ids, ask).await;
        let Some(mut answer) = ledger.settle(&ask).await else { return };
        answer.broken.extend(broken);
        crate::crash::point("after_ledger");
        answers.try_send(Answer::Ledger(answer)).ok();
    }
}

/// Takes out what must not be reserved, with the reason. What is durable may still be said of the old topic.
async fn sift(ids: &Arc<TopicIds>, mut ask: LedgerAsk) -> (LedgerAsk, Vec<(Assignment, Failure)>) {
    if ask.reserve.is_empty() {
        return (ask, Vec::new());
    }
    let origins: Vec<_> = ask.reserve.iter().map(|mark| Arc::clone(&mark.origin)).collect();
    let ids = Arc::clone(ids);
    let changed = move || ids.changed(&origins.iter().map(|origin| origin.topic.as_str()).collect());
    // It fails only when the runtime shuts down, and then nothing is reserved or sent any more.
    let changed = tokio::task::spawn_blocking(changed).await.unwrap_or_default();
    let mut broken = Vec::new();
    ask.reserve.retain(|mark| match changed.get(&mark.origin.topic) {
        None => true,
        Some(changed) => {
            broken.push((mark.assignment, refusal(mark, changed.clone())));
            false
        }
    });
    (ask, broken)
}

fn refusal(mark: &StreamMark, Changed { was, is }: Changed) -> Failure {
    let why = Recreated::TopicId { was, is };
    Refusal::Recreated { topic: mark.origin.topic.clone(), partition: mark.origin.partition, why }.into()
}
