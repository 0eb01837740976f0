//! A topic of its own for each test, a ledger in memory, and shards that take everything as durable at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam::channel::{Receiver, bounded};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use sakia::clock::Clock;
use sakia::code::{Code, Failure};
use sakia::config::Config;
use sakia::engine::plan::{Assigned, Span};
use sakia::record::{Assignment, Origin, StreamId};
use sakia::source::{
    Batch, Board, Handed, Inbound, PartitionAsk, PartitionFigures, Refused, Resolve, SourceCounts, Stop, Stopped,
    Wiring, run,
};

use super::settings::{DAY, config, contract};

const WAIT: Duration = Duration::from_secs(10);

pub(super) fn brokers() -> String {
    std::env::var("SAKIA_KAFKA").expect("SAKIA_KAFKA must name a broker; `make test` starts one")
}

/// Waits until `is_so`, for at most half a minute.
pub(super) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..600 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("waited in vain: {what}");
}

/// A topic that no other test knows, and the group that reads it.
pub(super) struct Topic {
    pub(super) name: String,
    n_partitions: i32,
    producer: BaseProducer,
    n_produced: AtomicU32,
}

impl Topic {
    pub(super) fn create(purpose: &str, n_partitions: i32) -> Self {
        let producer = client().create().unwrap();
        let name = format!("source-{purpose}-{:08x}", fastrand::u32(..));
        let topic = Self { name, n_partitions, producer, n_produced: AtomicU32::new(0) };
        topic.create_now();
        topic
    }

    fn create_now(&self) {
        let new = NewTopic::new(&self.name, self.n_partitions, TopicReplication::Fixed(1));
        let results = admin(|admin, options| runtime().block_on(admin.create_topics([&new], options)));
        for result in results {
            result.unwrap();
        }
    }

    pub(super) fn recreate(&self) {
        let names = [self.name.as_str()];
        admin(|admin, options| runtime().block_on(admin.delete_topics(&names, options)))[0].as_ref().unwrap();
        // The broker takes a moment to forget the name.
        until("the topic is created again", || {
            let new = NewTopic::new(&self.name, self.n_partitions, TopicReplication::Fixed(1));
            admin(|admin, options| runtime().block_on(admin.create_topics([&new], options)))[0].is_ok()
        });
    }

    /// Produces `n` records, to the partitions in turn, and waits until the broker has them.
    pub(super) fn produce(&self, n: u32) {
        for _ in 0..n {
            let i = self.n_produced.fetch_add(1, Ordering::Relaxed);
            let value = format!("reading {i}");
            let headers = OwnedHeaders::new().insert(Header { key: "n", value: Some(&value) });
            let record = BaseRecord::to(&self.name).partition(i as i32 % self.n_partitions).key("device");
            let mut record = record.payload(&value).headers(headers).timestamp(1_700_000_000_000);
            while let Err((_, back)) = self.producer.send(record) {
                self.producer.poll(Duration::from_millis(10));
                record = back;
            }
        }
        self.producer.flush(WAIT).unwrap();
    }

    pub(super) fn ends(&self) -> Vec<i64> {
        let consumer = self.outsider();
        (0..self.n_partitions).map(|p| consumer.fetch_watermarks(&self.name, p, WAIT).unwrap().1).collect()
    }

    /// What the group has committed, -1 = nothing.
    pub(super) fn committed(&self) -> Vec<i64> {
        let mut list = TopicPartitionList::new();
        list.add_partition_range(&self.name, 0, self.n_partitions - 1);
        let committed = self.outsider().committed_offsets(list, WAIT).unwrap();
        let offset = |o| if let Offset::Offset(o) = o { o } else { -1 };
        committed.elements().iter().map(|e| offset(e.offset())).collect()
    }

    pub(super) fn commit(&self, partition: i32, offset: i64) {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(&self.name, partition, Offset::Offset(offset)).unwrap();
        self.outsider().commit(&list, CommitMode::Sync).unwrap();
    }

    /// A client of the group that never joins it.
    fn outsider(&self) -> BaseConsumer {
        client().set("group.id", &self.name).create().unwrap()
    }
}

fn client() -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers()).set("linger.ms", "1");
    config
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn admin<T>(
    ask: impl FnOnce(&AdminClient<DefaultClientContext>, &AdminOptions) -> rdkafka::error::KafkaResult<T>,
) -> T {
    let admin: AdminClient<DefaultClientContext> = client().create().unwrap();
    ask(&admin, &AdminOptions::new().operation_timeout(Some(WAIT)).request_timeout(Some(WAIT))).unwrap()
}

/// The ledger, and all that shards received, of all members together.
#[derive(Clone, Default)]
pub(super) struct World(Arc<Inner>);

#[derive(Default)]
struct Inner {
    facts: Mutex<Facts>,
    going: Condvar,
}

#[derive(Default)]
struct Facts {
    next: BTreeMap<i32, i64>,
    refusals: BTreeMap<i32, Refused>,
    asks: Vec<PartitionAsk>,
    assignments: BTreeMap<i32, Assignment>,
    offsets: BTreeMap<i32, Vec<i64>>,
    lost: BTreeSet<Assignment>,
    is_held: bool,
    covered: Option<(i64, i64)>,
}

impl World {
    fn facts(&self) -> std::sync::MutexGuard<'_, Facts> {
        self.0.facts.lock().unwrap()
    }

    pub(super) fn set_next(&self, _: &Topic, partition: i32, offset: i64) {
        self.facts().next.insert(partition, offset);
    }

    /// Says that `[from, to)` of every partition is stored already.
    pub(super) fn cover(&self, from: i64, to: i64) {
        self.facts().covered = Some((from, to));
    }

    pub(super) fn refuse(&self, partition: i32, reason: &str, retry: bool) {
        self.facts().refusals.insert(partition, Refused { reason: Failure::new(Code::Failed, reason), retry });
    }

    pub(super) fn admit(&self, partition: i32) {
        self.facts().refusals.remove(&partition);
    }

    pub(super) fn asks(&self) -> Vec<PartitionAsk> {
        self.facts().asks.clone()
    }

    pub(super) fn assignment_of(&self, partition: i32) -> Option<Assignment> {
        self.facts().assignments.get(&partition).copied()
    }

    pub(super) fn offsets(&self, partition: i32) -> Vec<i64> {
        self.facts().offsets.get(&partition).cloned().unwrap_or_default()
    }

    pub(super) fn n_records(&self) -> usize {
        self.facts().offsets.values().map(Vec::len).sum()
    }

    pub(super) fn is_lost(&self, assignment: Assignment) -> bool {
        self.facts().lost.contains(&assignment)
    }

    /// Shards receive nothing from now on.
    pub(super) fn hold(&self) {
        self.facts().is_held = true;
    }

    pub(super) fn go_on(&self) {
        self.facts().is_held = false;
        self.0.going.notify_all();
    }

    pub(super) fn check_once_and_in_order(&self, topic: &Topic) {
        for (partition, end) in topic.ends().into_iter().enumerate() {
            assert_eq!(self.offsets(partition as i32), (0..end).collect::<Vec<_>>(), "partition {partition}");
        }
    }

    fn wait_while_held(&self) {
        drop(self.0.going.wait_while(self.facts(), |facts| facts.is_held).unwrap());
    }

    /// Takes a batch as durable.
    fn store(&self, batch: &Batch, board: &Board) {
        let mut facts = self.facts();
        for (assignment, record) in batch.records() {
            assert_eq!(record.key, Some(b"device".as_slice()));
            assert_eq!(record.timestamp, Some(1_700_000_000_000));
            assert_eq!(record.headers.iter().next().unwrap(), ("n", record.value));
            facts.offsets.entry(record.partition).or_default().push(record.offset);
            facts.next.insert(record.partition, record.offset + 1);
            board.commit(assignment, record.offset + 1);
        }
    }
}

impl Resolve for World {
    fn assign(&self, asks: Vec<(PartitionAsk, Assignment)>) -> Vec<Result<Handed, Refused>> {
        asks.into_iter().map(|(ask, assignment)| self.hand_over(ask, assignment)).collect()
    }
}

impl World {
    fn hand_over(&self, ask: PartitionAsk, assignment: Assignment) -> Result<Handed, Refused> {
        let mut facts = self.facts();
        facts.asks.push(ask.clone());
        if let Some(refused) = facts.refusals.get(&ask.partition) {
            return Err(refused.clone());
        }
        facts.assignments.insert(ask.partition, assignment);
        let from = facts.next.get(&ask.partition).copied().or(ask.committed).unwrap_or(ask.low);
        let origin = Origin { cluster: "test".to_owned(), topic: ask.topic, incarnation: 0, partition: ask.partition };
        let span =
            |from, to| Span { stream: StreamId(from), from, to, reserved: from, window: DAY, stats: Arc::default() };
        let spans = match facts.covered {
            Some((end, next)) => vec![span(from, Some(end)), span(next, None)],
            None => vec![span(from, None)],
        };
        let contracts = spans.iter().map(|_| Arc::new(contract())).collect();
        Ok(Handed { assigned: Assigned { assignment, origin: Arc::new(origin), spans, dead: Vec::new() }, contracts })
    }
}

/// One member of the group: a poll thread and two shards.
pub(super) struct Member {
    pub(super) board: Arc<Board>,
    pub(super) counts: Arc<SourceCounts>,
    stop: Arc<Stop>,
    poll: JoinHandle<Stopped>,
    shards: Vec<JoinHandle<()>>,
}

impl Member {
    pub(super) fn start(world: &World, topic: &Topic, adjust: impl FnOnce(&mut Wiring)) -> Self {
        Self::start_with(world, config(topic), adjust)
    }

    pub(super) fn start_with(world: &World, config: Config, adjust: impl FnOnce(&mut Wiring)) -> Self {
        let (board, counts, stop) =
            (Arc::new(Board::new()), Arc::new(SourceCounts::default()), Arc::new(Stop::default()));
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..2).map(|_| bounded(4)).unzip();
        let shard = |receiver| {
            let (world, board) = (world.clone(), Arc::clone(&board));
            std::thread::spawn(move || run_shard(&world, &board, &receiver))
        };
        let shards = receivers.into_iter().map(shard).collect();
        let mut wiring = Wiring {
            shards: senders,
            board: Arc::clone(&board),
            resolve: Arc::new(world.clone()),
            clock: Clock::start(),
            stop: Arc::clone(&stop),
            counts: Arc::clone(&counts),
            until_caught_up: false,
        };
        adjust(&mut wiring);
        let poll = std::thread::spawn(move || run(&config, wiring).unwrap());
        Self { board, counts, stop, poll, shards }
    }

    pub(super) fn n_live(&self) -> u64 {
        self.counts.n_live.load(Ordering::Relaxed)
    }

    pub(super) fn partitions(&self) -> Vec<PartitionFigures> {
        self.counts.partitions()
    }

    pub(super) fn stop(self) -> Stopped {
        self.stop.ask();
        self.join()
    }

    /// Waits until it ends by itself, and checks that it leaves nothing behind.
    pub(super) fn join(self) -> Stopped {
        let stopped = self.poll.join().unwrap();
        for shard in self.shards {
            shard.join().unwrap();
        }
        assert_eq!(self.counts.batch_bytes.load(Ordering::Relaxed), 0);
        assert_eq!(self.counts.strays.load(Ordering::Relaxed), 0);
        stopped
    }
}

fn run_shard(world: &World, board: &Board, inbox: &Receiver<Inbound>) {
    let mut held = BTreeSet::new();
    world.wait_while_held();
    while let Ok(event) = inbox.recv() {
        match event {
            Inbound::Batch(batch) => {
                assert!(batch.records().all(|(assignment, _)| held.contains(&assignment)));
                world.store(&batch, board);
            }
            Inbound::Assigned(handed) => assert!(held.insert(handed.assigned.assignment)),
            Inbound::Revoked { assignments, .. } => {
                for assignment in assignments {
                    assert!(held.remove(&assignment));
                    board.released(assignment);
                }
            }
            Inbound::Lost { assignments } => {
                held.retain(|assignment| !assignments.contains(assignment));
                world.facts().lost.extend(assignments);
            }
            Inbound::Drain { .. } => std::mem::take(&mut held).into_iter().for_each(|a| board.released(a)),
        }
        world.wait_while_held();
    }
}
