//! A configuration whose Kafka part is real; the source reads little of the rest.

use std::collections::BTreeMap;

use sakia::config::{
    Bucket, Config, Contract, DecoderTable, FieldNames, Flow, Kafka, LogFormat, Mongo, Plausible, Secret, Storage,
    Telemetry, TimestampFormat, Validator,
};
use sakia::record::Window;

use super::world::{Topic, brokers};

pub(super) const DAY: Window = Window { length_ms: 86_400_000, offset_ms: 0 };

pub(super) fn config(topic: &Topic) -> Config {
    let text = str::to_owned;
    let kafka = Kafka {
        brokers: brokers(),
        group: topic.name.clone(),
        topics: vec![topic.name.clone()],
        options: BTreeMap::from([(text("session.timeout.ms"), text("6000"))]),
    };
    let names = ["deviceid", "date", "first", "last", "count", "open", "meta", "samples", "time", "info", "stats"];
    let [deviceid, date, first, last, count, open, meta, samples, time, info, stats] = names.map(text);
    let (schema, src, pos) = (text("schema"), text("src"), text("pos"));
    Config {
        kafka,
        mongo: Mongo {
            uri: Secret(String::new()),
            database: String::new(),
            collection: String::new(),
            connections: 1,
            write_timeout_ms: 1_000,
        },
        bucket: Bucket {
            window: DAY,
            max_samples: 200,
            target_bytes: 65_536,
            max_sample_bytes: 65_536,
            min_fill: 50,
            flush_age_ms: 1_000,
            flush_samples: 50,
        },
        fields: FieldNames {
            deviceid,
            date,
            first,
            last,
            count,
            open,
            meta,
            samples,
            time,
            info,
            stats,
            schema,
            src,
            pos,
        },
        flow: Flow {
            memory_budget_bytes: 64 << 20,
            cache_budget_bytes: None,
            shards: 2,
            inflight_plans: 2,
            plan_statements: 100,
            drain_timeout_ms: 5_000,
        },
        decoders: vec![contract().decoder],
        plausible: Plausible { past_ms: 0, future_ms: 0 },
        storage: storage(),
        telemetry: Telemetry { listen: None, log_format: LogFormat::Text, log_level: text("info") },
    }
}

pub(super) fn contract() -> Contract {
    Contract {
        decoder_version: 1,
        decoder: DecoderTable {
            name: "test".to_owned(),
            topics: Vec::new(),
            device_path: vec!["id".to_owned()],
            timestamp_path: vec!["t".to_owned()],
            timestamp_format: vec![TimestampFormat::Unix],
            timestamp_missing_kafka: false,
            fields_path: String::new(),
            include: Vec::new(),
            exclude: Vec::new(),
            meta: Vec::new(),
            stats: Vec::new(),
            explode: None,
        },
        window_length_ms: DAY.length_ms,
        window_offset_ms: DAY.offset_ms,
        plausible_past_ms: 0,
        plausible_future_ms: 0,
        max_readings: 65_536,
        max_sample_bytes: 65_536,
        isolation_level: "read_committed".to_owned(),
        time_name: "time".to_owned(),
        info_name: "info".to_owned(),
    }
}

fn storage() -> Storage {
    Storage {
        compressor: "snappy".to_owned(),
        leaf_page_max: None,
        ttl_days: None,
        wildcard_index: None,
        validator: Validator::Off,
    }
}
