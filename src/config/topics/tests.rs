//! Names and patterns: what is taken, what is subscribed to, and who reads a topic.

use proptest::prelude::*;

use super::super::tests::MINIMAL;
use super::*;

fn config(decoders: &[&[&str]]) -> Config {
    let table = |topics: &&[&str]| {
        format!("[[decoder]]\ntopics = {topics:?}\ndevice_path = \"@key\"\ntimestamp_missing = \"kafka\"\n")
    };
    let tables: Vec<_> = decoders.iter().map(table).collect();
    let (base, _) = MINIMAL.split_once("[[decoder]]").unwrap();
    Config::from_toml(&format!("{base}{}", tables.concat())).unwrap()
}

#[test]
fn what_every_engine_takes_alike_is_a_pattern() {
    for right in ["^tele", "^.*", r"^site\.[a-z0-9]+\.(power|heat)$", "^a{2,3}b?|c", "^[^_].*", "^[-a]", "readings"] {
        assert_eq!(check_topic(right), Ok(()), "{right}");
    }
    let wrong = [
        "^",
        r"^\d+",
        "^(?i)a",
        "^a*?",
        "^a++",
        "^a{2}{3}",
        "^[[:alpha:]]",
        "^[a",
        "^(a",
        "^a b",
        "^[]a]",
        "^*",
        "^a^b",
    ];
    for wrong in wrong.into_iter().chain([r"^a\", "^[a--z]", "^[z-a]", "^a{", "a*", ""]) {
        assert!(check_topic(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn an_exact_name_goes_before_patterns() {
    let config = config(&[&["^tele"], &["telemetry", "other"]]);
    let reader = |topic| config.decoder_for(topic).map(|table| table.topics[0].clone());
    assert_eq!(reader("telemetry").as_deref(), Ok("telemetry"));
    assert_eq!(reader("telemetry2").as_deref(), Ok("^tele"));
    assert_eq!(reader("a-telemetry"), Err(Unrouted::Unnamed { topic: "a-telemetry".to_owned() }));
}

#[test]
fn a_topic_of_two_patterns_is_nobodys_unless_they_are_one_decoders() {
    let config = config(&[&["^site.*", "^.*power"], &["^.*heat"]]);
    assert!(config.decoder_for("site-power").is_ok());
    let message = config.decoder_for("site-heat").unwrap_err().to_string();
    assert!(message.contains("\"^site.*\", \"^.*heat\""), "{message}");
}

#[test]
fn a_subscription_holds_names_and_what_patterns_find_once() {
    let visible = ["site-b", "other", "site-a", "__consumer_offsets", "named"].map(str::to_owned);
    let all = config(&[&["^site", "^site-a", "named"], &["missing", "^__c"]]).topics_among(&visible);
    assert_eq!(all, ["named", "missing", "site-a", "site-b"]);
    assert!(found_by("site-a", &visible).is_empty(), "a name is no pattern");
}

#[test]
fn every_branch_starts_at_the_start_of_the_name() {
    assert!(matches("^a|b", "bc"));
    assert!(!matches("^a|b", "cb"));
}

#[test]
fn names_alone_are_subscribed_to_as_they_are() {
    let names = ["a.b".to_owned(), "c".to_owned()];
    assert_eq!(subscription(&names), names);
    assert_eq!(subscription(&["a.b".to_owned(), "^c|d".to_owned()]), [r"^((a\.b$)|(c|d))"]);
}

proptest! {
    /// What is subscribed to is what some decoder names or matches.
    #[test]
    fn the_subscription_is_the_union(
        entries in proptest::collection::vec(r"[ab.]{1,3}|\^[ab]{0,2}[ab](\.\*|\||\$|\\\.)?[ab]?", 1..4),
        topic in "[ab.]{1,4}",
    ) {
        prop_assume!(entries.iter().all(|entry| check_topic(entry).is_ok()));
        let named = entries.iter().any(|entry| *entry == topic || matches(entry, &topic));
        let subscribed = subscription(&entries);
        prop_assert_eq!(subscribed.iter().any(|entry| *entry == topic || matches(entry, &topic)), named);
    }
}
