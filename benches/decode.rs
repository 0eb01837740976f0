//! Records and bytes a second through the decoder: the flat reading that most topics carry, and arrays of readings.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use sakia::config::contract::{Contract, DECODER_VERSION, DecoderTable, TimestampFormat};
use sakia::decode::{Decoder, Scratch};
use sakia::record::{Headers, Record};

const FLAT: &str = r#"{"deviceid":"dev-000123","ts":1700000000000,"temp":21.53,"volt":220,"speed":63,"state":"ok"}"#;

const NESTED: &str = r#"{"device":{"id":"dev-000123","model":"x1"},"time":"2023-11-14T22:13:20.123Z","data":{"temp":21.53,
    "gps":{"lat":52.3702157,"lon":4.8951679},"axes":[1.5,-2.25,9.81],"note":"line one\nline two","ok":true,"none":null}}"#;

fn contract(decoder: DecoderTable) -> Contract {
    Contract {
        decoder_version: DECODER_VERSION,
        decoder,
        window_length_ms: 86_400_000,
        window_offset_ms: 0,
        plausible_past_ms: 366 * 86_400_000,
        plausible_future_ms: 86_400_000,
        max_readings: 65_536,
        max_sample_bytes: 1 << 20,
        isolation_level: "read_committed".into(),
        time_name: "time".into(),
        info_name: "info".into(),
    }
}

fn flat() -> DecoderTable {
    DecoderTable {
        name: "bench".into(),
        topics: vec!["t".into()],
        device_path: vec!["deviceid".into()],
        timestamp_path: vec!["ts".into()],
        timestamp_format: vec![TimestampFormat::UnixMs],
        timestamp_missing_kafka: false,
        fields_path: String::new(),
        include: vec![],
        exclude: vec![],
        meta: vec![],
        stats: vec![],
        explode: None,
    }
}

fn nested() -> DecoderTable {
    DecoderTable {
        device_path: vec!["device.id".into()],
        timestamp_path: vec!["time".into()],
        timestamp_format: vec![TimestampFormat::Iso8601],
        fields_path: "data".into(),
        meta: vec!["device.model".into()],
        stats: vec!["temp".into()],
        ..flat()
    }
}

fn decode(c: &mut Criterion) {
    let batch = format!("[{}]", [FLAT; 100].join(","));
    let exploded = DecoderTable { explode: Some("[]".into()), ..flat() };
    for (name, table, value, n_readings) in
        [("flat", flat(), FLAT, 1), ("nested", nested(), NESTED, 1), ("array of 100", exploded, &*batch, 100)]
    {
        let decoder = Decoder::new(&contract(table)).expect("the contract of this bench is sound");
        let record = Record {
            topic: "t",
            partition: 0,
            offset: 0,
            timestamp: Some(1_700_000_000_000),
            key: Some(b"dev-000123"),
            value: Some(value.as_bytes()),
            headers: Headers(&[]),
        };
        for (unit, throughput) in
            [("readings", Throughput::Elements(n_readings)), ("bytes", Throughput::Bytes(value.len() as u64))]
        {
            let mut scratch = Scratch::default();
            let mut group = c.benchmark_group(format!("decode {unit}"));
            group.throughput(throughput);
            group.bench_function(name, |b| {
                b.iter(|| {
                    let readings = decoder.decode(black_box(&record), &mut scratch).expect("a good record");
                    let n_good = readings.filter(|(_, reading)| black_box(reading).is_ok()).count();
                    assert_eq!(n_good as u64, n_readings);
                });
            });
            group.finish();
        }
    }
}

criterion_group!(benches, decode);
criterion_main!(benches);
