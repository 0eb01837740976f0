//! What a shard and its writers do for a reading, without the network: decode, append to its chain, plan, encode the
//! command. Records and bytes are those of the load generator; every plan is answered as applied.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use sakia::config::{Config, Contract};
use sakia::decode::{Decoder, Scratch};
use sakia::engine::plan::{Assigned, LedgerAnswer, Outcome, Report, Span};
use sakia::engine::{Engine, FlushPolicy, Input, SampleNames};
use sakia::record::{Assignment, Headers, Origin, Record, StreamId, Tick};
use sakia::sink::encode::Encoder;

/// As in the program.
#[cfg(feature = "service")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const CONFIG: &str = r#"
[kafka]
brokers = "localhost:9092"
[mongo]
uri = "mongodb://localhost:27017/?replicaSet=rs0"
[[decoder]]
topics = ["t"]
device_path = "deviceid"
timestamp_path = "ts"
timestamp_format = "unix_ms"
"#;

const DEVICES: u64 = 3_000;
/// Whole rounds of the devices, so that every chain fills its deltas alike.
const RECORDS: u64 = 100 * DEVICES;
const START_MS: i64 = 1_700_000_000_000;
const SHARD: Assignment = Assignment(1);

/// Values of 100 bytes, one after the other, and where each ends.
fn values() -> (Vec<u8>, Vec<usize>) {
    let mut rng = fastrand::Rng::with_seed(7);
    let (mut bytes, mut ends) = (Vec::new(), Vec::new());
    for r in 0..RECORDS {
        // A stride that meets every device once a round, as far from its neighbours as production is.
        let device = r * 1_009 % DEVICES;
        let (temp, volt, speed) = (rng.u32(1_500..3_500), rng.u32(210..240), rng.u32(0..130));
        let ts = START_MS + r as i64;
        let mut value = format!(
            r#"{{"deviceid":"dev-{device:06}","ts":{ts},"temp":{}.{:02},"volt":{volt},"speed":{speed},"state":"ok"#,
            temp / 100,
            temp % 100,
        );
        while value.len() < 98 {
            value.push(rng.lowercase());
        }
        value.push_str("\"}");
        bytes.extend_from_slice(value.as_bytes());
        ends.push(bytes.len());
    }
    (bytes, ends)
}

fn policy(config: &Config) -> FlushPolicy {
    FlushPolicy {
        max_samples: config.bucket.max_samples,
        target_bytes: config.bucket.target_bytes,
        min_fill: config.bucket.min_fill,
        flush_age_ms: config.bucket.flush_age_ms,
        flush_samples: config.bucket.flush_samples,
        budget_bytes: 160 << 20,
        inflight_plans: config.flow.inflight_plans as usize,
        plan_statements: config.flow.plan_statements as usize,
        plan_bytes: 4 << 20,
        linger_ms: 5,
        ledger_interval_ms: 200,
        table_bytes: 40 << 20,
    }
}

fn engine(config: &Config, contract: &Contract) -> Engine {
    let mut engine = Engine::new(policy(config));
    let window = config.bucket.window;
    let (stream, stats) = (StreamId(1), contract.decoder.stats.iter().map(|name| name.as_str().into()).collect());
    // All of it reserved: the ledger is not what is measured.
    let span = Span { stream, from: 0, to: None, reserved: i64::MAX >> 17, window, stats };
    let origin = Origin { cluster: "c".into(), topic: "t".into(), incarnation: 0, partition: 0 };
    let assigned = Assigned { assignment: SHARD, origin: Arc::new(origin), spans: vec![span], dead: Vec::new() };
    engine.handle(Tick(0), Input::Assigned(assigned));
    engine
}

/// Encodes and answers everything that the engine wants written. Returns the samples and bytes of it.
fn write(engine: &mut Engine, encoder: &Encoder, now: Tick) -> (usize, usize) {
    let (mut n_samples, mut n_bytes) = (0, 0);
    while let Some(plan) = engine.poll_plan(now) {
        for command in encoder.commands(&plan.deltas) {
            let deltas = command.deltas.iter().map(|i| &plan.deltas[*i]);
            n_bytes += black_box(encoder.body(command.kind, deltas)).len();
        }
        n_samples += plan.deltas.iter().map(|delta| delta.samples.len()).sum::<usize>();
        let deltas = plan.deltas.into_iter().map(|delta| (delta, Outcome::Applied)).collect();
        engine.handle(now, Input::Written(Report { id: plan.id, deltas, ..Report::default() }));
    }
    if let Some(ask) = engine.poll_ledger(now) {
        let answer = LedgerAnswer { reserved: ask.reserve, advanced: ask.advance, ..LedgerAnswer::default() };
        engine.handle(now, Input::Ledger(answer));
    }
    (n_samples, n_bytes)
}

fn shard(c: &mut Criterion) {
    let config = Config::from_toml(CONFIG).expect("the configuration of this bench is sound");
    let contract = config.contract_for("t").expect("the topic has a decoder");
    let decoder = Decoder::new(&contract).expect("the contract of this bench is sound");
    let encoder = Encoder::new(&config);
    let names = SampleNames { time: &contract.time_name, info: &contract.info_name };
    let (bytes, ends) = values();
    let mut group = c.benchmark_group("shard");
    group.throughput(Throughput::Elements(RECORDS)).sample_size(10);
    group.bench_function("decode, append, encode", |b| {
        b.iter_batched(
            || (engine(&config, &contract), Scratch::default()),
            |(mut engine, mut scratch)| {
                let (mut start, mut n_samples) = (0, 0);
                for (offset, end) in (0..).zip(&ends) {
                    let record = Record {
                        topic: "t",
                        partition: 0,
                        offset,
                        timestamp: Some(START_MS),
                        key: Some(b"dev-000123"),
                        value: Some(&bytes[start..*end]),
                        headers: Headers(&[]),
                    };
                    start = *end;
                    let taken = engine.accept(SHARD, offset).expect("a new offset");
                    for (index, reading) in decoder.decode(&record, &mut scratch).expect("a good record") {
                        engine.take(Tick(0), taken, index, &reading.expect("a good reading"), names);
                    }
                    if offset % 2_000 == 0 {
                        n_samples += write(&mut engine, &encoder, Tick(1)).0;
                    }
                }
                n_samples += write(&mut engine, &encoder, Tick(60_000)).0;
                assert_eq!(n_samples as u64, RECORDS);
                engine
            },
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

criterion_group!(benches, shard);
criterion_main!(benches);
