//! Durations and sizes as people write them: `10s`, `1d`, `1h30m`, `64KiB`. A bare number is refused, because a figure
//! without its unit is read as milliseconds by one person and as seconds by the next.

/// Largest first, as `show_duration` tries them.
const DURATIONS: [(&str, i64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];
const SIZES: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

const DURATION_HINT: &str = "write a number with d, h, m, s or ms, such as \"10s\" or \"1d\"";
const SIZE_HINT: &str = "write a whole number with B, KiB, MiB or GiB, such as \"64KiB\"";

/// Milliseconds of a duration such as `10s`, `1h30m` or `-5h`.
pub(crate) fn parse_duration(text: &str) -> Result<i64, String> {
    let (sign, mut rest) = match text.trim().strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.trim().trim_start_matches('+')),
    };
    if rest.is_empty() {
        return Err(DURATION_HINT.into());
    }
    let mut total = 0_i64;
    while !rest.is_empty() {
        let (number, unit, after) = number_and_unit(rest).ok_or(DURATION_HINT)?;
        let ms = DURATIONS.iter().find(|(name, _)| *name == unit).ok_or(DURATION_HINT)?.1;
        let part = i64::try_from(number).ok().and_then(|n| n.checked_mul(ms));
        total = part.and_then(|part| total.checked_add(part)).ok_or("the duration is too long")?;
        rest = after;
    }
    Ok(sign * total)
}

/// Bytes of a size such as `64KiB`.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let (number, unit, after) = number_and_unit(text.trim()).ok_or(SIZE_HINT)?;
    let bytes = SIZES.iter().find(|(name, _)| *name == unit).ok_or(SIZE_HINT)?.1;
    if !after.is_empty() {
        return Err(SIZE_HINT.into());
    }
    number.checked_mul(bytes).ok_or_else(|| "the size is too large".into())
}

/// Splits `1h30m` into 1, `h` and `30m`.
fn number_and_unit(text: &str) -> Option<(u64, &str, &str)> {
    let (number, rest) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let (unit, after) = rest.split_at(rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len()));
    Some((number.parse().ok()?, unit, after))
}

/// The shortest form that `parse_duration` reads back as the same.
pub(super) fn show_duration(ms: i64) -> String {
    let (unit, length) = DURATIONS.into_iter().find(|(_, length)| ms != 0 && ms % length == 0).unwrap_or(("s", 1_000));
    format!("{}{unit}", ms / length)
}

pub(super) fn show_size(bytes: u64) -> String {
    let (unit, length) =
        SIZES.into_iter().find(|(_, length)| bytes != 0 && bytes.is_multiple_of(*length)).unwrap_or(("B", 1));
    format!("{}{unit}", bytes / length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(parse_duration("366d"), Ok(366 * 86_400_000));
        assert_eq!(parse_duration("1h30m"), Ok(5_400_000));
        assert_eq!(parse_duration("-5h"), Ok(-18_000_000));
        assert_eq!(parse_duration("0s"), Ok(0));
        for wrong in ["10", "", "-", "s", "10 s", "1.5h", "10sec", "1d-1h", "99999999999999d"] {
            assert!(parse_duration(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn sizes_need_a_binary_unit() {
        assert_eq!(parse_size("64KiB"), Ok(65_536));
        assert_eq!(parse_size("0B"), Ok(0));
        for wrong in ["64", "64KB", "64kib", "1MiB1B", "1.5MiB", "99999999999GiB"] {
            assert!(parse_size(wrong).is_err(), "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn shown_text_reads_back(ms in -(1_i64 << 50)..1_i64 << 50, bytes in 0_u64..1 << 50) {
            prop_assert_eq!(parse_duration(&show_duration(ms)), Ok(ms));
            prop_assert_eq!(parse_size(&show_size(bytes)), Ok(bytes));
        }

        #[test]
        fn no_text_panics(text in ".*") {
            drop((parse_duration(&text), parse_size(&text)));
        }
    }
}
