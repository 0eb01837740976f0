//! Topics that are found by pattern: those that are there, those that come, and those that two decoders would read.

use super::dead::replay;
use super::stored::{assert_offsets, numbered, samples};
use super::topics::{create_topic, send};
use super::world::{NOON, World, until};

/// New topics are looked for every second.
const SETTINGS: &str =
    "[kafka.options]\n\"topic.metadata.refresh.interval.ms\" = \"1000\"\n[bucket]\nflush_age = \"300ms\"\n";

fn world(purpose: &str) -> World {
    let mut world = World::new(purpose, 2);
    world.settings(SETTINGS);
    let pattern = format!("topics = '^{}(\\.[a-z]+)?$'", world.name);
    world.decoder(&pattern);
    world
}

fn beside(world: &World, suffix: &str) -> String {
    format!("{}.{suffix}", world.name)
}

#[test]
fn all_topics_of_a_pattern_are_stored_and_one_that_comes_later_too() {
    let world = world("patterns");
    let [heat, power, later] = ["heat", "power", "later"].map(|suffix| beside(&world, suffix));
    let other = beside(&world, "not_it");
    for topic in [&heat, &power, &other] {
        create_topic(topic, 2);
    }
    for topic in [&world.name, &heat, &power, &other] {
        world.produce_to(topic, &["--total=3000", "--devices=100"]);
    }
    // Two at once, so that both have topics to begin with.
    let members = [world.start(&[]), world.start(&[])];
    until("what is there is stored", || world.n_samples() == 9_000);
    create_topic(&later, 3);
    world.produce_to(&later, &["--total=3000", "--devices=100"]);
    until("what came later is stored", || world.n_samples() == 12_000);
    for member in members {
        member.stop();
    }
    world.catch_up();
    world.check(&["--topic", &heat, "--topic", &power, "--topic", &later]);
    let contracts = world.documents("readings_ledger").iter().filter(|d| d.contains_key("text")).count();
    assert_eq!(contracts, 1, "topics of one decoder have one contract");
}

#[test]
fn dead_letters_of_a_topic_that_a_pattern_found_are_replayed_and_it_is_checked() {
    let world = {
        let mut world = world("pattern_dead");
        let pattern = format!("topics = '^{}\\.'\ntimestamp_path = \"when\"", world.name);
        world.decoder(&pattern);
        world
    };
    let heat = beside(&world, "heat");
    create_topic(&heat, 1);
    send(&heat, (0..50).map(|offset| numbered(0, offset, NOON)));
    let running = world.start(&[]);
    until("all are dead", || world.dead().len() == 50);
    running.stop();
    let mut world = world;
    world.decoder(&format!("topics = '^{}\\.'", world.name));
    let (report, code) = replay(&world, &[]);
    assert_eq!((&report["readings"]["stored"], code), (&50.into(), Some(0)), "{report}");
    assert_offsets(&samples(&world), 0..50);
    let checked = world.sakia("check", &[]).output().unwrap();
    let text = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(checked.status.success() && text.contains(&format!("topic {heat}")), "{text}");
    let sampled = world.sakia("check", &["--topic", &heat]).output().unwrap();
    assert!(sampled.status.success(), "{}", String::from_utf8_lossy(&sampled.stderr));
}

#[test]
fn an_exact_name_goes_before_a_pattern_and_a_topic_of_two_patterns_is_refused_alone() {
    let mut world = world("overlap");
    let (own, both) = (beside(&world, "own"), beside(&world, "both"));
    let table = |topics: &str, device: &str| {
        format!(
            "[[decoder]]\ntopics = '{topics}'\ndevice_path = \"{device}\"\ntimestamp_path = \"ts\"\n\
             timestamp_format = \"unix_ms\"\n"
        )
    };
    let settings = format!("{SETTINGS}{}{}", table(&own, "unit"), table(&format!("^{}\\.b", world.name), "unit"));
    world.settings(&settings);
    create_topic(&own, 1);
    world.send((0..50).map(|offset| numbered(0, offset, NOON)));
    send(&own, (50..100).map(|offset| numbered(0, offset, NOON)));
    let running = world.start(&[]);
    until("both are stored", || world.n_samples() == 100);
    create_topic(&both, 1);
    send(&both, (100..150).map(|offset| numbered(0, offset, NOON)));
    running.until_log("matches patterns of 2 decoders");
    world.send((100..150).map(|offset| numbered(0, offset, NOON)));
    until("the others go on", || world.n_samples() == 150);
    let log = running.stop();
    assert!(log.contains(&both), "{log}");
    let samples = samples(&world);
    assert_offsets(&samples, 0..150);
    for sample in samples {
        let by_unit = (50..100).contains(&sample.offset);
        assert_eq!(sample.device.starts_with("unit-"), by_unit, "offset {}", sample.offset);
    }
}
