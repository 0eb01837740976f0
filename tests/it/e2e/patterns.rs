//! Topics that are found by pattern: those that are there, those that come, and those that two decoders would read.

use super::check::{finds, report};
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

/// A decoder beside the world's own.
fn table(topics: &str, device: &str) -> String {
    format!(
        "[[decoder]]\ntopics = '{topics}'\ndevice_path = \"{device}\"\ntimestamp_path = \"ts\"\n\
         timestamp_format = \"unix_ms\"\n"
    )
}

#[test]
fn an_exact_name_goes_before_a_pattern_and_a_topic_of_two_patterns_is_refused_alone() {
    let mut world = world("overlap");
    let (own, both) = (beside(&world, "own"), beside(&world, "both"));
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

#[test]
fn check_says_what_patterns_find() {
    let mut world = world("checked");
    let [heat, power] = ["heat", "power"].map(|suffix| beside(&world, suffix));
    create_topic(&heat, 1);
    send(&heat, (0..20).map(|offset| numbered(0, offset, NOON)));
    world.catch_up();
    let all = format!("pattern ^{}", world.name);
    finds(
        &world,
        &[],
        &[("ok", &[&all, "matches 2 topics now", &world.name]), ("ok", &[&heat, "1 partitions", "20 offsets"])],
    );
    let (found, _) = report(&world, &[]);
    assert!(found["fail"] == 0 && !found.to_string().contains("no [[decoder]] names"), "{found:#}");
    let (sampled, is_content) = report(&world, &["--topic", &heat, "--n", "3"]);
    assert!(is_content && sampled["summary"]["readings"] == 3, "{sampled:#}");
    let nothing = format!("^{}-none", world.name);
    world.settings(&format!("{SETTINGS}{}{}", table(&nothing, "unit"), table(&format!("^{}\\.p", world.name), "unit")));
    create_topic(&power, 1);
    let refused: (&str, &[&str]) =
        ("fail", &[&power, "topic-without-decoder", "patterns of 2 decoders", "name it exactly"]);
    finds(&world, &[], &[("note", &[&nothing, "matches no topic now"]), refused]);
    let output = world.sakia("check", &["--topic", &power]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("error[topic-without-decoder]") && told.contains("patterns of 2 decoders"), "{told}");
    let running = world.start(&[]);
    running.until_log("matches the pattern");
    running.until_log("matches patterns of 2 decoders");
    running.until_log("partitions assigned");
    running.stop();
}

#[test]
fn a_pattern_that_finds_nothing_is_no_reason_to_wait_for_ever() {
    let mut world = world("nothing");
    world.decoder(&format!("topics = '^{}-later'", world.name));
    let (status, log) = world.start(&["--until-caught-up"]).wait();
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains("error[topic-missing]") && log.contains("matches the pattern"), "{log}");
    let running = world.start(&[]);
    running.until_log("not read until it is there");
    let later = format!("{}-later", world.name);
    create_topic(&later, 1);
    send(&later, (0..10).map(|offset| numbered(0, offset, NOON)));
    until("it is read", || world.n_samples() == 10);
    running.stop();
}

#[test]
fn letters_of_topics_that_a_pattern_found_are_replayed() {
    let mut world = world("dead_pattern");
    let heat = beside(&world, "heat");
    create_topic(&heat, 1);
    send(&heat, (0..20).map(|offset| numbered(0, offset, NOON)));
    let pattern = format!("topics = '^{}\\.[a-z]+$'", world.name);
    world.decoder(&format!("{pattern}\ntimestamp_path = \"when\""));
    world.catch_up();
    assert_eq!(world.dead().len(), 20);
    world.decoder(&pattern);
    let (report, code) = replay(&world, &["--dry-run"]);
    assert_eq!((&report["readings"]["stored"], code), (&20.into(), Some(0)), "{report}");
    let (report, code) = replay(&world, &[]);
    assert_eq!((&report["readings"]["stored"], code), (&20.into(), Some(0)), "{report}");
    assert_offsets(&samples(&world), 0..20);
}
