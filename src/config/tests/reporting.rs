//! What is wrong is found, all of it at once, each with its place and what is right.

use super::*;

#[test]
fn three_wrong_values_in_three_layers_give_three_lines() {
    let file = format!("[bucket]\nmax_samples = 0\n{MINIMAL}");
    let env = [("SAKIA_BUCKET__FLUSH_AGE", "10")];
    let problems = load(&file, &env, &["flow.plan_statements=many"]).map(|l| l.config).unwrap_err();
    let expected = [
        "sakia.toml:2: bucket.max_samples: is out of range: write 1 to 100000",
        "SAKIA_BUCKET__FLUSH_AGE: bucket.flush_age: write a number with d, h, m, s or ms, such as \"10s\" or \"1d\"",
        "--set flow.plan_statements: flow.plan_statements: is text; write a whole number",
    ];
    assert_eq!(problems, expected);
}

#[test]
fn one_key_wrong_in_every_layer_is_reported_in_every_layer() {
    let file = format!("[bucket]\nmax_samples = 0\n{MINIMAL}");
    let env = [("SAKIA_BUCKET__MAX_SAMPLES", "-1")];
    let problems = load(&file, &env, &["bucket.max_samples=x"]).map(|l| l.config).unwrap_err();
    let places: Vec<_> = problems.iter().map(|p| p.split(": ").next().unwrap()).collect();
    assert_eq!(places, ["sakia.toml:2", "SAKIA_BUCKET__MAX_SAMPLES", "--set bucket.max_samples"]);
}

#[test]
fn unknown_keys_get_a_suggestion() {
    refused(
        with("[bucket]\nmax_sample = 3"),
        &["sakia.toml:2: bucket.max_sample:", "did you mean bucket.max_samples?"],
    );
    refused(with("[buckets]\nmin_fill = 3"), &["did you mean bucket.min_fill?"]);
    refused(with("max_samples = 3"), &["sakia.toml:1: max_samples:", "did you mean bucket.max_samples?"]);
    refused(with("[colour]"), &["sakia.toml:1: colour: there is no such key"]);
    refused(with("bucket = 3"), &["sakia.toml:1: bucket: is a section", "[bucket]"]);
    let decoder = MINIMAL.replace("device_path", "device_paths = 1\ndevice_path");
    refused(load(&decoder, &[], &[]), &["sakia.toml:8: decoder[1].device_paths:", "did you mean decoder.device_path?"]);
    let variable = [("SAKIA_BUCKET_MAX_SAMPLES", "3")];
    refused(load(MINIMAL, &variable, &[]), &["SAKIA_BUCKET_MAX_SAMPLES:", "(SAKIA_BUCKET__MAX_SAMPLES)"]);
    refused(load(MINIMAL, &[], &["bucket.max=3"]), &["--set bucket.max: bucket.max: there is no such key"]);
    refused(load(MINIMAL, &[], &["oops"]), &["--set no. 1: has no `=`"]);
}

#[test]
fn empty_sections_are_fine() {
    with("[bucket]\n[storage]").unwrap();
}

#[test]
fn what_is_missing_is_named_with_an_example() {
    let problems = load("", &[], &[]).map(|l| l.config).unwrap_err();
    assert_eq!(problems.len(), 3, "{problems:#?}");
    assert!(problems[0].starts_with("kafka.brokers: is not set: ") && problems[0].contains("SAKIA_KAFKA"));
    assert!(problems[1].starts_with("mongo.uri: is not set: ") && problems[1].contains("SAKIA_MONGO"));
    assert!(problems[2].starts_with("decoder: is not set: ") && problems[2].contains("[[decoder]]"));
}

#[test]
fn broken_files_are_reported_beside_other_layers_and_without_their_text() {
    let file = "[mongo]\nuri = \"mongodb://me:hunter2@h\n[bucket]\nmax_samples = 0\n";
    let problems = load(file, &[("SAKIA_BUCKET__WINDOW", "7h")], &[]).map(|l| l.config).unwrap_err();
    assert!(problems[0].starts_with("sakia.toml:2: not valid TOML: "), "{problems:#?}");
    assert!(problems.iter().any(|p| p.starts_with("SAKIA_BUCKET__WINDOW: bucket.window: must divide a day")));
    assert!(!problems.concat().contains("hunter2") && !problems.concat().contains("is not set"), "{problems:#?}");
    let sources = Sources { file: Some("/does/not/exist.toml".into()), ..Sources::default() };
    let problems = Config::load(&sources).unwrap_err().to_string();
    assert!(problems.starts_with("/does/not/exist.toml: the configuration file cannot be read"), "{problems}");
}

#[test]
fn protocol_options_are_refused_with_the_reason() {
    let options = "[kafka.options]\n\"enable.auto.commit\" = true\n\"group.id\" = \"g\"\n";
    let problems = load(&format!("{MINIMAL}{options}"), &[], &[]).map(|l| l.config).unwrap_err();
    assert_eq!(problems.len(), 2, "{problems:#?}");
    assert!(problems[0].starts_with("sakia.toml:12: kafka.options.enable.auto.commit: belongs to the protocol"));
    assert!(problems[1].contains("is the key kafka.group"));
    let uri = [("SAKIA_MONGO", "mongodb://me:hunter2@h/?w=1")];
    refused(load(MINIMAL, &uri, &[]), &["SAKIA_MONGO: mongo.uri: the option w belongs to the protocol"]);
    refused(
        load(MINIMAL, &[("SAKIA_KAFKA__OPTIONS__ISOLATION_LEVEL", "read_uncommitted")], &[]),
        &["SAKIA_KAFKA__OPTIONS__ISOLATION_LEVEL: kafka.options.isolation.level:"],
    );
}

#[test]
fn client_library_has_its_say_on_other_options() {
    let check: OptionCheck = |name, value| match (name, value) {
        ("client.idd", _) => Err("no such option".into()),
        _ => Ok(()),
    };
    let sources = Sources {
        env: vec![("SAKIA_KAFKA__OPTIONS__CLIENT_IDD".into(), "x".into())],
        option_check: Some(check),
        ..Sources::default()
    };
    let problems = Config::load(&sources).unwrap_err().to_string();
    assert!(problems.contains("SAKIA_KAFKA__OPTIONS__CLIENT_IDD: kafka.options.client.idd: no such option"));
}

#[test]
fn keys_owe_each_other() {
    for (typed, parts) in [
        ("[bucket]\nmin_fill = 201", ["sakia.toml:2", "not be more than bucket.max_samples, which is 200"]),
        ("[bucket]\nflush_samples = 201", ["sakia.toml:2", "not be more than bucket.max_samples"]),
        ("[bucket]\nwindow = \"7h\"", ["sakia.toml:2", "must divide a day"]),
        ("[bucket]\nwindow = \"30s\"", ["sakia.toml:2", "write 1m to 366d"]),
        ("[bucket]\nwindow_offset = \"-1d\"", ["sakia.toml:2", "must be shorter than bucket.window"]),
        ("[bucket]\ntarget_bytes = \"16MiB\"", ["sakia.toml:2", "write 1KiB to 15MiB"]),
        ("[bucket]\nmax_sample_bytes = 100", ["sakia.toml:2", "such as \"64KiB\""]),
        ("[flow]\nmemory_budget = \"16MiB\"\nbucket.max_sample_bytes = \"4MiB\"", ["flow.bucket", "no such key"]),
        ("bucket.max_sample_bytes = \"15MiB\"\nflow.memory_budget = \"64MiB\"", ["sakia.toml:2", "write 120MiB"]),
        ("[fields]\ninfo = \"time\"", ["sakia.toml:2: fields.info", "fields.time too"]),
        ("[fields]\ncount = \"date\"", ["sakia.toml:2: fields.count", "fields.date too"]),
        ("[fields]\nmeta = \"a.b\"", ["sakia.toml:2: fields.meta", "path or an operator"]),
        ("[fields]\ndate = \"_id\"", ["sakia.toml:2: fields.date", "key"]),
        ("[storage]\nttl = \"1d\"", ["sakia.toml:2", "longer than bucket.window"]),
        ("[storage]\nttl = \"60h\"", ["sakia.toml:2", "whole days"]),
        ("[storage]\nwildcard_index = \"samples.info\"", ["sakia.toml:2", "changes with every append"]),
        ("[storage]\ncompressor = \"lz4\"", ["sakia.toml:2", "none, snappy, zlib, zstd"]),
        ("[telemetry]\nlisten = \"9464\"", ["sakia.toml:2", "0.0.0.0:9464"]),
    ] {
        refused(with(typed), &parts);
    }
}

#[test]
fn decoders_are_checked() {
    let edited = |from: &str, to: &str| load(&MINIMAL.replace(from, to), &[], &[]);
    for (from, to, parts) in [
        ("timestamp_format = \"unix_ms\"", "", ["decoder[1].timestamp_format", "never guessed"]),
        ("unix_ms", "millis", ["sakia.toml:10: decoder[1].timestamp_format", "unix_ns, iso8601"]),
        ("\"deviceid\"", "\"@keys.a\"", ["sakia.toml:8: decoder[1].device_path", "did you mean @key?"]),
        ("\"deviceid\"", "\"a[x]\"", ["sakia.toml:6: decoder[1]", "path `a[x]`"]),
        ("\"deviceid\"", "7", ["sakia.toml:8", "write a list of texts"]),
        ("device_path = \"deviceid\"", "", ["decoder[1].device_path", "is not set"]),
        ("topics = [\"readings\"]", "topics = \"^re(ad\"", ["sakia.toml:7", "no regular expression"]),
        ("device_path", "stats = [\"a.b\"]\ndevice_path", ["sakia.toml:8", "path or an operator"]),
        ("device_path", "meta = [\"a.x\", \"b.x\"]\ndevice_path", ["sakia.toml:8", "stored twice"]),
        ("device_path", "stats = \"a\"\nexclude = \"a\"\ndevice_path", ["decoder[1].stats", "not among the fields"]),
        ("[[decoder]]", "[decoder]", ["sakia.toml:", "[[decoder]]"]),
    ] {
        refused(edited(from, to), &parts);
    }
    let twice = format!("{MINIMAL}{}", &MINIMAL[MINIMAL.find("[[decoder]]").unwrap()..]);
    refused(load(&twice, &[], &[]), &["sakia.toml:12: decoder[2].topics", "stands in decoder[1] too"]);
    edited("timestamp_path = \"ts\"\ntimestamp_format = \"unix_ms\"", "timestamp_missing = \"kafka\"").unwrap();
    edited("timestamp_path = \"ts\"\ntimestamp_format = \"unix_ms\"", "timestamp_path = \"@timestamp\"").unwrap();
    refused(load(MINIMAL, &[("SAKIA_DECODER", "[{")], &[]), &["SAKIA_DECODER: ", "write a TOML array of tables"]);
}

#[test]
fn tags_are_stored_under_their_last_segment() {
    assert_eq!(["a", "a.b", "a.\"1.8.0\"", "$.x"].map(last_segment), ["a", "b", "1.8.0", "x"]);
}
