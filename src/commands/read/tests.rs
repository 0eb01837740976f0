//! Buckets to samples in order, against a plain sort.

use mongodb::bson::{DateTime, Document, RawDocumentBuf, doc};
use proptest::prelude::*;

use super::merge::{Merge, first};
use super::query::Span;
use crate::config::{Config, FieldNames};

fn fields(more: &str) -> FieldNames {
    let minimal = "kafka.brokers = \"h:1\"\nmongo.uri = \"mongodb://h/?replicaSet=rs0\"\n\
                   decoder = [{ topics = \"t\", device_path = \"@key\", timestamp_missing = \"kafka\" }]\n";
    Config::from_toml(&format!("{minimal}{more}")).unwrap().fields
}

/// A bucket of samples that are numbered from `lo`.
fn bucket(device: &str, lo: i64, times: &[i64]) -> Document {
    let sample =
        |(i, time): (usize, &i64)| doc! { "time": DateTime::from_millis(*time), "info": { "pos": lo + i as i64 } };
    let first = *times.iter().min().unwrap();
    doc! {
        "_id": { "w": DateTime::from_millis(0), "d": device, "s": 1_i64, "n": lo as i32 },
        "first": DateTime::from_millis(first),
        "samples": times.iter().enumerate().map(sample).collect::<Vec<_>>(),
        "pos": { "lo": lo, "hi": lo + times.len() as i64 - 1 },
    }
}

/// (time, device, position) in the order in which they come out, and the most bytes held.
fn merged(mut buckets: Vec<Document>, span: Span) -> (Vec<(i64, String, i64)>, usize) {
    let (fields, mut merge, mut out, mut most) = (fields(""), Merge::default(), Vec::new(), 0);
    buckets.sort_by_key(|bucket| bucket.get_datetime("first").unwrap().timestamp_millis());
    let mut take = |waiting: super::merge::Waiting| {
        let sample = waiting.sample();
        out.push((sample.time, sample.device.to_owned(), sample.info.get_i64("pos").unwrap()));
    };
    for bucket in buckets {
        let bucket = RawDocumentBuf::try_from(&bucket).unwrap();
        let oldest = first(&bucket, &fields).unwrap();
        while let Some(sample) = merge.pop_before(oldest) {
            take(sample);
        }
        merge.add(&bucket, &fields, span).unwrap();
        most = most.max(merge.n_bytes());
    }
    while let Some(sample) = merge.pop() {
        take(sample);
    }
    assert_eq!(merge.n_bytes(), 0, "what is out is let go");
    (out, most)
}

#[test]
fn only_what_overlaps_is_held() {
    let span = Span { from: 0, to: i64::MAX };
    let buckets: Vec<_> = (0..100).map(|i| bucket("d", i * 10, &[i * 100, i * 100 + 50])).collect();
    let one = merged(buckets[..1].to_vec(), span).1;
    let (samples, most) = merged(buckets, span);
    assert_eq!(samples.len(), 200);
    assert!(most <= 2 * one, "{most} bytes of buckets of {one}");
}

#[test]
fn a_bucket_that_is_none_says_why() {
    let check = |change: fn(&mut Document), reason: &str| {
        let mut bucket = bucket("d", 1, &[5]);
        change(&mut bucket);
        let bucket = RawDocumentBuf::try_from(&bucket).unwrap();
        let error = Merge::default().add(&bucket, &fields(""), Span { from: 0, to: 9 }).unwrap_err();
        assert!(error.contains(reason), "{error}");
    };
    check(|bucket| drop(bucket.remove("samples")), "no \"samples\"");
    check(|bucket| drop(bucket.insert("samples", "text")), "\"samples\" is no array");
    check(|bucket| drop(bucket.insert("samples", vec![1])), "no document");
    check(|bucket| drop(bucket.insert("samples", vec![doc! { "time": 5, "info": {} }])), "no time \"time\"");
    check(|bucket| drop(bucket.insert("pos", doc! { "lo": 1.5 })), "no whole number \"lo\"");
    check(|bucket| drop(bucket.remove("_id")), "_id");
}

proptest! {
    #[test]
    fn samples_come_out_as_a_sort_would_have_them(
        buckets in prop::collection::vec((0_u8..3, prop::collection::vec(0_i64..20, 1..6)), 0..12),
        from in 0_i64..20, length in 0_i64..20,
    ) {
        let span = Span { from, to: from + length };
        let buckets: Vec<_> = (0_i64..).zip(&buckets).map(|(i, (device, times))| (i * 10, format!("d{device}"), times)).collect();
        let mut expected: Vec<_> = buckets
            .iter()
            .flat_map(|(lo, device, times)| (*lo..).zip(times.iter()).map(move |(pos, time)| (*time, device.clone(), pos)))
            .filter(|(time, ..)| span.holds(*time))
            .collect();
        expected.sort();
        let documents = buckets.iter().map(|(lo, device, times)| bucket(device, *lo, times)).collect();
        prop_assert_eq!(merged(documents, span).0, expected);
    }
}
