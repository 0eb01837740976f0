//! What the store's client does, counted for telemetry: relaxed atomics, a few times a command.

use std::sync::atomic::{AtomicU64, Ordering};

use super::encode::Kind;
use super::outcome::Again;
use crate::telemetry::counts::SinkTotals;

/// Totals since the start; their meaning stands at `SinkTotals`.
#[derive(Debug, Default)]
pub struct SinkCounts {
    pub commands: AtomicU64,
    pub command_bytes: AtomicU64,
    pub inserts: AtomicU64,
    pub appends: AtomicU64,
    pub seals: AtomicU64,
    pub fences: AtomicU64,
    pub vanished: AtomicU64,
    pub refused: AtomicU64,
    /// By `Again`.
    pub resends: [AtomicU64; Again::ALL.len()],
    pub abandoned: AtomicU64,
    pub tail_reads: AtomicU64,
    pub body_bytes: AtomicU64,
}

impl SinkCounts {
    pub fn totals(&self) -> SinkTotals {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        SinkTotals {
            commands: read(&self.commands),
            command_bytes: read(&self.command_bytes),
            inserts: read(&self.inserts),
            appends: read(&self.appends),
            seals: read(&self.seals),
            fences: read(&self.fences),
            vanished: read(&self.vanished),
            refused: read(&self.refused),
            resends: Again::ALL.map(|again| (again.name(), read(&self.resends[again as usize]))),
            abandoned: read(&self.abandoned),
            tail_reads: read(&self.tail_reads),
            body_bytes: read(&self.body_bytes),
            ..SinkTotals::default()
        }
    }

    pub(super) fn statements(&self, kind: Kind) -> &AtomicU64 {
        match kind {
            Kind::Insert => &self.inserts,
            Kind::Append => &self.appends,
            Kind::Seal => &self.seals,
        }
    }
}

pub(super) fn add(count: &AtomicU64, n: usize) {
    count.fetch_add(n as u64, Ordering::Relaxed);
}
