//! BSON written straight into bytes: lengths are patched in afterwards, nothing is built twice.
//!
//! A name is a list of parts laid end to end, so that dotted paths cost no allocation. Names hold no NUL: the
//! configuration and the decoder refuse such names.

use crate::record::EventTime;

/// A document under construction.
#[derive(Debug)]
pub struct Body {
    bytes: Vec<u8>,
}

type Name<'a> = &'a [&'a str];

impl Body {
    /// Writes one whole document.
    pub fn document(capacity: usize, fields: impl FnOnce(&mut Self)) -> Vec<u8> {
        let mut body = Self { bytes: Vec::with_capacity(capacity) };
        body.nest(fields);
        body.bytes
    }

    pub fn embed(&mut self, name: Name<'_>, fields: impl FnOnce(&mut Self)) {
        self.name(0x03, name);
        self.nest(fields);
    }

    /// An array; its elements are named by `Self::index`.
    pub fn array(&mut self, name: Name<'_>, elements: impl FnOnce(&mut Self)) {
        self.name(0x04, name);
        self.nest(elements);
    }

    /// Element `i` of an array, a document.
    pub fn element(&mut self, i: usize, fields: impl FnOnce(&mut Self)) {
        self.index(0x03, i);
        self.nest(fields);
    }

    /// Element `i` of an array, a document that is there already.
    pub fn element_raw(&mut self, i: usize, document: &[u8]) {
        self.index(0x03, i);
        self.bytes.extend_from_slice(document);
    }

    pub fn embed_raw(&mut self, name: Name<'_>, document: &[u8]) {
        self.name(0x03, name);
        self.bytes.extend_from_slice(document);
    }

    pub fn double(&mut self, name: Name<'_>, value: f64) {
        self.name(0x01, name);
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub fn string(&mut self, name: Name<'_>, value: &str) {
        self.name(0x02, name);
        self.bytes.extend_from_slice(&(value.len() as u32 + 1).to_le_bytes());
        self.bytes.extend_from_slice(value.as_bytes());
        self.bytes.push(0);
    }

    /// Generic binary (subtype 0).
    pub fn binary(&mut self, name: Name<'_>, value: &[u8]) {
        self.name(0x05, name);
        self.bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
        self.bytes.push(0);
        self.bytes.extend_from_slice(value);
    }

    pub fn boolean(&mut self, name: Name<'_>, value: bool) {
        self.name(0x08, name);
        self.bytes.push(u8::from(value));
    }

    pub fn date(&mut self, name: Name<'_>, value: EventTime) {
        self.name(0x09, name);
        self.bytes.extend_from_slice(&value.0.to_le_bytes());
    }

    pub fn null(&mut self, name: Name<'_>) {
        self.name(0x0a, name);
    }

    pub fn int32(&mut self, name: Name<'_>, value: i32) {
        self.name(0x10, name);
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub fn int64(&mut self, name: Name<'_>, value: i64) {
        self.name(0x12, name);
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub fn min_key(&mut self, name: Name<'_>) {
        self.name(0xff, name);
    }

    pub fn max_key(&mut self, name: Name<'_>) {
        self.name(0x7f, name);
    }

    fn nest(&mut self, fields: impl FnOnce(&mut Self)) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        fields(self);
        self.bytes.push(0);
        let length = (self.bytes.len() - start) as u32;
        self.bytes[start..start + 4].copy_from_slice(&length.to_le_bytes());
    }

    fn name(&mut self, kind: u8, parts: Name<'_>) {
        self.bytes.push(kind);
        for part in parts {
            debug_assert!(!part.contains('\0'), "names hold no NUL");
            self.bytes.extend_from_slice(part.as_bytes());
        }
        self.bytes.push(0);
    }

    /// The name of an array element is its index in decimal.
    fn index(&mut self, kind: u8, i: usize) {
        let (mut digits, mut at, mut rest) = ([0_u8; 20], 20, i);
        loop {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        self.bytes.push(kind);
        self.bytes.extend_from_slice(&digits[at..]);
        self.bytes.push(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_what_the_bson_crate_writes() {
        let written = Body::document(0, |b| {
            b.double(&["d"], -0.5);
            b.string(&["s", ".", "t"], "é");
            b.embed(&["e"], |b| b.null(&["n"]));
            b.array(&["a"], |b| (0..123).for_each(|i| b.element(i, |b| b.int32(&["i"], i as i32))));
            b.binary(&["b"], &[1, 2]);
            b.boolean(&["t"], true);
            b.date(&["at"], EventTime(-7));
            b.int64(&["l"], i64::MIN);
            b.min_key(&["min"]);
            b.max_key(&["max"]);
        });
        let elements: Vec<_> = (0..123).map(|i| bson::bson!({ "i": i })).collect();
        let expected = bson::doc! {
            "d": -0.5, "s.t": "é", "e": { "n": null }, "a": elements,
            "b": bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes: vec![1, 2] },
            "t": true, "at": bson::DateTime::from_millis(-7), "l": i64::MIN,
            "min": bson::Bson::MinKey, "max": bson::Bson::MaxKey,
        };
        assert_eq!(written, expected.to_vec().expect("encodes"));
    }
}
