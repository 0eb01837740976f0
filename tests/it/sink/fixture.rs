//! A readings collection of its own a test, and deltas for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use mongodb::bson::{DateTime, Document, doc};
use mongodb::{Client, Collection, Database};
use sakia::config::Config;
use sakia::engine::plan::{ChainKey, DeadLetter, Delta, Outcome, Plan, Report, Scope, Tail, Write};
use sakia::engine::samples::Samples;
use sakia::record::{Assignment, EventTime, Origin, Position, StreamId};
use sakia::sink::bucket::BucketSink;
use tokio::sync::watch;

use crate::proxy::Proxy;

pub(super) const DAY: i64 = 86_400_000;

pub(super) struct Store {
    pub(super) db: Database,
    pub(super) sink: BucketSink,
    pub(super) stop: watch::Sender<bool>,
}

impl Store {
    /// Dropped before it is used, so that what a failed test left stays to be looked at.
    pub(super) async fn open() -> Self {
        let db = database(&server()).await;
        db.drop().await.expect("MongoDB answers");
        Self::of(db.clone(), db)
    }

    /// Written through a proxy, read without.
    pub(super) async fn open_through_proxy() -> (Self, Proxy) {
        let db = database(&server()).await;
        db.drop().await.expect("MongoDB answers");
        let hello = db.run_command(doc! { "hello": 1 }).await.expect("MongoDB answers");
        let proxy = Proxy::start(hello.get_str("me").expect("a member of a replica set").to_owned()).await;
        let uri = format!("mongodb://{}/?directConnection=true&heartbeatFrequencyMS=500", proxy.address);
        let through = Client::with_uri_str(uri).await.expect("a connection string").database(db.name());
        (Self::of(db, through), proxy)
    }

    pub(super) fn of(db: Database, through: Database) -> Self {
        let (stop, stopped) = watch::channel(false);
        let sink = BucketSink::new(through, &config(db.name()), stopped);
        Self { db, sink, stop }
    }

    pub(super) fn readings(&self) -> Collection<Document> {
        self.db.collection("readings")
    }

    pub(super) async fn bucket(&self, device: &str, n: i32) -> Document {
        let filter = doc! { "_id": { "w": DateTime::from_millis(DAY), "d": device, "s": 77_i64, "n": n } };
        self.readings().find_one(filter).await.expect("MongoDB answers").expect("the bucket is there")
    }

    pub(super) async fn write(&self, deltas: Vec<Delta>) -> Vec<Outcome> {
        self.report(deltas, Vec::new()).await.deltas.into_iter().map(|(_, outcome)| outcome).collect()
    }

    pub(super) async fn report(&self, deltas: Vec<Delta>, dead: Vec<DeadLetter>) -> Report {
        let sink = self.sink.clone();
        let plan = Plan { id: 9, deltas, dead };
        let report = tokio::spawn(async move { sink.write(plan).await }).await.expect("no panic");
        report.expect("it was not stopped")
    }
}

fn server() -> String {
    std::env::var("SAKIA_MONGO").expect("SAKIA_MONGO names no MongoDB: run `make services-up`")
}

async fn database(uri: &str) -> Database {
    static N: AtomicU32 = AtomicU32::new(0);
    let n = N.fetch_add(1, Ordering::Relaxed);
    Client::with_uri_str(uri).await.expect("a connection string").database(&format!("sakia_it_sink_{n}"))
}

fn config(database: &str) -> Config {
    let text = format!(
        r#"
        kafka.brokers = "localhost:9092"
        mongo = {{ uri = "mongodb://localhost", database = "{database}", collection = "readings", write_timeout = "5s" }}
        [[decoder]]
        topics = ["t"]
        device_path = "@key"
        timestamp_path = "ts"
        timestamp_format = "unix_ms"
        "#
    );
    Config::from_toml(&text).expect("a valid configuration")
}

/// A delta whose samples have these positions, times counted in seconds from the window's start, and `temp` as stated.
pub(super) fn delta(device: &str, write: Write, samples: &[(i64, i64, f64)]) -> Delta {
    let mut encoded = Samples::new(1);
    for (pos, second, temp) in samples {
        let at = EventTime(DAY + second * 1_000);
        let info = doc! { "temp": temp }.to_vec().expect("encodes");
        encoded.push_sample(Position(*pos), at, "time", "info", &info, &[*temp]);
    }
    Delta {
        assignment: Assignment(1),
        slot: 5,
        key: Arc::new(ChainKey { device: device.into(), window: EventTime(DAY), stream: StreamId(77) }),
        origin: origin(),
        write,
        meta: None,
        samples: encoded,
        stats: Arc::new([Box::from("temp")]),
    }
}

pub(super) fn insert(device: &str, n: u32, open: bool, pos: i64) -> Delta {
    delta(device, Write::Insert { n, open }, &[(pos, 0, 1.0)])
}

pub(super) fn append(device: &str, n: u32, hi: i64, pos: i64) -> Delta {
    delta(device, Write::Append { n, hi: Position(hi), seal: false }, &[(pos, 0, 1.0)])
}

pub(super) fn seal(device: &str, n: u32, hi: i64) -> Delta {
    delta(device, Write::Seal { n, hi: Position(hi) }, &[])
}

pub(super) fn dead_letter(pos: i64) -> DeadLetter {
    DeadLetter {
        assignment: Assignment(1),
        stream: StreamId(77),
        pos: Position(pos),
        origin: origin(),
        scope: Scope::Record,
        reason: "malformed",
        detail: "not JSON".into(),
        timestamp: Some(DAY),
        key: None,
        value: Some(b"{".as_slice().into()),
        headers: Box::default(),
    }
}

fn origin() -> Arc<Origin> {
    Arc::new(Origin { cluster: "c".into(), topic: "t".into(), incarnation: 0, partition: 3 })
}

/// The tail in a fence, without its size.
pub(super) fn tail(outcome: &Outcome) -> (u32, i64, u32, bool) {
    match outcome {
        Outcome::Fenced(Some(Tail { n, hi, count, open, bytes, .. })) if *bytes > 100 => (*n, hi.0, *count, *open),
        other => panic!("no fence with a tail: {other:?}"),
    }
}
