//! A topic and a database that no other test knows, a configuration, and the programs that work on them.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use mongodb::bson::{Bson, Document, doc};
use mongodb::{Client, Database};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use serde_json::Value;
use tokio::runtime::Runtime;

pub(super) use super::running::{Running, until};

/// Longer than any of these steps takes on a busy machine; a test that needs it has failed.
pub(super) const LIMIT: Duration = Duration::from_mins(2);

pub(super) fn kafka() -> String {
    std::env::var("SAKIA_KAFKA").expect("SAKIA_KAFKA must name a broker; `make test` starts one")
}

fn mongo() -> String {
    std::env::var("SAKIA_MONGO").expect("SAKIA_MONGO must name a replica set; `make test` starts one")
}

/// Kafka's clock: 2026-11-15 12:00 UTC, the middle of a window.
pub(super) const NOON: i64 = 1_794_744_000_000;

/// Settings for tests that kill a member: as long as the broker believes it alive, its partitions have no other owner.
pub(super) const SHORT_SESSION: &str = "[kafka.options]\n\"session.timeout.ms\" = \"6000\"\n";

/// One record for `World::send`: partition, key, value, and Kafka's timestamp.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) partition: i32,
    pub(super) key: String,
    pub(super) value: Option<Vec<u8>>,
    pub(super) timestamp: i64,
}

/// A record of one reading in the load generator's shape, with event time = Kafka's timestamp.
pub(super) fn reading(partition: i32, device: &str, at: i64, temp: f64) -> Sent {
    let value = format!(r#"{{"deviceid":"{device}","ts":{at},"temp":{temp}}}"#);
    Sent { partition, key: device.to_owned(), value: Some(value.into_bytes()), timestamp: at }
}

pub(super) struct World {
    /// Name of the topic, of the group and of the database.
    pub(super) name: String,
    mongo: String,
    dir: tempfile::TempDir,
    runtime: Runtime,
    db: Database,
    /// Text of the configuration file before the decoder's table.
    settings: String,
    /// Lines of the decoder's table beside those that every test needs.
    decoder: String,
}

impl World {
    /// A new topic with `n_partitions`, an empty database, and small, quick settings.
    pub(super) fn new(purpose: &str, n_partitions: i32) -> Self {
        Self::beside(purpose, n_partitions, &mongo())
    }

    /// The same on a MongoDB of the test's own.
    pub(super) fn beside(purpose: &str, n_partitions: i32, mongo: &str) -> Self {
        let name = format!("e2e_{purpose}_{:08x}", fastrand::u32(..));
        let runtime = Runtime::new().unwrap();
        let client = runtime.block_on(Client::with_uri_str(mongo)).unwrap();
        let world = Self {
            db: client.database(&name),
            mongo: mongo.to_owned(),
            dir: tempfile::tempdir().unwrap(),
            runtime,
            settings: "[bucket]\nflush_age = \"300ms\"\n".to_owned(),
            decoder: String::new(),
            name,
        };
        world.create_topic(n_partitions);
        world
    }

    /// Replaces the settings: TOML of everything but `[[decoder]]`.
    pub(super) fn settings(&mut self, toml: &str) {
        toml.clone_into(&mut self.settings);
    }

    /// Adds lines to the `[[decoder]]` table, such as `explode = "readings"`; they may replace those of the usual keys.
    pub(super) fn decoder(&mut self, lines: &str) {
        lines.clone_into(&mut self.decoder);
    }

    pub(super) fn create_topic(&self, n_partitions: i32) {
        let topic = NewTopic::new(&self.name, n_partitions, TopicReplication::Fixed(1)).set("retention.ms", "-1");
        let created = self.runtime.block_on(admin().create_topics([&topic], &AdminOptions::new())).unwrap();
        for result in created {
            result.unwrap();
        }
    }

    pub(super) fn delete_topic(&self) {
        let deleted = self.runtime.block_on(admin().delete_topics(&[&self.name], &AdminOptions::new())).unwrap();
        for result in deleted {
            result.unwrap();
        }
    }

    /// Sends records by hand, in order, and waits until the broker has them.
    pub(super) fn send(&self, records: impl IntoIterator<Item = Sent>) {
        let producer: BaseProducer = client().set("linger.ms", "5").create().unwrap();
        for record in records {
            let mut message: BaseRecord<'_, str, [u8]> = BaseRecord::to(&self.name)
                .partition(record.partition)
                .key(record.key.as_str())
                .timestamp(record.timestamp);
            message = match &record.value {
                Some(value) => message.payload(value),
                None => message,
            };
            producer.send(message).map_err(|(error, _)| error).unwrap();
            producer.poll(Duration::ZERO);
        }
        producer.flush(LIMIT).unwrap();
    }

    /// `loadtest produce` on this topic.
    pub(super) fn produce(&self, args: &[&str]) -> Value {
        self.produce_to(&self.name, args)
    }

    /// `loadtest produce` on another topic, whose manifests `check` finds too.
    pub(super) fn produce_to(&self, topic: &str, args: &[&str]) -> Value {
        let output = self.loadtest("produce", topic, args).arg("--json").output().unwrap();
        assert!(output.status.success(), "produce: {}", text(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// `loadtest verify` of this topic and collection: its report, and whether it is content.
    pub(super) fn verify(&self, args: &[&str]) -> (Value, bool) {
        let output = self
            .loadtest("verify", &self.name, &[])
            .args(["--mongo", &self.mongo, "--database", &self.name])
            .args(args)
            .output()
            .unwrap();
        let report = serde_json::from_slice(&output.stdout);
        (report.unwrap_or_else(|_| panic!("verify: {}", text(&output))), output.status.success())
    }

    /// Asserts that everything produced is stored or dead, exactly once and in its place.
    pub(super) fn check(&self, args: &[&str]) -> Value {
        let (report, is_content) = self.verify(args);
        assert!(is_content, "{report:#}");
        for count in ["lost", "duplicated", "misplaced"] {
            assert_eq!(report[count], 0, "{report:#}");
        }
        report
    }

    fn loadtest(&self, command: &str, topic: &str, args: &[&str]) -> Command {
        let mut loadtest = Command::new(program("loadtest"));
        loadtest.args([command, "--brokers", &kafka(), "--topic", topic]).args(args);
        loadtest.arg("--manifest-dir").arg(self.dir.path().join("manifests"));
        loadtest
    }

    /// The configuration file as it stands.
    fn config_file(&self) -> PathBuf {
        let path = self.dir.path().join("sakia.toml");
        let mut decoder = format!("[[decoder]]\n{}\n", self.decoder);
        let topic = ("topics", self.name.as_str());
        let paths = [("device_path", "deviceid"), ("timestamp_path", "ts"), ("timestamp_format", "unix_ms")];
        for (key, value) in [topic].into_iter().chain(paths) {
            if !self.decoder.contains(key) {
                decoder += &[key, " = \"", value, "\"\n"].concat();
            }
        }
        // At once, since a program that was just started may be about to read it.
        let new = path.with_extension(format!("{:08x}", fastrand::u32(..)));
        std::fs::write(&new, format!("{}\n{decoder}", self.settings)).unwrap();
        std::fs::rename(new, &path).unwrap();
        path
    }

    /// `sakia COMMAND` with this world's configuration and nothing of the test's own environment that matters to it.
    pub(super) fn sakia(&self, command: &str, args: &[&str]) -> Command {
        let mut sakia = Command::new(program("sakia"));
        sakia.arg("--config").arg(self.config_file());
        sakia.args(["--brokers", &kafka(), "--mongo-uri", &self.mongo]);
        sakia.args(["--group", &self.name, "--database", &self.name]);
        sakia.arg(command).args(args);
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("SAKIA_")) {
            sakia.env_remove(name);
        }
        sakia
    }

    /// Starts `sakia run`; its log goes to a file of its own.
    pub(super) fn start(&self, args: &[&str]) -> Running {
        self.start_as(self.sakia("run", args))
    }

    /// Starts `sakia run` so that it ends itself at the `count`-th pass of a crash point.
    pub(super) fn start_crashing(&self, point: &str, count: u32) -> Running {
        let mut command = self.sakia("run", &[]);
        command.env("SAKIA_CRASH_AT", format!("{point}:{count}"));
        self.start_as(command)
    }

    /// Starts a command made by `sakia`, perhaps changed since.
    pub(super) fn start_as(&self, command: Command) -> Running {
        Running::start(command, &self.dir.path().join(format!("log-{:08x}", fastrand::u32(..))))
    }

    /// Runs until everything that is in the topic is stored; the log.
    pub(super) fn catch_up(&self) -> String {
        let running = self.start(&["--until-caught-up"]);
        let (status, log) = running.wait();
        assert!(status.success(), "sakia ended with {status}:\n{log}");
        log
    }

    /// All documents of a collection in the order of their `_id`.
    pub(super) fn documents(&self, collection: &str) -> Vec<Document> {
        self.runtime.block_on(async {
            let mut cursor = self.db.collection(collection).find(doc! {}).sort(doc! { "_id": 1 }).await.unwrap();
            let mut documents = Vec::new();
            while cursor.advance().await.unwrap() {
                documents.push(cursor.deserialize_current().unwrap());
            }
            documents
        })
    }

    pub(super) fn buckets(&self) -> Vec<Document> {
        self.documents("readings")
    }

    pub(super) fn dead(&self) -> Vec<Document> {
        self.documents("readings_dead")
    }

    /// The ledger's entries of partitions, without header and contracts.
    pub(super) fn ledger(&self) -> Vec<Document> {
        let is_entry = |d: &Document| d.get_document("_id").is_ok_and(|id| id.contains_key("partition"));
        self.documents("readings_ledger").into_iter().filter(is_entry).collect()
    }

    pub(super) fn command(&self, command: Document) -> Document {
        self.runtime.block_on(async { self.db.run_command(command).await }).unwrap()
    }

    /// Number of samples in all buckets.
    pub(super) fn n_samples(&self) -> usize {
        let count = |d: &Document| d.get("count").and_then(Bson::as_i32).unwrap_or(0) as usize;
        self.buckets().iter().map(count).sum()
    }

    /// What the group has committed, by partition.
    pub(super) fn committed(&self, n_partitions: i32) -> Vec<Option<i64>> {
        let list = self.group_client().committed_offsets(self.partitions(n_partitions), LIMIT).unwrap();
        list.elements().iter().map(|e| e.offset().to_raw().filter(|o| *o >= 0)).collect()
    }

    /// Sets the group's commit of every partition by hand, as an operator does. No member may be running.
    pub(super) fn commit(&self, n_partitions: i32, offset: i64) {
        let mut list = self.partitions(n_partitions);
        list.set_all_offsets(Offset::Offset(offset)).unwrap();
        self.group_client().commit(&list, CommitMode::Sync).unwrap();
    }

    /// Deletes the group with all its commits. No member may be running.
    pub(super) fn forget_group(&self) {
        let deleted = self.runtime.block_on(admin().delete_groups(&[&self.name], &AdminOptions::new())).unwrap();
        for result in deleted {
            result.unwrap();
        }
    }

    fn partitions(&self, n_partitions: i32) -> TopicPartitionList {
        let mut list = TopicPartitionList::new();
        list.add_partition_range(&self.name, 0, n_partitions - 1);
        list
    }

    fn group_client(&self) -> BaseConsumer {
        client().set("group.id", &self.name).set("enable.auto.commit", "false").create().unwrap()
    }

    /// The end of each program's log: what a failed test leaves to go by.
    fn show_logs(&self) {
        for entry in std::fs::read_dir(self.dir.path()).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let log = std::fs::read_to_string(entry.path()).unwrap_or_default();
            if name.starts_with("log-") {
                let lines: Vec<&str> = log.lines().collect();
                let last = lines[lines.len().saturating_sub(40)..].join("\n");
                writeln!(std::io::stderr(), "--- {name} of {}:\n{last}", self.name).ok();
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.show_logs();
        }
        self.runtime.block_on(async { self.db.drop().await }).ok();
    }
}

pub(super) fn program(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_BIN_EXE_sakia")).with_file_name(name);
    assert!(path.exists(), "{} is not built: run `cargo build --workspace` first, as `make test` does", path.display());
    path
}

pub(super) fn client() -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", kafka());
    config
}

pub(super) fn admin() -> AdminClient<DefaultClientContext> {
    client().create().unwrap()
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
