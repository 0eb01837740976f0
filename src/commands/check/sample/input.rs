//! Records out of a file: one JSON value a line, or the whole of it. Pure.

use serde::de::IgnoredAny;

/// Bytes of one record, and the line on which it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece<'t> {
    pub(super) line: usize,
    pub(super) bytes: &'t [u8],
}

/// A file of which no line is a value by itself is one document that was written over several lines.
pub(super) fn pieces(bytes: &[u8]) -> Vec<Piece<'_>> {
    let is_value = |bytes: &[u8]| serde_json::from_slice::<IgnoredAny>(bytes).is_ok();
    let lines = || {
        let lines = (1..).zip(bytes.split(|byte| *byte == b'\n'));
        let lines = lines.map(|(line, bytes)| Piece { line, bytes: bytes.strip_suffix(b"\r").unwrap_or(bytes) });
        lines.filter(|piece| !piece.bytes.trim_ascii().is_empty())
    };
    let (Some(first), true) = (lines().next(), lines().nth(1).is_some()) else { return lines().collect() };
    // A document may well hold lines that are values by themselves, such as a number in an array.
    if is_value(bytes) || !lines().any(|piece| is_value(piece.bytes)) {
        return vec![Piece { line: first.line, bytes: bytes.trim_ascii() }];
    }
    lines().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(usize, &str)]) {
        let found: Vec<_> =
            pieces(text.as_bytes()).iter().map(|p| (p.line, std::str::from_utf8(p.bytes).unwrap())).collect();
        assert_eq!(found, expected, "{text:?}");
    }

    #[test]
    fn lines_are_records_unless_the_file_is_one_document() {
        check("", &[]);
        check("\n \n", &[]);
        check("{\"a\":1}", &[(1, "{\"a\":1}")]);
        check("{\"a\":1}\r\n\n{\"a\":2}\n", &[(1, "{\"a\":1}"), (3, "{\"a\":2}")]);
        check("{\"a\":1}\n{\"a\":\n", &[(1, "{\"a\":1}"), (2, "{\"a\":")]);
        check("\n{\n\"a\": 1\n}\n", &[(2, "{\n\"a\": 1\n}")]);
        check("[\n1,\n2\n]", &[(1, "[\n1,\n2\n]")]);
        // Broken, but still a document rather than so many records.
        check("{\n\"a\": ,\n}", &[(1, "{\n\"a\": ,\n}")]);
    }
}
