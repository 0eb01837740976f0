//! Points in time as people type and see them. A bare number is refused: one person means seconds and the next milliseconds.

use jiff::Timestamp;
use mongodb::bson::DateTime;

use crate::config::parse_duration;

const HINT: &str = "write RFC 3339 such as 2026-11-30T12:00:00Z, a date such as 2026-11-30 (its start in UTC), or a time \
                    before now such as -2d or -90m";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// Milliseconds since 1970.
    At(i64),
    /// Milliseconds before now.
    Ago(i64),
}

impl When {
    pub(crate) fn ms(self, now_ms: i64) -> i64 {
        match self {
            Self::At(ms) => ms,
            Self::Ago(ms) => now_ms.saturating_sub(ms),
        }
    }
}

pub(crate) fn parse_when(text: &str) -> Result<When, String> {
    let text = text.trim();
    if let Ok(number) = text.parse::<f64>() {
        return Err(which_unit(number));
    }
    if text == "now" {
        return Ok(When::Ago(0));
    }
    if let Some(ago) = text.strip_prefix('-') {
        // A second sign would turn it round.
        let ago = Some(ago).filter(|ago| ago.starts_with(|c: char| c.is_ascii_digit())).ok_or_else(String::new);
        return ago
            .and_then(parse_duration)
            .map(When::Ago)
            .map_err(|_| format!("{text:?} is no time before now; {HINT}"));
    }
    if let Ok(at) = text.parse::<Timestamp>() {
        return Ok(When::At(at.as_millisecond()));
    }
    // A date and a time of day without a zone also reads as a date, and would lose the time of day without a word.
    if text.contains(['T', 't', ' ']) {
        return Err(format!(
            "{text:?} is no time, or names no zone (end it with Z or an offset such as +01:00); {HINT}"
        ));
    }
    let start = format!("{text}T00:00:00Z").parse::<Timestamp>();
    start.map(|start| When::At(start.as_millisecond())).map_err(|_| format!("{text:?} is no time; {HINT}"))
}

/// RFC 3339 in UTC, always with milliseconds, so that text sorts as time does.
pub(crate) fn time_text(ms: i64) -> String {
    Timestamp::from_millisecond(ms).map_or_else(|_| DateTime::from_millis(ms).to_string(), |at| format!("{at:.3}"))
}

/// Shows what a bare number would be in either unit.
fn which_unit(number: f64) -> String {
    let shown =
        |ms: f64| Timestamp::from_millisecond(ms as i64).map_or_else(|_| "no time".to_owned(), |at| at.to_string());
    format!(
        "seconds or milliseconds? As seconds that is {}, as milliseconds {}; {HINT}",
        shown(number * 1000.0),
        shown(number)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_dates_and_spans_before_now() {
        let noon = When::At(1_794_744_000_000);
        assert_eq!(parse_when("2026-11-15T12:00:00Z"), Ok(noon));
        assert_eq!(parse_when("2026-11-15T13:00:00+01:00"), Ok(noon));
        assert_eq!(parse_when("2026-11-15"), Ok(When::At(1_794_744_000_000 - 43_200_000)));
        assert_eq!(parse_when("-2d").map(|when| when.ms(1_000_000_000)), Ok(1_000_000_000 - 172_800_000));
        assert_eq!(parse_when("-1h30m"), Ok(When::Ago(5_400_000)));
        assert_eq!(parse_when("now").map(|when| when.ms(7)), Ok(7));
    }

    #[test]
    fn a_number_without_unit_is_asked_for_it() {
        let asked = parse_when("1700000000").unwrap_err();
        assert!(
            asked.contains("As seconds that is 2023-11-14T22:13:20Z, as milliseconds 1970-01-20T16:13:20Z"),
            "{asked}"
        );
        for number in ["1700000000000", "-5", "1.7e9", "NaN"] {
            assert!(parse_when(number).unwrap_err().contains("seconds or milliseconds?"), "{number}");
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for wrong in ["", "yesterday", "2026-11-15T12:00:00", "2026-11-15 12:00", "2026-13-01", "-2", "-2y", "--2d"] {
            assert!(parse_when(wrong).is_err(), "{wrong:?}");
        }
        assert!(parse_when("2026-11-15T12:00:00").unwrap_err().contains("names no zone"));
    }
}
