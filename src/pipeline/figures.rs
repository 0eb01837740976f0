//! Figures for people and probes: gathers what the threads count, once a second.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mongodb::Database;
use mongodb::bson::doc;

use super::bounds::Bounds;
use crate::clock::{Clock, wall_ms};
use crate::code::{Code, Failure};
use crate::config::Config;
use crate::record::Tick;
use crate::sink::bucket::BucketSink;
use crate::sink::ledger::Ledger;
use crate::source::SourceCounts;
use crate::telemetry::counts::{PartitionLag, ShardCounts, SinkTotals, SourceGauges};
use crate::telemetry::health::Health;
use crate::telemetry::http::{self, Pages};
use crate::telemetry::metrics::Metrics;
use crate::telemetry::progress::{Line, Progress};
use crate::telemetry::stall::{Place, Stall, Stalls};

/// A thread that has not gone round its loop for so long is not live. Longer than any bounded wait of the poll thread.
const STALE_AFTER_MS: u64 = 120_000;
const EVERY: Duration = Duration::from_secs(1);
const PING_EVERY: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Figures {
    pub(super) source: Arc<SourceCounts>,
    metrics: Metrics,
    health: Arc<Health>,
    pub(super) bounds: Bounds,
    stalls: Mutex<Stalls>,
    budget_bytes: u64,
    started_s: u64,
    /// Partitions that the health page calls stopped.
    stopped: Mutex<BTreeSet<(String, i32)>>,
    /// Reasons of dead letters that people were told of.
    told: Mutex<BTreeSet<&'static str>>,
}

impl Figures {
    pub(super) fn new(config: &Config, clock: Clock, bounds: Bounds) -> Self {
        let n_shards = config.flow.shards as usize;
        Self {
            source: Arc::new(SourceCounts::default()),
            metrics: Metrics::new(n_shards),
            health: Arc::new(Health::new(n_shards, STALE_AFTER_MS, clock.now())),
            bounds,
            stalls: Mutex::new(Stalls::new(config.bucket.flush_age_ms, config.mongo.write_timeout_ms)),
            budget_bytes: config.flow.memory_budget_bytes,
            started_s: (wall_ms() / 1_000).max(0) as u64,
            stopped: Mutex::default(),
            told: Mutex::default(),
        }
    }

    /// A shard's thread publishes.
    pub(super) fn shard(&self, i: usize, now: Tick, counts: &ShardCounts) {
        self.tell_of_dead_letters(counts);
        self.metrics.publish_shard(i, counts);
        self.health.beat_shard(i, now);
    }

    /// Once a reason: a mistake in a path or a unit would otherwise turn a whole topic into dead letters without a word.
    fn tell_of_dead_letters(&self, counts: &ShardCounts) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        for reason in counts.dead_letters.keys().filter(|reason| told.insert(reason)) {
            tracing::warn!(
                code = %Code::DeadLetters,
                reason,
                "there are dead letters; `sakia check --topic TOPIC` shows what is wrong with records, and where"
            );
        }
    }

    fn gather(&self, now: Tick) {
        let source = &self.source;
        self.bounds.share_out(source);
        let partitions_stalled = self.note_stalls(now);
        let lag = |p: crate::source::PartitionFigures| PartitionLag {
            topic: p.topic,
            partition: p.partition,
            records: u64::try_from(p.lag).ok(),
        };
        self.metrics.publish_source(&SourceGauges {
            record_bytes: source.bytes.load(Relaxed),
            rebalances: source.rebalances.load(Relaxed),
            pauses: source.pauses.load(Relaxed),
            commits: source.commits.load(Relaxed),
            commit_errors: source.commit_errors.load(Relaxed),
            reassignments: source.reassigns.load(Relaxed),
            strays: source.strays.load(Relaxed),
            shards_paused: source.n_paused.load(Relaxed),
            is_ready: self.health.not_ready(now).is_empty(),
            started_s: self.started_s,
            partitions_assigned: source.n_live.load(Relaxed) + source.n_stopped.load(Relaxed),
            partitions_stopped: source.n_stopped.load(Relaxed),
            partitions_stalled,
            cache_budget_bytes: self.bounds.member_bytes.load(Relaxed),
            librdkafka_bytes: source.queue_bytes.load(Relaxed),
            arena_bytes: source.batch_bytes.load(Relaxed) as u64,
            memory_budget_bytes: self.budget_bytes,
            lags: source.partitions().into_iter().map(lag).collect(),
        });
        self.health.beat_poll(Tick(source.seen.load(Relaxed)));
        self.health.set_group_joined(source.rebalances.load(Relaxed) > 0);
        self.note_halts();
    }

    /// How many partitions stand still. Each is told of once, and stays a reason not to be ready.
    fn note_stalls(&self, now: Tick) -> u64 {
        let place = |p: crate::source::PartitionFigures| Place {
            topic: p.topic,
            partition: p.partition,
            durable: p.durable,
            has_work: p.has_work,
        };
        let places: Vec<Place> = self.source.partitions().into_iter().map(place).collect();
        let stalls = self.stalls.lock().unwrap_or_else(PoisonError::into_inner).look(now, &places);
        for Stall { topic, partition, durable, still_ms, .. } in stalls.iter().filter(|stall| stall.is_new) {
            tracing::error!(
                code = %Code::PartitionStalled, topic = &**topic, partition, offset = durable, still_s = still_ms / 1000,
                "partition stands still although records wait"
            );
        }
        let reason = |stall: &Stall| {
            let Stall { topic, partition, durable, still_ms, .. } = stall;
            format!("partition {topic}/{partition} stands still at offset {durable} for {} s", still_ms / 1000)
        };
        self.health.set_stalled(stalls.iter().map(reason).collect());
        stalls.len() as u64
    }

    fn note_halts(&self) {
        let mut stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        let halts = self.source.halts();
        let now: BTreeSet<_> = halts.iter().map(|h| (h.topic.to_string(), h.partition)).collect();
        for (topic, partition) in stopped.difference(&now) {
            self.health.clear_partition(topic, *partition);
        }
        for halt in halts {
            self.health.stop_partition(&halt.topic, halt.partition, halt.reason);
        }
        *stopped = now;
    }
}

/// Opens the pages, if any are configured, and serves them as long as the runtime lives.
pub(super) async fn serve(config: &Config, figures: Arc<Figures>, clock: Clock) -> Result<(), Failure> {
    let Some(listen) = config.telemetry.listen else { return Ok(()) };
    let listener = http::listen(listen).await?;
    let pages = Pages { metrics: figures.metrics.clone(), health: Arc::clone(&figures.health), clock };
    let (address, server) = http::serve(listener, pages, std::future::pending())
        .map_err(|error| Failure::new(Code::ListenFailed, format_args!("cannot serve metrics: {error}")))?;
    tracing::info!(%address, "serving /metrics, /live and /ready");
    tokio::spawn(server);
    Ok(())
}

/// Gathers and shows once a second, as long as the runtime lives.
pub(super) async fn publish(figures: Arc<Figures>, sink: BucketSink, ledger: Arc<Ledger>, clock: Clock, line: Line) {
    let mut progress = Progress::new(line);
    let mut every = tokio::time::interval(EVERY);
    loop {
        every.tick().await;
        figures.gather(clock.now());
        figures.metrics.publish_sink(&sink.counts().totals());
        let counts = ledger.counts().totals();
        figures.metrics.publish_sink(&SinkTotals {
            ledger_commands: counts.commands,
            ledger_retries: counts.resends.iter().map(|(_, n)| n).sum(),
            ..sink.counts().totals()
        });
        progress.report(clock.now(), &figures.metrics.summary());
    }
}

/// Asks the server every few seconds whether it is there: an idle process has no other way to know.
pub(super) async fn ping(figures: Arc<Figures>, db: Database) {
    let mut every = tokio::time::interval(PING_EVERY);
    loop {
        every.tick().await;
        let answer = tokio::time::timeout(PING_EVERY, db.run_command(doc! { "hello": 1 })).await;
        match answer {
            Ok(Ok(hello)) => {
                figures.bounds.note_time(&hello);
                figures.health.sink_answered();
            }
            Ok(Err(error)) => figures.health.sink_failed(error.kind.to_string()),
            Err(_) => figures.health.sink_failed(format!("no answer within {} s", PING_EVERY.as_secs())),
        }
    }
}
