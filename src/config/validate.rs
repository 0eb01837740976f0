//! Raw configuration to the one that the program runs on: every section's keys, their ranges, and what they owe each other.

use std::collections::BTreeMap;

use super::machine::Machine;
use super::names::{check_brokers, check_collection, check_database, check_field};
use super::options::{check_mongo_uri, kafka_refusal};
use super::raw::OptionCheck;
use super::reader::{Reader, scalar, text};
use super::secrets::{is_secret_option, redact_uri};
use super::units::show_size;
use super::{
    Bucket, Config, FieldNames, Flow, Kafka, LogFormat, Mongo, Plausible, Secret, Storage, Telemetry, Validator,
    decoders,
};
use crate::decode::Decoder;
use crate::record::Window;

const SECOND: i64 = 1_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// The server's limit of a document is 16 MiB; the rest is for a bucket's other fields.
const MAX_DOCUMENT: u64 = 15 * MIB;

/// Reads every section before it gives up on any, so that all problems are found.
pub(super) fn config(r: &mut Reader<'_>, machine: Machine, check: Option<OptionCheck>) -> Option<Config> {
    let kafka = kafka(r, check);
    let mongo = mongo(r);
    let bucket = bucket(r);
    let fields = fields(r);
    let flow = flow(r, machine);
    let plausible = plausible(r);
    let storage = storage(r);
    let telemetry = telemetry(r);
    let decoders = decoders::read(r);
    if let (Some(bucket), Some(flow)) = (&bucket, &flow)
        && flow.memory_budget_bytes < 8 * u64::from(bucket.max_sample_bytes)
    {
        let least = show_size(8 * u64::from(bucket.max_sample_bytes));
        r.problem("flow.memory_budget", format!("must be 8 times bucket.max_sample_bytes or more: write {least}"));
    }
    if let (Some(bucket), Some(Storage { ttl_days: Some(days), .. })) = (&bucket, &storage)
        && i64::from(*days) * DAY <= bucket.window.length_ms
    {
        r.problem("storage.ttl", "must be longer than bucket.window: buckets would be deleted while they are filled");
    }
    if let (Some(fields), Some(storage)) = (&fields, &storage) {
        check_wildcard(r, fields, storage);
    }
    let mut kafka = kafka?;
    let decoders = decoders?;
    for topic in decoders.iter().flat_map(|decoder| &decoder.topics) {
        if !kafka.topics.contains(topic) {
            kafka.topics.push(topic.clone());
        }
    }
    let config = Config {
        kafka,
        mongo: mongo?,
        bucket: bucket?,
        fields: fields?,
        flow: flow?,
        decoders,
        plausible: plausible?,
        storage: storage?,
        telemetry: telemetry?,
    };
    check_decoders(r, &config);
    Some(config)
}

/// What the decoder itself has to say about its table, unless it would say again what was said.
fn check_decoders(r: &mut Reader<'_>, config: &Config) {
    if !r.is_clean() {
        return;
    }
    for (i, table) in config.decoders.iter().enumerate() {
        if let Err(message) = Decoder::new(&config.contract_of(table)) {
            r.problem(&format!("decoder.{i}"), message);
        }
    }
}

fn kafka(r: &mut Reader<'_>, check: Option<OptionCheck>) -> Option<Kafka> {
    let brokers = r.text("kafka.brokers", check_brokers);
    r.required("kafka.brokers", "write host:port of one or more brokers, here or in SAKIA_KAFKA");
    let group = r.text("kafka.group", |_| Ok(()));
    let options = kafka_options(r, check);
    Some(Kafka { brokers: brokers?, group: group?, topics: Vec::new(), options })
}

fn kafka_options(r: &mut Reader<'_>, check: Option<OptionCheck>) -> BTreeMap<String, String> {
    const TABLE: &str = "kafka.options";
    r.known(TABLE);
    for layer in r.raw.typed_layers() {
        let Some(value) = layer.find(TABLE) else { continue };
        let Some(options) = value.as_dict() else {
            r.problem_at(layer.place(TABLE), TABLE, "is not a table; it is written as [kafka.options]");
            continue;
        };
        for (name, value) in options {
            let wrong = match kafka_refusal(name) {
                Some(reason) => Err(format!("{reason}; take it out")),
                None => scalar(value).and_then(|value| check.map_or(Ok(()), |check| check(name, &value))),
            };
            if let Err(message) = wrong {
                let path = format!("{TABLE}.{name}");
                r.problem_at(layer.place(&path), &path, message);
            }
        }
    }
    let options = r.raw.find(TABLE).and_then(|value| value.as_dict()).into_iter().flatten();
    let options: BTreeMap<_, _> =
        options.filter_map(|(name, value)| Some((name.clone(), scalar(value).ok()?))).collect();
    for (name, value) in &options {
        let value = if is_secret_option(name) { "***" } else { value };
        r.enter_in(TABLE, name, Some(value.into()), r.raw.option_place(name));
    }
    options
}

fn mongo(r: &mut Reader<'_>) -> Option<Mongo> {
    let parse = |v: &figment::value::Value| text(v).and_then(|uri| check_mongo_uri(&uri).map(|()| uri));
    let uri = r.value("mongo.uri", parse, |uri| redact_uri(uri).into());
    r.required("mongo.uri", "write mongodb://host:port/?replicaSet=name, here or in SAKIA_MONGO");
    let database = r.text("mongo.database", check_database);
    let collection = r.text("mongo.collection", check_collection);
    let connections = r.integer("mongo.connections", 1..=1_000);
    let write_timeout = r.duration("mongo.write_timeout", SECOND..=10 * MINUTE);
    Some(Mongo {
        uri: Secret(uri?),
        database: database?,
        collection: collection?,
        connections: connections?,
        write_timeout_ms: write_timeout? as u64,
    })
}

fn bucket(r: &mut Reader<'_>) -> Option<Bucket> {
    let length = r.duration("bucket.window", MINUTE..=366 * DAY);
    let offset = r.duration("bucket.window_offset", -366 * DAY..=366 * DAY);
    let max_samples = r.integer("bucket.max_samples", 1..=100_000);
    let target_bytes = r.size("bucket.target_bytes", KIB..=MAX_DOCUMENT);
    let max_sample_bytes = r.size("bucket.max_sample_bytes", KIB..=MAX_DOCUMENT);
    let min_fill = r.integer("bucket.min_fill", 1..=100_000);
    let flush_age = r.duration("bucket.flush_age", 100..=HOUR);
    let flush_samples = r.integer("bucket.flush_samples", 1..=100_000);
    let window = length.zip(offset).map(|(length_ms, offset_ms)| Window { length_ms, offset_ms });
    if let Some(window) = window {
        check_window(r, window);
    }
    for (path, value) in [("bucket.min_fill", min_fill), ("bucket.flush_samples", flush_samples)] {
        if let (Some(value), Some(max)) = (value, max_samples)
            && value > max
        {
            r.problem(path, format!("must not be more than bucket.max_samples, which is {max}"));
        }
    }
    let max_samples = max_samples?;
    let min_fill = min_fill.unwrap_or_else(|| {
        let quarter = (max_samples / 4).max(1);
        r.derived("bucket.min_fill", i64::from(quarter), "a quarter of bucket.max_samples");
        quarter
    });
    let flush_samples = flush_samples.unwrap_or_else(|| {
        r.derived("bucket.flush_samples", i64::from(min_fill), "bucket.min_fill");
        min_fill
    });
    Some(Bucket {
        window: window?,
        max_samples,
        target_bytes: target_bytes? as u32,
        max_sample_bytes: max_sample_bytes? as u32,
        min_fill,
        flush_age_ms: flush_age? as u64,
        flush_samples,
    })
}

/// Windows that neither divide a day nor are made of days would start at another hour every day.
fn check_window(r: &mut Reader<'_>, window: Window) {
    if DAY % window.length_ms != 0 && window.length_ms % DAY != 0 {
        r.problem("bucket.window", "must divide a day or be whole days: write 1h, 6h, 1d or 7d, for example");
    }
    if window.offset_ms.abs() >= window.length_ms {
        r.problem("bucket.window_offset", "must be shorter than bucket.window");
    }
}

fn fields(r: &mut Reader<'_>) -> Option<FieldNames> {
    const OF_BUCKET: [&str; 12] =
        ["deviceid", "date", "first", "last", "count", "open", "meta", "samples", "stats", "schema", "src", "pos"];
    const OF_SAMPLE: [&str; 2] = ["time", "info"];
    let bucket = OF_BUCKET.map(|key| r.text(&format!("fields.{key}"), check_field));
    let sample = OF_SAMPLE.map(|key| r.text(&format!("fields.{key}"), check_field));
    check_distinct(r, &OF_BUCKET, &bucket);
    check_distinct(r, &OF_SAMPLE, &sample);
    let [deviceid, date, first, last, count, open, meta, samples, stats, schema, src, pos] = bucket;
    let [time, info] = sample;
    Some(FieldNames {
        deviceid: deviceid?,
        date: date?,
        first: first?,
        last: last?,
        count: count?,
        open: open?,
        meta: meta?,
        samples: samples?,
        time: time?,
        info: info?,
        stats: stats?,
        schema: schema?,
        src: src?,
        pos: pos?,
    })
}

fn check_distinct(r: &mut Reader<'_>, keys: &[&str], names: &[Option<String>]) {
    for (i, name) in names.iter().enumerate() {
        let Some(name) = name else { continue };
        if let Some(twin) = names[..i].iter().position(|other| other.as_ref() == Some(name)) {
            // Point at the one that was typed, not at a default that it collides with.
            let (named, other) = if r.raw.is_typed(&format!("fields.{}", keys[i])) { (i, twin) } else { (twin, i) };
            let path = format!("fields.{}", keys[named]);
            r.problem(&path, format!("{name:?} is the name of fields.{} too", keys[other]));
        }
    }
}

fn flow(r: &mut Reader<'_>, machine: Machine) -> Option<Flow> {
    let budget = r.size("flow.memory_budget", 16 * MIB..=1 << 40).unwrap_or_else(|| {
        let quarter = machine.memory_limit_bytes.map(|limit| limit / 4).filter(|&quarter| quarter < 256 * MIB);
        let reason = quarter.map_or("no lower memory limit", |_| "a quarter of the memory limit");
        let budget = quarter.map_or(256 * MIB, |quarter| (quarter / MIB * MIB).max(16 * MIB));
        r.derived("flow.memory_budget", show_size(budget), reason);
        budget
    });
    let cache_budget = r.size("flow.cache_budget", MIB..=1 << 42);
    r.unset("flow.cache_budget");
    let shards = r.integer("flow.shards", 1..=256).unwrap_or_else(|| {
        let shards = (machine.n_cpus / 2).max(1);
        r.derived("flow.shards", i64::from(shards), "half the processors");
        shards
    });
    let inflight_plans = r.integer("flow.inflight_plans", 1..=64);
    let plan_statements = r.integer("flow.plan_statements", 1..=10_000);
    let drain_timeout = r.duration("flow.drain_timeout", 0..=10 * MINUTE);
    Some(Flow {
        memory_budget_bytes: budget,
        cache_budget_bytes: cache_budget,
        shards,
        inflight_plans: inflight_plans?,
        plan_statements: plan_statements?,
        drain_timeout_ms: drain_timeout? as u64,
    })
}

fn plausible(r: &mut Reader<'_>) -> Option<Plausible> {
    let past_ms = r.duration("plausible.past", 0..=100 * 366 * DAY);
    let future_ms = r.duration("plausible.future", 0..=100 * 366 * DAY);
    Some(Plausible { past_ms: past_ms?, future_ms: future_ms? })
}

fn storage(r: &mut Reader<'_>) -> Option<Storage> {
    let compressors = ["none", "snappy", "zlib", "zstd"].map(|name| (name, name));
    let compressor = r.choice("storage.compressor", &compressors);
    let leaf_page_max = r.size("storage.leaf_page_max", 4 * KIB..=512 * MIB);
    let ttl = r.duration("storage.ttl", DAY..=20_000 * DAY);
    let wildcard_index = r.text("storage.wildcard_index", |path| path.split('.').try_for_each(check_field));
    let validators = [("off", Validator::Off), ("warn", Validator::Warn), ("error", Validator::Error)];
    let validator = r.choice("storage.validator", &validators);
    if ttl.is_some_and(|ttl| ttl % DAY != 0) {
        r.problem("storage.ttl", "must be whole days");
    }
    for optional in ["storage.leaf_page_max", "storage.ttl", "storage.wildcard_index"] {
        r.unset(optional);
    }
    Some(Storage {
        compressor: compressor?.to_owned(),
        leaf_page_max: leaf_page_max.map(wiredtiger_size),
        ttl_days: ttl.map(|ttl| (ttl / DAY) as u32),
        wildcard_index,
        validator: validator?,
    })
}

/// `WiredTiger` writes KB for 1024 bytes.
fn wiredtiger_size(bytes: u64) -> String {
    format!("{}KB", bytes / KIB)
}

/// An index over what every append changes costs an index write an append.
fn check_wildcard(r: &mut Reader<'_>, fields: &FieldNames, storage: &Storage) {
    let changing =
        [&fields.samples, &fields.stats, &fields.pos, &fields.first, &fields.last, &fields.count, &fields.open];
    let Some(path) = &storage.wildcard_index else { return };
    let top = path.split('.').next().unwrap_or_default();
    if changing.iter().any(|name| *name == top) {
        let message = format!("{top:?} changes with every append; index {:?} or what lies below it", fields.meta);
        r.problem("storage.wildcard_index", message);
    }
}

fn telemetry(r: &mut Reader<'_>) -> Option<Telemetry> {
    let parse = |v: &figment::value::Value| {
        let typed = text(v)?;
        if typed == "off" {
            return Ok(None);
        }
        let hint = "is no address; write host:port with a numeric host, such as \"0.0.0.0:9464\", or \"off\"";
        typed.parse().map(Some).map_err(|_| format!("{typed:?} {hint}"))
    };
    let listen = r.value("telemetry.listen", parse, |listen: &Option<std::net::SocketAddr>| {
        listen.map_or_else(|| "off".to_owned(), |address| address.to_string()).into()
    });
    let log_format = r.choice("telemetry.log_format", &[("text", LogFormat::Text), ("json", LogFormat::Json)]);
    let log_level = r.text("telemetry.log_level", |_| Ok(()));
    Some(Telemetry { listen: listen?, log_format: log_format?, log_level: log_level? })
}
