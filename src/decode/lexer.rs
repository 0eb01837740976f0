//! JSON tokens of one text, in place: positions and raw digits; no values, no allocation, no recursion.
//!
//! Ours rather than a crate's: `jiter`, the nearest, keeps an unescape buffer that each text allocates anew, and this
//! is the hottest loop of the program. Grammar is RFC 8259 to the letter; the tests hold it against `serde_json`.
#![expect(
    clippy::inline_always,
    reason = "a token that comes back through memory stalls until all earlier stores are done, those to chains that are \
              not in cache among them: a fifth of the whole path, and a mere hint is not taken"
)]

use super::{Reason, Reject};

/// Where a text is being read. Every function expects to stand on the first byte of what it reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lexer<'t> {
    text: &'t str,
    at: usize,
}

/// Content of a string token, without its quotes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quoted {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) escaped: bool,
}

/// A number token.
#[derive(Clone, Copy, Debug)]
pub(super) struct Number {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) value: Value,
}

/// What a number token stands for, as far as its digits tell at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value {
    Integer(i64),
    /// A fraction of few digits: the quotient of two numbers that a double holds exactly, so rounded once and rightly.
    Double(f64),
    /// Many digits or an exponent: to be parsed from the text.
    Text,
}

/// Powers of ten that a double holds exactly, as far as they are needed.
const POWERS: [f64; 16] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];

const OBJECT: u8 = b'{';
const ARRAY: u8 = b'[';

impl<'t> Lexer<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self::standing_at(text, 0)
    }

    /// To read again from a place that is known to be the start of a value.
    pub(super) fn standing_at(text: &'t str, at: usize) -> Self {
        Self { text, at }
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Goes back to a place that was read before.
    pub(super) fn rewind(&mut self, at: usize) {
        debug_assert!(at <= self.at);
        self.at = at;
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    pub(super) fn slice(&self, start: usize, end: usize) -> &'t str {
        &self.text[start..end]
    }

    pub(super) fn content(&self, quoted: Quoted) -> &'t str {
        self.slice(quoted.start, quoted.end)
    }

    /// Content as bytes: names are compared and stored as such, and need no check for character boundaries.
    pub(super) fn content_bytes(&self, quoted: Quoted) -> &'t [u8] {
        &self.text.as_bytes()[quoted.start..quoted.end]
    }

    /// Passes blanks and looks at what follows.
    #[inline(always)]
    pub(super) fn blanks(&mut self) -> Option<u8> {
        loop {
            match self.peek() {
                Some(b' ' | b'\n' | b'\r' | b'\t') => self.at += 1,
                byte => return byte,
            }
        }
    }

    #[cold]
    pub(super) fn malformed(&self, detail: &'static str) -> Reject {
        let detail = if self.at < self.text.len() { detail } else { "the text ends too early" };
        Reject::at(Reason::Malformed, self.at, detail)
    }

    /// The next name of an object, with what follows it ready to be read; `None` past the end of the object. `first`
    /// starts as true, on the opening brace; afterwards this is called right behind a value.
    #[inline(always)]
    pub(super) fn key(&mut self, first: &mut bool) -> Result<Option<Quoted>, Reject> {
        if std::mem::take(first) {
            self.at += 1;
            if self.blanks() == Some(b'}') {
                self.at += 1;
                return Ok(None);
            }
        } else {
            match self.blanks() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(None);
                }
                _ => return Err(self.malformed("expected a comma or a closing brace")),
            }
            self.blanks();
        }
        self.name().map(Some)
    }

    /// A name of an object and its colon.
    #[inline(always)]
    fn name(&mut self) -> Result<Quoted, Reject> {
        if self.peek() != Some(b'"') {
            return Err(self.malformed("expected a name in double quotes"));
        }
        let name = self.string()?;
        if self.blanks() != Some(b':') {
            return Err(self.malformed("expected a colon"));
        }
        self.at += 1;
        self.blanks();
        Ok(name)
    }

    /// Whether an array has a next element; as `key` otherwise.
    #[inline(always)]
    pub(super) fn element(&mut self, first: &mut bool) -> Result<bool, Reject> {
        if std::mem::take(first) {
            self.at += 1;
            if self.blanks() == Some(b']') {
                self.at += 1;
                return Ok(false);
            }
            return Ok(true);
        }
        let byte = self.blanks();
        match byte {
            Some(b',') => {
                self.at += 1;
                self.blanks();
                Ok(true)
            }
            Some(b']') => {
                self.at += 1;
                Ok(false)
            }
            _ => Err(self.malformed("expected a comma or a closing bracket")),
        }
    }

    #[inline(always)]
    pub(super) fn string(&mut self) -> Result<Quoted, Reject> {
        let bytes = self.text.as_bytes();
        let start = self.at + 1;
        let mut escaped = false;
        self.at = start;
        loop {
            self.at = plain_end(bytes, self.at);
            match bytes.get(self.at) {
                Some(b'"') => break,
                Some(b'\\') => {
                    escaped = true;
                    self.escape()?;
                }
                _ => return Err(self.malformed("control character in a string")),
            }
        }
        let end = self.at;
        self.at += 1;
        Ok(Quoted { start, end, escaped })
    }

    fn escape(&mut self) -> Result<(), Reject> {
        let rest = &self.text.as_bytes()[self.at + 1..];
        match rest {
            [b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => self.at += 2,
            [b'u', a, b, c, d, ..] if [a, b, c, d].iter().all(|x| x.is_ascii_hexdigit()) => self.at += 6,
            _ => return Err(self.malformed("bad escape in a string")),
        }
        Ok(())
    }

    #[inline(always)]
    pub(super) fn number(&mut self) -> Result<Number, Reject> {
        let bytes = self.text.as_bytes();
        let start = self.at;
        let negative = bytes[start] == b'-';
        let first = start + usize::from(negative);
        let mut digits = 0_u64;
        self.at = first;
        self.pass_digits(&mut digits);
        let n_digits = self.at - first;
        if n_digits == 0 {
            return Err(self.not_a_value(start));
        }
        if n_digits > 1 && bytes[first] == b'0' {
            self.at = first;
            return Err(self.malformed("number with a leading zero"));
        }
        let point = self.at;
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits(&mut digits)?;
        }
        let fraction = self.at.saturating_sub(point + 1);
        let is_scaled = matches!(self.peek(), Some(b'e' | b'E'));
        if is_scaled {
            self.exponent()?;
        }
        let value = if is_scaled || n_digits + fraction > 18 {
            // 19 digits may or may not fit: rare enough for the slow way.
            let integer = (point == self.at).then(|| self.text[start..point].parse().ok()).flatten();
            integer.map_or(Value::Text, Value::Integer)
        } else if point == self.at {
            Value::Integer(if negative { -(digits as i64) } else { digits as i64 })
        } else if n_digits + fraction <= 15 {
            let value = digits as f64 / POWERS[fraction];
            Value::Double(if negative { -value } else { value })
        } else {
            Value::Text
        };
        Ok(Number { start, end: self.at, value })
    }

    fn exponent(&mut self) -> Result<(), Reject> {
        self.at += 1;
        if let Some(b'+' | b'-') = self.peek() {
            self.at += 1;
        }
        self.digits(&mut 0)
    }

    /// Passes at least one digit.
    fn digits(&mut self, value: &mut u64) -> Result<(), Reject> {
        let start = self.at;
        self.pass_digits(value);
        if self.at == start { Err(self.malformed("expected a digit")) } else { Ok(()) }
    }

    /// Passes digits and appends them to `value`, which is right for 19 of them.
    fn pass_digits(&mut self, value: &mut u64) {
        let bytes = self.text.as_bytes();
        while let Some(digit @ b'0'..=b'9') = bytes.get(self.at) {
            *value = value.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'));
            self.at += 1;
        }
    }

    /// Passes `true`, `false` or `null`.
    #[inline(always)]
    pub(super) fn literal(&mut self) -> Result<(), Reject> {
        let rest = &self.text.as_bytes()[self.at..];
        let known = [&b"true"[..], b"false", b"null"].into_iter().find(|word| rest.starts_with(word));
        match known {
            Some(word) => self.at += word.len(),
            None => return Err(self.not_a_value(self.at)),
        }
        Ok(())
    }

    /// Names what producers write in place of a value most often.
    #[cold]
    fn not_a_value(&self, start: usize) -> Reject {
        let rest = self.text.as_bytes()[start..].trim_ascii_start();
        let unsigned = rest.strip_prefix(b"-").unwrap_or(rest);
        let word = &unsigned[..unsigned.len().min(3)];
        let detail = if word.eq_ignore_ascii_case(b"nan") || word.eq_ignore_ascii_case(b"inf") {
            "nan and infinity are not JSON"
        } else if start == 0 && rest.first() == Some(&0) {
            "starts with a zero byte, perhaps the prefix of a schema registry"
        } else if start == 0 && rest.starts_with("\u{feff}".as_bytes()) {
            "starts with a byte order mark"
        } else {
            "expected a value"
        };
        Reject { byte: u32::try_from(start).ok(), ..self.malformed(detail) }
    }

    /// Passes one value of any depth. `nest` is working space.
    pub(super) fn skip(&mut self, nest: &mut Vec<u8>) -> Result<(), Reject> {
        nest.clear();
        loop {
            match self.peek() {
                Some(b'"') => drop(self.string()?),
                Some(b'-' | b'0'..=b'9') => drop(self.number()?),
                Some(open @ (OBJECT | ARRAY)) => {
                    nest.push(open);
                    if self.enter(open)? {
                        continue;
                    }
                    nest.pop();
                }
                _ => self.literal()?,
            }
            loop {
                match nest.last() {
                    None => return Ok(()),
                    Some(&open) if self.next(open)? => break,
                    Some(_) => nest.pop(),
                };
            }
        }
    }

    /// Steps into an object or array; false if it was empty, and then past it.
    fn enter(&mut self, open: u8) -> Result<bool, Reject> {
        if open == OBJECT { Ok(self.key(&mut true)?.is_some()) } else { self.element(&mut true) }
    }

    /// Steps to the next value of an object or array; false if there was none, and then past it.
    fn next(&mut self, open: u8) -> Result<bool, Reject> {
        if open == OBJECT { Ok(self.key(&mut false)?.is_some()) } else { self.element(&mut false) }
    }
}

/// The first quote, backslash or control character at or past `at`; the end if there is none. Eight bytes at a time: a
/// name or a short text takes one or two steps.
#[inline(always)]
fn plain_end(bytes: &[u8], mut at: usize) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x80 * ONES;
    while let Some(chunk) = bytes[at..].first_chunk() {
        let word = u64::from_le_bytes(*chunk);
        let (quote, slash) = (word ^ (0x22 * ONES), word ^ (0x5c * ONES));
        // The high bit of each byte that is 0, 0 and below 0x20; borrows spoil only bytes above the first such.
        let special = (quote.wrapping_sub(ONES) & !quote)
            | (slash.wrapping_sub(ONES) & !slash)
            | (word.wrapping_sub(0x20 * ONES) & !word);
        let special = special & HIGHS;
        if special != 0 {
            return at + (special.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    while bytes.get(at).is_some_and(|c| !matches!(c, b'"' | b'\\' | 0..0x20)) {
        at += 1;
    }
    at
}

/// Hands out the content of a string token piece by piece, escapes resolved. Fails with the offset in `raw` of a lone
/// surrogate: legal JSON, but not text.
pub(super) fn unescape(raw: &str, mut piece: impl FnMut(&str)) -> Result<(), usize> {
    let mut from = 0;
    // Hardly any text has one, and most are too short for a search to pay.
    let has_escapes = raw.bytes().any(|c| c == b'\\');
    while let Some(found) = has_escapes.then(|| raw[from..].find('\\')).flatten() {
        let slash = from + found;
        piece(&raw[from..slash]);
        let (c, n_bytes) = match raw.as_bytes()[slash + 1] {
            b'u' => unicode(&raw[slash..]).ok_or(slash)?,
            b'b' => ('\u{8}', 2),
            b'f' => ('\u{c}', 2),
            b'n' => ('\n', 2),
            b'r' => ('\r', 2),
            b't' => ('\t', 2),
            other => (char::from(other), 2),
        };
        piece(c.encode_utf8(&mut [0; 4]));
        from = slash + n_bytes;
    }
    piece(&raw[from..]);
    Ok(())
}

/// The character of one `\u` escape, or of two that are a surrogate pair, and its length in `raw`.
fn unicode(raw: &str) -> Option<(char, usize)> {
    let unit = |at: usize| u32::from_str_radix(raw.get(at..at + 4)?, 16).ok();
    let high = unit(2)?;
    if !(0xd800..0xdc00).contains(&high) {
        return Some((char::from_u32(high)?, 6));
    }
    let low = if raw.get(6..8)? == "\\u" { unit(8)? } else { return None };
    if !(0xdc00..0xe000).contains(&low) {
        return None;
    }
    Some((char::from_u32(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00))?, 12))
}
