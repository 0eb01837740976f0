//! Dead letters to command bodies.
//!
//! A dead letter that cannot be stored stops its partition, so nothing in it may grow past the server's limit: what
//! is too long is cut, and the value's full length and digest are kept.

use sha2::{Digest, Sha256};

use super::body::Body;
use super::encode::write_head;
use crate::config::Config;
use crate::engine::plan::{DeadLetter, Scope};
use crate::record::{EventTime, Headers};

#[cfg(test)]
mod tests;

const MAX_VALUE_BYTES: usize = 4 << 20;
const MAX_KEY_BYTES: usize = 256 << 10;
const MAX_HEADERS_BYTES: usize = 1 << 20;
/// What a header takes beside its name and value.
const HEADER_BYTES: usize = 40;
const MAX_DETAIL_BYTES: usize = 4 << 10;
/// Letters of one command: the server's limit less one letter of the greatest size.
const MAX_BODY_BYTES: usize = 8 << 20;
const LETTER_BYTES: usize = 1 << 10;

/// Names and limits, fixed for the life of the process.
#[derive(Clone, Debug)]
pub struct DeadEncoder {
    collection: String,
    timeout_ms: i32,
    max_statements: usize,
}

impl DeadEncoder {
    pub fn new(config: &Config) -> Self {
        Self {
            collection: format!("{}_dead", config.mongo.collection),
            timeout_ms: i32::try_from(config.mongo.write_timeout_ms).unwrap_or(i32::MAX),
            max_statements: config.flow.plan_statements.max(1) as usize,
        }
    }

    /// Groups letters into commands, in order, by number and bytes: places in `letters`.
    pub fn commands(&self, letters: &[DeadLetter]) -> Vec<Vec<usize>> {
        let (mut commands, mut n_bytes): (Vec<Vec<usize>>, usize) = (Vec::new(), 0);
        for (i, letter) in letters.iter().enumerate() {
            let more = letter_bytes(letter);
            match commands.last_mut() {
                Some(last) if last.len() < self.max_statements && n_bytes + more <= MAX_BODY_BYTES => last.push(i),
                _ => {
                    commands.push(vec![i]);
                    n_bytes = 0;
                }
            }
            n_bytes += more;
        }
        commands
    }

    /// Body of one command that inserts these letters.
    pub fn body<'a>(&self, letters: impl Iterator<Item = &'a DeadLetter> + Clone) -> Vec<u8> {
        let capacity = LETTER_BYTES + letters.clone().map(letter_bytes).sum::<usize>();
        Body::document(capacity, |b| {
            write_head(b, "insert", &self.collection, self.timeout_ms);
            b.array(&["documents"], |b| {
                for (i, letter) in letters.enumerate() {
                    b.element(i, |b| write_letter(b, letter));
                }
            });
        })
    }
}

fn write_letter(b: &mut Body, letter: &DeadLetter) {
    b.embed(&["_id"], |b| {
        b.int64(&["s"], letter.stream.0);
        b.int64(&["pos"], letter.pos.0);
    });
    b.string(&["topic"], &letter.origin.topic);
    b.int32(&["partition"], letter.origin.partition);
    b.int64(&["offset"], letter.pos.offset());
    b.int32(&["index"], i32::from(letter.pos.index()));
    b.string(&["cluster"], &letter.origin.cluster);
    b.int32(&["incarnation"], letter.origin.incarnation);
    b.string(&["scope"], letter.scope.name());
    if let Scope::Sample { device, meta } = &letter.scope {
        b.string(&["device"], device);
        if let Some(meta) = meta {
            b.embed_raw(&["meta"], meta);
        }
    }
    b.string(&["reason"], letter.reason);
    b.string(&["detail"], &letter.detail[..letter.detail.floor_char_boundary(MAX_DETAIL_BYTES)]);
    if let Some(timestamp) = letter.timestamp {
        b.date(&["timestamp"], EventTime(timestamp));
    }
    if let Some(key) = &letter.key {
        write_blob(b, "key", key, MAX_KEY_BYTES);
        if key.len() > MAX_KEY_BYTES {
            b.int64(&["key_bytes"], key.len() as i64);
        }
    }
    if let Some(value) = &letter.value {
        write_blob(b, "value", value, MAX_VALUE_BYTES);
        if value.len() > MAX_VALUE_BYTES {
            b.int64(&["value_bytes"], value.len() as i64);
            b.binary(&["value_sha256"], &Sha256::digest(value));
        }
    }
    write_headers(b, Headers(&letter.headers));
}

/// Headers up to the limit; how many did not fit is said.
fn write_headers(b: &mut Body, headers: Headers<'_>) {
    let (mut room, mut n_left_out) = (MAX_HEADERS_BYTES, 0);
    b.array(&["headers"], |b| {
        for (i, (name, value)) in headers.iter().enumerate() {
            let n_bytes = HEADER_BYTES + name.len() + value.map_or(0, <[u8]>::len);
            if n_bytes > room || n_left_out > 0 {
                n_left_out += 1;
                continue;
            }
            room -= n_bytes;
            b.element(i, |b| {
                b.string(&["name"], name);
                match value {
                    Some(value) => write_blob(b, "value", value, MAX_HEADERS_BYTES),
                    None => b.null(&["value"]),
                }
            });
        }
    });
    if n_left_out > 0 {
        b.int32(&["headers_left_out"], n_left_out);
    }
}

/// As text where it is text, so that people can read and search it. BSON always holds a NUL, so the bytes of a sample
/// are never taken for text.
fn write_blob(b: &mut Body, name: &str, blob: &[u8], max_bytes: usize) {
    match std::str::from_utf8(blob) {
        Ok(text) if !text.contains('\0') => b.string(&[name], &text[..text.floor_char_boundary(max_bytes)]),
        _ => b.binary(&[name], &blob[..blob.len().min(max_bytes)]),
    }
}

fn letter_bytes(letter: &DeadLetter) -> usize {
    let value = letter.value.as_ref().map_or(0, |value| value.len().min(MAX_VALUE_BYTES));
    let key = letter.key.as_ref().map_or(0, |key| key.len().min(MAX_KEY_BYTES));
    // Packed, a header takes at least a fifth of its stored size.
    let headers = (5 * letter.headers.len()).min(MAX_HEADERS_BYTES);
    LETTER_BYTES + letter.scope.n_bytes() + letter.detail.len().min(MAX_DETAIL_BYTES) + value + key + headers
}
