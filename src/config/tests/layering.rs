//! Which layer wins, how each is written, and that merging does not depend on grouping.

use std::collections::BTreeMap;

use figment::Provider as _;
use figment::value::Value;
use figment::{Figment, Profile};
use proptest::collection::btree_map;
use proptest::prelude::*;

use super::super::layers::{Layer, find};
use super::*;

#[test]
fn each_layer_wins_over_those_below() {
    let file = "[bucket]\nmax_samples = 300\nmin_fill = 30\nflush_samples = 3";
    let file = format!("{file}\n{MINIMAL}");
    let env = [("SAKIA_BUCKET__MAX_SAMPLES", "400"), ("SAKIA_BUCKET__MIN_FILL", "40"), ("SAKIA_KAFKA", "env:1")];
    let bucket = |loaded: Loaded| {
        let bucket = loaded.config.bucket;
        (bucket.max_samples, bucket.min_fill, bucket.flush_samples, loaded.config.kafka.brokers)
    };
    assert_eq!(bucket(load(&file, &[], &[]).unwrap()), (300, 30, 3, "localhost:9092".into()));
    assert_eq!(bucket(load(&file, &env, &[]).unwrap()), (400, 40, 3, "env:1".into()));
    let sets = ["bucket.max_samples=500", "kafka.brokers=set:1"];
    assert_eq!(bucket(load(&file, &env, &sets).unwrap()), (500, 40, 3, "set:1".into()));
}

#[test]
fn short_variables_yield_to_long_ones_and_empty_ones_do_not_count() {
    let env = [("SAKIA_KAFKA__BROKERS", "long:1"), ("SAKIA_KAFKA", "short:1"), ("SAKIA_MONGO", "")];
    let config = load(MINIMAL, &env, &[]).unwrap().config;
    assert_eq!(config.kafka.brokers, "long:1");
    assert_eq!(config.mongo.uri.0, "mongodb://localhost:27017/?replicaSet=rs0");
}

#[test]
fn variables_of_the_tests_are_not_keys() {
    let env = ["SAKIA_CONFIG", "SAKIA_LOCAL_DIR", "SAKIA_CRASH_AT", "SAKIA_MONGOD_PID"].map(|name| (name, "x"));
    load(MINIMAL, &env, &[]).unwrap();
}

#[test]
fn client_options_merge_however_they_are_written() {
    let file = "[kafka.options]\nclient.rack = \"a\"\n\"client.id\" = \"b\"\n\"fetch.min.bytes\" = 7";
    let file = format!("{}\n{file}", MINIMAL.replace("[mongo]", "[mongo]\n"));
    let env = [("SAKIA_KAFKA__OPTIONS__CLIENT_ID", "c")];
    let options = load(&file, &env, &["kafka.options.check.crcs=true"]).unwrap().config.kafka.options;
    let expected = [("check.crcs", "true"), ("client.id", "c"), ("client.rack", "a"), ("fetch.min.bytes", "7")];
    assert_eq!(options, expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
}

#[test]
fn a_higher_list_of_decoders_takes_the_place_of_a_lower_one() {
    let decoders = r#"[{topics = "a", device_path = "@key", timestamp_missing = "kafka"}]"#;
    let set = format!("decoder={decoders}");
    for config in [load(MINIMAL, &[("SAKIA_DECODER", decoders)], &[]), load(MINIMAL, &[], &[&set])] {
        let config = config.unwrap().config;
        assert_eq!((config.decoders.len(), config.kafka.topics), (1, vec!["a".to_owned()]));
    }
}

#[test]
fn printed_configuration_names_origins_and_reads_back() {
    let file = format!("{MINIMAL}stats = \"temp\"\n[[decoder]]\ntopics = \"b\"\ndevice_path = [\"x\", \"@key\"]\n");
    let file = file + "timestamp_missing = \"kafka\"\n[kafka.options]\n\"client.id\" = \"b\"";
    let loaded = load(&file, &[("SAKIA_BUCKET__FLUSH_AGE", "90s")], &["mongo.connections=2"]).unwrap();
    let printed = loaded.print();
    for line in [
        "flush_age = \"90s\"  # SAKIA_BUCKET__FLUSH_AGE",
        "connections = 2  # --set mongo.connections",
        "max_samples = 200  # default",
        "min_fill = 50  # derived: a quarter of bucket.max_samples",
        "# ttl is not set",
        "[kafka.options]",
    ] {
        assert!(printed.lines().any(|printed| printed == line), "{line}\n{printed}");
    }
    assert!(printed.contains("sakia.toml:3\n"), "{printed}");
    let again = load(&printed, &[], &[]).unwrap();
    assert_eq!(format!("{:?}", again.config), format!("{:?}", loaded.config));
    assert_eq!(again.config.kafka.options, loaded.config.kafka.options);
}

#[test]
fn secrets_are_never_shown() {
    let env = [
        ("SAKIA_MONGO", "mongodb://me:hunter2@h/?replicaSet=rs0"),
        ("SAKIA_KAFKA__OPTIONS__SASL_PASSWORD", "hunter2"),
        ("SAKIA_KAFKA__OPTIONS__SSL_KEY_PASSWORD", "hunter2"),
    ];
    let loaded = load(MINIMAL, &env, &[]).unwrap();
    assert_eq!(loaded.config.kafka.options["sasl.password"], "hunter2");
    let printed = loaded.print();
    assert!(printed.contains("mongodb://me:***@h/") && printed.contains("\"sasl.password\" = \"***\""), "{printed}");
    for shown in [printed, format!("{loaded:?}"), format!("{:#?}", loaded.config)] {
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}

fn layers() -> impl Strategy<Value = BTreeMap<&'static str, u8>> {
    let keys = vec!["a.x", "a.y", "b.x", "b.c.x", "kafka.options.p.q", "kafka.options.p", "decoder"];
    btree_map(proptest::sample::select(keys), any::<u8>(), 0..6)
}

fn figment(layer: &BTreeMap<&'static str, u8>) -> Figment {
    let mut built = Layer::new("test");
    for (key, value) in layer {
        let path: Vec<String> = key.split('.').map(str::to_owned).collect();
        built.set(&path, Value::from(*value), key);
    }
    Figment::from(built)
}

proptest! {
    #[test]
    fn merging_is_associative(a in layers(), b in layers(), c in layers()) {
        let [x, y, z] = [&a, &b, &c].map(figment);
        let left = x.clone().merge(y.clone()).merge(z.clone()).data().unwrap();
        let right = x.merge(y.merge(z)).data().unwrap();
        prop_assert_eq!(&left, &right);
        // And the last layer that has a key wins.
        let flat: BTreeMap<_, _> = a.into_iter().chain(b).chain(c).collect();
        let tree = left.get(&Profile::Default).cloned().unwrap_or_default();
        for (key, value) in flat {
            let found = match key.strip_prefix("kafka.options.") {
                Some(option) => tree["kafka"].as_dict().and_then(|k| k["options"].as_dict()).map(|o| o[option].clone()),
                None => find(&tree.clone().into(), key).cloned(),
            };
            prop_assert_eq!(found.and_then(|v| v.to_u128()), Some(u128::from(value)), "{}", key);
        }
    }
}
