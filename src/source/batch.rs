//! Records of one shard, copied once out of the client's memory into one arena. No IO.
//!
//! A record that still borrowed the client's memory would pin its whole fetch response and escape the memory budget;
//! one allocation a record would cost more than decoding it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::record::{Assignment, Record};

/// A batch is full at this many bytes: large enough that the channel's cost vanishes, small enough to stay in cache.
pub const FULL_BYTES: usize = 240 * 1024;
/// A batch is full at this many records, so that tiny records do not pile up for one step of the shard.
pub const FULL_RECORDS: usize = 2_000;

/// Stands for a record without a timestamp.
const NO_TIMESTAMP: i64 = i64::MIN;
/// Stands for an absent key or value, which is not the same as an empty one.
const ABSENT: i32 = -1;

/// Where records of one assignment come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub assignment: Assignment,
    pub topic: Arc<str>,
    pub partition: i32,
}

/// One record; its key, value and headers lie end to end in the arena from `start` on.
#[derive(Clone, Copy, Debug)]
struct Entry {
    offset: i64,
    timestamp: i64,
    place: u32,
    start: u32,
    key: i32,
    value: i32,
    headers: u32,
}

/// Records in the order in which they were polled.
#[derive(Debug)]
pub struct Batch {
    places: Vec<Place>,
    entries: Vec<Entry>,
    arena: Vec<u8>,
    charge: Charge,
}

impl Batch {
    /// `held` counts the bytes that all batches of this process hold. `like` is a size to allocate for at once, such as
    /// that of the batch before.
    pub fn new(held: Arc<AtomicUsize>, like: Extent) -> Self {
        // Few sizes: the allocator keeps 4 MiB for each size and thread.
        let entries = Vec::with_capacity(like.n_records.next_power_of_two());
        let arena = Vec::with_capacity(like.n_bytes.next_power_of_two());
        let mut batch = Self { places: Vec::new(), entries, arena, charge: Charge { held, bytes: 0 } };
        batch.charge_for_capacity();
        batch
    }

    /// Copies one record in. `headers` appends them in packed form (`record::Headers::pack`).
    pub fn push(
        &mut self,
        place: &Place,
        offset: i64,
        timestamp: Option<i64>,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: impl FnOnce(&mut Vec<u8>),
    ) {
        let start = u32::try_from(self.arena.len()).expect("invariant: a batch is flushed long before 4 GiB");
        self.arena.extend_from_slice(key.unwrap_or_default());
        self.arena.extend_from_slice(value.unwrap_or_default());
        let before_headers = self.arena.len();
        headers(&mut self.arena);
        let entry = Entry {
            offset,
            timestamp: timestamp.unwrap_or(NO_TIMESTAMP),
            place: self.intern(place),
            start,
            key: key.map_or(ABSENT, |k| k.len() as i32),
            value: value.map_or(ABSENT, |v| v.len() as i32),
            headers: (self.arena.len() - before_headers) as u32,
        };
        self.entries.push(entry);
        self.charge_for_capacity();
    }

    pub fn records(&self) -> impl Iterator<Item = (Assignment, Record<'_>)> {
        self.entries.iter().map(|entry| {
            let place = &self.places[entry.place as usize];
            (place.assignment, self.record(place, entry))
        })
    }

    pub fn n_records(&self) -> usize {
        self.entries.len()
    }

    /// Bytes of keys, values and headers.
    pub fn n_bytes(&self) -> usize {
        self.arena.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn is_full(&self) -> bool {
        self.n_bytes() >= FULL_BYTES || self.n_records() >= FULL_RECORDS
    }

    pub fn extent(&self) -> Extent {
        Extent { n_bytes: self.n_bytes(), n_records: self.n_records() }
    }

    fn record<'a>(&'a self, place: &'a Place, entry: &Entry) -> Record<'a> {
        let rest = &self.arena[entry.start as usize..];
        let (key, rest) = rest.split_at(entry.key.max(0) as usize);
        let (value, rest) = rest.split_at(entry.value.max(0) as usize);
        Record {
            topic: &place.topic,
            partition: place.partition,
            offset: entry.offset,
            timestamp: (entry.timestamp != NO_TIMESTAMP).then_some(entry.timestamp),
            key: (entry.key != ABSENT).then_some(key),
            value: (entry.value != ABSENT).then_some(value),
            headers: crate::record::Headers(&rest[..entry.headers as usize]),
        }
    }

    /// Index of `place` in this batch. Records come in runs of one partition, so the last one is nearly always it.
    fn intern(&mut self, place: &Place) -> u32 {
        let known = self.places.iter().rposition(|p| p.assignment == place.assignment);
        let index = known.unwrap_or_else(|| {
            self.places.push(place.clone());
            self.places.len() - 1
        });
        index as u32
    }

    fn charge_for_capacity(&mut self) {
        self.charge.set(self.arena.capacity() + self.entries.capacity() * size_of::<Entry>());
    }
}

/// Size of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    pub n_bytes: usize,
    pub n_records: usize,
}

/// This batch's part of the bytes that all batches hold; given back when the batch is dropped, wherever that is.
#[derive(Debug)]
struct Charge {
    held: Arc<AtomicUsize>,
    bytes: usize,
}

impl Charge {
    fn set(&mut self, bytes: usize) {
        if bytes > self.bytes {
            self.held.fetch_add(bytes - self.bytes, Ordering::Relaxed);
            self.bytes = bytes;
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::record::Headers;

    #[derive(Clone, Debug, PartialEq)]
    struct Plain {
        place: u32,
        offset: i64,
        timestamp: Option<i64>,
        key: Option<Vec<u8>>,
        value: Option<Vec<u8>>,
        headers: Vec<(String, Option<Vec<u8>>)>,
    }

    fn plain() -> impl Strategy<Value = Plain> {
        let bytes = || proptest::option::of(proptest::collection::vec(any::<u8>(), 0..20));
        let headers = proptest::collection::vec(("[a-z]{0,4}", bytes()), 0..3);
        (0_u32..3, 0_i64..1 << 40, proptest::option::of(0_i64..1 << 40), bytes(), bytes(), headers).prop_map(
            |(place, offset, timestamp, key, value, headers)| Plain { place, offset, timestamp, key, value, headers },
        )
    }

    fn place(n: u32) -> Place {
        Place { assignment: Assignment(n), topic: format!("t{n}").into(), partition: n as i32 }
    }

    fn read(assignment: Assignment, record: Record<'_>) -> Plain {
        assert_eq!((record.topic, record.partition), (place(assignment.0).topic.as_ref(), assignment.0 as i32));
        Plain {
            place: assignment.0,
            offset: record.offset,
            timestamp: record.timestamp,
            key: record.key.map(<[u8]>::to_vec),
            value: record.value.map(<[u8]>::to_vec),
            headers: record.headers.iter().map(|(n, v)| (n.to_owned(), v.map(<[u8]>::to_vec))).collect(),
        }
    }

    proptest! {
        #[test]
        fn what_goes_in_comes_out(records in proptest::collection::vec(plain(), 0..50)) {
            let held = Arc::new(AtomicUsize::new(0));
            let mut batch = Batch::new(Arc::clone(&held), Extent::default());
            for r in &records {
                batch.push(&place(r.place), r.offset, r.timestamp, r.key.as_deref(), r.value.as_deref(), |out| {
                    for (name, value) in &r.headers {
                        Headers::pack(out, name, value.as_deref());
                    }
                });
            }
            let back: Vec<_> = batch.records().map(|(a, r)| read(a, r)).collect();
            prop_assert_eq!(back, records);
            prop_assert!(held.load(Ordering::Relaxed) >= batch.n_bytes());
            drop(batch);
            prop_assert_eq!(held.load(Ordering::Relaxed), 0);
        }
    }

    #[test]
    fn full_by_records_or_by_bytes() {
        let fill = |value: &[u8], n: usize| {
            let mut batch = Batch::new(Arc::default(), Extent::default());
            for offset in 0..n {
                batch.push(&place(0), offset as i64, None, None, Some(value), |_| ());
            }
            batch.is_full()
        };
        assert!(!fill(b"", FULL_RECORDS - 1));
        assert!(fill(b"", FULL_RECORDS));
        assert!(fill(&vec![0; FULL_BYTES], 1));
    }
}
