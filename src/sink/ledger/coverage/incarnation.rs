//! Whether a topic may get a new incarnation: its offsets start again, and its records are new ones. Pure.

use std::collections::BTreeMap;

use super::Edit;
use crate::record::StreamId;
use crate::sink::ledger::entry::{Entry, Stream};

/// What speaks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evidence {
    TopicId {
        was: String,
        is: String,
    },
    /// `(partition, end of the log, covered up to)` of the first partition whose log is shorter than what is covered.
    Behind(i32, i64, i64),
    /// Nothing: neither ids nor ends tell.
    None,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotRecreated {
    #[error("the ledger does not know the topic: there is nothing to tell its records apart from")]
    Unknown,
    #[error(
        "it is the topic that the ledger knows (id {0}): in a new incarnation all its records would be stored again"
    )]
    Same(String),
    #[error(
        "it is the topic that the ledger knows (id {id}), but partition {partition} ends at offset {high} and was stored \
         up to {next}: its log was cut, and a new incarnation would store again what is left of it. Use another \
         mongo.collection for what comes now"
    )]
    Cut { id: String, partition: i32, high: i64, next: i64 },
}

/// `entries` are those of the newest incarnation, by partition; `ends` the ends of the log now.
pub fn evidence(
    entries: &BTreeMap<i32, Entry>,
    topic_id: Option<&str>,
    ends: &BTreeMap<i32, i64>,
) -> Result<Evidence, NotRecreated> {
    if entries.is_empty() {
        return Err(NotRecreated::Unknown);
    }
    let behind = entries.iter().find_map(|(&partition, entry)| {
        let next = entry.streams.iter().map(Stream::covered_upto).max()?;
        let high = ends.get(&partition).copied().unwrap_or(0);
        (high < next).then_some((partition, high, next))
    });
    let known = entries.values().find_map(|entry| entry.topic_id.as_deref());
    match (known, topic_id, behind) {
        (Some(was), Some(is), _) if was != is => Ok(Evidence::TopicId { was: was.to_owned(), is: is.to_owned() }),
        (Some(id), Some(_), Some((partition, high, next))) => {
            Err(NotRecreated::Cut { id: id.to_owned(), partition, high, next })
        }
        (Some(id), Some(_), None) => Err(NotRecreated::Same(id.to_owned())),
        (_, _, Some((partition, high, next))) => Ok(Evidence::Behind(partition, high, next)),
        (_, _, None) => Ok(Evidence::None),
    }
}

/// A partition's first entry in the new incarnation. It begins at offset 0 whatever the group has committed, for that
/// commit may be of the old topic; what retention has deleted since is then noted as lost by the first reader.
pub fn first_entry(topic_id: Option<&str>, contract: &str, stream: StreamId) -> Edit {
    let streams = vec![Stream::new(stream, 0, None, contract)];
    Edit { topic_id: topic_id.map(str::to_owned), streams, lost: Vec::new(), skipped: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(topic_id: Option<&str>) -> BTreeMap<i32, Entry> {
        let stream = Stream { next: 50, ..Stream::new(StreamId(1), 0, None, "a") };
        let entry = Entry { topic_id: topic_id.map(str::to_owned), streams: vec![stream], ..Entry::default() };
        BTreeMap::from([(3, entry)])
    }

    fn check(known: Option<&str>, now: Option<&str>, end: i64) -> Result<Evidence, NotRecreated> {
        evidence(&entries(known), now, &BTreeMap::from([(3, end)]))
    }

    #[test]
    fn ids_decide_where_both_are_known() {
        let changed = Evidence::TopicId { was: "old".into(), is: "new".into() };
        assert_eq!(check(Some("old"), Some("new"), 400), Ok(changed));
        assert_eq!(check(Some("old"), Some("old"), 400), Err(NotRecreated::Same("old".into())));
        let cut = NotRecreated::Cut { id: "old".into(), partition: 3, high: 9, next: 50 };
        assert_eq!(check(Some("old"), Some("old"), 9), Err(cut));
    }

    #[test]
    fn without_ids_the_ends_of_the_log_speak() {
        assert_eq!(check(None, Some("new"), 9), Ok(Evidence::Behind(3, 9, 50)));
        assert_eq!(check(Some("old"), None, 400), Ok(Evidence::None));
        assert_eq!(evidence(&entries(None), None, &BTreeMap::new()), Ok(Evidence::Behind(3, 0, 50)));
        assert_eq!(evidence(&BTreeMap::new(), Some("new"), &BTreeMap::new()), Err(NotRecreated::Unknown));
    }
}
