//! A dead letter as it is stored.

use mongodb::bson::error::Error as BsonError;
use mongodb::bson::{Bson, Document, doc};

use crate::record::{Headers, Origin, Position, StreamId};
use crate::sink::ledger::replays::LetterId;

/// How much of its record a letter stands for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scope {
    Record,
    Reading,
    /// The letter's value is the sample.
    Sample {
        device: String,
        /// A document's bytes; empty where there is none.
        meta: Vec<u8>,
    },
}

#[derive(Clone, Debug)]
pub(super) struct Letter {
    pub(super) stream: StreamId,
    pub(super) pos: Position,
    pub(super) origin: Origin,
    pub(super) scope: Scope,
    pub(super) timestamp: Option<i64>,
    pub(super) key: Option<Vec<u8>>,
    pub(super) value: Option<Vec<u8>>,
    /// Packed, as a record has them.
    pub(super) headers: Vec<u8>,
    /// Key, value or headers are not there as a whole.
    pub(super) is_cut: bool,
}

/// Letters of one partition lie side by side, those of one record too.
pub(super) fn order() -> Document {
    doc! { "topic": 1, "partition": 1, "cluster": 1, "incarnation": 1, "_id.pos": 1, "_id.s": 1 }
}

impl Letter {
    /// Reads a whole letter; says what is wrong with one that this release did not write.
    pub(super) fn parse(document: &Document) -> Result<Self, String> {
        let wrong = |error: BsonError| error.to_string();
        let id = document.get_document("_id").map_err(wrong)?;
        let text = |name: &str| document.get_str(name).map(str::to_owned).map_err(wrong);
        let origin = Origin {
            cluster: text("cluster")?,
            topic: text("topic")?,
            incarnation: document.get_i32("incarnation").map_err(wrong)?,
            partition: document.get_i32("partition").map_err(wrong)?,
        };
        let cuts = ["value_bytes", "key_bytes", "headers_left_out"];
        Ok(Self {
            stream: StreamId(id.get_i64("s").map_err(wrong)?),
            pos: Position(id.get_i64("pos").map_err(wrong)?),
            origin,
            scope: scope(document)?,
            timestamp: document.get_datetime("timestamp").ok().map(|time| time.timestamp_millis()),
            key: document.get("key").and_then(blob),
            value: document.get("value").and_then(blob),
            headers: headers(document),
            is_cut: cuts.iter().any(|name| document.contains_key(*name)),
        })
    }

    pub(super) fn id(&self) -> LetterId {
        (self.stream, self.pos)
    }
}

fn scope(document: &Document) -> Result<Scope, String> {
    match document.get_str("scope") {
        Ok("record") => Ok(Scope::Record),
        Ok("reading") => Ok(Scope::Reading),
        Ok("sample") => {
            let device = document.get_str("device").map_err(|error| error.to_string())?.to_owned();
            let meta = document.get_document("meta").ok().map(Document::to_vec).transpose();
            Ok(Scope::Sample { device, meta: meta.map_err(|error| error.to_string())?.unwrap_or_default() })
        }
        _ => Err("it does not say what it stands for".to_owned()),
    }
}

/// Bytes that are stored as text where they are text.
pub(super) fn blob(value: &Bson) -> Option<Vec<u8>> {
    match value {
        Bson::String(text) => Some(text.clone().into_bytes()),
        Bson::Binary(binary) => Some(binary.bytes.clone()),
        _ => None,
    }
}

fn headers(document: &Document) -> Vec<u8> {
    let mut packed = Vec::new();
    for (name, value) in header_list(document) {
        Headers::pack(&mut packed, name, value.as_deref());
    }
    packed
}

/// Name and value of each header.
pub(super) fn header_list(document: &Document) -> impl Iterator<Item = (&str, Option<Vec<u8>>)> {
    let headers = document.get_array("headers").map(Vec::as_slice).unwrap_or_default();
    headers.iter().filter_map(|header| {
        let header = header.as_document()?;
        Some((header.get_str("name").ok()?, header.get("value").and_then(blob)))
    })
}

/// `topic/partition/offset/index`: what a letter is called on the command line.
pub(super) fn place(document: &Document) -> String {
    let number = |name: &str| match document.get(name) {
        Some(Bson::Int32(n)) => n.to_string(),
        Some(Bson::Int64(n)) => n.to_string(),
        _ => "?".to_owned(),
    };
    let topic = document.get_str("topic").unwrap_or("?");
    format!("{topic}/{}/{}/{}", number("partition"), number("offset"), number("index"))
}

/// `pending`, `claimed`, `done` or `expired`.
pub(super) fn state(document: &Document) -> &'static str {
    match document.get_document("replay").map(|replay| replay.get_str("state")) {
        Err(_) => "pending",
        Ok(Ok("done")) => "done",
        Ok(Ok("expired")) => "expired",
        Ok(_) => "claimed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored() -> Document {
        doc! {
            "_id": { "s": -7_i64, "pos": 12_i64 * 65_536 + 3 }, "topic": "t", "partition": 3, "offset": 12_i64,
            "index": 3, "cluster": "c", "incarnation": 0, "scope": "reading", "reason": "malformed", "detail": "d",
            "key": "k", "value": "{", "headers": [{ "name": "h", "value": "v" }, { "name": "none", "value": null }],
        }
    }

    #[test]
    fn a_record_comes_back_as_it_was() {
        let letter = Letter::parse(&stored()).unwrap();
        assert_eq!((letter.id(), letter.scope), ((StreamId(-7), Position::new(12, 3)), Scope::Reading));
        assert_eq!((letter.key, letter.value, letter.is_cut), (Some(b"k".to_vec()), Some(b"{".to_vec()), false));
        let headers: Vec<_> = Headers(&letter.headers).iter().collect();
        assert_eq!(headers, [("h", Some(b"v".as_slice())), ("none", None)]);
        assert_eq!(place(&stored()), "t/3/12/3");
    }

    #[test]
    fn what_was_cut_is_known_to_be() {
        for name in ["value_bytes", "key_bytes", "headers_left_out"] {
            let mut cut = stored();
            cut.insert(name, 1);
            assert!(Letter::parse(&cut).unwrap().is_cut, "{name}");
        }
    }

    #[test]
    fn a_letter_without_scope_is_not_guessed_at() {
        let mut letter = stored();
        letter.remove("scope");
        assert!(Letter::parse(&letter).is_err());
        letter.insert("scope", "sample");
        assert!(Letter::parse(&letter).unwrap_err().contains("device"));
    }

    #[test]
    fn states_are_named() {
        let with = |state: &str| doc! { "replay": { "run": "r", "state": state } };
        assert_eq!(state(&doc! {}), "pending");
        let states = ["claimed", "writing", "done", "expired"].map(|s| state(&with(s)));
        assert_eq!(states, ["claimed", "claimed", "done", "expired"]);
    }
}
