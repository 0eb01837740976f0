//! The world: nodes, a wire that delays, reorders, repeats and drops, a clock that jumps.

use std::hash::{BuildHasher, Hasher};

use fastrand::Rng;
use sakia::code::Code;
use sakia::engine::Input;
use sakia::engine::plan::{LedgerAnswer, LedgerAsk, Plan, Report};
use sakia::record::{EventTime, Tick};

use crate::ledger::Ledger;
use crate::log::{Item, Log};
use crate::node::{Node, policy};
use crate::store::Store;

/// What travels. A plan stays on its way until its reply is not lost, as a writer sends it again until then.
#[derive(Debug)]
enum Message {
    Plan { node: usize, plan: Plan, late: bool },
    Report { node: usize, report: Report },
    Ask { node: usize, ask: LedgerAsk },
    Answer { node: usize, answer: LedgerAnswer },
}

/// What nodes believe of the time to live until they hear that the first window's has passed: less than a minute behind.
const JUST_BEFORE: EventTime = EventTime(-50_000);

/// The first window's time to live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expiry {
    Never,
    Later,
    /// The server deletes its buckets, one by one.
    Passed,
}

/// What a rebuild of the ledger had to do without.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rebuilt {
    /// Buckets that the server had deleted.
    pub(crate) n_expired: u64,
    /// A stream that had begun shows nowhere any more.
    pub(crate) is_missing_streams: bool,
}

#[derive(Debug)]
pub(crate) struct World {
    rng: Rng,
    now: Tick,
    pub(crate) log: Log,
    pub(crate) store: Store,
    pub(crate) ledger: Ledger,
    pub(crate) nodes: Vec<Node>,
    net: Vec<Message>,
    group: Option<i64>,
    /// The group was moved by hand at some time, so that its commit proves nothing.
    group_moved: bool,
    contract: u32,
    pub(crate) max_cap: u32,
    pub(crate) expiry: Expiry,
    pub(crate) complaints: Vec<String>,
    pub(crate) rebuilt: Vec<Rebuilt>,
    trace: u64,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let log = Log::new(&mut rng);
        let mut world = Self {
            rng,
            now: Tick(1),
            log,
            store: Store::default(),
            ledger: Ledger::default(),
            nodes: Vec::new(),
            net: Vec::new(),
            group: None,
            group_moved: false,
            contract: 0,
            max_cap: 7,
            expiry: Expiry::Never,
            complaints: Vec::new(),
            rebuilt: Vec::new(),
            trace: 0,
        };
        let start = if world.rng.u8(0..5) == 0 { world.rng.i64(0..world.log.end()) } else { 0 };
        world.group_moved = start > 0;
        if world.rng.u8(0..4) == 0 {
            world.expiry = Expiry::Later;
        }
        world.start_node(start);
        world
    }

    fn start_node(&mut self, start: i64) {
        let spans = self.ledger.assign(&mut self.rng, start, self.contract);
        let policy = policy(&mut self.rng, self.max_cap);
        let cache_bytes = if self.rng.bool() { self.rng.u64(0..3000) } else { u64::MAX };
        let id = self.nodes.len();
        let mut node = Node::new(id, policy, cache_bytes, self.now, spans, &self.store.dead, &self.log);
        node.hear(self.now, JUST_BEFORE);
        self.nodes.push(node);
    }

    pub(crate) fn live(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|n| n.alive)
    }

    pub(crate) fn run_with_faults(&mut self) {
        for _ in 0..900 {
            match self.rng.u8(0..100) {
                0..=1 => self.crash(),
                2 => self.start_beside(),
                3 => self.repeat_message(),
                4 if self.rng.u8(0..6) == 0 => self.change_contract(),
                5 => self.revoke(),
                6 if self.contract == 0 && self.rng.u8(0..6) == 0 => self.lose_ledger(),
                6 if self.expiry == Expiry::Later && self.rng.u8(0..6) == 0 => self.expiry = Expiry::Passed,
                _ => self.step(true),
            }
        }
    }

    /// No more faults: the last member reads from the start and everything comes to rest.
    pub(crate) fn settle(&mut self) {
        for node in &mut self.nodes {
            node.alive &= self.rng.bool();
        }
        self.start_node(0);
        for _ in 0..60_000 {
            self.step(false);
            let quiet = self.live().all(|n| n.is_quiet(&self.log));
            if quiet && self.net.iter().all(|m| !self.concerns_the_living(m)) {
                break;
            }
        }
        let complaints = self.nodes.iter().flat_map(|n| n.complaints.iter().cloned());
        self.complaints.extend(complaints);
    }

    fn concerns_the_living(&self, message: &Message) -> bool {
        match message {
            Message::Plan { late: true, .. } => true,
            Message::Plan { node, .. }
            | Message::Report { node, .. }
            | Message::Ask { node, .. }
            | Message::Answer { node, .. } => self.nodes[*node].alive,
        }
    }

    fn step(&mut self, faults: bool) {
        self.now = self.now.after(self.rng.u64(0..4));
        if self.expiry == Expiry::Passed && self.rng.u8(0..30) == 0 {
            self.store.expire_one(&mut self.rng);
        }
        let alive: Vec<usize> = self.live().map(|n| n.id).collect();
        if self.rng.u8(0..10) < 6 {
            let Some(id) = self.rng.choice(&alive).copied() else { return };
            self.drive(id);
        } else if !self.net.is_empty() {
            let at = self.rng.usize(0..self.net.len());
            let message = self.net.swap_remove(at);
            self.deliver(message, faults);
        }
    }

    /// One turn of a node's loop.
    fn drive(&mut self, id: usize) {
        let node = &mut self.nodes[id];
        if self.rng.u8(0..4) == 0 {
            node.hear(self.now, if self.expiry == Expiry::Passed { EventTime(100) } else { JUST_BEFORE });
        }
        if self.rng.bool() {
            node.poll(self.now, &self.log);
        } else {
            node.engine.handle(self.now, Input::Timeout);
        }
        while let Some(plan) = node.poll_plan(self.now) {
            self.net.push(Message::Plan { node: id, plan, late: false });
        }
        if let Some(ask) = node.engine.poll_ledger(self.now) {
            self.net.push(Message::Ask { node: id, ask });
        }
        while let Some((_, offset)) = node.engine.poll_commit() {
            self.group = Some(self.group.unwrap_or(0).max(offset));
        }
        while let Some((_, reason)) = node.engine.poll_stopped() {
            if reason.code != Code::StreamClosed {
                self.complaints.push(format!("node {id} stopped: {reason}"));
            }
        }
        while node.engine.poll_released().is_some() {
            node.done = true;
        }
    }

    fn deliver(&mut self, message: Message, faults: bool) {
        match message {
            Message::Plan { node, plan, late } => self.deliver_plan(node, plan, late, faults),
            Message::Report { node, report } => {
                if self.nodes[node].alive {
                    self.nodes[node].report(self.now, report);
                }
            }
            Message::Ask { node, ask } => self.deliver_ask(node, ask),
            Message::Answer { node, answer } => {
                if self.nodes[node].alive {
                    self.nodes[node].engine.handle(self.now, Input::Ledger(answer));
                }
            }
        }
    }

    /// Applies a plan wholly, or in part with the reply lost; then the writer sends it again.
    fn deliver_plan(&mut self, node: usize, plan: Plan, late: bool, faults: bool) {
        let lost = faults && self.rng.u8(0..5) == 0;
        let mut report = Report { id: plan.id, ..Report::default() };
        for delta in &plan.deltas {
            if lost && self.rng.bool() {
                continue;
            }
            let outcome = self.store.write(&self.log, delta);
            self.note(&format!("{:?} {:?}", delta.key, std::mem::discriminant(&outcome)));
            report.deltas.push((delta.clone(), outcome));
        }
        for letter in plan.dead.iter().filter(|_| !lost) {
            self.store.dead.insert((letter.stream, letter.pos));
            report.dead.push((letter.assignment, letter.stream, letter.pos));
        }
        if lost && !late && self.nodes[node].alive {
            self.net.push(Message::Plan { node, plan, late });
        } else if !lost && !late {
            self.net.push(Message::Report { node, report });
        }
    }

    fn deliver_ask(&mut self, node: usize, ask: LedgerAsk) {
        let mut answer = LedgerAnswer::default();
        for mark in ask.reserve {
            match self.ledger.reserve(mark.stream, mark.upto) {
                Ok(()) => answer.reserved.push(mark),
                Err(Some(to)) => answer.closed.push(sakia::engine::plan::StreamMark { upto: to, ..mark }),
                Err(None) => answer.closed.push(sakia::engine::plan::StreamMark { upto: 0, ..mark }),
            }
        }
        for mark in ask.advance {
            self.check_durable(node, mark.stream, mark.upto);
            self.ledger.advance(mark.stream, mark.upto);
            answer.advanced.push(mark);
        }
        self.net.push(Message::Answer { node, answer });
    }

    /// The ledger never runs ahead of what is durable.
    fn check_durable(&mut self, node: usize, stream: sakia::record::StreamId, upto: i64) {
        let Some(entry) = self.ledger.streams.iter().find(|s| s.id == stream) else { return };
        let (from, to) = (entry.from, upto.min(entry.to));
        for (pos, item) in self.log.positions() {
            if self.is_excused(item) {
                continue;
            }
            if pos.offset() < from || pos.offset() >= to || self.store.dead.contains(&(stream, pos)) {
                continue;
            }
            let of = |(key, b): (&(crate::store::Chain, u32), &crate::store::Bucket)| {
                key.0.2 == stream.0 && b.positions.contains(&pos)
            };
            if !self.store.buckets.iter().any(of) {
                self.complaints.push(format!("node {node} advances {stream:?} to {upto}, but {pos:?} is not durable"));
            }
        }
    }

    /// Whether nothing is promised of a reading, because its window is past its time to live.
    pub(crate) fn is_excused(&self, item: Item) -> bool {
        self.expiry == Expiry::Passed && matches!(item, Item::Good { day: 0, .. })
    }

    fn crash(&mut self) {
        let alive: Vec<usize> = self.live().map(|n| n.id).collect();
        if let Some(id) = self.rng.choice(&alive).copied() {
            self.nodes[id].alive = false;
            let rng = &mut self.rng;
            // What had left the process still arrives, some of it late.
            self.net.retain(|m| !matches!(m, Message::Plan { node, .. } if *node == id) || rng.bool());
        }
        self.restart();
    }

    fn restart(&mut self) {
        let by_hand = self.rng.u8(0..4);
        let start = match by_hand {
            0 => 0,
            1 => self.rng.i64(0..=self.log.end()),
            _ => self.group.unwrap_or(0),
        };
        self.group_moved |= by_hand < 2;
        self.start_node(start);
    }

    /// A second member while the first still believes that the partition is its own.
    fn start_beside(&mut self) {
        if self.live().count() < 3 {
            self.restart();
        }
    }

    fn repeat_message(&mut self) {
        let plans: Vec<Plan> = self.net.iter().filter_map(plan_of).collect();
        if let Some(plan) = self.rng.choice(&plans) {
            self.net.push(Message::Plan { node: 0, plan: plan.clone(), late: true });
        }
    }

    fn change_contract(&mut self) {
        self.contract += 1;
        for node in &mut self.nodes {
            // Some are only paused, and go on under the old contract later.
            node.alive &= self.rng.u8(0..4) == 0;
        }
        self.restart();
    }

    /// The ledger is lost and made again from the store, after every member was stopped and nothing is under way.
    fn lose_ledger(&mut self) {
        for node in &mut self.nodes {
            node.alive = false;
        }
        self.net.clear();
        let committed = self.group.filter(|_| !self.group_moved);
        let found = self.store.streams();
        let is_begun = |stream: &crate::ledger::Stream| stream.next > stream.from;
        let is_missing = |stream: &crate::ledger::Stream| found.iter().all(|found| found.stream != stream.id);
        self.rebuilt.push(Rebuilt {
            n_expired: self.store.n_expired,
            is_missing_streams: self.ledger.streams.iter().any(|stream| is_begun(stream) && is_missing(stream)),
        });
        self.ledger = Ledger::rebuild(&mut self.rng, &found, committed, self.log.end());
        self.restart();
    }

    fn revoke(&mut self) {
        let alive: Vec<usize> = self.live().map(|n| n.id).collect();
        if let Some(id) = self.rng.choice(&alive).copied() {
            let deadline = self.now.after(self.rng.u64(0..60));
            let revoked =
                Input::Revoked { assignments: vec![crate::node::ASSIGNMENT], deadline, flush: self.rng.bool() };
            self.nodes[id].engine.handle(self.now, revoked);
            self.restart();
        }
    }

    fn note(&mut self, what: &str) {
        let mut hasher = foldhash::fast::FixedState::with_seed(self.trace).build_hasher();
        hasher.write(what.as_bytes());
        hasher.write_u64(self.now.0);
        self.trace = hasher.finish();
    }

    pub(crate) fn trace(&self) -> (u64, usize, u64, u64) {
        (self.trace, self.store.buckets.len(), self.store.n_fenced, self.store.n_refused)
    }
}

fn plan_of(message: &Message) -> Option<Plan> {
    match message {
        Message::Plan { plan, .. } => Some(plan.clone()),
        _ => None,
    }
}
