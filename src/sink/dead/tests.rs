//! Bodies against the bson crate, and the limits.

use std::sync::Arc;

use bson::{Bson, DateTime, Document, doc};

use super::*;
use crate::record::{Assignment, Origin, Position, StreamId};

fn encoder() -> DeadEncoder {
    DeadEncoder { collection: "readings_dead".into(), timeout_ms: 1_000, max_statements: 100 }
}

fn letter() -> DeadLetter {
    let origin = Origin { cluster: "c".into(), topic: "t".into(), incarnation: 0, partition: 3 };
    DeadLetter {
        assignment: Assignment(1),
        stream: StreamId(77),
        pos: Position::new(12, 3),
        origin: Arc::new(origin),
        scope: Scope::Reading,
        reason: "malformed",
        detail: "not JSON".into(),
        timestamp: Some(5),
        key: Some(b"k".as_slice().into()),
        value: Some(b"{".as_slice().into()),
        headers: Box::default(),
    }
}

fn stored(letter: &DeadLetter) -> Document {
    let body = encoder().body(std::iter::once(letter));
    let whole = Document::from_reader(body.as_slice()).expect("a document");
    whole.get_array("documents").expect("documents")[0].as_document().expect("a document").clone()
}

fn binary(bytes: &[u8]) -> Bson {
    Bson::Binary(bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes: bytes.to_vec() })
}

#[test]
fn writes_the_whole_command() {
    let mut headers = Vec::new();
    Headers::pack(&mut headers, "h", Some(b"v"));
    Headers::pack(&mut headers, "none", None);
    let letter = DeadLetter { headers: headers.into(), ..letter() };
    let expected = doc! {
        "insert": "readings_dead", "ordered": false, "writeConcern": { "w": "majority", "wtimeout": 1_000 },
        "maxTimeMS": 1_000,
        "documents": [{
            "_id": { "s": 77_i64, "pos": 12_i64 * 65_536 + 3 }, "topic": "t", "partition": 3, "offset": 12_i64,
            "index": 3, "cluster": "c", "incarnation": 0, "scope": "reading", "reason": "malformed",
            "detail": "not JSON",
            "timestamp": DateTime::from_millis(5), "key": "k", "value": "{",
            "headers": [{ "name": "h", "value": "v" }, { "name": "none", "value": null }],
        }],
    };
    assert_eq!(encoder().body(std::iter::once(&letter)), expected.to_vec().expect("encodes"));
}

#[test]
fn what_is_not_text_is_binary() {
    let sample = doc! { "a": "b" }.to_vec().expect("encodes");
    let stored = stored(&DeadLetter {
        key: Some([0xff].into()),
        value: Some(sample.clone().into()),
        timestamp: None,
        ..letter()
    });
    assert_eq!((stored.get("key"), stored.get("value")), (Some(&binary(&[0xff])), Some(&binary(&sample))));
    assert!(!stored.contains_key("timestamp"));
}

#[test]
fn a_value_past_the_limit_is_cut_with_its_length_and_digest() {
    // A two-byte character lies across the limit.
    let value = format!("x{}", "é".repeat(MAX_VALUE_BYTES / 2 + 10));
    let stored = stored(&DeadLetter { value: Some(value.as_bytes().into()), ..letter() });
    assert_eq!(stored.get_str("value").expect("text"), &value[..MAX_VALUE_BYTES - 1]);
    assert_eq!(stored.get_i64("value_bytes").expect("a length"), value.len() as i64);
    assert_eq!(stored.get("value_sha256"), Some(&binary(&Sha256::digest(value.as_bytes()))));
}

#[test]
fn headers_past_the_limit_are_left_out() {
    let mut headers = Vec::new();
    Headers::pack(&mut headers, "big", Some(&vec![b'x'; MAX_HEADERS_BYTES - HEADER_BYTES - 3]));
    Headers::pack(&mut headers, "more", Some(b"y"));
    let stored = stored(&DeadLetter { headers: headers.into(), ..letter() });
    assert_eq!(stored.get_array("headers").expect("headers").len(), 1);
    assert_eq!(stored.get_i32("headers_left_out").expect("a count"), 1);
}

#[test]
fn the_greatest_letter_fits_and_commands_close_in_time() {
    let mut headers = Vec::new();
    (0..MAX_HEADERS_BYTES).for_each(|_| Headers::pack(&mut headers, "h", Some(b"")));
    let greatest = DeadLetter {
        key: Some(vec![1; 9 << 20].into()),
        value: Some(vec![1; 9 << 20].into()),
        detail: "d".repeat(9 << 20),
        headers: headers.into(),
        ..letter()
    };
    assert!(encoder().body(std::iter::once(&greatest)).len() <= LETTER_BYTES + letter_bytes(&greatest));
    assert_eq!(encoder().commands(&[letter(), greatest.clone(), greatest, letter()]), [[0, 1], [2, 3]]);
    assert_eq!(encoder().commands(&vec![letter(); 250]).iter().map(Vec::len).collect::<Vec<_>>(), [100, 100, 50]);
}
