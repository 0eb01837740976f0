//! The validator of `storage.validator`: the shape of a bucket, as the server checks it. Pure.
//!
//! It guards against hands and programs other than sakia. Its level is `moderate`: where a document was spoilt before,
//! an append is not refused, for the refusal would cost a bucket for each of its samples and mend nothing.

use mongodb::bson::{Bson, Document, doc};

use super::steps::{Names, Needed, State, Step};
use super::survey::{Found, Survey};
use crate::config::{Config, FieldNames, Validator};

/// Tells our own validator, of whatever version, from one that somebody else made.
const TITLE: &str = "sakia bucket";

/// What a bucket looks like; fields that sakia does not know are let be.
pub(super) fn schema(f: &FieldNames) -> Document {
    let required = [&f.deviceid, &f.date, &f.first, &f.last, &f.count, &f.samples, &f.schema, &f.pos];
    let required: Vec<&str> = std::iter::once("_id").chain(required.map(String::as_str)).collect();
    let id = doc! { "w": of("date"), "d": text(), "s": of("long"), "n": { "bsonType": "int", "minimum": 0 } };
    let sample = closed(doc! { &f.time: of("date"), &f.info: of("object") });
    let stats = closed(doc! { "min": of("double"), "max": of("double"), "sum": of("double"), "n": counted() });
    let src = doc! { "cluster": of("string"), "topic": of("string"), "incarnation": of("int"), "partition": of("int") };
    let properties = doc! {
        "_id": closed(id),
        &f.deviceid: text(),
        &f.date: of("date"),
        &f.first: of("date"),
        &f.last: of("date"),
        &f.count: counted(),
        &f.open: { "enum": [true] },
        &f.meta: of("object"),
        &f.samples: { "bsonType": "array", "minItems": 1, "items": sample },
        &f.stats: { "bsonType": "object", "additionalProperties": stats },
        &f.schema: counted(),
        &f.src: closed(src),
        // Another number type would compare equal in a filter today and differ after 2^53.
        &f.pos: closed(doc! { "lo": of("long"), "hi": of("long") }),
    };
    doc! { "$jsonSchema": { "title": TITLE, "bsonType": "object", "required": required, "properties": properties } }
}

fn of(kind: &str) -> Document {
    doc! { "bsonType": kind }
}

fn text() -> Document {
    doc! { "bsonType": "string", "minLength": 1 }
}

fn counted() -> Document {
    doc! { "bsonType": "int", "minimum": 1 }
}

/// An object of exactly these fields.
fn closed(properties: Document) -> Document {
    let required: Vec<Bson> = properties.keys().map(|name| name.as_str().into()).collect();
    doc! { "bsonType": "object", "required": required, "properties": properties, "additionalProperties": false }
}

/// A validator that is not ours stays: it may be the only thing that somebody relies on.
pub(super) fn refusal(config: &Config, survey: &Survey, names: &Names) -> Option<String> {
    let is_foreign = current(survey, names).is_some_and(|found| !is_own(&found.0));
    (config.storage.validator != Validator::Off && is_foreign).then(|| {
        format!(
            "{} has a validator of its own, which is not replaced; take it away with collMod, or set storage.validator \
             to \"off\"",
            names.readings
        )
    })
}

/// Nothing is said where none is wanted and none of ours is there.
pub(super) fn step(config: &Config, survey: &Survey, names: &Names, needed: &mut Needed) {
    let wanted = match config.storage.validator {
        Validator::Off => None,
        Validator::Warn => Some("warn"),
        Validator::Error => Some("error"),
    };
    let change = |validator: Document, level: &str, action: &str| {
        Some(doc! {
            "collMod": &names.readings, "validator": validator, "validationLevel": level, "validationAction": action,
            "writeConcern": { "w": "majority" },
        })
    };
    let readings = &names.readings;
    let (what, state, command) = match (wanted, current(survey, names)) {
        (None, None) => return,
        (None, Some((found, _))) if !is_own(&found) => {
            needed
                .notices
                .push(format!("{readings} has a validator of its own; a sample that it refuses becomes a dead letter"));
            return;
        }
        // Both at the server's defaults, as if there had never been one.
        (None, Some(_)) => {
            let what = format!("no validator on {readings} (before: ours)");
            (what, State::Differs, change(doc! {}, "strict", "error"))
        }
        (Some(action), found) => {
            let schema = schema(&config.fields);
            let what = format!("validator of {readings}, action {action}");
            match found {
                None => (what, State::Missing, change(schema, "moderate", action)),
                Some(found) if found == (schema.clone(), action.to_owned()) => (what, State::Exists, None),
                Some((_, before)) => {
                    let what = format!("{what} (before: another, action {before})");
                    (what, State::Differs, change(schema, "moderate", action))
                }
            }
        }
    };
    needed.steps.push(Step { what, state, command });
}

fn is_own(validator: &Document) -> bool {
    let title = validator.get_document("$jsonSchema").and_then(|schema| schema.get_str("title"));
    title.is_ok_and(|title| title == TITLE)
}

/// The validator that is there, and its action.
fn current(survey: &Survey, names: &Names) -> Option<(Document, String)> {
    let Found { options, .. } = survey.collections.get(&names.readings)?;
    let validator = options.get_document("validator").ok().filter(|validator| !validator.is_empty())?;
    let action = options.get_str("validationAction").unwrap_or("error");
    Some((validator.clone(), action.to_owned()))
}
