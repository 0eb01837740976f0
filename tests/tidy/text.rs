//! Rust source without its comments and literals, line for line: what is left is code. Enough of a lexer for counting.

/// Same lines as `source`; comments are gone, strings and characters are empty.
pub(crate) fn code_only(source: &str) -> String {
    let bytes = source.as_bytes();
    let (mut code, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while at < bytes.len() {
        let end = match bytes[at] {
            b'/' if bytes[at..].starts_with(b"//") => line_end(bytes, at),
            b'/' if bytes[at..].starts_with(b"/*") => block_end(bytes, at),
            b'"' => string_end(bytes, at),
            b'r' if !is_word(bytes, at) => raw_string_end(bytes, at),
            b'\'' => char_end(bytes, at),
            _ => at,
        };
        if end == at {
            code.push(bytes[at]);
            at += 1;
        } else {
            // Lines must keep their numbers, and words on both sides must not grow together.
            code.push(b' ');
            code.extend(bytes[at..end].iter().filter(|byte| **byte == b'\n'));
            at = end;
        }
    }
    String::from_utf8_lossy(&code).into_owned()
}

/// Whether the byte before `at` belongs to a word, so that an `r` here only ends a name.
fn is_word(bytes: &[u8], at: usize) -> bool {
    at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_') && bytes[at - 1] != b'b'
}

fn line_end(bytes: &[u8], at: usize) -> usize {
    bytes[at..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |length| at + length)
}

fn block_end(bytes: &[u8], at: usize) -> usize {
    let (mut depth, mut i) = (0, at);
    while i < bytes.len() {
        if bytes[i..].starts_with(b"/*") {
            depth += 1;
            i += 2;
        } else if bytes[i..].starts_with(b"*/") {
            depth -= 1;
            i += 2;
            if depth == 0 {
                break;
            }
        } else {
            i += 1;
        }
    }
    i
}

fn string_end(bytes: &[u8], at: usize) -> usize {
    let mut i = at + 1;
    while i < bytes.len() && bytes[i] != b'"' {
        i += if bytes[i] == b'\\' { 2 } else { 1 };
    }
    (i + 1).min(bytes.len())
}

/// `r"..."` and `r#"..."#`; a name such as `r#type` is none.
fn raw_string_end(bytes: &[u8], at: usize) -> usize {
    let hashes = bytes[at + 1..].iter().take_while(|byte| **byte == b'#').count();
    let open = at + 1 + hashes;
    if bytes.get(open) != Some(&b'"') {
        return at;
    }
    let close = [b"\"".as_slice(), &vec![b'#'; hashes]].concat();
    let body = &bytes[open + 1..];
    let length = body.windows(close.len()).position(|window| window == close).unwrap_or(body.len() - close.len());
    open + 1 + length + close.len()
}

/// A character literal; the `'` of a lifetime is none.
fn char_end(bytes: &[u8], at: usize) -> usize {
    if bytes.get(at + 1) == Some(&b'\\') {
        let rest = &bytes[(at + 3).min(bytes.len())..];
        return rest.iter().position(|byte| *byte == b'\'').map_or(bytes.len(), |length| at + 3 + length + 1);
    }
    // One character has up to four bytes.
    (at + 2..(at + 6).min(bytes.len()))
        .find(|i| bytes[*i] == b'\'')
        .filter(|i| std::str::from_utf8(&bytes[at + 1..*i]).is_ok_and(|text| text.chars().count() == 1))
        .map_or(at, |i| i + 1)
}

#[test]
fn comments_and_literals_are_gone() {
    let cases = [
        ("a // }\nb", "a  \nb"),
        ("a /* { /* } */\n */ b", "a  \n b"),
        (r#"f("}\"}") g"#, "f( ) g"),
        ("f(r#\"}\"}\"#) g", "f( ) g"),
        ("f(br\"\\\") g", "f(b ) g"),
        ("'}' '\\'' 'x", "    'x"),
        ("<'a>(&'a str)", "<'a>(&'a str)"),
        ("for r in r#type", "for r in r#type"),
        ("'ä' b'\\x7f'", "  b "),
        ("\"open", " "),
    ];
    for (source, code) in cases {
        assert_eq!(code_only(source), code, "{source}");
    }
}
