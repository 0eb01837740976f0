//! The steps of `init` against what a server may hold.

use mongodb::bson::{Document, doc};

use super::steps::{Needed, State, check_topology, steps};
use super::survey::{Found, Survey};
use crate::config::Config;

fn config(more: &str) -> Config {
    let minimal = "kafka.brokers = \"h:1\"\nmongo.uri = \"mongodb://h/?replicaSet=rs0\"\n\
                   decoder = [{ topics = \"t\", device_path = \"@key\", timestamp_missing = \"kafka\" }]\n";
    Config::from_toml(&format!("{minimal}{more}")).unwrap()
}

/// What a server holds after the steps were run on it.
fn after(config: &Config, survey: &Survey) -> Survey {
    let mut survey = survey.clone();
    for step in steps(config, &survey.clone()).unwrap().steps {
        let Some(command) = step.command else { continue };
        if let Ok(name) = command.get_str("create") {
            let mut options = command.clone();
            // The server leaves out what is its default.
            for key in ["create", "writeConcern", "collation"] {
                options.remove(key);
            }
            let kind = if options.contains_key("viewOn") { "view" } else { "collection" };
            survey.collections.insert(name.into(), Found { kind: kind.into(), options });
        } else if let Ok(indexes) = command.get_array("indexes") {
            survey.indexes.extend(indexes.iter().map(|index| index.as_document().unwrap().clone()));
        } else if let Ok(change) = command.get_document("index") {
            for index in survey.indexes.iter_mut().filter(|index| index.get("name") == change.get("name")) {
                index.insert("expireAfterSeconds", change.get("expireAfterSeconds").unwrap().clone());
            }
        } else if let Ok(validator) = command.get_document("validator") {
            let options = &mut survey.collections.get_mut("readings").unwrap().options;
            options.insert("validator", validator.clone());
            options.insert("validationAction", command.get_str("validationAction").unwrap());
        } else {
            survey.header = command.get_array("documents").unwrap()[0].as_document().cloned();
        }
    }
    survey
}

fn states(needed: &Needed) -> Vec<State> {
    needed.steps.iter().map(|step| step.state).collect()
}

fn refusal(config: &Config, survey: &Survey) -> String {
    steps(config, survey).unwrap_err().join("\n")
}

fn with_readings(kind: &str, options: Document) -> Survey {
    let mut survey = Survey::default();
    survey.collections.insert("readings".into(), Found { kind: kind.into(), options });
    survey
}

#[test]
fn second_run_finds_everything_there() {
    let config = config("storage = { ttl = \"400d\", wildcard_index = \"meta\", leaf_page_max = \"64KiB\" }");
    let first = steps(&config, &Survey::default()).unwrap();
    assert_eq!(states(&first), [State::Missing; 7]);
    let create = first.steps[0].command.as_ref().unwrap();
    let engine = create.get_document("storageEngine").unwrap().get_document("wiredTiger").unwrap();
    assert_eq!(engine, &doc! { "configString": "block_compressor=snappy,leaf_page_max=64KB" });
    for step in &first.steps {
        let majority = doc! { "w": "majority" };
        assert_eq!(step.command.as_ref().unwrap().get_document("writeConcern").unwrap(), &majority, "{}", step.what);
    }
    let second = steps(&config, &after(&config, &Survey::default())).unwrap();
    assert_eq!(states(&second), [State::Exists; 7]);
    assert!(second.steps.iter().all(|step| step.command.is_none()) && second.notices.is_empty());
}

#[test]
fn another_ttl_is_changed_and_an_unwanted_one_is_told() {
    let before = after(&config("storage.ttl = \"400d\""), &Survey::default());
    let other = config("storage.ttl = \"30d\"");
    let needed = steps(&other, &before).unwrap();
    let ttl = needed.steps.iter().find(|step| step.state == State::Differs).unwrap();
    assert!(ttl.what.contains("after 34560000 s"), "{}", ttl.what);
    assert_eq!(ttl.command.as_ref().unwrap().get_str("collMod").unwrap(), "readings");
    assert_eq!(states(&steps(&other, &after(&other, &before)).unwrap()), [State::Exists; 6]);
    let notices = steps(&config(""), &before).unwrap().notices;
    assert!(notices[0].contains("it stays"), "{notices:?}");
}

#[test]
fn storage_options_that_cannot_change_are_told() {
    let before = after(&config(""), &Survey::default());
    let notices = steps(&config("storage.compressor = \"zstd\""), &before).unwrap().notices;
    assert!(notices[0].contains("block_compressor=zstd") && notices[0].contains("no effect"), "{notices:?}");
    assert!(steps(&config(""), &with_readings("collection", doc! {})).unwrap().notices.is_empty());
}

#[test]
fn unfit_collections_are_refused() {
    let config = config("");
    let collation = doc! { "collation": { "locale": "en", "strength": 2 } };
    for (survey, reason) in [
        (with_readings("view", doc! {}), "readings is a view"),
        (with_readings("timeseries", doc! {}), "readings is a timeseries"),
        (with_readings("collection", collation), "collation \"en\""),
        (with_readings("collection", doc! { "capped": true }), "capped"),
    ] {
        let refusal = refusal(&config, &survey);
        assert!(refusal.contains(reason), "{refusal}");
    }
    steps(&config, &with_readings("collection", doc! { "collation": { "locale": "simple" } })).unwrap();
    let unledgered = Survey { has_readings: true, ..with_readings("collection", doc! {}) };
    assert!(refusal(&config, &unledgered).contains("has no header"));
}

#[test]
fn shard_keys_keep_an_id_in_one_place() {
    let config = config("");
    let sharded = |name: &str, key: Document| {
        let mut survey = Survey::default();
        survey.shard_keys.insert(name.into(), key);
        survey
    };
    for key in [doc! { "deviceid": "hashed" }, doc! { "deviceid": 1, "date": 1 }] {
        steps(&config, &sharded("readings", key)).unwrap();
    }
    steps(&config, &sharded("readings_ledger", doc! { "_id": 1 })).unwrap();
    for (name, key) in [("readings", doc! { "deviceid": 1, "first": 1 }), ("readings_dead", doc! { "reason": 1 })] {
        assert!(refusal(&config, &sharded(name, key)).contains("stored twice"));
    }
}

#[test]
fn foreign_ledgers_are_refused() {
    let before = after(&config(""), &Survey::default());
    let other = Survey { header: Some(doc! { "_id": "header", "namespace": "a.b", "schema": 1 }), ..before.clone() };
    assert!(refusal(&config(""), &other).contains("belongs to \"a.b\", not to \"sakia.readings\""));
    let refusal = refusal(&config("fields.samples = \"s\""), &before);
    assert!(refusal.contains("fields.samples is \"samples\", configured \"s\""), "{refusal}");
}

#[test]
fn only_what_can_acknowledge_by_majority_is_accepted() {
    let primary = doc! { "setName": "rs0", "isWritablePrimary": true };
    assert!(check_topology(&primary).is_ok());
    assert!(check_topology(&doc! { "msg": "isdbgrid", "isWritablePrimary": true }).is_ok());
    for (hello, reason) in [
        (doc! { "isWritablePrimary": true }, "stands alone"),
        (doc! { "isreplicaset": true, "isWritablePrimary": false }, "rs.initiate()"),
        (doc! { "setName": "rs0", "isWritablePrimary": false }, "not the primary"),
    ] {
        let refusal = check_topology(&hello).unwrap_err();
        assert!(refusal.contains(reason), "{refusal}");
    }
}

#[test]
fn a_validator_of_ours_comes_changes_and_goes() {
    let (off, error, warn) =
        (config(""), config("storage.validator = \"error\""), config("storage.validator = \"warn\""));
    let state = |config: &Config, survey: &Survey| {
        let is_it = |step: &&super::steps::Step| step.what.contains("validator");
        steps(config, survey).unwrap().steps.iter().find(is_it).map(|step| step.state)
    };
    let plain = after(&off, &Survey::default());
    assert_eq!((state(&off, &plain), state(&error, &plain)), (None, Some(State::Missing)));
    let guarded = after(&error, &plain);
    assert_eq!((state(&error, &guarded), state(&warn, &guarded)), (Some(State::Exists), Some(State::Differs)));
    assert_eq!(state(&warn, &after(&warn, &guarded)), Some(State::Exists));
    assert_eq!(state(&off, &guarded), Some(State::Differs));
    assert_eq!(state(&off, &after(&off, &guarded)), None, "an empty validator is none");
}

#[test]
fn a_validator_of_somebody_else_stays() {
    let options = doc! { "validator": { "x": { "$exists": true } } };
    let before = Survey { header: None, ..with_readings("collection", options) };
    assert!(refusal(&config("storage.validator = \"warn\""), &before).contains("take it away with collMod"));
    let needed = steps(&config(""), &before).unwrap();
    assert!(needed.notices[0].contains("becomes a dead letter"), "{:?}", needed.notices);
}
