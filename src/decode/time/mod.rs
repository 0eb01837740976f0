//! Event times as text to milliseconds since 1970, by integers only: a double is off by up to 128 ns at today's dates,
//! and rounds milliseconds given as fractions of seconds wrongly.

use crate::config::TimestampFormat;

/// Years 0 to 9999: what RFC 3339 can write. Beyond it nobody means what they say, and window arithmetic stays safe.
const MIN_MS: i64 = -62_167_219_200_000;
const MAX_MS: i64 = 253_402_300_799_999;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimeFault {
    /// Not of that format.
    Unreadable(&'static str),
    /// Of that format, but outside the years 0 to 9999.
    OutOfRange,
}

const NOT_A_NUMBER: TimeFault = TimeFault::Unreadable("the time is not a number");
const NOT_ISO: TimeFault = TimeFault::Unreadable("the time is not as in RFC 3339, such as 2023-11-14T22:13:20Z");
const NO_ZONE: TimeFault = TimeFault::Unreadable("no zone: the time must end in Z or an offset such as +01:00");
const NO_SUCH_TIME: TimeFault = TimeFault::Unreadable("no such day, hour, minute, second or offset");

/// Reads a time of the declared format; never guesses by magnitude.
pub(super) fn parse(text: &str, format: TimestampFormat) -> Result<i64, TimeFault> {
    match format {
        TimestampFormat::Unix => unix(text, 3),
        TimestampFormat::UnixMs => unix(text, 0),
        TimestampFormat::UnixUs => unix(text, -3),
        TimestampFormat::UnixNs => unix(text, -6),
        TimestampFormat::Iso8601 => iso8601(text),
    }
}

/// Decimal text times 10 to the power of `shift`, rounded down.
fn unix(text: &str, shift: i64) -> Result<i64, TimeFault> {
    if let Some(value) = plain_integer(text) {
        return in_range(if shift < 0 {
            value.div_euclid(10_i64.pow(shift.unsigned_abs() as u32))
        } else {
            value.saturating_mul(10_i64.pow(shift as u32))
        });
    }
    let negative = text.starts_with('-');
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        // An exponent that does not even fit an i32 is no time in any unit.
        Some((mantissa, exponent)) => (mantissa, i64::from(exponent.parse::<i32>().map_err(|_| NOT_A_NUMBER)?)),
        None => (unsigned, 0),
    };
    let (int, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = || int.bytes().chain(fraction.bytes());
    if int.is_empty() || !digits().all(|c| c.is_ascii_digit()) {
        return Err(NOT_A_NUMBER);
    }
    // How many of the digits are whole milliseconds; the rest only counts for rounding down.
    let whole = int.len() as i64 + exponent + shift;
    let mut ms = 0_i64;
    let mut inexact = false;
    for (i, c) in (0..).zip(digits()) {
        if i < whole {
            ms = ms * 10 + i64::from(c - b'0');
            if ms > MAX_MS {
                return Err(TimeFault::OutOfRange);
            }
        } else {
            inexact |= c != b'0';
        }
    }
    if ms != 0 {
        for _ in (int.len() + fraction.len()) as i64..whole {
            ms *= 10;
            if ms > MAX_MS {
                return Err(TimeFault::OutOfRange);
            }
        }
    }
    in_range(if negative { -ms - i64::from(inexact) } else { ms })
}

/// What nearly all producers write: digits that fit, perhaps behind a minus.
fn plain_integer(text: &str) -> Option<i64> {
    let (negative, digits) = match text.as_bytes() {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || digits.len() > 18 {
        return None;
    }
    let mut value = 0;
    for digit in digits {
        value = value * 10 + i64::from(digit.checked_sub(b'0').filter(|digit| *digit < 10)?);
    }
    Some(if negative { -value } else { value })
}

pub(super) fn in_range(ms: i64) -> Result<i64, TimeFault> {
    if (MIN_MS..=MAX_MS).contains(&ms) { Ok(ms) } else { Err(TimeFault::OutOfRange) }
}

/// RFC 3339, and what producers write beside it: a blank for the `T`, offsets without colon or minutes, the basic form
/// without separators, a comma before the fraction, any number of its digits. Without a zone it is no time.
fn iso8601(text: &str) -> Result<i64, TimeFault> {
    let mut rest = Cursor(text.as_bytes());
    let year = rest.number(4).ok_or(NOT_ISO)?;
    let dashed = rest.take(b"-");
    let month = rest.number(2).ok_or(NOT_ISO)?;
    if dashed && !rest.take(b"-") {
        return Err(NOT_ISO);
    }
    let day = rest.number(2).ok_or(NOT_ISO)?;
    if !rest.take(b"Tt ") {
        return Err(NOT_ISO);
    }
    let hour = rest.number(2).ok_or(NOT_ISO)?;
    let coloned = rest.take(b":");
    let minute = rest.number(2).ok_or(NOT_ISO)?;
    if coloned && !rest.take(b":") {
        return Err(NOT_ISO);
    }
    let second = rest.number(2).ok_or(NOT_ISO)?;
    let ms = if rest.take(b".,") { rest.milliseconds().ok_or(NOT_ISO)? } else { 0 };
    let offset = rest.zone()?;
    // Second 60 is a leap second; it counts as the one after.
    if !is_day(year, month, day) || hour > 23 || minute > 59 || second > 60 {
        return Err(NO_SUCH_TIME);
    }
    let minutes = days_since_1970(year, month, day) * 1440 + hour * 60 + minute - offset;
    in_range((minutes * 60 + second) * 1000 + ms)
}

struct Cursor<'t>(&'t [u8]);

impl Cursor<'_> {
    /// Exactly `n` digits.
    fn number(&mut self, n: usize) -> Option<i64> {
        let (digits, rest) = self.0.split_at_checked(n)?;
        let value = digits.iter().try_fold(0, |value, c| c.is_ascii_digit().then(|| value * 10 + i64::from(c - b'0')));
        self.0 = rest;
        value
    }

    fn take(&mut self, any_of: &[u8]) -> bool {
        let Some((_, rest)) = self.0.split_first().filter(|(c, _)| any_of.contains(c)) else { return false };
        self.0 = rest;
        true
    }

    /// One or more digits of a fraction of a second, rounded down.
    fn milliseconds(&mut self) -> Option<i64> {
        let n = self.0.iter().take_while(|c| c.is_ascii_digit()).count();
        let (digits, rest) = self.0.split_at(n);
        self.0 = rest;
        let padded = digits.iter().chain(b"00").take(3);
        (n > 0).then(|| padded.fold(0, |ms, c| ms * 10 + i64::from(c - b'0')))
    }

    /// Minutes east of UTC, up to the end of the text.
    fn zone(&mut self) -> Result<i64, TimeFault> {
        if self.0.is_empty() {
            return Err(NO_ZONE);
        }
        let mut offset = 0;
        if !self.take(b"Zz") {
            let sign = if self.take(b"+") { 1 } else { -1 };
            if sign < 0 && !self.take(b"-") {
                return Err(NOT_ISO);
            }
            let hours = self.number(2).ok_or(NOT_ISO)?;
            let coloned = self.take(b":");
            let minutes = if self.0.is_empty() && !coloned { 0 } else { self.number(2).ok_or(NOT_ISO)? };
            if hours > 23 || minutes > 59 {
                return Err(NO_SUCH_TIME);
            }
            offset = sign * (hours * 60 + minutes);
        }
        if self.0.is_empty() { Ok(offset) } else { Err(NOT_ISO) }
    }
}

fn is_day(year: i64, month: i64, day: i64) -> bool {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let last = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 => 28 + i64::from(leap),
        _ => return false,
    };
    (1..=last).contains(&day)
}

/// Of the proleptic Gregorian calendar, counted in years that start in March so that the leap day comes last.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let years = year - i64::from(month <= 2);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    years * 365 + years.div_euclid(4) - years.div_euclid(100) + years.div_euclid(400) + day_of_year - 719_468
}

#[cfg(test)]
mod tests;
