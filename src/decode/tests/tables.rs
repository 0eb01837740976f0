//! What a table makes of the fields, and which tables are refused with which words.

use super::*;

const ALL: &str = r#"{"id":"d","ts":1700000000000,"a":1,"b":2,"tags":{"m":"x","n":1},"$x":3}"#;

#[test]
fn include_exclude_and_fields_of_paths() {
    let exclude = list(&["$x"]);
    check(|t| t.exclude.clone_from(&exclude), ALL, &[r#"d 1700000000000 {"a":1,"b":2,"tags":{"m":"x","n":1}}"#]);
    check(|t| t.exclude = list(&["$x", "tags", "b"]), ALL, &[r#"d 1700000000000 {"a":1}"#]);
    check(|t| t.include = list(&["a"]), ALL, &[r#"d 1700000000000 {"a":1}"#]);
    check(|t| t.include = list(&["b", "id", "none"]), ALL, &[r#"d 1700000000000 {"id":"d","b":2}"#]);
    check(
        |t| {
            t.include = list(&["a", "b", "ts"]);
            t.exclude = list(&["b"]);
        },
        ALL,
        &[r#"d 1700000000000 {"ts":1700000000000,"a":1}"#],
    );
    check(|t| t.include = list(&["c"]), ALL, &["!no_fields"]);
}

#[test]
fn meta_at_the_top_leaves_the_fields_and_below_stays() {
    let table = |t: &mut DecoderTable, meta: &[&str]| {
        t.exclude = list(&["$x"]);
        t.meta = list(meta);
    };
    check(|t| table(t, &["a"]), ALL, &[r#"d 1700000000000 {"b":2,"tags":{"m":"x","n":1}} {"a":1}"#]);
    check(|t| table(t, &["tags"]), ALL, &[r#"d 1700000000000 {"a":1,"b":2} {"tags":{"m":"x","n":1}}"#]);
    check(
        |t| table(t, &["tags.n", "none", "tags.m"]),
        ALL,
        &[r#"d 1700000000000 {"a":1,"b":2,"tags":{"m":"x","n":1}} {"n":1,"m":"x"}"#],
    );
    check(|t| table(t, &["none.x"]), ALL, &[r#"d 1700000000000 {"a":1,"b":2,"tags":{"m":"x","n":1}}"#]);
    // The same path as device and as tag.
    check(
        |t| table(t, &["id", "tags.m"]),
        ALL,
        &[r#"d 1700000000000 {"a":1,"b":2,"tags":{"m":"x","n":1}} {"id":"d","m":"x"}"#],
    );
    // A tag is judged as a field is.
    check(|t| t.meta = list(&["x"]), r#"{"id":"d","ts":1700000000000,"x":{"$a":1},"v":1}"#, &["!forbidden_name@35"]);
    check(
        |t| t.meta = list(&["x"]),
        r#"{"id":"d","ts":1700000000000,"x":null,"v":1}"#,
        &[r#"d 1700000000000 {"v":1}"#],
    );
}

#[test]
fn fields_below_a_path() {
    let table = |t: &mut DecoderTable| t.fields_path = "p.q[1]".into();
    let around = |fields: &str| format!(r#"{{"id":"d","p":{{"q":[0,{fields}]}},"ts":1700000000000}}"#);
    check(table, &around(r#"{"id":"inner","v":1}"#), &[r#"d 1700000000000 {"id":"inner","v":1}"#]);
    check(table, &around("null"), &["!no_fields"]);
    check(table, &around("{}"), &["!no_fields"]);
    check(table, &around("5"), &["!not_an_object@22"]);
    check(table, r#"{"id":"d","ts":1700000000000}"#, &["!no_fields"]);
    check(|t| t.fields_path = "p".into(), r#"{"p":{"v":1},"p":{"v":2}}"#, &["!duplicate_name@17"]);
    // Device and time inside the fields object leave it as they do at the top.
    check(
        |t| {
            t.fields_path = "p".into();
            t.device_path = list(&["p.id"]);
            t.timestamp_path = list(&["p.t.x"]);
        },
        r#"{"p":{"id":"d","t":{"x":1700000000000},"v":1}}"#,
        &[r#"d 1700000000000 {"t":{"x":1700000000000},"v":1}"#],
    );
}

#[test]
fn statistics_are_numbers_or_nan() {
    let contract = contract(|t| {
        t.stats = list(&["b", "a", "c"]);
        t.explode = Some("[]".into());
    });
    let decoder = Decoder::new(&contract).unwrap();
    assert_eq!(decoder.n_stats(), 3);
    let value = r#"[{"id":"d","ts":1700000000000,"a":1.5,"b":-7,"x":{"c":1}},{"a":9},
        {"id":"d","ts":1700000000000,"a":"1","b":5000000000,"c":null}]"#;
    let mut scratch = Scratch::default();
    let stats: Vec<_> = decoder
        .decode(&record(value.as_bytes()), &mut scratch)
        .unwrap()
        .filter_map(|(_, reading)| Some(reading.ok()?.stats.iter().map(f64::to_string).collect::<Vec<_>>()))
        .collect();
    assert_eq!(stats, [["-7", "1.5", "NaN"], ["5000000000", "NaN", "NaN"]]);
}

#[test]
fn long_include_lists() {
    let names: Vec<String> = (0..40).map(|i| format!("f{i}")).collect();
    let fields: Vec<String> = (0..80).map(|i| format!(r#""f{i}":{i}"#)).collect();
    let value = format!(r#"{{"id":"d","ts":1700000000000,{}}}"#, fields.join(","));
    let want = format!("d 1700000000000 {{{}}}", fields[..40].join(","));
    check(|t| t.include = names, &value, &[&want]);
    check(|_| {}, &value, &[&format!("d 1700000000000 {{{}}}", fields.join(","))]);
    // Equal names far apart, where they are compared in sorted order.
    check(|_| {}, &value.replace("f70", "f3"), &["!duplicate_name@0"]);
}

#[test]
fn refused_tables() {
    type Edit = fn(&mut DecoderTable);
    let cases: [(Edit, &str); 21] = [
        (|t| t.device_path = vec![], "device_path: names no path"),
        (|t| t.device_path = list(&["@timestamp"]), "device_path: `@timestamp` is a time"),
        (|t| t.device_path = list(&["a..b"]), "device_path: path `a..b`: an empty segment"),
        (|t| t.device_path = list(&[""]), "device_path: path ``: names no field"),
        (|t| t.timestamp_path = vec![], "timestamp_path: names no path"),
        (|t| t.timestamp_path = list(&["@topic"]), "timestamp_path: `@topic` and `@partition` are not times"),
        (|t| t.timestamp_format = vec![], "timestamp_format: is missing"),
        (
            |t| t.timestamp_format = vec![TimestampFormat::Unix, TimestampFormat::UnixMs],
            "timestamp_format: two units of numbers",
        ),
        (|t| t.fields_path = "a.".into(), "fields_path: path `a.`: an empty segment"),
        (|t| t.fields_path = "@key".into(), "fields_path: path `@key`: must lead from the reading"),
        (|t| t.meta = list(&["a", "b.a"]), "meta: path `b.a`: another path ends in the same name"),
        (|t| t.meta = list(&["a[0]"]), "meta: path `a[0]`: must end in a name"),
        (|t| t.meta = list(&["\"$a\""]), "meta: path `\"$a\"`: its last name cannot be stored"),
        (|t| t.meta = list(&["@timestamp"]), "meta: path `@timestamp`: a tag that changes"),
        (|t| t.meta = list(&["@kex"]), "meta: path `@kex`: there is no `@kex`"),
        (|t| t.stats = list(&["a.b"]), "stats: field `a.b`: a name in update paths"),
        (|t| t.stats = list(&["a", "a"]), "stats: field `a`: is listed twice"),
        (|t| t.stats = list(&["ts"]), "stats: field `ts`: is not stored"),
        (
            |t| {
                t.exclude = list(&["a"]);
                t.stats = list(&["a"]);
            },
            "stats: field `a`: is not stored",
        ),
        (|t| t.explode = Some("@key".into()), "explode: path `@key`: must lead into the record's value"),
        (
            |t| {
                t.explode = Some("r".into());
                t.device_path = list(&["$.r[0].id"]);
            },
            "explode: a path from `$` leads into the exploded array",
        ),
    ];
    for (edit, want) in cases {
        let got = Decoder::new(&contract(edit)).map(|_| ());
        assert!(got.as_ref().is_err_and(|e| e.starts_with(want)), "wanted {want}, got {got:?}");
    }
    let refuses = |contract: Contract| Decoder::new(&contract).unwrap_err();
    assert!(refuses(Contract { max_readings: 65_537, ..contract(|_| {}) }).contains("from 1 to 65536"));
    assert!(refuses(Contract { max_readings: 0, ..contract(|_| {}) }).contains("from 1 to 65536"));
    assert!(refuses(Contract { max_sample_bytes: 20, ..contract(|_| {}) }).contains("max_sample_bytes"));
    assert!(refuses(Contract { decoder_version: 0, ..contract(|_| {}) }).contains("unknown to this build"));
}
