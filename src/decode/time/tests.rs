//! Times as people send them, and as nobody should.

use proptest::prelude::*;

use super::*;
use TimestampFormat::{Iso8601, Unix, UnixMs, UnixNs, UnixUs};

fn check(format: TimestampFormat, text: &str, want: Result<i64, TimeFault>) {
    assert_eq!(parse(text, format), want, "{text} as {format:?}");
}

#[test]
fn units_are_obeyed_and_digits_exact() {
    for (format, text, ms) in [
        (Unix, "1700000000", 1_700_000_000_000),
        (Unix, "1700000000.123456789", 1_700_000_000_123),
        (Unix, "1573833152", 1_573_833_152_000),
        // Through a double, this one comes out as 1386157402 ms and a bit.
        (Unix, "1659386157.403862", 1_659_386_157_403),
        (Unix, "1.7e9", 1_700_000_000_000),
        (Unix, "17000000000E-1", 1_700_000_000_000),
        (UnixMs, "-7233803000", -7_233_803_000),
        (UnixMs, "0", 0),
        (UnixMs, "-0", 0),
        (UnixMs, "1.7E+12", 1_700_000_000_000),
        (UnixUs, "1700000000000001", 1_700_000_000_000),
        (UnixNs, "1700000000123456789", 1_700_000_000_123),
        (UnixNs, "1700000000999999999", 1_700_000_000_999),
        // Down, also before 1970: a window must not begin at its second millisecond.
        (UnixUs, "-1", -1),
        (UnixUs, "-1000", -1),
        (UnixUs, "-1001", -2),
        (Unix, "-0.0001", -1),
        (Unix, "000000000000000000000000000000001", 1_000),
        (Unix, "0e999", 0),
        (UnixMs, "1e-999", 0),
    ] {
        check(format, text, Ok(ms));
    }
}

#[test]
fn numbers_that_are_no_time() {
    for text in
        ["", "-", "abc", "1,5", "1.5.5", "0x10", "1e", "1e+", ".5", " 1", "1 ", "--1", "nan", "1_000", "\u{661}"]
    {
        check(Unix, text, Err(NOT_A_NUMBER));
    }
    for text in ["253402300800", "1700000000000", "1e300", "-62167219201", "99999999999999999999999999"] {
        check(Unix, text, Err(TimeFault::OutOfRange));
    }
    check(Unix, "253402300799.9999", Ok(MAX_MS));
    check(Unix, "-62167219200", Ok(MIN_MS));
}

#[test]
fn iso_forms() {
    let ms = 1_700_000_000_000;
    for text in [
        "2023-11-14T22:13:20Z",
        "2023-11-14t22:13:20z",
        "2023-11-14 22:13:20Z",
        "2023-11-14T23:13:20+01:00",
        "2023-11-14T23:13:20+0100",
        "2023-11-14T23:13:20+01",
        "2023-11-14T17:13:20-05:00",
        "2023-11-15T03:58:20+05:45",
        "20231114T221320Z",
        "20231114T231320+0100",
        "2023-11-14T22:13:20.0Z",
        "2023-11-14T22:13:20.000000000000000000001Z",
        "2023-11-14T22:13:20-00:00",
    ] {
        check(Iso8601, text, Ok(ms));
    }
    for (text, ms) in [
        ("2023-11-14T22:13:20.5Z", ms + 500),
        ("2023-11-14T22:13:20,25Z", ms + 250),
        ("2023-11-14T22:13:20.1234567Z", ms + 123),
        ("1969-12-31T23:59:59.9999Z", -1),
        ("1969-10-09T06:36:37Z", -7_233_803_000),
        ("2016-12-31T23:59:60Z", 1_483_228_800_000),
        ("2024-02-29T00:00:00Z", 1_709_164_800_000),
        ("0000-01-01T00:00:00Z", MIN_MS),
        ("9999-12-31T23:59:59.999Z", MAX_MS),
    ] {
        check(Iso8601, text, Ok(ms));
    }
}

#[test]
fn iso_faults() {
    for text in ["2023-11-14T22:13:20", "2023-11-14 22:13:20.5", "20231114T221320"] {
        check(Iso8601, text, Err(NO_ZONE));
    }
    for text in [
        "",
        "now",
        "2023",
        "2023-11-14",
        "2023-11-14T",
        "2023-11-14T22:13",
        "2023-11-14T22:13Z",
        "14.11.2023 22:13:20Z",
        "2023-1114T22:13:20Z",
        "2023-11-14T22:1320Z",
        "2023-11-14T22:13:20.Z",
        "2023-11-14T22:13:20ZZ",
        "1700000000",
        "2023-11-14T22:13:20+1",
        "2023-11-14T22:13:20+01:",
        "2023-11-14T22:13:20 Z",
        "\u{661}023-11-14T22:13:20Z",
        "+023-11-14T22:13:20Z",
        "2023-11-14T22:13:20+01:000",
    ] {
        check(Iso8601, text, Err(NOT_ISO));
    }
    for text in [
        "2023-02-29T00:00:00Z",
        "1900-02-29T00:00:00Z",
        "2023-04-31T00:00:00Z",
        "2023-13-01T00:00:00Z",
        "2023-00-01T00:00:00Z",
        "2023-01-00T00:00:00Z",
        "2023-01-01T24:00:00Z",
        "2023-01-01T00:60:00Z",
        "2023-01-01T00:00:61Z",
        "2023-01-01T00:00:00+24:00",
        "2023-01-01T00:00:00+00:60",
    ] {
        check(Iso8601, text, Err(NO_SUCH_TIME));
    }
    check(Iso8601, "0000-01-01T00:00:00+00:01", Err(TimeFault::OutOfRange));
}

proptest! {
    #[test]
    fn never_panics(text in "\\PC{0,30}", digits in "[-+0-9.,eETZ: ]{0,30}") {
        for format in [Unix, UnixMs, UnixUs, UnixNs, Iso8601] {
            for text in [&text, &digits] {
                if let Ok(ms) = parse(text, format) {
                    assert!((MIN_MS..=MAX_MS).contains(&ms));
                }
            }
        }
    }

    /// `jiff` as the judge of the calendar.
    #[test]
    fn agrees_with_jiff(ms in MIN_MS..=MAX_MS) {
        let text = jiff::Timestamp::from_millisecond(ms).unwrap().to_string();
        check(Iso8601, &text, Ok(ms));
    }

    /// Nanoseconds as text against integer division.
    #[test]
    fn rounds_down(ns in any::<i64>()) {
        check(UnixNs, &ns.to_string(), Ok(ns.div_euclid(1_000_000)));
        check(UnixUs, &(ns / 1_000).to_string(), Ok((ns / 1_000).div_euclid(1_000)));
    }
}
