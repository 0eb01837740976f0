//! What is on its way to one shard: the batch being filled, and what the shard's full channel did not take yet.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use crossbeam::channel::{SendTimeoutError, Sender, TrySendError};

use super::Inbound;
use super::batch::{Batch, Extent};
use super::flow::Valve;

/// The shard's thread is gone, which only a panic brings about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gone;

/// Keeps the shard's order, whatever is sent: `parked` goes before anything newer.
#[derive(Debug)]
pub(super) struct Outbox {
    sender: Sender<Inbound>,
    pub(super) open: Batch,
    /// Bounded in effect: while it is not empty, at most one more batch is filled before the shard's partitions are
    /// paused; the rest are events of a rebalance.
    parked: VecDeque<Inbound>,
    pub(super) valve: Valve,
    held: Arc<AtomicUsize>,
}

impl Outbox {
    pub(super) fn new(sender: Sender<Inbound>, held: Arc<AtomicUsize>) -> Self {
        let open = Batch::new(Arc::clone(&held), Extent::default());
        Self { sender, open, parked: VecDeque::new(), valve: Valve::default(), held }
    }

    /// Ends the open batch. Returns whether there was one.
    pub(super) fn close_batch(&mut self) -> bool {
        if self.open.is_empty() {
            return false;
        }
        let next = Batch::new(Arc::clone(&self.held), self.open.extent());
        self.parked.push_back(Inbound::Batch(std::mem::replace(&mut self.open, next)));
        true
    }

    /// Sends an event after all records so far; parks it if the channel is full.
    pub(super) fn send(&mut self, event: Inbound) -> Result<(), Gone> {
        self.close_batch();
        self.parked.push_back(event);
        self.pump(None)
    }

    pub(super) fn is_backed_up(&self) -> bool {
        !self.parked.is_empty()
    }

    /// Hands over what is parked as far as the channel takes it, waiting for room up to `patience` once.
    pub(super) fn pump(&mut self, patience: Option<Duration>) -> Result<(), Gone> {
        let mut patience = patience;
        while let Some(next) = self.parked.pop_front() {
            let back = match patience.take() {
                Some(wait) => match self.sender.send_timeout(next, wait) {
                    Ok(()) => None,
                    Err(SendTimeoutError::Timeout(back)) => Some(back),
                    Err(SendTimeoutError::Disconnected(_)) => return Err(Gone),
                },
                None => match self.sender.try_send(next) {
                    Ok(()) => None,
                    Err(TrySendError::Full(back)) => Some(back),
                    Err(TrySendError::Disconnected(_)) => return Err(Gone),
                },
            };
            if let Some(back) = back {
                self.parked.push_front(back);
                return Ok(());
            }
            self.valve.took();
        }
        Ok(())
    }

    /// Whether this shard's partitions are paused and it has worked off enough to resume them.
    pub(super) fn may_resume(&mut self) -> bool {
        let capacity = self.sender.capacity().unwrap_or(usize::MAX);
        self.parked.is_empty() && self.valve.drained(self.sender.len(), capacity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Tick;

    fn drain(n: u64) -> Inbound {
        Inbound::Drain { deadline: Tick(n) }
    }

    #[test]
    fn order_is_kept_through_a_full_channel() {
        let (sender, receiver) = crossbeam::channel::bounded(1);
        let mut outbox = Outbox::new(sender, Arc::default());
        for n in 0..4 {
            outbox.send(drain(n)).unwrap();
        }
        assert!(outbox.is_backed_up());
        let mut seen = Vec::new();
        while let Ok(event) = receiver.try_recv() {
            seen.push(format!("{event:?}"));
            outbox.pump(Some(Duration::ZERO)).unwrap();
        }
        let expected: Vec<_> = (0..4).map(|n| format!("{:?}", drain(n))).collect();
        assert_eq!(seen, expected);
        drop(receiver);
        assert_eq!(outbox.send(drain(9)), Err(Gone));
    }
}
