//! Samples as they are stored, one by one, for tests that know what each record held.
//!
//! `loadtest verify` knows its own readings only. These tests number theirs: the field `temp` of a record is its offset,
//! so that each sample tells which record it came from.

use mongodb::bson::{Bson, Document};

use super::world::{Sent, World};

/// One sample, with what its bucket says of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Stored {
    /// The record's offset, as long as each record of the partition was made by `numbered`.
    pub(super) offset: i64,
    pub(super) stream: i64,
    pub(super) device: String,
    /// Start of the window, in milliseconds.
    pub(super) window: i64,
    pub(super) time: i64,
    pub(super) info: Document,
}

/// A record that tells its own offset; five devices, one reading a second, with a field that a mapping may leave out.
pub(super) fn numbered(partition: i32, offset: i64, since: i64) -> Sent {
    let (device, unit, at) = (offset % 5, offset % 3, since + 1_000 * offset);
    let value = format!(r#"{{"deviceid":"dev-{device}","unit":"unit-{unit}","ts":{at},"temp":{offset},"volt":3.5}}"#);
    Sent { partition, key: format!("dev-{device}"), value: Some(value.into_bytes()), timestamp: at }
}

/// All samples, in the order of their offsets.
pub(super) fn samples(world: &World) -> Vec<Stored> {
    let mut all: Vec<_> = world.buckets().iter().flat_map(of_bucket).collect();
    all.sort_by_key(|stored| (stored.offset, stored.stream));
    all
}

fn of_bucket(bucket: &Document) -> Vec<Stored> {
    let id = bucket.get_document("_id").unwrap();
    let sample = |sample: &Bson| {
        let sample = sample.as_document().unwrap();
        let info = sample.get_document("info").unwrap().clone();
        Stored {
            offset: i64::from(info.get_i32("temp").unwrap()),
            stream: id.get_i64("s").unwrap(),
            device: id.get_str("d").unwrap().to_owned(),
            window: id.get_datetime("w").unwrap().timestamp_millis(),
            time: sample.get_datetime("time").unwrap().timestamp_millis(),
            info,
        }
    };
    let samples: Vec<_> = bucket.get_array("samples").unwrap().iter().map(sample).collect();
    assert_eq!(samples.len(), bucket.get_i32("count").unwrap() as usize, "count of {id}");
    samples
}

/// Asserts that the records of these offsets are stored, each exactly once.
pub(super) fn assert_offsets(samples: &[Stored], expected: impl IntoIterator<Item = i64>) {
    let found: Vec<_> = samples.iter().map(|stored| stored.offset).collect();
    assert_eq!(found, expected.into_iter().collect::<Vec<_>>());
}

/// Bytes of documents, in which the order of fields counts too.
pub(super) fn bytes(documents: &[Document]) -> Vec<Vec<u8>> {
    documents.iter().map(|document| document.to_vec().unwrap()).collect()
}

/// The streams of a ledger entry.
pub(super) fn streams(entry: &Document) -> Vec<&Document> {
    entry.get_array("streams").unwrap().iter().map(|stream| stream.as_document().unwrap()).collect()
}

/// Runs until the `count`-th pass of a crash point, in a group of its own: in the world's, the next member would wait
/// until the broker takes this one for dead. Where to go on, the ledger says to any group.
pub(super) fn crash(world: &World, point: &str, count: u32) -> String {
    let mut command = world.sakia("run", &["--set"]);
    command.arg(format!("kafka.group={}_{:08x}", world.name, fastrand::u32(..)));
    command.env("SAKIA_CRASH_AT", format!("{point}:{count}"));
    let (status, log) = world.start_as(command).wait();
    assert!(!status.success(), "it did not crash:\n{log}");
    log
}
