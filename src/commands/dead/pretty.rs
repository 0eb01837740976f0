//! A value laid out for a person, with a mark under one of its bytes. Pure.
//!
//! JSON is laid out by its punctuation alone, for what has to be shown is as a rule what no parser takes.

use std::fmt::Write as _;

/// Bytes of a line of hexadecimal digits.
const ROW: usize = 16;

/// A value as it is stored, `byte` marked where the value has one there.
pub(super) fn value(value: &[u8], byte: Option<usize>) -> String {
    let mark = byte.filter(|byte| *byte <= value.len());
    match std::str::from_utf8(value) {
        Ok(text) if !text.contains('\0') => json(text, mark),
        _ => hex(value, mark),
    }
}

/// Where output stands, and where the mark is to come below it.
struct Layout {
    out: String,
    line: String,
    depth: usize,
    /// Columns before the marked byte in the line at hand.
    mark: Option<usize>,
    byte: Option<usize>,
}

impl Layout {
    fn end_line(&mut self) {
        if self.line.trim().is_empty() && self.mark.is_none() {
            self.line.clear();
            return;
        }
        self.out.push_str(self.line.trim_end());
        self.out.push('\n');
        if let (Some(column), Some(byte)) = (self.mark.take(), self.byte) {
            writeln!(self.out, "{:column$}^ byte {byte}", "").expect("invariant: writing to a String cannot fail");
        }
        self.line.clear();
    }

    fn begin_line(&mut self) {
        self.end_line();
        self.line.extend(std::iter::repeat_n(' ', 2 * self.depth.min(40)));
    }
}

/// A new line after each opening bracket and comma and before each closing bracket. Blanks between tokens are dropped.
fn json(text: &str, byte: Option<usize>) -> String {
    let mut layout = Layout { out: String::new(), line: String::new(), depth: 0, mark: None, byte };
    let (mut in_string, mut escaped) = (false, false);
    for (at, c) in text.char_indices() {
        if !in_string && matches!(c, '}' | ']') {
            layout.depth = layout.depth.saturating_sub(1);
            layout.begin_line();
        }
        if byte.is_some_and(|byte| (at..at + c.len_utf8()).contains(&byte)) {
            layout.mark = Some(layout.line.chars().count());
        }
        match c {
            '\n' | '\r' | '\t' | ' ' if !in_string => continue,
            // A control character would move what follows away from its mark.
            c if c.is_control() => layout.line.push('\u{fffd}'),
            c => layout.line.push(c),
        }
        if in_string {
            in_string = escaped || c != '"';
            escaped = !escaped && c == '\\';
            continue;
        }
        match c {
            '"' => in_string = true,
            '{' | '[' => {
                layout.depth += 1;
                layout.begin_line();
            }
            ',' => layout.begin_line(),
            ':' => layout.line.push(' '),
            _ => {}
        }
    }
    if byte == Some(text.len()) {
        layout.mark = Some(layout.line.chars().count());
    }
    layout.end_line();
    layout.out
}

fn hex(value: &[u8], byte: Option<usize>) -> String {
    let mut out = String::new();
    let mut put =
        |line: std::fmt::Arguments<'_>| out.write_fmt(line).expect("invariant: writing to a String cannot fail");
    for (i, row) in value.chunks(ROW).enumerate() {
        let start = i * ROW;
        put(format_args!("{start:08x}  "));
        for at in 0..ROW {
            match row.get(at) {
                Some(b) => put(format_args!("{b:02x} ")),
                None => put(format_args!("   ")),
            }
        }
        let shown: String = row.iter().map(|b| if b.is_ascii_graphic() { *b as char } else { '.' }).collect();
        put(format_args!(" {shown}\n"));
        if let Some(byte) = byte.filter(|byte| (start..start + row.len()).contains(byte)) {
            let column = 10 + 3 * (byte - start);
            put(format_args!("{:column$}^^ byte {byte}\n", ""));
        }
    }
    out
}

/// The place in the value that a letter's detail names.
pub(super) fn byte_of(detail: &str) -> Option<usize> {
    detail.rsplit_once(" at byte ")?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_mark_stands_under_its_byte() {
        let text = r#"{"a":[1,x],"b":"{, \"}"}"#;
        let expected = concat!("{\n  \"a\": [\n    1,\n    x\n    ^ byte 8\n  ],\n", "  \"b\": \"{, \\\"}\"\n}\n");
        assert_eq!(value(text.as_bytes(), Some(8)), expected);
    }

    #[test]
    fn text_that_ends_too_early_is_marked_at_its_end() {
        assert_eq!(value(br#"{"a":"#, Some(5)), "{\n  \"a\":\n       ^ byte 5\n");
        assert_eq!(value(b"", Some(0)), "\n^ byte 0\n");
        assert_eq!(value(b"7", Some(99)), "7\n");
    }

    #[test]
    fn a_blank_is_marked_at_what_follows_it() {
        assert_eq!(value(b"[1, 2]", Some(3)), "[\n  1,\n  2\n  ^ byte 3\n]\n");
    }

    #[test]
    fn what_is_not_text_is_shown_in_hexadecimal() {
        let shown = value(b"ab\xff", Some(2));
        let lines: Vec<_> = shown.lines().collect();
        assert!(lines[0].starts_with("00000000  61 62 ff ") && lines[0].ends_with(" ab."), "{shown}");
        assert_eq!(lines[1].find("^^"), lines[0].find("ff"));
        assert_eq!(value(&[0; 40], None).lines().count(), 3);
    }

    #[test]
    fn details_name_bytes() {
        assert_eq!(byte_of("the value is not UTF-8 text at byte 17"), Some(17));
        assert_eq!(byte_of("no device path has a value"), None);
    }

    proptest! {
        /// Layout adds and drops blanks only, whatever it is given; the mark is there exactly if its byte is.
        #[test]
        fn nothing_but_blanks_is_changed(text in "[\\[\\]{},:\" a\\\\1]{0,60}", byte in 0_usize..70) {
            let solid = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
            prop_assert_eq!(solid(&json(&text, None)), solid(&text));
            let marked = json(&text, Some(byte).filter(|byte| *byte <= text.len()));
            prop_assert_eq!(marked.matches("^ byte").count(), usize::from(byte <= text.len()));
        }

        #[test]
        fn any_bytes_can_be_shown(bytes in prop::collection::vec(any::<u8>(), 0..100), byte in 0_usize..120) {
            value(&bytes, Some(byte));
        }
    }
}
