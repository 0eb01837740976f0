//! The program against a real Kafka and a real MongoDB (`SAKIA_KAFKA`, `SAKIA_MONGO`; `make services-up` gives both).

use std::process::{Command, Output, Stdio};
use std::time::Duration;

use loadtest::clock::Stopwatch;
use mongodb::bson::{Document, doc};
use mongodb::{Client, Collection};
use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::{Message as _, Offset, TopicPartitionList};
use serde_json::Value;

use crate::fixture::{Record, Writer};

fn address(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| {
        panic!("{variable} is not set: these tests need real servers; `make services-up` starts them and says how to name them")
    })
}

/// Topic, database and manifests of one test, removed when it is over.
struct Place {
    name: String,
    manifests: tempfile::TempDir,
}

impl Place {
    fn new(test: &str) -> Self {
        address("SAKIA_KAFKA");
        address("SAKIA_MONGO");
        Self { name: format!("loadtest-{test}-{}", std::process::id()), manifests: tempfile::tempdir().unwrap() }
    }

    fn command(&self, what: &str, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_loadtest"));
        command.arg(what).args(["--topic", &self.name, "--manifest-dir"]).arg(self.manifests.path()).args(args);
        command
    }

    #[track_caller]
    fn produce(&self, args: &[&str]) -> Value {
        let output = self.command("produce", args).arg("--json").output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Exit code and report.
    #[track_caller]
    fn verify(&self, args: &[&str]) -> (i32, Value) {
        let output = self.command("verify", args).args(["--database", &self.name]).output().unwrap();
        let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", stderr(&output)));
        (output.status.code().unwrap(), report)
    }

    async fn collection(&self, name: &str) -> Collection<Document> {
        let client = Client::with_uri_str(address("SAKIA_MONGO")).await.unwrap();
        client.database(&self.name).collection(name)
    }

    /// Stores the whole topic the plain way.
    async fn store(&self, writer: Writer<'_>) {
        let collections = Writer { topic: &self.name, ..writer }.store(&self.records());
        self.collection("readings").await.insert_many(collections.buckets).await.unwrap();
        self.collection("readings_dead").await.insert_many(collections.dead).await.unwrap();
        self.collection("readings_ledger").await.insert_many(collections.ledger).await.unwrap();
    }

    fn consumer() -> BaseConsumer {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", address("SAKIA_KAFKA")).set("group.id", "test");
        config.create().unwrap()
    }

    /// Until a producer has created the topic and delivered something to partition 0.
    fn wait_for_records(&self) {
        let (consumer, watch) = (Self::consumer(), Stopwatch::start());
        let timeout = Duration::from_secs(5);
        while consumer.fetch_watermarks(&self.name, 0, timeout).map_or(0, |(_, high)| high) == 0 {
            assert!(watch.elapsed() < Duration::from_mins(1), "nothing arrives in topic {}", self.name);
        }
    }

    fn records(&self) -> Vec<Record> {
        let consumer = Self::consumer();
        let mut wanted = TopicPartitionList::new();
        let mut n = 0;
        for partition in 0..2 {
            wanted.add_partition_offset(&self.name, partition, Offset::Beginning).unwrap();
            n += consumer.fetch_watermarks(&self.name, partition, Duration::from_secs(15)).unwrap().1;
        }
        consumer.assign(&wanted).unwrap();
        let next = || {
            // A poll may come back with nothing because it served an event.
            let mut polls = (0..60).filter_map(|_| consumer.poll(Duration::from_secs(1)));
            let record = polls.next().expect("the topic has more records").unwrap();
            Record {
                partition: record.partition(),
                offset: record.offset(),
                timestamp_ms: record.timestamp().to_millis().unwrap(),
                value: record.payload().unwrap().to_vec(),
            }
        };
        (0..n).map(|_| next()).collect()
    }

    async fn delete_topic(&self) {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", address("SAKIA_KAFKA"));
        let admin: AdminClient<DefaultClientContext> = config.create().unwrap();
        admin.delete_topics(&[&self.name], &AdminOptions::new()).await.unwrap()[0].as_ref().unwrap();
    }

    async fn remove(self) {
        self.delete_topic().await;
        let client = Client::with_uri_str(address("SAKIA_MONGO")).await.unwrap();
        client.database(&self.name).drop().await.unwrap();
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const RUN: [&str; 12] = [
    "--partitions",
    "2",
    "--devices",
    "40",
    "--total",
    "3000",
    "--poison",
    "0.01",
    "--disorder",
    "0.1",
    "--late",
    "0.02",
];

#[tokio::test]
async fn what_is_produced_and_stored_is_verified() {
    let place = Place::new("round");
    let summary = place.produce(&RUN);
    assert_eq!(
        (&summary["records"], &summary["readings"], &summary["expected_dead"]),
        (&3000.into(), &2970.into(), &30.into())
    );
    place.store(Writer { max_samples: 20, ..Writer::default() }).await;
    let (code, report) = place.verify(&["--max-samples", "20", "--stats", "temp"]);
    assert_eq!((code, &report["ok"], &report["problems"]), (0, &true.into(), &Value::Array(vec![])));
    assert_eq!((&report["stored"], &report["dead"]), (&2970.into(), &30.into()));

    let buckets = place.collection("readings").await;
    let gone = buckets.find_one_and_delete(doc! { "count": 20 }).await.unwrap().unwrap();
    let (code, report) = place.verify(&["--max-samples", "20"]);
    assert_eq!(
        (code, &report["ok"], &report["lost"], &report["duplicated"]),
        (1, &false.into(), &20.into(), &0.into())
    );

    buckets.insert_one(gone).await.unwrap();
    assert_eq!(place.verify(&["--max-samples", "20"]).0, 0);
    place.produce(&["--devices", "40", "--total", "100"]);
    let (code, report) = place.verify(&["--max-samples", "20"]);
    assert_eq!((code, &report["lost"], &report["produced"]), (1, &100.into(), &3070.into()));
    place.remove().await;
}

#[tokio::test]
async fn many_readings_a_record_are_verified() {
    let place = Place::new("many");
    let many = ["--readings-per-record", "7", "--equal-times", "0.2", "--tag-every", "3", "--sample-bytes", "150"];
    let summary = place.produce(&[&RUN[..], &many].concat());
    assert_eq!(summary["records"], 429);
    place.store(Writer { max_samples: 20, tag: Some("fw"), second_stream_from: 90, ..Writer::default() }).await;
    let (code, report) = place.verify(&["--max-samples", "20", "--tag", "fw"]);
    assert_eq!((code, &report["problems"]), (0, &Value::Array(vec![])));
    place.remove().await;
}

#[tokio::test]
async fn a_run_that_is_stopped_completes_its_manifest() {
    let place = Place::new("stopped");
    let mut command = place.command("produce", &["--seconds", "300", "--rate", "2000", "--json", "--partitions", "2"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let manifest = place.manifests.path().join(&place.name).join("run-0001.json");
    place.wait_for_records();
    Command::new("kill").arg(child.id().to_string()).status().unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let manifest: Value = serde_json::from_slice(&std::fs::read(manifest).unwrap()).unwrap();
    let records = manifest["records"].as_u64().unwrap();
    assert_eq!(manifest["complete"], true);
    assert!((1..100_000).contains(&records), "{records}");
    assert_eq!(place.verify(&[]).1["produced"], records);
    place.remove().await;
}

#[tokio::test]
async fn a_topic_created_anew_leaves_its_old_manifests_behind() {
    let place = Place::new("anew");
    let run = ["--total", "50", "--partitions", "2"];
    assert_eq!(place.produce(&run)["run"], 1);
    assert_eq!(place.produce(&run)["run"], 2);
    place.delete_topic().await;
    let (code, text) = refused(&place, "verify", &[]);
    assert_eq!(code, 2);
    assert!(text.contains("there is no topic"), "{text}");
    let summary = place.produce(&run);
    assert_eq!((&summary["run"], &summary["manifests_put_aside"]), (&1.into(), &2.into()));
    let (code, text) = refused(&place, "produce", &["--partitions", "5"]);
    assert_eq!(code, 2);
    assert!(text.contains("has 2 partitions, not 5"), "{text}");
    place.remove().await;
}

fn refused(place: &Place, what: &str, args: &[&str]) -> (i32, String) {
    let output = place.command(what, args).output().unwrap();
    (output.status.code().unwrap(), stderr(&output))
}
