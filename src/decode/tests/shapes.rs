//! Shapes of messages that public systems send, each with the table that reads it.

use super::*;

fn key<'a>(key: &'a str, value: &'a str) -> Record<'a> {
    Record { key: Some(key.as_bytes()), ..record(value.as_bytes()) }
}

#[test]
fn flat() {
    check(|_| {}, r#"{"id":"d","ts":1700000000000,"v":1}"#, &[r#"d 1700000000000 {"v":1}"#]);
    check(|_| {}, " { \"v\" : 1 ,\n\"ts\":1700000000000,\t\"id\":\"d\"\r} ", &[r#"d 1700000000000 {"v":1}"#]);
}

#[test]
fn thingsboard_key_and_values() {
    let contract = contract(|t| {
        t.device_path = list(&["@key"]);
        t.timestamp_path = list(&["@timestamp"]);
        t.timestamp_format = vec![];
    });
    assert_eq!(
        decode(&contract, &key("d1", r#"{"temp":22.5,"hum":61}"#)),
        [r#"d1 1700000000000 {"temp":22.5,"hum":61}"#]
    );
}

#[test]
fn thingsboard_array_of_ts_and_values() {
    let contract = contract(|t| {
        t.device_path = list(&["@key"]);
        t.fields_path = "values".into();
        t.explode = Some("[]".into());
    });
    let value = r#"[{"ts":1700000000000,"values":{"t":1}},{"values":{"t":2},"ts":1700000000001}]"#;
    assert_eq!(decode(&contract, &key("d1", value)), [r#"d1 1700000000000 {"t":1}"#, r#"d1 1700000000001 {"t":2}"#]);
}

#[test]
fn headers_of_hono_and_cloudevents() {
    let mut packed = Vec::new();
    Headers::pack(&mut packed, "device_id", Some(b"old"));
    Headers::pack(&mut packed, "device_id", Some(b"d1"));
    Headers::pack(&mut packed, "ce_time", Some(b"2023-11-14T22:13:20Z"));
    let contract = contract(|t| {
        t.device_path = list(&["@header.device_id", "@key"]);
        t.timestamp_path = list(&["@header.ce_time"]);
        t.timestamp_format = vec![TimestampFormat::Iso8601];
        t.meta = list(&["@topic", "@partition"]);
    });
    let record = Record { headers: Headers(&packed), ..key("k", r#"{"t":5}"#) };
    assert_eq!(decode(&contract, &record), [r#"d1 1700000000000 {"t":5} {"topic":"t","partition":3}"#]);
    let record = Record { headers: Headers(&[]), ..record };
    assert_eq!(decode(&contract, &record), ["!missing_time"]);
}

#[test]
fn cloudevents_structured() {
    let table = |t: &mut DecoderTable| {
        t.device_path = list(&["subject", "source"]);
        t.timestamp_path = list(&["time"]);
        t.timestamp_format = vec![TimestampFormat::Iso8601];
        t.fields_path = "data".into();
    };
    check(
        table,
        r#"{"specversion":"1.0","subject":"d1","source":"/s","time":"2023-11-14T22:13:20Z","data":{"t":1}}"#,
        &[r#"d1 1700000000000 {"t":1}"#],
    );
    check(
        table,
        r#"{"data":{"t":1},"source":"/s","subject":null,"time":"2023-11-14T23:13:20\u002b01:00"}"#,
        &[r#"/s 1700000000000 {"t":1}"#],
    );
}

#[test]
fn telegraf_single_and_batch() {
    let table = |t: &mut DecoderTable| {
        t.device_path = list(&["tags.host"]);
        t.timestamp_path = list(&["timestamp"]);
        t.timestamp_format = vec![TimestampFormat::Unix];
        t.fields_path = "fields".into();
        t.meta = list(&["name"]);
    };
    let one = r#"{"name":"cpu","tags":{"host":"h1"},"timestamp":1700000000,"fields":{"a":1}}"#;
    let line = r#"h1 1700000000000 {"a":1} {"name":"cpu"}"#;
    check(table, one, &[line]);
    for explode in ["metrics", "metrics[]", "$.metrics"] {
        check(
            |t| {
                table(t);
                t.explode = Some(explode.into());
            },
            &format!(r#"{{"metrics":[{one},{one}]}}"#),
            &[line, line],
        );
    }
}

#[test]
fn gps_with_the_key_as_vehicle() {
    let contract = contract(|t| {
        t.device_path = list(&["@key"]);
        t.timestamp_path = list(&["timestamp"]);
        t.timestamp_format = vec![TimestampFormat::Unix];
        t.exclude = list(&["id"]);
    });
    let value = r#"{"id":"94","timestamp":1700000000,"latitude":39.5,"longitude":-104.5}"#;
    let want = r#"94 1700000000000 {"latitude":39.5,"longitude":-104.5}"#;
    assert_eq!(decode(&contract, &key("94", value)), [want]);
}

#[test]
fn one_bad_element_among_good_ones() {
    check(
        |t| t.explode = Some("[]".into()),
        r#"[{"id":"a","ts":1700000000000,"v":1},7,{"ts":1700000000000,"v":3},{"id":"b","ts":1700000000002,"v":2}]"#,
        &[r#"a 1700000000000 {"v":1}"#, "!not_an_object@37", "!missing_device", r#"b 1700000000002 {"v":2}"#],
    );
}

#[test]
fn tombstone() {
    let tombstone = Record { value: None, ..record(b"") };
    assert_eq!(decode(&contract(|_| {}), &tombstone), ["skip tombstone"]);
    check(|t| t.explode = Some("r".into()), r#"{"r":[]}"#, &["skip empty_array"]);
}

#[test]
fn composite_json_key_and_epoch_as_text() {
    let contract = contract(|t| {
        t.device_path = list(&["@key.unit"]);
        t.timestamp_path = list(&["timestamp"]);
        t.timestamp_format = vec![TimestampFormat::Unix];
        t.meta = list(&["@key.site"]);
    });
    let value = r#"{"m":"1.5","timestamp":"1700000000"}"#;
    let keyed = |k| decode(&contract, &key(k, value));
    assert_eq!(keyed(r#"{"site":"s","unit":"u"}"#), [r#"u 1700000000000 {"m":"1.5"} {"site":"s"}"#]);
    assert_eq!(keyed(r#"{"unit":5}"#), [r#"5 1700000000000 {"m":"1.5"}"#]);
    assert_eq!(keyed(r#"{"site":"s"}"#), ["!missing_device"]);
    assert_eq!(keyed("plain"), ["!bad_key"]);
    assert_eq!(keyed(r#"{"unit":"u"} x"#), ["!bad_key"]);
    assert_eq!(decode(&contract, &record(value.as_bytes())), ["!missing_device"]);
    // As a text, the key need not be JSON, whatever other paths make of it.
    let contract = self::contract(|t| {
        t.device_path = list(&["@key"]);
        t.timestamp_path = list(&["ts", "@key.ts"]);
    });
    let keyed = |value| decode(&contract, &key("plain", value));
    assert_eq!(keyed(r#"{"ts":1700000000000,"v":1}"#), [r#"plain 1700000000000 {"v":1}"#]);
    assert_eq!(keyed(r#"{"v":1}"#), ["!bad_key"]);
}

#[test]
fn names_with_dots_and_elements_by_index() {
    check(
        |t| {
            t.device_path = list(&[r#"ids."1.8.0"[1].x"#]);
            t.timestamp_path = list(&["[0]", "ts"]);
        },
        r#"{"ids":{"1.8.0":[0,{"x":"d"}]},"ts":1700000000000,"yr.doy":5}"#,
        &[r#"d 1700000000000 {"ids":{"1.8.0":[0,{"x":"d"}]},"yr.doy":5}"#],
    );
}

#[test]
fn two_formats_in_one_topic() {
    let table = |t: &mut DecoderTable| t.timestamp_format = vec![TimestampFormat::UnixMs, TimestampFormat::Iso8601];
    check(table, r#"{"id":"a","ts":1700000000000,"v":1}"#, &[r#"a 1700000000000 {"v":1}"#]);
    check(table, r#"{"id":"a","ts":"2023-11-14T22:13:20Z","v":1}"#, &[r#"a 1700000000000 {"v":1}"#]);
}

#[test]
fn the_records_own_time_where_none_is_there() {
    let contract = contract(|t| t.timestamp_missing_kafka = true);
    for value in [r#"{"id":"a","v":1}"#, r#"{"id":"a","v":1,"ts":null}"#] {
        assert_eq!(decode(&contract, &record(value.as_bytes())), [r#"a 1700000000000 {"v":1}"#]);
        let timeless = Record { timestamp: None, ..record(value.as_bytes()) };
        assert_eq!(decode(&contract, &timeless), ["!missing_time"]);
    }
}

#[test]
fn root_paths_before_and_behind_the_array() {
    let table = |t: &mut DecoderTable| {
        t.explode = Some("a.r".into());
        t.device_path = list(&["id", "$.gw.id"]);
        t.meta = list(&["$.site"]);
    };
    check(
        table,
        r#"{"site":"s","a":{"r":[{"ts":1700000000000,"v":1},{"ts":1700000000000,"id":"own","v":2}]},"gw":{"id":"g"}}"#,
        &[r#"g 1700000000000 {"v":1} {"site":"s"}"#, r#"own 1700000000000 {"v":2} {"site":"s"}"#],
    );
    // Without `explode` the root is the reading.
    check(
        |t| t.device_path = list(&["$.id"]),
        r#"{"id":"d","ts":1700000000000,"v":1}"#,
        &[r#"d 1700000000000 {"v":1}"#],
    );
}

/// Reference article: `date` says another day than the epoch second. The event time alone decides.
#[test]
fn contradicting_date_beside_the_time() {
    let table = |t: &mut DecoderTable| t.timestamp_format = vec![TimestampFormat::Unix];
    let record = Record { timestamp: None, ..record(br#"{"id":1,"date":"2019-11-10","ts":1573833152,"v":1}"#) };
    assert_eq!(decode(&contract(table), &record), [r#"1 1573833152000 {"date":"2019-11-10","v":1}"#]);
}

#[test]
fn equal_times_are_two_readings() {
    check(
        |t| t.explode = Some("r".into()),
        r#"{"r":[{"id":"a","ts":1700000000000,"v":600},{"id":"a","ts":1700000000000,"v":700}]}"#,
        &[r#"a 1700000000000 {"v":600}"#, r#"a 1700000000000 {"v":700}"#],
    );
}
