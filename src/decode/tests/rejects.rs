//! Every way in which a record or a reading can be unusable, and that neighbours do not suffer.

use super::*;

/// Around one value `v` of an otherwise good flat reading.
fn flat(v: &str) -> String {
    format!(r#"{{"id":"d","ts":1700000000000,"v":{v}}}"#)
}

fn nested(n: usize) -> String {
    format!("{}1{}", "[".repeat(n), "]".repeat(n))
}

/// Where the mark `¦` stands in a text is the byte of the fault. Gives the text without it, and the expected line.
fn marked(text: &str, reason: &str) -> (String, String) {
    let at = text.find('¦').map_or(String::new(), |byte| format!("@{byte}"));
    (text.replace('¦', ""), format!("{reason}{at}"))
}

/// A bad reading is refused for that reason at its mark, and between two good ones of an array harms neither.
fn check_alone_and_among_others(bad: &str, reason: &str) {
    let (text, want) = marked(bad, reason);
    check(|_| {}, &text, &[&want]);
    let good = flat("1");
    let line = r#"d 1700000000000 {"v":1}"#;
    let (text, want) = marked(&format!("[{good},{bad},{good}]"), reason);
    check(|t| t.explode = Some("[]".into()), &text, &[line, &want, line]);
}

#[test]
fn faults_of_one_reading() {
    let deep = |n: usize| format!("{}¦{}{}", "[".repeat(64), nested(n - 64), "]".repeat(64));
    for (bad, want) in [
        (&*flat(&deep(65)), "!too_deep"),
        (&flat(&deep(100_000)), "!too_deep"),
        (&flat("¦1e400"), "!bad_number"),
        (&flat("[1,¦-1e999]"), "!bad_number"),
        (&flat(r#""x¦\ud800""#), "!not_utf8"),
        (&flat(r#""¦\ud800\u0041""#), "!not_utf8"),
        (&flat(r#""¦\udc00\ud800""#), "!not_utf8"),
        (&flat(r#"1,"¦":2"#), "!forbidden_name"),
        (&flat(r#"1,"¦$cmd":2"#), "!forbidden_name"),
        (&flat(r#"1,"¦\u0024cmd":2"#), "!forbidden_name"),
        (&flat(r#"1,"¦a\u0000":2"#), "!forbidden_name"),
        (&flat(r#"{"a":[{"¦$date":2}]}"#), "!forbidden_name"),
        (r#"¦{"id":"d","ts":1700000000000,"v":1,"v":2}"#, "!duplicate_name"),
        (r#"¦{"id":"d","ts":1700000000000,"v":1,"\u0076":2}"#, "!duplicate_name"),
        (&flat(r#"¦{"a":1,"a":2}"#), "!duplicate_name"),
        (&flat(r#"1,"id":¦"e""#), "!duplicate_name"),
        (r#"{"ts":1700000000000,"v":1}"#, "!missing_device"),
        (r#"{"id":null,"ts":1700000000000,"v":1}"#, "!missing_device"),
        (r#"{"id":¦"","ts":1700000000000,"v":1}"#, "!bad_device"),
        (r#"{"id":¦true,"ts":1700000000000,"v":1}"#, "!bad_device"),
        (r#"{"id":¦{},"ts":1700000000000,"v":1}"#, "!bad_device"),
        (r#"{"id":¦"a\u0000b","ts":1700000000000,"v":1}"#, "!bad_device"),
        (r#"{"id":¦"a\udfff","ts":1700000000000,"v":1}"#, "!not_utf8"),
        (r#"{"id":"d","v":1}"#, "!missing_time"),
        (r#"{"id":"d","ts":null,"v":1}"#, "!missing_time"),
        (r#"{"id":"d","ts":¦true,"v":1}"#, "!bad_time"),
        (r#"{"id":"d","ts":¦[1],"v":1}"#, "!bad_time"),
        (r#"{"id":"d","ts":¦"","v":1}"#, "!bad_time"),
        (r#"{"id":"d","ts":¦"soon","v":1}"#, "!bad_time"),
        (r#"{"id":"d","ts":¦1700000000,"v":1}"#, "!implausible_time"),
        (r#"{"id":"d","ts":¦1700086400001,"v":1}"#, "!implausible_time"),
        (r#"{"id":"d","ts":¦1668377599999,"v":1}"#, "!implausible_time"),
        (r#"{"id":"d","ts":¦1e300,"v":1}"#, "!implausible_time"),
        (r#"{"id":"d","ts":1700000000000}"#, "!no_fields"),
        (r#"{"id":"d","ts":1700000000000,"v":null}"#, "!no_fields"),
        ("¦7", "!not_an_object"),
        (r#"¦"text""#, "!not_an_object"),
    ] {
        check_alone_and_among_others(bad, want);
    }
}

#[test]
fn plausible_to_the_millisecond() {
    for ts in ["1700086400000", "1668377600000"] {
        check(|_| {}, &format!(r#"{{"id":"d","ts":{ts},"v":1}}"#), &[&format!(r#"d {ts} {{"v":1}}"#)]);
    }
    // Without a time of the record there is nothing to judge by.
    let contract = contract(|_| {});
    let timeless = Record { timestamp: None, ..record(br#"{"id":"d","ts":-7233803000,"v":1}"#) };
    assert_eq!(decode(&contract, &timeless), [r#"d -7233803000 {"v":1}"#]);
}

#[test]
fn a_wrong_unit_is_named_and_never_guessed() {
    for (format, ts, hint) in [
        (TimestampFormat::UnixMs, "1700000000", "as unix it"),
        (TimestampFormat::Unix, "1700000000000", "as unix_ms it"),
        (TimestampFormat::UnixMs, "1700000000000000", "as unix_us it"),
        (TimestampFormat::UnixUs, "1700000000000000000", "as unix_ns it"),
        (TimestampFormat::UnixMs, "5", "too far from"),
        (TimestampFormat::UnixMs, "5e300", "outside of the years"),
    ] {
        let decoder = Decoder::new(&contract(|t| t.timestamp_format = vec![format])).unwrap();
        let value = format!(r#"{{"id":"d","ts":{ts},"v":1}}"#);
        let mut scratch = Scratch::default();
        let (_, reading) = decoder.decode(&record(value.as_bytes()), &mut scratch).unwrap().next().unwrap();
        let reject = reading.unwrap_err();
        assert_eq!(reject.reason, Reason::ImplausibleTime);
        assert!(reject.to_string().contains(hint), "{reject}");
        assert!(reject.to_string().ends_with(", at byte 15"), "{reject}");
    }
}

#[test]
fn text_that_is_not_json() {
    check(|_| {}, "", &["!!empty"]);
    check(|_| {}, " \n", &["!!empty"]);
    for text in [
        "{¦",
        r#"{"id":"d","ts":1700000000000,"v":1¦"#,
        r#"{"id":"d","ts":1700000000000,"v":1}¦}"#,
        r#"{"v":1}¦{"v":2}"#,
        r#"{"v":¦nan}"#,
        r#"{"v":¦-nan}"#,
        r#"{"v":¦NaN}"#,
        r#"{"v":¦Infinity}"#,
        r#"{"v":¦-Infinity}"#,
        r#"{"v":328.¦}"#,
        r#"{"v":¦007}"#,
        r#"{"v":23,¦5}"#,
        r#"{"v":¦+1}"#,
        r#"{"v":¦.5}"#,
        r#"{"v":1e¦}"#,
        r#"{"v":1,¦}"#,
        r#"{"v":[1,¦]}"#,
        r#"{"v" ¦1}"#,
        r"{¦'v':1}",
        r#"{"v":"a¦"#,
        r#"{"v":"¦\x"}"#,
        r#"{"v":"¦\u12"}"#,
        "{\"v\":\"a¦\nb\"}",
        "¦\u{feff}{}",
        "¦\0\0\0\0\u{7}{}",
        "¦temp=1",
    ] {
        let (text, want) = marked(text, "!!malformed");
        check(|_| {}, &text, &[&want]);
        // Also where nothing of it is stored.
        check(|t| t.include = list(&["other"]), &text, &[&want]);
    }
    let contract = contract(|_| {});
    assert_eq!(decode(&contract, &record(b"{\"v\":\"a\xff\"}")), ["!!not_utf8@7"]);
    assert_eq!(decode(&contract, &record(b"\x1f\x8b\x08")), ["!!not_utf8@1"]);
}

#[test]
fn a_broken_tail_condemns_the_whole_array() {
    let good = flat("1");
    for text in [format!("[{good},{good},¦"), format!("[{good},{}]", flat("¦nan"))] {
        let (text, want) = marked(&text, "!!malformed");
        check(|t| t.explode = Some("[]".into()), &text, &[&want]);
    }
}

#[test]
fn explode_faults() {
    for (text, reason) in [
        (r#"{"r":¦{}}"#, "!!explode_not_array"),
        (r#"{"r":¦null}"#, "!!explode_not_array"),
        (r#"{"s":[]}"#, "!!explode_not_array"),
        ("[]", "!!explode_not_array"),
        ("5", "!!explode_not_array"),
        (r#"{"r":[{}],"r":¦[]}"#, "!!duplicate_name"),
        (r#"{"r":[{}]} ¦x"#, "!!malformed"),
        (r#"{"r":[null]}"#, "!missing_device"),
    ] {
        let (text, want) = marked(text, reason);
        check(|t| t.explode = Some("r".into()), &text, &[&want]);
    }
    check(|t| t.explode = Some("[]".into()), "{}", &["!!explode_not_array@0"]);
}

#[test]
fn as_many_readings_as_allowed_and_one_more() {
    let contract = |max_readings| Contract { max_readings, ..contract(|t| t.explode = Some("[]".into())) };
    let value = |n: usize| format!("[{}]", vec!["1"; n].join(","));
    let decode = |max, n| decode(&contract(max), &record(value(n).as_bytes()));
    assert_eq!(decode(3, 3).len(), 3);
    assert_eq!(decode(3, 4), ["!!too_many_readings@0"]);
    assert_eq!(decode(65_536, 65_536).len(), 65_536);
    assert_eq!(decode(65_536, 65_537), ["!!too_many_readings@0"]);
}

#[test]
fn as_large_as_allowed_and_one_more() {
    // The document of the sample is {time: date, info: {v: text}}.
    let contract = Contract { max_sample_bytes: 100, ..contract(|t| t.meta = list(&["tag"])) };
    let value = |n: usize, rest: &str| format!(r#"{{"id":"d","ts":{NOW},"v":"{}"{rest}}}"#, "x".repeat(n));
    let decode = |n, rest| decode(&contract, &record(value(n, rest).as_bytes()));
    let sample = |n: usize| {
        let info = bson::doc! { "v": "x".repeat(n) };
        bson::doc! { "time": bson::DateTime::from_millis(NOW), "info": info }.to_vec().unwrap().len()
    };
    let n = 100 - sample(0);
    assert_eq!(sample(n), 100);
    assert_eq!(decode(n, ""), [format!(r#"d {NOW} {{"v":"{}"}}"#, "x".repeat(n))]);
    assert_eq!(decode(n + 1, ""), ["!too_large"]);
    assert_eq!(decode(n, r#","tag":1"#), ["!too_large"]);
    assert_eq!(decode(n, r#","w":[1,2,3,4,5,6,7,8,9,10,11,12]"#), [format!("!too_large@{}", 40 + n)]);
}

#[test]
fn a_device_as_long_as_allowed_and_one_more() {
    let value = |n| format!(r#"{{"id":"{}","ts":{NOW},"v":1}}"#, "x".repeat(n));
    check(|_| {}, &value(1024), &[&format!(r#"{} {NOW} {{"v":1}}"#, "x".repeat(1024))]);
    check(|_| {}, &value(1025), &["!bad_device@6"]);
}

#[test]
fn keys_that_are_not_text() {
    let contract = contract(|t| t.device_path = list(&["id", "@key"]));
    let keyed = |key, value: &'static str| decode(&contract, &Record { key: Some(key), ..record(value.as_bytes()) });
    assert_eq!(keyed(b"\xff", r#"{"ts":1700000000000,"v":1}"#), ["!bad_key"]);
    assert_eq!(keyed(b"", r#"{"ts":1700000000000,"v":1}"#), ["!bad_device"]);
    // A key that is not asked does no harm.
    assert_eq!(keyed(b"\xff", r#"{"id":"d","ts":1700000000000,"v":1}"#), [r#"d 1700000000000 {"v":1}"#]);
}

#[test]
fn reasons_have_names_of_their_own() {
    let mut names: Vec<_> = Reason::ALL.iter().map(|reason| reason.name()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), Reason::ALL.len());
}
