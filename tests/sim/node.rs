//! One member: the production engine, and where it stands in the log.

use std::collections::BTreeSet;
use std::sync::Arc;

use fastrand::Rng;
use sakia::decode::Reading;
use sakia::engine::plan::{Assigned, DeadLetter, Plan, Report, Scope, Span};
use sakia::engine::{Bounds, Engine, FlushPolicy, Input, SampleNames, Taken};
use sakia::record::{Assignment, EventTime, Origin, Position, StreamId, Tick};

use crate::log::{Item, Log, device_under};

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) id: usize,
    pub(crate) engine: Engine,
    pub(crate) contracts: Vec<u32>,
    pub(crate) cursor: usize,
    pub(crate) alive: bool,
    pub(crate) done: bool,
    flying: BTreeSet<(String, i64, i64)>,
    pub(crate) complaints: Vec<String>,
    budget: usize,
    table_bytes: usize,
    cache_bytes: u64,
}

pub(crate) const ASSIGNMENT: Assignment = Assignment(1);

pub(crate) fn policy(rng: &mut Rng, max_cap: u32) -> FlushPolicy {
    let max_samples = rng.u32(2..=max_cap);
    let budget_bytes = rng.usize(300..6000);
    FlushPolicy {
        max_samples,
        target_bytes: 700,
        min_fill: rng.u32(1..=8),
        flush_age_ms: rng.u64(1..40),
        flush_samples: rng.u32(1..=8),
        budget_bytes,
        inflight_plans: rng.usize(1..4),
        plan_statements: rng.usize(1..5),
        plan_bytes: 1000,
        linger_ms: rng.u64(0..5),
        ledger_interval_ms: rng.u64(1..20),
        table_bytes: rng.usize(0..=budget_bytes / 3),
    }
}

impl Node {
    pub(crate) fn new(
        id: usize,
        policy: FlushPolicy,
        cache_bytes: u64,
        now: Tick,
        spans: Vec<(Span, u32)>,
        dead: &BTreeSet<(StreamId, Position)>,
        log: &Log,
    ) -> Self {
        let (budget, table_bytes) = (policy.budget_bytes, policy.table_bytes);
        let (spans, contracts): (Vec<Span>, Vec<u32>) = spans.into_iter().unzip();
        let start = spans.first().map_or(0, |s| s.from);
        let known = |s: &Span, d: &(StreamId, Position)| d.0 == s.stream && d.1.offset() >= s.from;
        let dead = dead.iter().filter(|d| spans.iter().any(|s| known(s, d))).copied().collect();
        let origin = Origin { cluster: "c".into(), topic: "t".into(), incarnation: 0, partition: 0 };
        let mut engine = Engine::new(policy);
        engine.handle(now, Input::Assigned(Assigned { assignment: ASSIGNMENT, origin: Arc::new(origin), spans, dead }));
        let cursor = log.records.partition_point(|(offset, _)| *offset < start);
        Self {
            id,
            engine,
            contracts,
            cursor,
            alive: true,
            done: false,
            flying: BTreeSet::new(),
            complaints: Vec::new(),
            budget,
            table_bytes,
            cache_bytes,
        }
    }

    /// Takes the next record, if there is one and room for it.
    pub(crate) fn poll(&mut self, now: Tick, log: &Log) {
        let Some((offset, items)) = log.records.get(self.cursor) else { return };
        if !self.engine.wants_records() {
            return;
        }
        self.cursor += 1;
        let Some(taken) = self.engine.accept(ASSIGNMENT, *offset) else { return };
        for (index, item) in items.iter().enumerate() {
            self.take(now, taken, index as u16, *item);
        }
        if self.engine.memory_bytes() > self.budget + 1000 {
            self.complaints.push(format!("{} bytes held of {}", self.engine.memory_bytes(), self.budget));
        }
    }

    fn take(&mut self, now: Tick, taken: Taken, index: u16, item: Item) {
        let pos = Position::new(taken.offset, index);
        match item {
            Item::Good { device, day, meta } => {
                let device = device_under(self.contracts[taken.span], device);
                let mut info = vec![16, 0, 0, 0, 0x12, b'p', 0];
                info.extend_from_slice(&pos.0.to_le_bytes());
                info.push(0);
                let meta = [5, 0, 0, 0, meta];
                let meta = if meta[4] == 0 { &[][..] } else { &meta[..] };
                let at = EventTime(i64::from(day) * 100 + taken.offset % 100);
                let reading = Reading { device: &device, at, info: &info, meta, stats: &[] };
                self.engine.take(now, taken, index, &reading, SampleNames { time: "time", info: "info" });
            }
            Item::Bad => self.engine.reject(DeadLetter {
                assignment: ASSIGNMENT,
                stream: taken.stream,
                pos,
                origin: Arc::new(Origin { cluster: "c".into(), topic: "t".into(), incarnation: 0, partition: 0 }),
                scope: Scope::Record,
                reason: "malformed",
                detail: String::new(),
                timestamp: None,
                key: None,
                value: None,
                headers: Box::default(),
            }),
        }
    }

    pub(crate) fn poll_plan(&mut self, now: Tick) -> Option<Plan> {
        let plan = self.engine.poll_plan(now)?;
        for delta in &plan.deltas {
            let key = (delta.key.device.to_string(), delta.key.window.0, delta.key.stream.0);
            if !self.flying.insert(key) {
                self.complaints.push(format!("two deltas under way for {:?}", delta.key));
            }
        }
        Some(plan)
    }

    pub(crate) fn report(&mut self, now: Tick, report: Report) {
        for (delta, _) in &report.deltas {
            self.flying.remove(&(delta.key.device.to_string(), delta.key.window.0, delta.key.stream.0));
        }
        self.engine.handle(now, Input::Written(report));
    }

    /// What the world outside allows, as far as this node has heard.
    pub(crate) fn hear(&mut self, now: Tick, horizon: EventTime) {
        self.engine.handle(now, Input::Bounds(Bounds { cache_bytes: self.cache_bytes, horizon }));
    }

    /// Read to the end, everything it read is durable and in the ledger, and what it keeps is within its bounds.
    pub(crate) fn is_quiet(&self, log: &Log) -> bool {
        let settled = self.engine.progress().all(|p| p.watermark >= p.polled && p.reserved >= p.watermark);
        let levels = self.engine.levels();
        let kept = levels.open_bytes <= self.cache_bytes && levels.table_bytes <= self.table_bytes;
        self.done || (self.cursor >= log.records.len() && settled && self.engine.memory_bytes() == 0 && kept)
    }

    pub(crate) fn stuck_report(&self) -> String {
        let progress: Vec<_> = self.engine.progress().collect();
        format!(
            "node {} is stuck at record {}: {progress:?}, {} bytes, {:?}",
            self.id,
            self.cursor,
            self.engine.memory_bytes(),
            self.engine.levels()
        )
    }
}
