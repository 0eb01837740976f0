//! Wires source, shards, sink and ledger together, and takes them apart in order.
//!
//! Threads: the poll thread, one a shard, and a small runtime for what waits on the network. Stopping goes with the
//! stream: the source drains the shards and hangs up, the shards end, then the writers are told.

pub(crate) mod bounds;
mod figures;
mod resolve;
mod settle;

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam::channel::{Sender, bounded};
use mongodb::options::ClientOptions;
use mongodb::{Client, Database};
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};

use self::bounds::Bounds;
use self::figures::Figures;
use self::resolve::LedgerResolve;
use self::settle::settle_asks;
use crate::clock::Clock;
use crate::code::{Code, Failure};
use crate::config::Config;
use crate::engine::FlushPolicy;
use crate::engine::plan::Plan;
use crate::shard::{Answer, Links, Shard};
use crate::sink::bucket::BucketSink;
use crate::sink::ledger::Ledger;
use crate::source::{self, Board, Inbound, Stop, Stopped, TopicIds, Wiring, kafka};
use crate::telemetry::progress::Line;

/// How long a broker may take to tell the cluster's id at the start.
const CLUSTER_TIMEOUT: Duration = Duration::from_secs(30);
/// Batches a shard's queue holds: about two, so that one is worked on while the next waits.
const BATCHES: usize = 4;
/// Shares of the memory budget: a quarter is librdkafka's, an eighth the batches', the rest the engines'.
const ENGINE_SHARE: (u64, u64) = (5, 8);
/// Bytes of one command's samples.
const PLAN_BYTES: usize = 4 * 1024 * 1024;
/// The part of an engine's share that its table of chains may take: with more, what waits would be written in smaller
/// deltas; with less, more chains come back cold.
const TABLE_SHARE: usize = 3;

/// Everything that a running pipeline shares.
struct Parts {
    config: Config,
    clock: Clock,
    board: Arc<Board>,
    sink: BucketSink,
    ledger: Arc<Ledger>,
    ids: Arc<TopicIds>,
    figures: Arc<Figures>,
    runtime: Runtime,
}

/// Runs until `stop` is asked for, or until the topics' end where `until_caught_up`. Blocks.
pub fn run(config: Config, until_caught_up: bool, stop: Arc<Stop>, line: Line) -> Result<Stopped, Failure> {
    let clock = Clock::start();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("writer")
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Code::Failed, format_args!("the runtime cannot be started: {error}")))?;
    let (writers_stop, writers_stopped) = watch::channel(false);
    let cluster = kafka::cluster_id(&config.kafka, CLUSTER_TIMEOUT)?;
    let db = runtime.block_on(connect(&config))?;
    let ledger = Arc::new(runtime.block_on(Ledger::open(db.clone(), &config, cluster))?);
    let sink = BucketSink::new(db.clone(), &config, writers_stopped);
    let bounds = runtime.block_on(Bounds::find_out(&config, &db));
    let figures = Arc::new(Figures::new(&config, clock, bounds));
    let ids = Arc::new(TopicIds::new(&config.kafka)?);
    let parts = Parts { board: Arc::new(Board::new()), sink, ledger, ids, figures, runtime, clock, config };
    parts.runtime.block_on(figures::serve(&parts.config, Arc::clone(&parts.figures), clock))?;
    parts.runtime.spawn(listen_for_signals(Arc::clone(&stop)));
    parts.runtime.spawn(figures::ping(Arc::clone(&parts.figures), db));
    let (sink, ledger) = (parts.sink.clone(), Arc::clone(&parts.ledger));
    parts.runtime.spawn(figures::publish(Arc::clone(&parts.figures), sink, ledger, clock, line));
    let ended = parts.run_source(until_caught_up, stop);
    writers_stop.send_replace(true);
    parts.ledger.stop();
    // Whatever is still on its way belongs to nobody any more; it must not keep the process.
    parts.runtime.shutdown_timeout(Duration::from_millis(500));
    ended
}

/// The first signal asks for an orderly stop, the second ends the process at once: everything is read again then.
async fn listen_for_signals(stop: Arc<Stop>) {
    let mut terminate = signal(SignalKind::terminate()).expect("invariant: the runtime has signals enabled");
    for asked_before in [false, true] {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
        if asked_before {
            std::process::exit(130);
        }
        tracing::info!("stopping: writing what is held; a second signal ends at once");
        stop.ask();
    }
}

async fn connect(config: &Config) -> Result<Database, Failure> {
    let unusable = |error| Failure::new(Code::MongoUri, format_args!("mongo.uri cannot be used: {error}"));
    let mut options = ClientOptions::parse(&config.mongo.uri.0).await.map_err(unusable)?;
    options.app_name.get_or_insert_with(|| "sakia".to_owned());
    // Tail reads and the ledger come on top of the plans under way.
    options.max_pool_size.get_or_insert(config.mongo.connections + 4);
    options.min_pool_size.get_or_insert(config.mongo.connections);
    let client = Client::with_options(options).map_err(unusable)?;
    Ok(client.database(&config.mongo.database))
}

impl Parts {
    fn run_source(&self, until_caught_up: bool, stop: Arc<Stop>) -> Result<Stopped, Failure> {
        let (senders, shards) = self.start_shards();
        let resolve = LedgerResolve {
            runtime: self.runtime.handle().clone(),
            ledger: Arc::clone(&self.ledger),
            ids: Arc::clone(&self.ids),
            config: self.config.clone(),
            stop: Arc::clone(&stop),
        };
        let wiring = Wiring {
            shards: senders,
            board: Arc::clone(&self.board),
            resolve: Arc::new(resolve),
            clock: self.clock,
            stop,
            counts: Arc::clone(&self.figures.source),
            until_caught_up,
        };
        let config = self.config.clone();
        let poll = std::thread::Builder::new()
            .name("poll".to_owned())
            .spawn(move || source::run(&config, wiring))
            .map_err(|error| Failure::new(Code::Failed, format_args!("the poll thread cannot be started: {error}")))?;
        let ended = poll.join().map_err(|_| panicked("the poll thread"))?;
        for shard in shards {
            shard.join().map_err(|_| panicked("a shard"))?;
        }
        Ok(ended?)
    }

    fn start_shards(&self) -> (Vec<Sender<Inbound>>, Vec<JoinHandle<()>>) {
        let n_shards = self.config.flow.shards as usize;
        (0..n_shards).map(|i| self.start_shard(i)).unzip()
    }

    fn start_shard(&self, i: usize) -> (Sender<Inbound>, JoinHandle<()>) {
        let n_plans = self.config.flow.inflight_plans as usize;
        let (inbound_tx, inbound) = bounded(BATCHES);
        let (answers_tx, answers) = bounded(n_plans + 1);
        let (plans, plans_rx) = mpsc::channel(n_plans);
        let (asks, asks_rx) = mpsc::channel(1);
        self.runtime.spawn(write_plans(self.sink.clone(), plans_rx, answers_tx.clone()));
        self.runtime.spawn(settle_asks(Arc::clone(&self.ledger), Arc::clone(&self.ids), asks_rx, answers_tx));
        let bounds = Arc::clone(&self.figures.bounds.board);
        let links = Links { inbound, answers, plans, asks, board: Arc::clone(&self.board), bounds };
        let shard = Shard::new(policy(&self.config), links, self.clock);
        let figures = Arc::clone(&self.figures);
        let thread = std::thread::Builder::new()
            .name(format!("shard-{i}"))
            .spawn(move || shard.run(|now, counts| figures.shard(i, now, counts)))
            .expect("invariant: a process that just started can start its few threads");
        (inbound_tx, thread)
    }
}

fn panicked(thread: &str) -> Failure {
    Failure::new(Code::Panicked, format_args!("{thread} panicked, see the message above"))
}

/// Starts each plan as it comes; the engine bounds how many there are.
async fn write_plans(sink: BucketSink, mut plans: mpsc::Receiver<Plan>, answers: Sender<Answer>) {
    while let Some(plan) = plans.recv().await {
        let (sink, answers) = (sink.clone(), answers.clone());
        tokio::spawn(async move {
            if let Some(report) = sink.write(plan).await {
                // The channel has room for every plan under way; it fails only when the shard is gone.
                answers.try_send(Answer::Written(report)).ok();
            }
        });
    }
}

pub(crate) fn policy(config: &Config) -> FlushPolicy {
    let (bucket, flow) = (&config.bucket, &config.flow);
    let budget = flow.memory_budget_bytes * ENGINE_SHARE.0 / ENGINE_SHARE.1 / u64::from(flow.shards);
    FlushPolicy {
        max_samples: bucket.max_samples,
        target_bytes: bucket.target_bytes,
        min_fill: bucket.min_fill,
        flush_age_ms: bucket.flush_age_ms,
        flush_samples: bucket.flush_samples,
        budget_bytes: budget as usize,
        inflight_plans: flow.inflight_plans as usize,
        plan_statements: flow.plan_statements as usize,
        plan_bytes: PLAN_BYTES,
        linger_ms: 5,
        ledger_interval_ms: 1_000,
        table_bytes: budget as usize / TABLE_SHARE,
    }
}
