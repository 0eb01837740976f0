//! Configuration from layers to the validated whole: one boundary, `load`, tested by what goes in and comes out.

mod layering;
mod reporting;

use super::*;

/// The least that can run.
pub(super) const MINIMAL: &str = r#"
[kafka]
brokers = "localhost:9092"
[mongo]
uri = "mongodb://localhost:27017/?replicaSet=rs0"
[[decoder]]
topics = ["readings"]
device_path = "deviceid"
timestamp_path = "ts"
timestamp_format = "unix_ms"
"#;

/// A file, variables and `--set` as they come in; the file is called `sakia.toml`.
fn load(file: &str, env: &[(&str, &str)], sets: &[&str]) -> Result<Loaded, Vec<String>> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sakia.toml");
    std::fs::write(&path, file).unwrap();
    let sources = Sources {
        file: Some(path),
        env: env.iter().map(|(name, value)| (name.into(), value.into())).collect(),
        sets: sets.iter().map(|&set| set.to_owned()).collect(),
        ..Sources::default()
    };
    let prefix = format!("{}/", dir.path().display());
    Config::load(&sources).map_err(|problems| problems.0.iter().map(|p| p.to_string().replace(&prefix, "")).collect())
}

/// The minimal configuration with more keys before it.
fn with(more: &str) -> Result<Loaded, Vec<String>> {
    load(&format!("{more}{MINIMAL}"), &[], &[])
}

/// Only this one problem, saying all of `parts`.
fn refused(result: Result<Loaded, Vec<String>>, parts: &[&str]) {
    let problems = result.map(|loaded| loaded.config).unwrap_err();
    assert_eq!(problems.len(), 1, "{problems:#?}");
    for part in parts {
        assert!(problems[0].contains(part), "{part:?} in {:?}", problems[0]);
    }
}

#[test]
fn defaults() {
    let config = Config::from_toml(MINIMAL).unwrap();
    let bucket = &config.bucket;
    assert_eq!((bucket.window.length_ms, bucket.window.offset_ms), (86_400_000, 0));
    assert_eq!((bucket.max_samples, bucket.min_fill, bucket.flush_samples), (200, 50, 50));
    assert_eq!((bucket.target_bytes, bucket.max_sample_bytes, bucket.flush_age_ms), (65_536, 1 << 20, 10_000));
    assert_eq!((config.flow.memory_budget_bytes, config.flow.shards), (256 << 20, 1));
    assert_eq!((config.flow.plan_statements, config.mongo.connections), (100, 4));
    assert_eq!((config.plausible.past_ms, config.plausible.future_ms), (366 * 86_400_000, 86_400_000));
    assert_eq!((config.fields.deviceid.as_str(), config.fields.pos.as_str()), ("deviceid", "pos"));
    assert_eq!(config.kafka.topics, ["readings"]);
    assert_eq!(config.telemetry.listen, None);
}

/// Every key is in the reference, and every key of the reference exists: those behind a `#` too.
#[test]
fn reference_is_complete() {
    let all = load(&reference::uncommented(DEFAULTS), &[], &[]).unwrap();
    let minimal = load(MINIMAL, &[], &[]).unwrap();
    let keys = |loaded: &Loaded| loaded.entries.iter().map(|e| format!("{}.{}", e.table, e.key)).collect::<Vec<_>>();
    for key in keys(&minimal) {
        assert!(keys(&all).contains(&key), "{key} is not in the reference");
    }
    let unset: Vec<_> = all.entries.iter().filter(|e| e.value.is_none() || e.origin == "default").collect();
    assert!(unset.is_empty(), "not documented: {unset:?}");
    for key in ["min_fill", "flush_samples", "memory_budget", "shards"] {
        let [documented, derived] = [&all, &minimal].map(|l| l.entries.iter().find(|e| e.key == key).unwrap());
        assert_eq!(documented.value, derived.value, "{key}: the documented default is not the derived one");
    }
}

/// Each `toml` block of a page.
fn toml_blocks(page: &str) -> impl Iterator<Item = &str> {
    page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next())
}

/// What people copy has to be taken: whole files as they are, blocks of a page with the rest filled up.
#[test]
fn examples_load() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = |name: &str, extension: &str| {
        let entries = std::fs::read_dir(root.join(name)).unwrap().map(|entry| entry.unwrap().path());
        let mut paths: Vec<_> = entries.filter(|path| path.extension().is_some_and(|e| e == extension)).collect();
        paths.sort();
        paths
    };
    let addresses = [("SAKIA_KAFKA", "localhost:9092"), ("SAKIA_MONGO", "mongodb://localhost/?replicaSet=rs0")];
    let wrong = |path: &std::path::Path, problems: Vec<String>| panic!("{}: {problems:#?}", path.display());
    let files = [folder("config/examples", "toml"), vec![root.join("deploy/local/demo.toml")]].concat();
    for path in &files {
        load(&std::fs::read_to_string(path).unwrap(), &addresses, &[]).unwrap_or_else(|problems| wrong(path, problems));
    }
    assert!(files.len() > 2);
    let decoder = r#"[{topics="t", device_path="@key", timestamp_missing="kafka"}]"#;
    let mut n_blocks = 0;
    for path in [folder("docs", "md"), vec![root.join("README.md")]].concat() {
        for block in toml_blocks(&std::fs::read_to_string(&path).unwrap()) {
            n_blocks += 1;
            // A variable would win over a block's own tables.
            let filled = if block.contains("[[decoder]]") { vec![] } else { vec![("SAKIA_DECODER", decoder)] };
            let env = [addresses.as_slice(), &filled].concat();
            load(block, &env, &[]).unwrap_or_else(|problems| wrong(&path, problems));
        }
    }
    assert!(n_blocks > 0);
}

#[test]
fn small_containers_get_small_budgets() {
    let budget = |limit| {
        let machine = Machine { n_cpus: 8, memory_limit_bytes: limit };
        let mut sources = Sources { machine, ..Sources::default() };
        sources.env = vec![
            ("SAKIA_KAFKA".into(), "h:1".into()),
            ("SAKIA_MONGO".into(), "mongodb://h".into()),
            ("SAKIA_DECODER".into(), r#"[{topics="t", device_path="@key", timestamp_missing="kafka"}]"#.into()),
        ];
        let config = Config::load(&sources).unwrap().config;
        assert_eq!(config.flow.shards, 4);
        config.flow.memory_budget_bytes >> 20
    };
    assert_eq!([None, Some(8 << 30), Some(512 << 20), Some(10 << 20)].map(budget), [256, 256, 128, 16]);
}

#[test]
fn contracts_hold_what_decides_and_no_more() {
    let of = |text: &str| Config::from_toml(text).unwrap().contract_for("readings").unwrap().fingerprint();
    let plain = of(MINIMAL);
    let edited = |from: &str, to: &str| of(&MINIMAL.replace(from, to));
    assert_eq!(edited("\"readings\"]", "\"readings\", \"more\"]\nname = \"n\""), plain);
    assert_eq!(edited("[mongo]", "[mongo]\nconnections = 9"), plain);
    for (from, to) in [
        ("unix_ms", "unix"),
        ("[mongo]", "[bucket]\nwindow = \"1h\"\n[mongo]"),
        ("[mongo]", "[plausible]\npast = \"1d\"\n[mongo]"),
        ("[mongo]", "[fields]\ntime = \"t\"\n[mongo]"),
        ("device_path", "exclude = \"x\"\ndevice_path"),
    ] {
        assert_ne!(edited(from, to), plain, "{to}");
    }
    let sets = |order: &str| edited("device_path", &format!("exclude = {order}\ndevice_path"));
    assert_eq!(sets(r#"["a", "b"]"#), sets(r#"["b", "a"]"#));
    assert_eq!(Config::from_toml(MINIMAL).unwrap().contract_for("other"), None);
}
