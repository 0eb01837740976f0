//! Letters in the order in which they are tried again: by partition and position, one record's at a time.

use mongodb::Cursor;
use mongodb::bson::{Bson, Document, doc};

use super::super::Letters;
use super::super::letter::{self, Letter, Scope};
use crate::code::Failure;
use crate::record::{Headers, Origin, Position, Record, StreamId};

/// Letters fetched a command. The order is made of ids alone: sorted with their values they would not fit the server's
/// memory.
const PAGE: usize = 200;

/// The letters of one record, with what is left of the record in them.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) origin: Origin,
    pub(super) offset: i64,
    timestamp: Option<i64>,
    key: Option<Vec<u8>>,
    /// `None`: no letter of the record has it any more.
    pub(super) value: Option<Vec<u8>>,
    headers: Vec<u8>,
    /// In the order of their positions.
    pub(super) letters: Vec<Letter>,
}

impl Group {
    fn new(letter: Letter) -> Self {
        let mut group = Self {
            origin: letter.origin.clone(),
            offset: letter.pos.offset(),
            timestamp: None,
            key: None,
            value: None,
            headers: Vec::new(),
            letters: Vec::new(),
        };
        group.add(letter);
        group
    }

    fn takes(&self, letter: &Letter) -> bool {
        self.origin == letter.origin && self.offset == letter.pos.offset()
    }

    /// All letters of a record hold the same parts of it: one copy is kept, a record may have thousands of them.
    fn add(&mut self, mut letter: Letter) {
        if !matches!(letter.scope, Scope::Sample { .. }) {
            let (value, key, headers) = (letter.value.take(), letter.key.take(), std::mem::take(&mut letter.headers));
            if self.wants_record() {
                (self.timestamp, self.key, self.headers) = (letter.timestamp, key, headers);
            }
            self.value = self.value.take().or(value);
        }
        self.letters.push(letter);
    }

    /// Whether no letter so far was of the record itself.
    fn wants_record(&self) -> bool {
        self.letters.iter().all(|letter| matches!(letter.scope, Scope::Sample { .. }))
    }

    pub(super) fn record(&self) -> Record<'_> {
        Record {
            topic: &self.origin.topic,
            partition: self.origin.partition,
            offset: self.offset,
            timestamp: self.timestamp,
            key: self.key.as_deref(),
            value: self.value.as_deref(),
            headers: Headers(&self.headers),
        }
    }
}

/// Reads letters that match a filter, with one page and one record in memory.
#[derive(Debug)]
pub(super) struct Feed<'a> {
    letters: &'a Letters,
    filter: Document,
    ids: Cursor<Document>,
    page: Option<Cursor<Document>>,
    /// The first letter of the next record.
    next: Option<Letter>,
    /// Letters that this release cannot read.
    pub(super) n_unreadable: u64,
}

impl<'a> Feed<'a> {
    pub(super) async fn new(letters: &'a Letters, filter: Document) -> Result<Self, Failure> {
        let ids = letters.find(filter.clone(), doc! { "_id": 1 }).await?;
        Ok(Self { letters, filter, ids, page: None, next: None, n_unreadable: 0 })
    }

    pub(super) async fn next_group(&mut self) -> Result<Option<Group>, Failure> {
        let first = match self.next.take() {
            Some(letter) => Some(letter),
            None => self.next_letter().await?,
        };
        let Some(first) = first else { return Ok(None) };
        let mut group = Group::new(first);
        while let Some(letter) = self.next_letter().await? {
            if !group.takes(&letter) {
                self.next = Some(letter);
                break;
            }
            group.add(letter);
        }
        if group.value.is_none() && group.letters.iter().any(|letter| !matches!(letter.scope, Scope::Sample { .. })) {
            group.value = self.value_beside(&group).await?;
        }
        Ok(Some(group))
    }

    async fn next_letter(&mut self) -> Result<Option<Letter>, Failure> {
        loop {
            if let Some(page) = &mut self.page {
                if let Some(document) = self.letters.next(page).await? {
                    match Letter::parse(&document) {
                        Ok(letter) => return Ok(Some(letter)),
                        Err(reason) => {
                            let place = letter::place(&document);
                            tracing::debug!(place, reason, "letter cannot be read");
                            self.n_unreadable += 1;
                            continue;
                        }
                    }
                }
                self.page = None;
            }
            let mut ids = Vec::new();
            while ids.len() < PAGE
                && let Some(found) = self.letters.next(&mut self.ids).await?
            {
                ids.extend(found.get("_id").cloned());
            }
            if ids.is_empty() {
                return Ok(None);
            }
            let filter = doc! { "$and": [{ "_id": { "$in": ids } }, self.filter.clone()] };
            self.page = Some(self.letters.find(filter, doc! {}).await?);
        }
    }

    /// A large record with many bad readings is kept in the first letter only, which may be done with already.
    async fn value_beside(&self, group: &Group) -> Result<Option<Vec<u8>>, Failure> {
        let mut streams: Vec<StreamId> = group.letters.iter().map(|letter| letter.stream).collect();
        streams.dedup();
        for StreamId(s) in streams {
            let [from, to] = [group.offset, group.offset + 1].map(|offset| Position::new(offset, 0).0);
            let range = doc! { "$gte": { "s": s, "pos": from }, "$lt": { "s": s, "pos": to } };
            let filter = doc! {
                "_id": range, "value": { "$exists": true }, "scope": { "$ne": "sample" },
                "value_bytes": { "$exists": false },
            };
            let mut found = self.letters.find(filter, doc! { "value": 1 }).await?;
            if let Some(value) = self.letters.next(&mut found).await?.as_ref().and_then(|found| found.get("value")) {
                return Ok(letter::blob(value));
            }
        }
        Ok(None)
    }
}

/// The letters of a run that are not dealt with.
pub(super) fn of_run(run: &str) -> Document {
    doc! { "replay.run": run, "replay.state": "writing" }
}

/// What no replay can take: parts of the record are not there.
pub(super) fn is_cut() -> Document {
    let parts = ["value_bytes", "key_bytes", "headers_left_out"];
    let parts: Vec<Bson> = parts.iter().map(|name| doc! { *name: { "$exists": true } }.into()).collect();
    doc! { "$or": parts }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn letter(offset: i64, index: u16, scope: Scope, value: Option<&[u8]>) -> Letter {
        Letter {
            stream: StreamId(7),
            pos: Position::new(offset, index),
            origin: Origin { cluster: "c".into(), topic: "t".into(), incarnation: 0, partition: 0 },
            scope,
            timestamp: Some(1_700_000_000_000),
            key: Some(b"k".to_vec()),
            value: value.map(<[u8]>::to_vec),
            headers: Vec::new(),
            is_cut: false,
        }
    }

    pub(in super::super) fn group(letters: impl IntoIterator<Item = Letter>) -> Group {
        let mut letters = letters.into_iter();
        let mut group = Group::new(letters.next().unwrap());
        for letter in letters {
            assert!(group.takes(&letter));
            group.add(letter);
        }
        group
    }

    #[test]
    fn a_group_is_one_record_with_one_copy_of_its_value() {
        let first = letter(3, 0, Scope::Reading, Some(b"{}"));
        let sample = Scope::Sample { device: "d".into(), meta: Vec::new() };
        let group = group([first, letter(3, 1, Scope::Reading, None), letter(3, 2, sample, Some(b"bson"))]);
        assert_eq!(group.record().value, Some(b"{}".as_slice()));
        let values: Vec<_> = group.letters.iter().map(|letter| letter.value.as_deref()).collect();
        assert_eq!(values, [None, None, Some(b"bson".as_slice())]);
        assert!(!group.takes(&letter(4, 0, Scope::Record, None)));
    }

    #[test]
    fn the_record_is_not_taken_from_a_sample() {
        let sample = Scope::Sample { device: "d".into(), meta: Vec::new() };
        let refused = Letter { key: None, timestamp: None, ..letter(3, 0, sample, Some(b"bson")) };
        let group = group([refused, letter(3, 1, Scope::Reading, Some(b"{}"))]);
        let record = group.record();
        assert_eq!((record.key, record.value), (Some(b"k".as_slice()), Some(b"{}".as_slice())));
        assert!(record.timestamp.is_some());
    }
}
