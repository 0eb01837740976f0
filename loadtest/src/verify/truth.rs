//! What the topics hold: every reading that must be stored and every one that must be a dead letter.

use super::devices::Devices;
use super::json::{self, Element};
use super::{Windows, fold};

const DAY_MS: i64 = 86_400_000;
/// Readings a record may hold; positions are offset x this + index.
pub const PER_RECORD: i64 = 65_536;
/// Plausible event times around the record's own timestamp; `produce` stays far away from either limit.
const PLAUSIBLE_PAST_MS: i64 = 366 * DAY_MS;
const PLAUSIBLE_FUTURE_MS: i64 = DAY_MS;

/// A partition of a topic, and the offsets of it that were read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    pub topic: String,
    pub partition: i32,
    pub from: i64,
    pub to: i64,
}

/// A reading that must be stored, reduced to what is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reading {
    pub window_ms: i64,
    pub device: u32,
    pub origin: u32,
    pub pos: i64,
    pub digest: u64,
}

/// A reading or record that must be a dead letter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Dead {
    pub origin: u32,
    pub pos: i64,
    pub reason: &'static str,
}

/// All that was read from Kafka.
#[derive(Debug)]
pub struct Truth {
    windows: Windows,
    tags: Vec<String>,
    pub origins: Vec<Origin>,
    pub devices: Devices,
    pub readings: Vec<Reading>,
    pub dead: Vec<Dead>,
    pub n_records: u64,
    elements: Vec<Element>,
}

impl Truth {
    /// `tags`: top-level names that belong to the bucket's tags rather than to the sample.
    pub fn new(windows: Windows, tags: Vec<String>) -> Self {
        Self {
            windows,
            tags,
            origins: Vec::new(),
            devices: Devices::default(),
            readings: Vec::new(),
            dead: Vec::new(),
            n_records: 0,
            elements: Vec::new(),
        }
    }

    /// Takes one record. A tombstone is nothing at all.
    pub fn record(&mut self, origin: u32, offset: i64, timestamp_ms: i64, value: Option<&[u8]>) {
        self.n_records += 1;
        let Some(value) = value else { return };
        let first = offset * PER_RECORD;
        let mut elements = std::mem::take(&mut self.elements);
        if json::elements(value, &self.tags, &mut self.devices, &mut elements).is_err() {
            let reason = if value.is_empty() { "empty" } else { "malformed" };
            self.dead.push(Dead { origin, pos: first, reason });
            elements.clear();
        }
        for (pos, element) in (first..).zip(elements.drain(..)) {
            match judge(element, timestamp_ms) {
                Ok((device, time_ms, digest)) => {
                    let window_ms = self.windows.start(time_ms);
                    self.readings.push(Reading { window_ms, device, origin, pos, digest });
                }
                Err(reason) => self.dead.push(Dead { origin, pos, reason }),
            }
        }
        self.elements = elements;
    }

    /// `topic/partition offset 17 index 3`
    pub fn place(&self, origin: u32, pos: i64) -> String {
        let origin = &self.origins[origin as usize];
        let (offset, index) = (pos.div_euclid(PER_RECORD), pos.rem_euclid(PER_RECORD));
        format!("{}/{} offset {offset} index {index}", origin.topic, origin.partition)
    }
}

/// Device, time and digest of a reading that can be stored, or why it cannot.
fn judge(element: Element, timestamp_ms: i64) -> Result<(u32, i64, u64), &'static str> {
    let device = element.device.ok_or("missing_device")?;
    let time_ms = element.time_ms.ok_or("missing_time")?;
    let plausible = timestamp_ms - PLAUSIBLE_PAST_MS..=timestamp_ms + PLAUSIBLE_FUTURE_MS;
    if !plausible.contains(&time_ms) {
        return Err("implausible_time");
    }
    if element.n_fields == 0 {
        return Err("no_fields");
    }
    Ok((device, time_ms, fold::reading(time_ms, element.info.digest(), element.tags)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_700_000_000_000;

    type Read = (Vec<(String, i64)>, Vec<(i64, &'static str)>);

    /// Readings as `(device, index)` and dead letters as `(index, reason)` of one record.
    fn read(value: Option<&str>) -> Read {
        let mut truth = Truth::new(Windows { length_ms: DAY_MS, offset_ms: 0 }, Vec::new());
        truth.record(0, 1, NOW, value.map(str::as_bytes));
        let readings = truth.readings.iter();
        let readings = readings.map(|r| (truth.devices.name(r.device).to_owned(), r.pos - PER_RECORD)).collect();
        (readings, truth.dead.iter().map(|d| (d.pos - PER_RECORD, d.reason)).collect())
    }

    #[test]
    fn each_way_to_be_bad_has_its_verdict() {
        let dead = |value| read(Some(value)).1;
        assert_eq!(read(None), (vec![], vec![]));
        assert_eq!(dead(""), vec![(0, "empty")]);
        assert_eq!(dead(r#"{"deviceid":"a","ts":17"#), vec![(0, "malformed")]);
        assert_eq!(dead(r#"{"deviceid":"a","ts":17} x"#), vec![(0, "malformed")]);
        assert_eq!(dead(r#"{"ts":1700000000000,"x":1}"#), vec![(0, "missing_device")]);
        assert_eq!(dead(r#"{"deviceid":"a","x":1}"#), vec![(0, "missing_time")]);
        assert_eq!(dead(r#"{"deviceid":"a","ts":1700000000,"x":1}"#), vec![(0, "implausible_time")]);
        assert_eq!(dead(r#"{"deviceid":"a","ts":1700000000000,"x":null}"#), vec![(0, "no_fields")]);
    }

    #[test]
    fn one_bad_element_leaves_its_neighbours_alone() {
        let value = r#"{"readings":[{"deviceid":"a","ts":1700000000000,"x":1},{"ts":1700000000000,"x":1},
            {"deviceid":"\u0062","ts":1700000000001,"x":{"y":[1,null]}}]}"#;
        let readings = vec![("a".to_owned(), 0), ("b".to_owned(), 2)];
        assert_eq!(read(Some(value)), (readings, vec![(1, "missing_device")]));
    }

    #[test]
    fn digests_tell_values_types_and_tags_apart() {
        let digest = |fields: &str| {
            let mut truth = Truth::new(Windows { length_ms: DAY_MS, offset_ms: 0 }, vec!["fw".into()]);
            truth.record(0, 0, NOW, Some(format!(r#"{{"ts":{NOW},"deviceid":"a",{fields}}}"#).as_bytes()));
            truth.readings[0].digest
        };
        let base = digest(r#""x":1,"fw":"v1""#);
        assert_eq!(base, digest(r#""fw":"v1","x":1,"z":null"#));
        for other in
            [r#""x":1"#, r#""x":1.0,"fw":"v1""#, r#""y":1,"fw":"v1""#, r#""x":1,"fw":"v2""#, r#""x":"1","fw":"v1""#]
        {
            assert_ne!(base, digest(other), "{other}");
        }
    }
}
