//! Readings and the records that carry them: a function of shape and index, so that a topic can be explained later.
//!
//! Reading `i` sits in record `i / per_record`; records go round the devices in a fixed scattered order.

use fastrand::Rng;
use serde::{Deserialize, Serialize};

const DAY_MS: i64 = 86_400_000;
/// Bytes of the stored sample `{time, info: {temp, volt, speed, state}}` with a state of two letters.
pub const BASE_SAMPLE_BYTES: u32 = 79;

/// All that the content of a run is a function of.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Shape {
    pub seed: u64,
    /// 1, 2, ... a topic. Part of the seed, so that two runs differ.
    pub run: u32,
    pub devices: u32,
    /// Readings that the span is spread over. A run that goes on longer goes on in event time.
    pub nominal: u64,
    pub per_record: u16,
    pub start_ms: i64,
    pub span_ms: i64,
    /// Share of readings a little older than their device's last ones.
    pub disorder: f64,
    /// Share of readings one to three days old.
    pub late: f64,
    /// Share of readings with the time of their device's reading before.
    pub equal_times: f64,
    /// Share of readings that can never be stored.
    pub poison: f64,
    pub sample_bytes: u32,
    /// After so many records a device's `fw` changes; 0: there is none.
    pub tag_every: u32,
}

/// Why a reading can never be stored. The names are the reasons of the dead letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Poison {
    /// The record is cut short: not JSON, and nothing in it can be read.
    Malformed,
    MissingDevice,
    MissingTime,
    /// Seconds where milliseconds belong: January 1970.
    ImplausibleTime,
}

impl Poison {
    const ALL: [Self; 4] = [Self::Malformed, Self::MissingDevice, Self::MissingTime, Self::ImplausibleTime];

    pub fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::MissingDevice => "missing_device",
            Self::MissingTime => "missing_time",
            Self::ImplausibleTime => "implausible_time",
        }
    }
}

/// One record to be sent; its value is in the buffer that was passed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Made {
    pub device: u32,
    /// Event time of its newest reading.
    pub timestamp_ms: i64,
    /// Readings in it, storable or not.
    pub n_readings: u16,
    /// Readings of it that can be stored.
    pub n_good: u16,
    pub poisoned: bool,
}

/// Makes records; precomputes what all of them share.
#[derive(Debug)]
pub struct Maker {
    shape: Shape,
    /// Coprime to the number of devices: record `r` belongs to device `r x stride + shift`.
    stride: u64,
    shift: u64,
    /// A poisoned reading in each stretch of so many; 0: none.
    poison_every: u64,
    /// Records that the span is spread over.
    nominal_records: u64,
}

impl Maker {
    pub fn new(shape: Shape) -> Self {
        let devices = u64::from(shape.devices);
        let mut rng = Rng::with_seed(shape.seed);
        let mut stride = rng.u64(..) % devices;
        while gcd(stride, devices) != 1 {
            stride += 1;
        }
        let poison_every = if shape.poison > 0.0 { (1.0 / shape.poison).round().max(1.0) as u64 } else { 0 };
        let nominal_records = shape.nominal.div_ceil(u64::from(shape.per_record)).max(1);
        Self { stride, shift: rng.u64(..devices), poison_every, nominal_records, shape }
    }

    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Writes the value of record `r` with `n` readings to `out`.
    pub fn record(&self, r: u64, n: u16, out: &mut Vec<u8>) -> Made {
        out.clear();
        let device = self.device(r);
        let mut made = Made { device, timestamp_ms: i64::MIN, n_readings: n, n_good: n, poisoned: false };
        let mut broken = false;
        if self.shape.per_record > 1 {
            out.extend_from_slice(b"{\"readings\":[");
        }
        for k in 0..n {
            let mut rng = self.rng(r, k);
            let at = self.time(r, k, &mut rng);
            made.timestamp_ms = made.timestamp_ms.max(at);
            let poison = self.poison(r, k);
            if poison.is_some() {
                made.poisoned = true;
                made.n_good -= 1;
                broken |= poison == Some(Poison::Malformed);
            }
            if k > 0 {
                out.push(b',');
            }
            self.reading(device, r, at, poison, &mut rng, out);
        }
        if self.shape.per_record > 1 {
            out.extend_from_slice(b"]}");
        }
        if broken {
            out.truncate(out.len() - 2);
            made.n_good = 0;
        }
        made
    }

    /// What of record `r` with `n` readings becomes dead letters, as `(index, reason)`.
    pub fn dead(&self, r: u64, n: u16) -> Vec<(u16, Poison)> {
        let dead: Vec<_> = (0..n).filter_map(|k| self.poison(r, k).map(|p| (k, p))).collect();
        if dead.iter().any(|&(_, p)| p == Poison::Malformed) { vec![(0, Poison::Malformed)] } else { dead }
    }

    fn device(&self, r: u64) -> u32 {
        let devices = u64::from(self.shape.devices);
        ((r % devices * self.stride + self.shift) % devices) as u32
    }

    fn rng(&self, r: u64, k: u16) -> Rng {
        let i = r * u64::from(self.shape.per_record) + u64::from(k);
        Rng::with_seed(mix(self.shape.seed ^ (u64::from(self.shape.run) << 40) ^ mix(i)))
    }

    /// Each stretch of `poison_every` readings has one, at a scattered place; the reasons take turns.
    fn poison(&self, r: u64, k: u16) -> Option<Poison> {
        if self.poison_every == 0 {
            return None;
        }
        let i = r * u64::from(self.shape.per_record) + u64::from(k);
        let (stretch, place) = (i / self.poison_every, i % self.poison_every);
        let chosen = mix(self.shape.seed ^ u64::from(self.shape.run) ^ mix(stretch)) % self.poison_every;
        (place == chosen).then(|| Poison::ALL[(stretch % 4) as usize])
    }

    /// Event time of reading `k` of record `r`.
    fn time(&self, r: u64, k: u16, rng: &mut Rng) -> i64 {
        let shape = &self.shape;
        let period = self.base(r + u64::from(shape.devices)) - self.base(r);
        let per_record = i64::from(shape.per_record);
        let step = (period / per_record).max(1);
        let at = self.base(r) - (per_record - 1 - i64::from(k)) * step;
        let draw = rng.f64();
        if draw < shape.late {
            at - DAY_MS - rng.i64(0..2 * DAY_MS)
        } else if draw < shape.late + shape.equal_times {
            at - step
        } else if draw < shape.late + shape.equal_times + shape.disorder {
            at - rng.i64(1..=3 * step)
        } else {
            at
        }
    }

    /// Event time of the newest reading of record `r`, where nothing disturbs it.
    fn base(&self, r: u64) -> i64 {
        let passed = i128::from(self.shape.span_ms) * i128::from(r) / i128::from(self.nominal_records);
        self.shape.start_ms + passed as i64
    }

    fn reading(&self, device: u32, r: u64, at: i64, poison: Option<Poison>, rng: &mut Rng, out: &mut Vec<u8>) {
        out.push(b'{');
        if poison != Some(Poison::MissingDevice) {
            out.extend_from_slice(b"\"deviceid\":\"");
            push_device(device, out);
            out.extend_from_slice(b"\",");
        }
        if poison != Some(Poison::MissingTime) {
            out.extend_from_slice(b"\"ts\":");
            let at = if poison == Some(Poison::ImplausibleTime) { at / 1000 } else { at };
            if at < 0 {
                out.push(b'-');
            }
            push_digits(at.unsigned_abs(), 1, out);
            out.push(b',');
        }
        let temp = rng.u64(1500..3500);
        out.extend_from_slice(b"\"temp\":");
        push_digits(temp / 100, 1, out);
        out.push(b'.');
        push_digits(temp % 100, 2, out);
        out.extend_from_slice(b",\"volt\":");
        push_digits(rng.u64(210..240), 1, out);
        out.extend_from_slice(b",\"speed\":");
        push_digits(rng.u64(0..130), 1, out);
        out.extend_from_slice(b",\"state\":\"");
        out.extend_from_slice([b"ok", b"lo", b"hi"][rng.usize(0..3)]);
        for _ in BASE_SAMPLE_BYTES..self.shape.sample_bytes {
            out.push(rng.u8(b'a'..=b'z'));
        }
        out.push(b'"');
        if self.shape.tag_every > 0 {
            out.extend_from_slice(b",\"fw\":\"v");
            push_digits(r / u64::from(self.shape.devices) / u64::from(self.shape.tag_every), 1, out);
            out.push(b'"');
        }
        out.push(b'}');
    }
}

/// `dev-000123`.
pub fn push_device(device: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(b"dev-");
    push_digits(u64::from(device), 6, out);
}

/// At least `width` digits. The formatting machinery of the standard library would halve the generator's speed.
fn push_digits(mut value: u64, width: usize, out: &mut Vec<u8>) {
    let mut digits = [b'0'; 20];
    let mut at = digits.len();
    while value > 0 || digits.len() - at < width {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
    }
    out.extend_from_slice(&digits[at..]);
}

/// Scatters neighbouring numbers (the finaliser of splitmix64).
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests;
