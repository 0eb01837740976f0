//! Decoding allocates nothing once its buffers have grown: at hundreds of thousands of records a second, the allocator
//! would otherwise be the largest single cost.
#![allow(unsafe_code)] // an allocator cannot be counted without being one

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use sakia::config::contract::{Contract, DECODER_VERSION, DecoderTable, TimestampFormat};
use sakia::decode::{Decoder, Scratch};
use sakia::record::{Headers, Record};

thread_local! {
    /// Of this thread alone: the test harness allocates on its own.
    static N_ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

fn count() {
    N_ALLOCATIONS.set(N_ALLOCATIONS.get() + 1);
}

// SAFETY: everything is passed to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(pointer, layout, new_size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn contract(explode: Option<&str>) -> Contract {
    let list = |names: &[&str]| names.iter().map(ToString::to_string).collect();
    Contract {
        decoder_version: DECODER_VERSION,
        decoder: DecoderTable {
            name: "t".into(),
            topics: list(&["t"]),
            device_path: list(&["@key.id", "id", "@key"]),
            timestamp_path: list(&["ts", "@timestamp"]),
            timestamp_format: vec![TimestampFormat::UnixMs, TimestampFormat::Iso8601],
            timestamp_missing_kafka: true,
            fields_path: String::new(),
            include: vec![],
            exclude: list(&["x"]),
            meta: list(&["model", "@partition", "@header.h"]),
            stats: list(&["temp"]),
            explode: explode.map(str::to_owned),
        },
        window_length_ms: 86_400_000,
        window_offset_ms: 0,
        plausible_past_ms: 1 << 40,
        plausible_future_ms: 1 << 40,
        max_readings: 65_536,
        max_sample_bytes: 1 << 20,
        isolation_level: "read_committed".into(),
        time_name: "time".into(),
        info_name: "info".into(),
    }
}

/// Good and bad readings, escapes, nesting, deep nesting, long objects: everything that fills a buffer.
fn readings() -> String {
    let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    let long: Vec<String> = (0..100).map(|i| format!(r#""f{i}":{i}.5"#)).collect();
    let reading = |rest: &str| format!(r#"{{"id":"dev","ts":1700000000000,"temp":21.53,"state":"ok"{rest}}}"#);
    [
        reading(""),
        reading(r#","a\u0062":"\n\ud83d\ude00","model":{"a":[1,2,{"b":"\u0041"}]}"#),
        reading(r#","$x":1"#),
        reading(&format!(r#","deep":{deep},"x":{deep}"#)),
        reading(&format!(",{}", long.join(","))),
        r#"{"id":"d\u0065v","ts":"2023-11-14T22:13:20\u002b01:00","v":1}"#.to_owned(),
        r#"{"id":true,"v":1}"#.to_owned(),
    ]
    .join(",")
}

/// How often decoding a record allocates after it has been decoded a few times.
fn n_allocations(contract: &Contract, record: &Record<'_>) -> usize {
    let decoder = Decoder::new(contract).expect("the contract of this test is sound");
    let mut scratch = Scratch::default();
    let mut decode =
        || decoder.decode(record, &mut scratch).map_or(0, |readings| readings.filter(|(_, r)| r.is_ok()).count());
    let n_good = decode();
    let before = N_ALLOCATIONS.get();
    for _ in 0..100 {
        assert_eq!(decode(), n_good);
    }
    N_ALLOCATIONS.get() - before
}

#[test]
fn the_steady_state_allocates_nothing() {
    let mut headers = Vec::new();
    Headers::pack(&mut headers, "h", Some(b"v"));
    let array = format!("[{}]", readings());
    let flat = r#"{"id":"dev","ts":1700000000000,"temp":21.53,"volt":220,"state":"ok"}"#;
    for (explode, value) in [(None, flat), (Some("[]"), &array), (None, "{\"broken\":"), (Some("[]"), "{}")] {
        for key in [Some(&br#"{"id":"k\u0065y"}"#[..]), Some(b"plain"), None] {
            let record = Record {
                topic: "t",
                partition: 0,
                offset: 0,
                timestamp: Some(1_700_000_000_000),
                key,
                value: Some(value.as_bytes()),
                headers: Headers(&headers),
            };
            assert_eq!(n_allocations(&contract(explode), &record), 0, "{value}");
        }
    }
    // The counter does count.
    let before = N_ALLOCATIONS.get();
    drop(std::hint::black_box(vec![1]));
    assert_eq!(N_ALLOCATIONS.get() - before, 1);
}
