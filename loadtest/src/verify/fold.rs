//! Folds a reading to 64 bits, the same from its JSON as from its BSON: what is compared in place of documents.
//!
//! Names, types, values and their order all count, and an integer differs from a double: storing 21 for 21.0 is a change.

use std::fmt;
use std::hash::{BuildHasher as _, Hasher as _};

use foldhash::quality::{FixedState, FoldHasher};

/// A document or part of one on its way to a digest.
#[derive(Clone)]
pub struct Fold(FoldHasher<'static>);

impl fmt::Debug for Fold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fold")
    }
}

impl Default for Fold {
    fn default() -> Self {
        Self(FixedState::with_seed(0x5ea1).build_hasher())
    }
}

impl Fold {
    pub fn name(&mut self, name: &str) {
        self.text_of(b'k', name);
    }

    pub fn integer(&mut self, value: i64) {
        self.tagged(b'i', value as u64);
    }

    pub fn double(&mut self, value: f64) {
        self.tagged(b'd', value.to_bits());
    }

    pub fn text(&mut self, value: &str) {
        self.text_of(b's', value);
    }

    pub fn boolean(&mut self, value: bool) {
        self.tagged(b'b', u64::from(value));
    }

    pub fn null(&mut self) {
        self.0.write_u8(b'n');
    }

    pub fn open_document(&mut self) {
        self.0.write_u8(b'{');
    }

    pub fn open_array(&mut self) {
        self.0.write_u8(b'[');
    }

    pub fn close(&mut self) {
        self.0.write_u8(b'}');
    }

    /// A type that no JSON value becomes.
    pub fn foreign(&mut self) {
        self.0.write_u8(b'?');
    }

    pub fn digest(self) -> u64 {
        self.0.finish()
    }

    fn tagged(&mut self, tag: u8, bits: u64) {
        self.0.write_u8(tag);
        self.0.write_u64(bits);
    }

    fn text_of(&mut self, tag: u8, text: &str) {
        self.tagged(tag, text.len() as u64);
        self.0.write(text.as_bytes());
    }
}

/// Digest of one reading: its time, its fields and the tags of its bucket.
pub fn reading(time_ms: i64, info: u64, tags: u64) -> u64 {
    let mut fold = Fold::default();
    fold.integer(time_ms);
    fold.integer(info as i64);
    fold.integer(tags as i64);
    fold.digest()
}
