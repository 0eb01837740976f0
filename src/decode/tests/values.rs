//! JSON values as BSON, byte for byte what the `bson` crate writes.

use bson::{Bson, Document, doc};

use super::*;

/// The fields document of a reading with these members.
fn info(members: &str) -> Vec<u8> {
    let value = format!(r#"{{"id":"d","ts":1700000000000,{members}}}"#);
    let mut scratch = Scratch::default();
    let decoder = Decoder::new(&contract(|_| {})).unwrap();
    let (_, reading) = decoder.decode(&record(value.as_bytes()), &mut scratch).unwrap().next().unwrap();
    reading.unwrap_or_else(|reject| panic!("{members}: {} {reject}", reject.reason.name())).info.to_vec()
}

fn check_value(json: &str, want: impl Into<Bson>) {
    let want = doc! { "v": want };
    let got = info(&format!(r#""v":{json}"#));
    assert_eq!(got, want.to_vec().unwrap(), "{json}: {:?}", Document::from_reader(&got[..]));
}

#[test]
fn integers_are_exact() {
    check_value("0", 0_i32);
    check_value("-0", 0_i32);
    check_value("2147483647", i32::MAX);
    check_value("-2147483648", i32::MIN);
    check_value("2147483648", 2_147_483_648_i64);
    check_value("-2147483649", -2_147_483_649_i64);
    check_value("2882429806056571124", 2_882_429_806_056_571_124_i64);
    check_value("9007199254740993", 9_007_199_254_740_993_i64);
    check_value("9223372036854775807", i64::MAX);
    check_value("-9223372036854775808", i64::MIN);
}

#[test]
fn other_numbers_are_the_nearest_double() {
    check_value("9223372036854775808", 9_223_372_036_854_775_808_f64);
    check_value("-9223372036854775809", -9_223_372_036_854_775_809_f64);
    check_value("327267367867168100000", 327_267_367_867_168_100_000_f64);
    check_value("21.53", 21.53);
    check_value("1.0", 1.0);
    check_value("-0.0", -0.0);
    check_value("1e3", 1000.0);
    check_value("1E-400", 0.0);
    check_value("4.9e-324", 5e-324);
    // Halfway between two doubles, and a little more: the ones that careless parsers round wrongly.
    check_value("9007199254740993.0", 9_007_199_254_740_992.0);
    check_value("9007199254740993.00000000000000000001", 9_007_199_254_740_994.0);
    check_value("1.7976931348623157e308", f64::MAX);
    check_value(&format!("0.{}1", "0".repeat(400)), 0.0);
}

#[test]
fn texts() {
    check_value(r#""""#, "");
    check_value(r#""ok""#, "ok");
    check_value(r#""a\"b\\c\/d\b\f\n\r\t""#, "a\"b\\c/d\u{8}\u{c}\n\r\t");
    check_value(r#""\u0041\u00e9\u20AC\ud83d\ude00x""#, "A\u{e9}\u{20ac}\u{1f600}x");
    check_value(r#""a\u0000b""#, "a\0b");
    check_value("\"\u{1f600}\u{e9}\"", "\u{1f600}\u{e9}");
    check_value(r#""NaN""#, "NaN");
}

#[test]
fn documents_and_arrays_as_they_are() {
    check_value("true", true);
    check_value("false", false);
    check_value("{}", doc! {});
    check_value("[]", Vec::<Bson>::new());
    check_value(r#"{"b":{"c":null},"a":1}"#, doc! { "b": { "c": null }, "a": 1 });
    check_value(
        "[1,[2.5,null],{\"x\":\"y\"}]",
        vec![1.into(), vec![Bson::from(2.5), Bson::Null].into(), Bson::from(doc! { "x": "y" })],
    );
    let many: Vec<i32> = (0..1001).collect();
    check_value(&format!("{many:?}"), many);
    let mut deep = Bson::from(1);
    for _ in 0..64 {
        deep = Bson::from(vec![deep]);
    }
    check_value(&format!("{}1{}", "[".repeat(64), "]".repeat(64)), deep);
}

#[test]
fn null_omits_a_field_and_a_missing_one_is_not_zero() {
    assert_eq!(info(r#""a":null,"b":1,"c":null"#), doc! { "b": 1 }.to_vec().unwrap());
}

#[test]
fn names_as_they_are() {
    let want = doc! { "yr.doy": 1, "a/b;c=d": 2, "\u{e9}\u{1f600}\"": 3, "x$": 4 };
    assert_eq!(info(r#""yr.doy":1,"a/b;c=d":2,"é\ud83d\ude00\"":3,"x$":4"#), want.to_vec().unwrap());
}

#[test]
fn a_device_number_is_its_exact_text() {
    for number in ["9", "-1.50", "12345678901234567890", "1e5"] {
        check(
            |_| {},
            &format!(r#"{{"id":{number},"ts":1700000000000,"v":1}}"#),
            &[&format!(r#"{number} 1700000000000 {{"v":1}}"#)],
        );
    }
    check(|_| {}, r#"{"id":"\u00e9\n","ts":"1700000000000","v":1}"#, &["\u{e9}\n 1700000000000 {\"v\":1}"]);
}
