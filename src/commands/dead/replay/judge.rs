//! What becomes of a record's letters under a contract. Pure: the rehearsal and the run itself ask the same.

use std::collections::BTreeMap;
use std::sync::Arc;

use mongodb::bson::{RawBsonRef, RawDocument};

use super::super::letter::{Letter, Scope};
use super::feed::Group;
use crate::config::Contract;
use crate::decode::{Decoder, Reading, Reject, Scratch, Whole};
use crate::record::{EventTime, Origin, StreamId, Window};

/// A partition of a run, and the contract that its letters are read under.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) stream: StreamId,
    pub(super) origin: Arc<Origin>,
    pub(super) contract: Contract,
    pub(super) decoder: Decoder,
    /// Windows that start before it are past their time to live.
    pub(super) horizon: EventTime,
}

impl Lane {
    pub(super) fn window(&self) -> Window {
        Window { length_ms: self.contract.window_length_ms, offset_ms: self.contract.window_offset_ms }
    }

    /// A good reading, unless the server would delete it at once.
    fn verdict<'a>(&self, index: u16, reading: Reading<'a>) -> Verdict<'a> {
        let has_expired = self.window().start(reading.at) < self.horizon;
        if has_expired { Verdict::Expired } else { Verdict::Reading(index, reading) }
    }
}

/// One thing that a letter comes to; a letter of a whole record may come to many.
#[derive(Debug)]
pub(super) enum Verdict<'a> {
    Reading(u16, Reading<'a>),
    /// A reading whose window is past its time to live.
    Expired,
    Reject {
        index: u16,
        reject: Reject,
        /// Everything that the letter stands for, so that the letter itself can say so.
        is_all: bool,
    },
    /// Nothing to store and nothing wrong.
    Skip,
    /// Cannot be tried; the letter stays as it is.
    Back(&'static str),
}

pub(super) const CUT: &str = "parts of its record were cut";
const NO_VALUE: &str = "its record was with another letter, which is gone";
const NO_READING: &str = "its record has no reading at this index under this mapping";
const NO_SAMPLE: &str = "its sample cannot be read";

/// In the order of positions.
pub(super) fn judge(group: &Group, lane: &Lane, scratch: &mut Scratch, mut emit: impl FnMut(&Letter, Verdict<'_>)) {
    let (mut record, mut readings, mut samples) = (None, BTreeMap::new(), Vec::new());
    for letter in &group.letters {
        match &letter.scope {
            _ if letter.is_cut => emit(letter, Verdict::Back(CUT)),
            Scope::Record => record = Some(letter),
            Scope::Reading => drop(readings.insert(letter.pos.index(), letter)),
            Scope::Sample { device, meta } => samples.push((letter, device.as_str(), meta.as_slice())),
        }
    }
    let mut samples = samples.into_iter().peekable();
    let sample = |(letter, device, meta): (&Letter, &str, &[u8]), emit: &mut dyn FnMut(&Letter, Verdict<'_>)| {
        take_sample(letter, device, meta, lane, |verdict| emit(letter, verdict));
    };
    let each = |emit: &mut dyn FnMut(&Letter, Verdict<'_>), verdict: &dyn Fn(&Letter) -> Verdict<'static>| {
        record.into_iter().chain(readings.values().copied()).for_each(|letter| emit(letter, verdict(letter)));
    };
    match group.value.is_some().then(|| lane.decoder.decode(&group.record(), scratch)) {
        _ if record.is_none() && readings.is_empty() => {}
        None => each(&mut emit, &|_| Verdict::Back(NO_VALUE)),
        Some(Err(Whole::Skip(_))) => each(&mut emit, &|_| Verdict::Skip),
        Some(Err(Whole::Reject(reject))) => {
            each(&mut emit, &|letter| Verdict::Reject { index: letter.pos.index(), reject, is_all: true });
        }
        Some(Ok(decoded)) => {
            let is_one = lane.contract.decoder.explode.is_none();
            for (index, reading) in decoded {
                while let Some(next) = samples.next_if(|(letter, ..)| letter.pos.index() < index) {
                    sample(next, &mut emit);
                }
                let own = readings.remove(&index);
                let Some(letter) = record.or(own) else { continue };
                let is_all = is_one || record.is_none();
                emit(
                    letter,
                    match reading {
                        Ok(reading) => lane.verdict(index, reading),
                        Err(reject) => Verdict::Reject { index, reject, is_all },
                    },
                );
            }
            if record.is_none() {
                for letter in readings.values() {
                    emit(letter, Verdict::Back(NO_READING));
                }
            }
        }
    }
    samples.for_each(|next| sample(next, &mut emit));
}

/// The sample as it was: its letter holds what the server refused.
fn take_sample(letter: &Letter, device: &str, meta: &[u8], lane: &Lane, emit: impl FnOnce(Verdict<'_>)) {
    let contract = &lane.contract;
    let sample = letter.value.as_deref().and_then(|value| RawDocument::from_bytes(value).ok());
    let parts = sample.and_then(|sample| {
        let at = sample.get_datetime(&contract.time_name).ok()?.timestamp_millis();
        Some((EventTime(at), sample.get_document(&contract.info_name).ok()?))
    });
    let Some((at, info)) = parts else { return emit(Verdict::Back(NO_SAMPLE)) };
    let stat = |name: &String| info.get(name).ok().flatten().map_or(f64::NAN, number);
    let stats: Vec<f64> = contract.decoder.stats.iter().map(stat).collect();
    emit(lane.verdict(letter.pos.index(), Reading { device, at, info: info.as_bytes(), meta, stats: &stats }));
}

fn number(value: RawBsonRef<'_>) -> f64 {
    match value {
        RawBsonRef::Double(value) => value,
        RawBsonRef::Int32(value) => value.into(),
        RawBsonRef::Int64(value) => value as f64,
        _ => f64::NAN,
    }
}

#[cfg(test)]
mod tests {
    use mongodb::bson::{DateTime, doc};

    use super::super::feed::tests::{group, letter};
    use super::*;
    use crate::config::Config;

    const AT: i64 = 1_700_000_000_000;

    fn lane(lines: &str) -> Lane {
        let table = "[[decoder]]\ntopics = [\"t\"]\ndevice_path = \"d\"\ntimestamp_path = \"ts\"\n\
                     timestamp_format = \"unix_ms\"\n";
        let base = "[kafka]\nbrokers = \"b:1\"\ngroup = \"g\"\n[mongo]\nuri = \"mongodb://h/?replicaSet=r\"\n";
        let config = Config::from_toml(&format!("{base}{table}{lines}")).unwrap();
        let contract = config.contract_for("t").unwrap();
        let decoder = Decoder::new(&contract).unwrap();
        let origin = Origin { cluster: "c".into(), topic: "t".into(), incarnation: 0, partition: 0 };
        Lane { stream: StreamId(-1), origin: Arc::new(origin), contract, decoder, horizon: EventTime(i64::MIN) }
    }

    /// Each verdict as `letter's index: what`.
    fn check(lines: &str, letters: Vec<Letter>) -> Vec<String> {
        judged(&lane(lines), letters)
    }

    fn judged(lane: &Lane, letters: Vec<Letter>) -> Vec<String> {
        let mut said = Vec::new();
        judge(&group(letters), lane, &mut Scratch::default(), |letter, verdict| {
            let what = match verdict {
                Verdict::Expired => "expired".to_owned(),
                Verdict::Reading(index, reading) => format!("{} at {index}", reading.device),
                Verdict::Reject { index, reject, is_all } => {
                    format!("{} at {index}{}", reject.reason.name(), if is_all { "" } else { " of many" })
                }
                Verdict::Skip => "skip".to_owned(),
                Verdict::Back(why) => why.to_owned(),
            };
            said.push(format!("{}: {what}", letter.pos.index()));
        });
        said
    }

    fn many(elements: &str) -> Vec<u8> {
        format!(r#"{{"r":[{elements}]}}"#).into_bytes()
    }

    fn element(device: &str) -> String {
        format!(r#"{{"d":"{device}","ts":{AT},"x":1}}"#)
    }

    const EXPLODE: &str = "explode = \"r\"\n";

    #[test]
    fn a_record_s_letter_stands_for_all_of_its_readings() {
        let value = many(&[element("a"), "{}".into(), element("b")].join(","));
        let whole = letter(1, 0, Scope::Record, Some(&value));
        assert_eq!(check(EXPLODE, vec![whole]), ["0: a at 0", "0: missing_device at 1 of many", "0: b at 2"]);
    }

    #[test]
    fn a_reading_s_letter_takes_that_reading_alone() {
        let value = many(&[element("a"), element("b"), element("c")].join(","));
        let readings = vec![letter(1, 1, Scope::Reading, Some(&value)), letter(1, 7, Scope::Reading, None)];
        assert_eq!(check(EXPLODE, readings), ["1: b at 1".to_owned(), format!("7: {NO_READING}")]);
    }

    #[test]
    fn what_fails_as_a_whole_fails_in_its_letter() {
        let of = |scope, value: &[u8]| vec![letter(1, 0, scope, Some(value))];
        assert_eq!(check("", of(Scope::Record, b"{")), ["0: malformed at 0"]);
        assert_eq!(check("", of(Scope::Record, b"{\"d\":\"a\"}")), ["0: missing_time at 0"]);
        assert_eq!(check(EXPLODE, of(Scope::Reading, b"{")), ["0: malformed at 0"]);
        assert_eq!(check(EXPLODE, of(Scope::Reading, b"{\"r\":[]}")), ["0: skip"]);
    }

    #[test]
    fn what_the_server_would_delete_is_told_apart_reading_by_reading() {
        let value = many(&[element("a"), format!(r#"{{"d":"b","ts":{},"x":1}}"#, AT - 86_400_000)].join(","));
        let whole = letter(1, 0, Scope::Record, Some(&value));
        let day = AT - AT.rem_euclid(86_400_000);
        for (horizon, said) in [(day, ["0: a at 0", "0: expired"]), (day + 1, ["0: expired", "0: expired"])] {
            let lane = Lane { horizon: EventTime(horizon), ..lane(EXPLODE) };
            assert_eq!(judged(&lane, vec![whole.clone()]), said, "{horizon}");
        }
        let sample = doc! { "time": DateTime::from_millis(AT), "info": { "x": 4 } }.to_vec().unwrap();
        let refused = letter(1, 0, Scope::Sample { device: "s".into(), meta: Vec::new() }, Some(&sample));
        let lane = Lane { horizon: EventTime(day + 1), ..lane("") };
        assert_eq!(judged(&lane, vec![refused]), ["0: expired"]);
    }

    #[test]
    fn what_cannot_be_tried_says_why() {
        let cut = Letter { is_cut: true, ..letter(1, 0, Scope::Record, Some(b"{")) };
        assert_eq!(check("", vec![cut]), [format!("0: {CUT}")]);
        assert_eq!(check(EXPLODE, vec![letter(1, 3, Scope::Reading, None)]), [format!("3: {NO_VALUE}")]);
        let sample = Scope::Sample { device: "d".into(), meta: Vec::new() };
        assert_eq!(check("", vec![letter(1, 0, sample, Some(b"no bson"))]), [format!("0: {NO_SAMPLE}")]);
    }

    #[test]
    fn samples_come_as_they_were_and_in_their_place() {
        let sample = doc! { "time": DateTime::from_millis(AT), "info": { "x": 4, "y": "text" } }.to_vec().unwrap();
        let meta = doc! { "site": "north" }.to_vec().unwrap();
        let scope = Scope::Sample { device: "s".into(), meta: meta.clone() };
        let value = many(&[element("a"), element("b"), element("c")].join(","));
        let letters = vec![
            letter(1, 0, Scope::Reading, Some(&value)),
            letter(1, 1, scope, Some(&sample)),
            letter(1, 2, Scope::Reading, None),
        ];
        assert_eq!(check(EXPLODE, letters.clone()), ["0: a at 0", "1: s at 1", "2: c at 2"]);
        let lane = lane("stats = [\"x\", \"y\"]\n");
        judge(&group([letters[1].clone()]), &lane, &mut Scratch::default(), |_, verdict| {
            let Verdict::Reading(1, reading) = verdict else { panic!("{verdict:?}") };
            assert_eq!((reading.at, reading.meta), (EventTime(AT), meta.as_slice()));
            assert_eq!(reading.info, doc! { "x": 4, "y": "text" }.to_vec().unwrap());
            assert_eq!(reading.stats[0].to_bits(), 4.0_f64.to_bits());
            assert!(reading.stats[1].is_nan());
        });
    }
}
