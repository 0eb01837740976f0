//! Truth against store. Pure: the same function is fed by servers in use and by corrupted documents in tests.
//!
//! Samples carry no position, yet a bucket says which run of positions it was made from (`pos.lo` to `pos.hi`), and
//! a chain is written in position order. So a bucket is right if its samples are, in this order, readings of its device
//! and window out of that run, the first at `lo` and the last at `hi`. Counting how many buckets claim each reading then
//! tells lost and doubled ones. Where a bucket does not fit, the group's readings are counted as a multiset instead.

use foldhash::quality::FixedState;
use hashbrown::{HashMap, HashSet};

use super::report::{Findings, Report};
use super::stored::{Bucket, Stored, window};
use super::truth::{Origin, PER_RECORD, Reading, Truth};

/// Compares; `findings` are faults that are known already.
pub fn check(mut truth: Truth, mut stored: Stored, findings: Findings) -> Report {
    truth.readings.sort_unstable();
    let mut buckets = std::mem::take(&mut stored.buckets);
    buckets.sort_unstable_by_key(|b| (b.window_ms, b.device, b.s, b.n));
    let mut check = Check { truth: &truth, stored: &stored, findings, dead: HashSet::with_hasher(hasher()) };
    check.ledger();
    check.dead_letters();
    let placed = check.chains(&buckets);
    check.groups(&placed);
    let found = check.findings;
    Report {
        ok: found.n_problems == 0,
        topics: Vec::new(),
        records: truth.n_records,
        produced: truth.readings.len() as u64,
        stored: stored.digests.len() as u64,
        buckets: buckets.len() as u64,
        dead: stored.dead.len() as u64,
        expected_dead: truth.dead.len() as u64,
        lost: found.lost,
        duplicated: found.duplicated,
        misplaced: found.misplaced,
        unexpected_dead: found.unexpected_dead,
        n_problems: found.n_problems,
        problems: found.problems,
        seconds: 0.0,
    }
}

/// A bucket among the truth's devices and origins.
#[derive(Clone, Copy)]
struct Placed<'a> {
    bucket: &'a Bucket,
    /// Number among the truth's devices.
    device: u32,
    origin: u32,
}

struct Check<'a> {
    truth: &'a Truth,
    stored: &'a Stored,
    findings: Findings,
    /// Places that have a dead letter, as `(origin, position)`.
    dead: HashSet<(u32, i64), FixedState>,
}

impl<'a> Check<'a> {
    /// Streams of one partition must not overlap: a position would have two chains, and a repeat no fence.
    fn ledger(&mut self) {
        let mut streams: Vec<_> = self.stored.streams.values().filter(|s| !s.is_replay).collect();
        streams.sort_by_key(|s| (&s.topic, s.partition, s.incarnation, s.from));
        for pair in streams.windows(2) {
            let same = |s: &super::stored::Stream| (s.topic.clone(), s.partition, s.incarnation);
            if same(pair[0]) == same(pair[1]) && pair[0].to.is_none_or(|to| to > pair[1].from) {
                self.findings.problem(|| format!("ledger: {:?} and {:?} overlap", pair[0], pair[1]));
            }
        }
    }

    fn dead_letters(&mut self) {
        let mut reasons: HashMap<(u32, i64), &str, FixedState> = HashMap::with_hasher(hasher());
        for letter in &self.stored.dead {
            let Some(origin) = self.origin(&letter.topic, letter.partition) else {
                self.findings.unexpected_dead(|| format!("of a partition that was not read: {letter:?}"));
                continue;
            };
            let place = (origin, letter.pos);
            if reasons.insert(place, &letter.reason).is_some() {
                self.findings.duplicated(1, || format!("two dead letters of {}", self.truth.place(origin, letter.pos)));
            }
            self.dead.insert(place);
        }
        for expected in &self.truth.dead {
            let place = || self.truth.place(expected.origin, expected.pos);
            match reasons.remove(&(expected.origin, expected.pos)) {
                None => self.findings.lost(1, || format!("{} has no dead letter ({})", place(), expected.reason)),
                Some(reason) if reason != expected.reason => {
                    self.findings.unexpected_dead(|| format!("{}: {reason}, expected {}", place(), expected.reason));
                }
                Some(_) => {}
            }
        }
        let mut rest: Vec<_> = reasons.into_iter().collect();
        rest.sort_unstable();
        for ((origin, pos), reason) in rest {
            let place = || self.truth.place(origin, pos);
            self.findings.unexpected_dead(|| format!("{}: {reason}, but nothing is wrong there", place()));
        }
    }

    /// What the buckets of a chain owe each other. Returns those whose device and origin are known, sorted like readings.
    fn chains(&mut self, buckets: &'a [Bucket]) -> Vec<Placed<'a>> {
        let mut placed = Vec::with_capacity(buckets.len());
        for chain in buckets.chunk_by(|a, b| (a.window_ms, a.device, a.s) == (b.window_ms, b.device, b.s)) {
            for (i, bucket) in chain.iter().enumerate() {
                let label = || self.stored.label(bucket);
                if bucket.n != i as i32 {
                    self.findings.misplaced(1, || format!("{}: the one before it is missing", label()));
                }
                if bucket.open && i + 1 < chain.len() {
                    self.findings.misplaced(1, || format!("{}: open, but not the last of its chain", label()));
                }
                if i > 0 && bucket.lo <= chain[i - 1].hi {
                    self.findings.misplaced(1, || format!("{}: pos overlaps that of the one before it", label()));
                }
            }
            let Some(origin) = self.origin_of(chain) else { continue };
            let name = self.stored.devices.name(chain[0].device);
            let Some(device) = self.truth.devices.find(name) else {
                let n = chain.iter().map(|b| b.samples.len() as u64).sum();
                self.findings.misplaced(n, || format!("{}: no such device was produced", self.stored.label(&chain[0])));
                continue;
            };
            placed.extend(chain.iter().map(|bucket| Placed { bucket, device, origin }));
        }
        placed.sort_by_key(|p| (p.bucket.window_ms, p.device));
        placed
    }

    /// Topic and partition of a chain: the ledger knows by its stream, bucket 0 says so; they must agree.
    fn origin_of(&mut self, chain: &[Bucket]) -> Option<u32> {
        let first = &chain[0];
        let label = || self.stored.label(first);
        let stream = self.stored.streams.get(&first.s);
        if stream.is_none() && !self.stored.streams.is_empty() {
            self.findings.misplaced(1, || format!("{}: the ledger has no such stream", label()));
        }
        let known = stream.map(|s| (s.topic.as_str(), s.partition));
        let said = first.source.as_ref().map(|(topic, partition)| (topic.as_str(), *partition));
        if let (Some(known), Some(said)) = (known, said)
            && known != said
        {
            self.findings.misplaced(1, || format!("{}: src is {said:?}, the ledger says {known:?}", label()));
        }
        if let Some(stream) = stream {
            let to = stream.to.unwrap_or(i64::MAX / PER_RECORD) * PER_RECORD;
            for bucket in chain.iter().filter(|b| b.lo < stream.from * PER_RECORD || b.hi >= to) {
                let label = self.stored.label(bucket);
                self.findings.misplaced(1, || format!("{label}: pos is outside its stream {stream:?}"));
            }
        }
        let origin = known.or(said).and_then(|(topic, partition)| self.origin(topic, partition));
        if origin.is_none() {
            let n = chain.iter().map(|b| b.samples.len() as u64).sum::<u64>().max(1);
            let place = known.or(said);
            self.findings.misplaced(n, || format!("{}: its partition {place:?} was not read", label()));
        }
        origin
    }

    /// Walks readings and buckets, both by window and device.
    fn groups(&mut self, placed: &[Placed<'_>]) {
        let mut buckets = placed;
        let mut readings = self.truth.readings.as_slice();
        let mut marks = Vec::new();
        while !buckets.is_empty() || !readings.is_empty() {
            let of_bucket = buckets.first().map(|p| (p.bucket.window_ms, p.device));
            let of_reading = readings.first().map(|r| (r.window_ms, r.device));
            let group = of_bucket.into_iter().chain(of_reading).min().expect("invariant: one of the two is not empty");
            let n_buckets = buckets.partition_point(|p| (p.bucket.window_ms, p.device) <= group);
            let n_readings = readings.partition_point(|r| (r.window_ms, r.device) <= group);
            let (these, rest) = buckets.split_at(n_buckets);
            let (those, others) = readings.split_at(n_readings);
            self.group(those, these, &mut marks);
            (buckets, readings) = (rest, others);
        }
    }

    /// One device's readings of one window against its buckets. `marks` is scratch.
    fn group(&mut self, readings: &[Reading], buckets: &[Placed<'_>], marks: &mut Vec<u8>) {
        marks.clear();
        marks.resize(readings.len(), 0);
        if !self.dead.is_empty() {
            for (mark, reading) in marks.iter_mut().zip(readings) {
                *mark += u8::from(self.dead.contains(&(reading.origin, reading.pos)));
            }
        }
        let mut misfits = Vec::new();
        for placed in buckets {
            if let Err(text) = self.claim(placed, readings, marks) {
                misfits.push((placed.bucket, text));
            }
        }
        let right = misfits.is_empty() && marks.iter().all(|&m| m == 1);
        let explained = !right && self.count(readings, buckets, marks);
        if !explained {
            for (bucket, text) in misfits {
                self.findings.misplaced(1, || format!("{}: {text}", self.stored.label(bucket)));
            }
        }
    }

    /// Marks the readings that a bucket's samples are; an error says where it does not fit.
    fn claim(&self, placed: &Placed<'_>, readings: &[Reading], marks: &mut [u8]) -> Result<(), &'static str> {
        let bucket = placed.bucket;
        let from = readings.partition_point(|r| (r.origin, r.pos) < (placed.origin, bucket.lo));
        let to = readings.partition_point(|r| (r.origin, r.pos) <= (placed.origin, bucket.hi));
        if from >= to || readings[from].pos != bucket.lo || readings[to - 1].pos != bucket.hi {
            return Err("pos.lo or pos.hi is no reading of this device and window");
        }
        let mut at = from;
        let mut last = from;
        for (i, digest) in self.stored.digests[bucket.samples.clone()].iter().enumerate() {
            let Some(skipped) = readings[at..to].iter().position(|r| r.digest == *digest) else {
                return Err("its samples are not the readings of pos.lo to pos.hi in their order");
            };
            if i == 0 && skipped > 0 {
                return Err("its first sample is not the reading at pos.lo");
            }
            last = at + skipped;
            marks[last] = marks[last].saturating_add(1);
            at = last + 1;
        }
        if last + 1 == to { Ok(()) } else { Err("its last sample is not the reading at pos.hi") }
    }

    /// Counts a group that is not right as multisets. False: as such it is right, so what is wrong is the order.
    fn count(&mut self, readings: &[Reading], buckets: &[Placed<'_>], marks: &[u8]) -> bool {
        #[derive(Default)]
        struct Count {
            produced: u64,
            stored: u64,
            dead: u64,
        }
        let mut counts: HashMap<u64, Count, FixedState> = HashMap::with_hasher(hasher());
        for reading in readings {
            let count = counts.entry(reading.digest).or_default();
            count.produced += 1;
            count.dead += u64::from(self.dead.contains(&(reading.origin, reading.pos)));
        }
        let mut foreign = 0;
        for placed in buckets {
            for digest in &self.stored.digests[placed.bucket.samples.clone()] {
                match counts.get_mut(digest) {
                    Some(count) => count.stored += 1,
                    None => foreign += 1,
                }
            }
        }
        let before = self.findings.n_problems;
        let place = |r: &Reading| {
            let device = self.truth.devices.name(r.device);
            format!("{device} window {}, {}", window(r.window_ms), self.truth.place(r.origin, r.pos))
        };
        // Unmarked readings come first: of several alike it is one of those that is missing.
        let (unmarked, marked): (Vec<_>, Vec<_>) = readings.iter().zip(marks).partition(|&(_, &mark)| mark == 0);
        for (reading, _) in unmarked.into_iter().chain(marked) {
            let Some(count) = counts.remove(&reading.digest) else { continue };
            let have = count.stored + count.dead;
            if have < count.produced {
                self.findings.lost(count.produced - have, || place(reading));
            } else if have > count.produced {
                let (stored, dead) = (count.stored, count.dead);
                let text = || format!("{}: stored {stored} times, dead letters {dead}", place(reading));
                self.findings.duplicated(have - count.produced, text);
            }
        }
        if foreign > 0 {
            let label = || self.stored.label(buckets[0].bucket);
            self.findings
                .misplaced(foreign, || format!("{foreign} samples were never produced for it, near {}", label()));
        }
        self.findings.n_problems > before
    }

    fn origin(&self, topic: &str, partition: i32) -> Option<u32> {
        let found = |o: &Origin| o.partition == partition && o.topic == topic;
        self.truth.origins.iter().position(found).map(|i| i as u32)
    }
}

fn hasher() -> FixedState {
    FixedState::with_seed(0)
}
