//! The truth: what must hold at the end of a run, from the log and the store alone.

use std::collections::BTreeMap;

use sakia::record::Position;

use crate::log::Item;
use crate::node::Node;
use crate::store::Bucket;
use crate::world::{Expiry, World};

pub(crate) fn judge(world: &World) -> Result<(), String> {
    let mut problems = Vec::new();
    let mut stored: BTreeMap<Position, u32> = BTreeMap::new();
    for bucket in world.store.buckets.values() {
        for pos in &bucket.positions {
            *stored.entry(*pos).or_default() += 1;
        }
    }
    let dead: BTreeMap<Position, u32> = world.store.dead.iter().fold(BTreeMap::new(), |mut all, (_, pos)| {
        *all.entry(*pos).or_default() += 1;
        all
    });
    for (pos, item) in world.log.positions().into_iter().filter(|(_, item)| !world.is_excused(*item)) {
        let (n, d) = (stored.get(&pos).copied().unwrap_or(0), dead.get(&pos).copied().unwrap_or(0));
        let good = matches!(item, Item::Good { .. }) && !world.log.hard.contains(&pos);
        match (good, n, d) {
            (true, 1, 0) | (false, 0, 1) => {}
            (_, 0, 0) => problems.push(format!("{pos:?} lost")),
            (_, n, d) if n + d > 1 => problems.push(format!("{pos:?} twice: stored {n}, dead {d}")),
            _ => problems.push(format!("{pos:?} wrong: good {good}, stored {n}, dead {d}")),
        }
    }
    judge_chains(world, &mut problems);
    problems.extend(world.live().filter(|n| !n.is_quiet(&world.log)).map(Node::stuck_report));
    problems.extend(world.complaints.iter().cloned());
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n")) }
}

/// Buckets of a chain: numbered from 0 without a hole, positions rising through all of them, only the last open.
fn judge_chains(world: &World, problems: &mut Vec<String>) {
    let mut before: Option<(&(crate::store::Chain, u32), &Bucket)> = None;
    let expired = |window: i64| world.expiry == Expiry::Passed && window == 0;
    for (key, bucket) in world.store.buckets.iter().filter(|(key, _)| !expired(key.0.1)) {
        let same = before.filter(|(k, _)| k.0 == key.0);
        let expected = same.map_or(0, |(k, _)| k.1 + 1);
        if key.1 != expected {
            problems.push(format!("{key:?} follows {expected}"));
        }
        if same.is_some_and(|(_, b)| b.open) {
            problems.push(format!("{key:?} stands behind an open bucket"));
        }
        let first = same.map_or(Position::NONE, |(_, b)| b.hi);
        let rising = bucket.positions.windows(2).all(|w| w[0] < w[1]);
        if !rising || bucket.positions.first().is_none_or(|p| *p <= first) {
            problems.push(format!("{key:?} holds positions out of order"));
        }
        if bucket.positions.len() > world.max_cap as usize {
            problems.push(format!("{key:?} holds {} samples", bucket.positions.len()));
        }
        before = Some((key, bucket));
    }
}
