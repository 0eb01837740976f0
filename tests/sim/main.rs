//! The production engine in a single-threaded world: one seed decides every delay, crash, repeat and refusal.
//!
//! The world has one partition, a store with compare-and-append semantics, a ledger, and nodes that crash, lose
//! replies, come back as zombies, are put back, or run under another contract; the ledger may be lost and rebuilt. At the end every reading of the log is
//! exactly once in a bucket or a dead letter.

mod ledger;
mod log;
mod node;
mod oracle;
mod store;
mod world;

use world::World;

/// One run of one seed; panics with the seed if the oracle objects. How often the ledger was rebuilt in it.
fn check(seed: u64) -> u32 {
    let mut world = World::new(seed);
    world.run_with_faults();
    world.settle();
    if let Err(problems) = oracle::judge(&world) {
        panic!("seed {seed}: {problems}");
    }
    world.n_rebuilt
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
    let seeds = seeds();
    let n_rebuilt: u32 = seeds.clone().map(check).sum();
    assert!(n_rebuilt > 0 || seeds.count() < 100, "no run lost its ledger");
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
