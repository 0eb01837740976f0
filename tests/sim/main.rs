//! The production engine in a single-threaded world: one seed decides every delay, crash, repeat and refusal.
//!
//! The world has one partition, a store with compare-and-append semantics, a ledger, and nodes that crash, lose
//! replies, come back as zombies, are put back, or run under another contract; the ledger may be lost and rebuilt. At
//! the end every reading of the log is exactly once in a bucket or a dead letter.

mod ledger;
mod log;
mod node;
mod oracle;
mod store;
mod world;

use world::World;

/// One run of one seed; panics with the seed if the oracle objects.
fn check(seed: u64) -> Upkeep {
    let mut world = World::new(seed);
    world.run_with_faults();
    world.settle();
    if let Err(problems) = oracle::judge(&world) {
        panic!("seed {seed}: {problems}");
    }
    let mut upkeep = Upkeep {
        rebuilt: world.rebuilt.len() as u64,
        rebuilt_expired: world.rebuilt.iter().filter(|found| found.n_expired > 0).count() as u64,
        rebuilt_less: world.rebuilt.iter().filter(|found| found.is_missing_streams).count() as u64,
        ..Upkeep::default()
    };
    for counts in world.nodes.iter().map(|node| node.engine.counts()) {
        let forced = |why: &str| counts.seals.get(why).copied().unwrap_or(0);
        upkeep.evictions += counts.evictions;
        upkeep.expired += counts.expired;
        upkeep.for_cache += forced("cache_budget");
        upkeep.for_table += forced("chain_table");
    }
    upkeep
}

/// How often chains and tails had to make room, and what else has to happen: a simulation in which none ever does proves nothing about it.
#[derive(Clone, Copy, Debug, Default)]
struct Upkeep {
    evictions: u64,
    expired: u64,
    for_cache: u64,
    for_table: u64,
    /// The ledger, after it was lost.
    rebuilt: u64,
    /// Of these, with buckets that their time to live had deleted; and with streams of which nothing was left.
    rebuilt_expired: u64,
    rebuilt_less: u64,
}

fn seeds() -> std::ops::Range<u64> {
    let read = |name: &str, default: u64| match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text:?} is not a number")),
        Err(_) => default,
    };
    let from = read("SIM_FROM", 0);
    from..from + read("SIM_SEEDS", 2_000)
}

#[test]
fn nothing_lost_nothing_twice() {
    let mut total = Upkeep::default();
    for seed in seeds() {
        let Upkeep { evictions, expired, for_cache, for_table, rebuilt, rebuilt_expired, rebuilt_less } = check(seed);
        total.evictions += evictions;
        total.expired += expired;
        total.for_cache += for_cache;
        total.for_table += for_table;
        total.rebuilt += rebuilt;
        total.rebuilt_expired += rebuilt_expired;
        total.rebuilt_less += rebuilt_less;
    }
    let Upkeep { evictions, expired, for_cache, for_table, rebuilt, rebuilt_expired, rebuilt_less } = total;
    let n = seeds().count() as u64;
    let are_common = [evictions, expired, for_cache, for_table].iter().all(|count| 5 * count >= n);
    let are_seen = rebuilt > 0 && (n < 1_000 || rebuilt_expired > 0 && rebuilt_less > 0);
    // One seed alone, run again for its trace, need not have all of them.
    assert!(n < 100 || are_common && are_seen, "{total:?} in {n} runs");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let trace = |seed| {
        let mut world = World::new(seed);
        world.run_with_faults();
        world.settle();
        world.trace()
    };
    for seed in 0..20 {
        assert_eq!(trace(seed), trace(seed), "seed {seed}");
    }
}

/// The oracle is worth nothing unless it can object.
#[test]
fn the_oracle_sees_a_lost_and_a_doubled_sample() {
    let mut world = World::new(7);
    world.run_with_faults();
    world.settle();
    world.store.lose_one();
    assert!(oracle::judge(&world).is_err_and(|p| p.contains("lost")));

    let mut world = World::new(7);
    world.run_with_faults();
    world.settle();
    world.store.double_one();
    assert!(oracle::judge(&world).is_err_and(|p| p.contains("twice")));
}
