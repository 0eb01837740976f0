//! JSON tokens to BSON bytes, without a value in between.

use super::lexer::{Lexer, Number, Quoted, Value, unescape};
use super::{Reason, Reject};

/// Objects and arrays inside each other that a reading may hold. MongoDB takes 180 levels for the whole document, and
/// this is also the depth of our recursion.
const MAX_DEPTH: u32 = 64;

const DOUBLE: u8 = 0x01;
const STRING: u8 = 0x02;
const DOCUMENT: u8 = 0x03;
const ARRAY: u8 = 0x04;
const BOOLEAN: u8 = 0x08;
const NULL: u8 = 0x0a;
const INT32: u8 = 0x10;
const INT64: u8 = 0x12;

/// Appends BSON to a buffer. After an `Err` the buffers hold rubbish past the point where they were: the caller
/// truncates `out` and clears `names`.
#[derive(Debug)]
pub(super) struct Encoder<'b> {
    pub(super) out: &'b mut Vec<u8>,
    /// Working space: where the names of the objects being written are in `out`.
    pub(super) names: &'b mut Vec<(usize, usize)>,
    /// Length of `out` that is not to be passed by more than a token.
    pub(super) limit: usize,
}

/// Starts a document and returns its place.
pub(super) fn open(out: &mut Vec<u8>) -> usize {
    out.extend_from_slice(&[0; 4]);
    out.len() - 4
}

/// Ends the document that starts at `start`.
pub(super) fn close(out: &mut Vec<u8>, start: usize) {
    out.push(0);
    let length = (out.len() - start) as u32;
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

/// Appends a string element.
pub(super) fn string(out: &mut Vec<u8>, name: &str, text: &str) {
    header(out, STRING, name);
    out.extend_from_slice(&(text.len() as u32 + 1).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}

/// Appends an Int32 or Int64 element.
pub(super) fn integer(out: &mut Vec<u8>, name: &str, value: i64) {
    header(out, INT64, name);
    let kind_at = out.len() - name.len() - 2;
    out[kind_at] = integer_value(out, value);
}

fn header(out: &mut Vec<u8>, kind: u8, name: &str) {
    out.push(kind);
    out.extend_from_slice(name.as_bytes());
    out.push(0);
}

/// Appends the shorter form that holds the value, and returns its type.
fn integer_value(out: &mut Vec<u8>, value: i64) -> u8 {
    if let Ok(short) = i32::try_from(value) {
        out.extend_from_slice(&short.to_le_bytes());
        INT32
    } else {
        out.extend_from_slice(&value.to_le_bytes());
        INT64
    }
}

/// The number in an element of `kind` whose payload is `payload`; NaN if it is none.
fn number_of(kind: u8, payload: &[u8]) -> f64 {
    match (kind, payload.first_chunk(), payload.first_chunk()) {
        (DOUBLE, Some(bytes), _) => f64::from_le_bytes(*bytes),
        (INT64, Some(bytes), _) => i64::from_le_bytes(*bytes) as f64,
        (INT32, _, Some(bytes)) => f64::from(i32::from_le_bytes(*bytes)),
        _ => f64::NAN,
    }
}

impl Encoder<'_> {
    /// Appends one member of an object as an element, and returns its number for the statistics, NaN if it has none.
    /// `lexer` stands on the value. `null` appends nothing.
    pub(super) fn field(&mut self, lexer: &mut Lexer<'_>, name: Quoted) -> Result<f64, Reject> {
        if lexer.peek() == Some(b'n') {
            lexer.literal()?;
            return Ok(f64::NAN);
        }
        let kind_at = self.out.len();
        self.out.push(0);
        self.name(lexer, name)?;
        let payload_at = self.out.len();
        self.value(lexer, kind_at, MAX_DEPTH)?;
        Ok(number_of(self.out[kind_at], &self.out[payload_at..]))
    }

    /// Appends a value under a name of ours. `null` is kept.
    pub(super) fn named(&mut self, lexer: &mut Lexer<'_>, name: &str) -> Result<(), Reject> {
        let kind_at = self.out.len();
        header(self.out, 0, name);
        self.value(lexer, kind_at, MAX_DEPTH)
    }

    /// Two equal names among those noted since `mark`; forgets them.
    pub(super) fn end_of_names(&mut self, mark: usize, at: usize) -> Result<(), Reject> {
        let out = &*self.out;
        let names = &mut self.names[mark..];
        let text = |&(start, end): &(usize, usize)| &out[start..end];
        let twice = if names.len() <= 12 {
            (1..names.len()).any(|i| names[..i].iter().any(|earlier| text(earlier) == text(&names[i])))
        } else {
            // Objects with thousands of members would take quadratic time.
            names.sort_unstable_by(|a, b| text(a).cmp(text(b)));
            names.windows(2).any(|pair| text(&pair[0]) == text(&pair[1]))
        };
        self.names.truncate(mark);
        if twice { Err(Reject::at(Reason::DuplicateName, at, "an object has the same name twice")) } else { Ok(()) }
    }

    /// Appends a value's payload and sets the type byte at `kind_at`.
    fn value(&mut self, lexer: &mut Lexer<'_>, kind_at: usize, depth: u32) -> Result<(), Reject> {
        let at = lexer.at();
        if self.out.len() > self.limit {
            return Err(Reject::at(Reason::TooLarge, at, "the reading is larger than a sample may be"));
        }
        let kind = match lexer.peek() {
            Some(b'"') => self.quoted(lexer)?,
            Some(b'-' | b'0'..=b'9') => self.number(lexer)?,
            Some(b'{' | b'[') if depth == 0 => {
                return Err(Reject::at(Reason::TooDeep, at, "more than 64 objects and arrays inside each other"));
            }
            Some(b'{') => self.object(lexer, depth - 1)?,
            Some(b'[') => self.array(lexer, depth - 1)?,
            word => {
                lexer.literal()?;
                self.literal(word)
            }
        };
        self.out[kind_at] = kind;
        Ok(())
    }

    fn literal(&mut self, word: Option<u8>) -> u8 {
        match word {
            Some(b't') => self.out.push(1),
            Some(b'f') => self.out.push(0),
            _ => return NULL,
        }
        BOOLEAN
    }

    fn quoted(&mut self, lexer: &mut Lexer<'_>) -> Result<u8, Reject> {
        let quoted = lexer.string()?;
        let start = self.out.len();
        self.out.extend_from_slice(&(quoted.end as u32 - quoted.start as u32 + 1).to_le_bytes());
        if quoted.escaped {
            self.unescaped(lexer, quoted)?;
            let length = (self.out.len() - start - 4) as u32 + 1;
            self.out[start..start + 4].copy_from_slice(&length.to_le_bytes());
        } else {
            self.out.extend_from_slice(lexer.content_bytes(quoted));
        }
        self.out.push(0);
        Ok(STRING)
    }

    fn unescaped(&mut self, lexer: &Lexer<'_>, quoted: Quoted) -> Result<(), Reject> {
        unescape(lexer.content(quoted), |piece| self.out.extend_from_slice(piece.as_bytes()))
            .map_err(|offset| Reject::at(Reason::NotUtf8, quoted.start + offset, "lone surrogate in a string"))
    }

    fn number(&mut self, lexer: &mut Lexer<'_>) -> Result<u8, Reject> {
        let Number { start, end, value } = lexer.number()?;
        let value: f64 = match value {
            Value::Integer(value) => return Ok(integer_value(self.out, value)),
            Value::Double(value) => value,
            // Rust's own parser rounds correctly and takes every JSON number.
            Value::Text => lexer.slice(start, end).parse().expect("invariant: the lexer passes only numbers"),
        };
        if value.is_infinite() {
            return Err(Reject::at(Reason::BadNumber, start, "number beyond what a double holds"));
        }
        self.out.extend_from_slice(&value.to_le_bytes());
        Ok(DOUBLE)
    }

    fn object(&mut self, lexer: &mut Lexer<'_>, depth: u32) -> Result<u8, Reject> {
        let at = lexer.at();
        let start = open(self.out);
        let mark = self.names.len();
        let mut first = true;
        while let Some(name) = lexer.key(&mut first)? {
            let kind_at = self.out.len();
            self.out.push(0);
            self.name(lexer, name)?;
            self.value(lexer, kind_at, depth)?;
        }
        self.end_of_names(mark, at)?;
        close(self.out, start);
        Ok(DOCUMENT)
    }

    fn array(&mut self, lexer: &mut Lexer<'_>, depth: u32) -> Result<u8, Reject> {
        let start = open(self.out);
        let mut first = true;
        let mut index = 0_u32;
        while lexer.element(&mut first)? {
            let kind_at = self.out.len();
            self.out.push(0);
            self.index(index);
            index += 1;
            self.value(lexer, kind_at, depth)?;
        }
        close(self.out, start);
        Ok(ARRAY)
    }

    /// Appends a member's name with its NUL, and notes it.
    fn name(&mut self, lexer: &Lexer<'_>, name: Quoted) -> Result<(), Reject> {
        let start = self.out.len();
        if name.escaped {
            self.unescaped(lexer, name)?;
        } else {
            self.out.extend_from_slice(lexer.content_bytes(name));
        }
        let end = self.out.len();
        if let Some(detail) = forbidden(&self.out[start..], name.escaped) {
            return Err(Reject::at(Reason::ForbiddenName, name.start, detail));
        }
        self.out.push(0);
        self.names.push((start, end));
        Ok(())
    }

    /// Appends an array index as a name.
    fn index(&mut self, index: u32) {
        let mut digits = [0; 10];
        let mut at = digits.len();
        let mut rest = index;
        loop {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        self.out.extend_from_slice(&digits[at..]);
        self.out.push(0);
    }
}

/// Names that BSON cannot hold, or that MongoDB would take for an operator in some place or other.
fn forbidden(name: &[u8], escaped: bool) -> Option<&'static str> {
    match name.first() {
        None => Some("a field has an empty name"),
        Some(b'$') => Some("a field's name starts with $"),
        // Only an escape can bring a NUL in.
        _ if escaped && name.contains(&0) => Some("a field's name holds a NUL"),
        _ => None,
    }
}
