//! Kills at random times and at named crash points, each followed by a proof that nothing is lost or doubled.

use std::time::Duration;

use super::world::World;

#[test]
fn stores_what_was_produced_and_nothing_else() {
    let world = World::new("smoke", 4);
    world.produce(&["--total", "20000", "--devices", "100", "--poison", "0.002"]);
    world.catch_up();
    let report = world.check(&[]);
    assert_eq!(report["stored"].as_u64().unwrap() + report["dead"].as_u64().unwrap(), 20_000, "{report:#}");
}

#[test]
fn twenty_kills_at_random_times() {
    let world = World::new("kills", 4);
    world.produce(&["--total", "60000", "--devices", "200", "--poison", "0.001"]);
    for i in 0..20 {
        let running = world.start(&[]);
        std::thread::sleep(Duration::from_millis(fastrand::u64(200..1500)));
        running.kill();
        if i % 5 == 4 {
            world.produce(&["--total", "5000", "--devices", "200"]);
        }
    }
    world.catch_up();
    world.check(&[]);
}
