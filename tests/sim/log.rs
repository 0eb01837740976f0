//! The partition's log: what was produced, and what the server will make of it.

use std::collections::BTreeSet;

use fastrand::Rng;
use sakia::record::Position;

/// One reading of a record: its device, its window (in days), or a reject.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Item {
    Good { device: u8, day: u8, meta: u8 },
    Bad,
}

#[derive(Debug)]
pub(crate) struct Log {
    /// `(offset, readings)`, offsets with gaps as compaction and transactions leave them.
    pub(crate) records: Vec<(i64, Vec<Item>)>,
    /// Positions that the server refuses everywhere.
    pub(crate) hard: BTreeSet<Position>,
    /// Positions that the server refuses in an append only.
    pub(crate) soft: BTreeSet<Position>,
}

impl Log {
    pub(crate) fn new(rng: &mut Rng) -> Self {
        let n_records = rng.usize(8..60);
        let n_devices = rng.u8(1..5);
        let with_meta = rng.bool();
        let mut offset = 0;
        let mut records = Vec::new();
        for _ in 0..n_records {
            let n_readings = *rng.choice(&[1, 1, 1, 2, 5]).expect("not empty");
            let item = |rng: &mut Rng| match rng.u8(0..20) {
                0 => Item::Bad,
                _ => Item::Good {
                    device: rng.u8(0..n_devices),
                    day: u8::from(rng.u8(0..8) == 0),
                    meta: if with_meta { u8::from(offset > 20) + 1 } else { 0 },
                },
            };
            records.push((offset, (0..n_readings).map(|_| item(rng)).collect()));
            offset += if rng.u8(0..6) == 0 { rng.i64(2..5) } else { 1 };
        }
        let mut log = Self { records, hard: BTreeSet::new(), soft: BTreeSet::new() };
        for (pos, item) in log.positions() {
            if matches!(item, Item::Good { .. }) {
                match rng.u8(0..40) {
                    0 => drop(log.hard.insert(pos)),
                    1 | 2 => drop(log.soft.insert(pos)),
                    _ => {}
                }
            }
        }
        log
    }

    pub(crate) fn positions(&self) -> Vec<(Position, Item)> {
        let of = |(offset, items): &(i64, Vec<Item>)| {
            let offset = *offset;
            let place = move |(i, item): (usize, &Item)| (Position::new(offset, i as u16), *item);
            items.iter().enumerate().map(place).collect::<Vec<_>>()
        };
        self.records.iter().flat_map(of).collect()
    }

    /// First offset past the end.
    pub(crate) fn end(&self) -> i64 {
        self.records.last().map_or(0, |(offset, _)| offset + 1)
    }
}

/// Device of a reading under a contract: another contract files some readings under another device.
pub(crate) fn device_under(contract: u32, device: u8) -> String {
    format!("dev-{}", (u32::from(device) + 10 * (contract * u32::from(device) % 2)) % 100)
}
