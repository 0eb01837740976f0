//! The part of a record around a byte, on one line, with the column to point at. Pure.

/// Characters shown before and after the byte.
const AROUND: usize = 36;

/// The line and the column of the caret below it.
pub(super) fn around(value: &[u8], byte: usize) -> (String, usize) {
    let byte = byte.min(value.len());
    let before = lossy(&value[..byte]);
    let after = lossy(&value[byte..]);
    let n_before = before.chars().count();
    let cut = n_before.saturating_sub(AROUND);
    let mut line = if cut > 0 { "...".to_owned() } else { String::new() };
    let mut column = line.len();
    line.extend(before.chars().skip(cut));
    column += n_before - cut;
    line.extend(after.chars().take(AROUND));
    if after.chars().nth(AROUND).is_some() {
        line += "...";
    }
    (line, column)
}

/// One printable character for each of the value's: line breaks and what cannot be shown would move the caret.
fn lossy(bytes: &[u8]) -> String {
    let shown = |c: char| match c {
        '\n' | '\r' | '\t' => ' ',
        c if c.is_control() => '\u{fffd}',
        c => c,
    };
    String::from_utf8_lossy(bytes).chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(value: &[u8], byte: usize, line: &str, pointed_at: Option<char>) {
        let (found, column) = around(value, byte);
        assert_eq!(found, line);
        assert_eq!(found.chars().nth(column), pointed_at, "{found}");
    }

    #[test]
    fn the_caret_stands_below_the_byte() {
        check(b"{\"a\":x}", 5, "{\"a\":x}", Some('x'));
        check("{\"\u{e4}\":\n x}".as_bytes(), 8, "{\"\u{e4}\":  x}", Some('x'));
        check(b"{\"a\":", 5, "{\"a\":", None);
        check(b"", 7, "", None);
        check(b"\"\xff\x01\"", 1, "\"\u{fffd}\u{fffd}\"", Some('\u{fffd}'));
    }

    #[test]
    fn long_records_are_cut_around_the_byte() {
        let value = [&[b'a'; 100][..], b"!", &[b'b'; 100]].concat();
        let line = format!("...{}!{}...", "a".repeat(36), "b".repeat(35));
        check(&value, 100, &line, Some('!'));
    }
}
