//! What arrives is stored once, in every shape that a record may have.

use std::collections::BTreeSet;

use super::world::World;

#[test]
fn stores_what_was_produced_and_nothing_else() {
    let world = World::new("smoke", 4);
    world.produce(&["--total=20000", "--devices=100", "--poison=0.002"]);
    world.catch_up();
    let report = world.check(&[]);
    assert_eq!(report["stored"].as_u64().unwrap() + report["dead"].as_u64().unwrap(), 20_000, "{report:#}");
}

#[test]
fn records_of_seven_readings() {
    let mut world = World::new("seven", 4);
    world.decoder("explode = \"readings\"");
    // The last record is a smaller one.
    world.produce(&["--total=20001", "--devices=100", "--readings-per-record=7"]);
    world.produce(&["--total=5000", "--devices=100", "--readings-per-record=7", "--poison=0.01"]);
    world.catch_up();
    let report = world.check(&[]);
    assert!(report["stored"].as_u64().unwrap() > 20_001, "{report:#}");
    assert!(report["dead"].as_u64().unwrap() > 0, "{report:#}");
}

#[test]
fn tags_are_kept_once_a_bucket() {
    let mut world = World::new("tags", 4);
    world.decoder("meta = [\"fw\"]");
    world.produce(&["--total=20000", "--devices=50", "--tag-every=50"]);
    world.catch_up();
    world.check(&["--tag=fw"]);
    let tags: BTreeSet<_> = world
        .buckets()
        .iter()
        .map(|bucket| bucket.get_document("meta").unwrap().get_str("fw").unwrap().to_owned())
        .collect();
    assert_eq!(tags.len(), 20_000 / 50 / 50, "{tags:?}");
}

#[test]
fn totals_of_named_fields_are_kept_a_bucket() {
    let mut world = World::new("totals", 4);
    world.decoder("stats = [\"temp\"]");
    world.produce(&["--total=20000", "--devices=50", "--disorder=0.05", "--late=0.02", "--equal-times=0.02"]);
    world.catch_up();
    world.check(&["--stats=temp"]);
    let stats = world.buckets().remove(0).get_document("stats").unwrap().clone();
    assert_eq!(stats.keys().collect::<Vec<_>>(), ["temp"]);
}
