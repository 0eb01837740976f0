//! Every operation against a plain list of the same samples.

use proptest::prelude::*;

use super::*;

type Row = (i64, i64, Vec<u8>, f64);

#[derive(Clone, Debug)]
enum Operation {
    Push(u8, u8, i16),
    Split(u8),
    SplitAndPutBack(u8),
    TrimUpto(u8),
    DropFrom(u8),
    DropFromOffset(u8),
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        6 => (1_u8..40, any::<u8>(), any::<i16>()).prop_map(|(step, length, at)| Operation::Push(step, length, at)),
        1 => any::<u8>().prop_map(Operation::Split),
        1 => any::<u8>().prop_map(Operation::SplitAndPutBack),
        1 => any::<u8>().prop_map(Operation::TrimUpto),
        1 => any::<u8>().prop_map(Operation::DropFrom),
        1 => any::<u8>().prop_map(Operation::DropFromOffset),
    ]
}

fn check(samples: &Samples, rows: &[Row]) {
    let held: Vec<_> = samples.iter().map(|(pos, at, document)| (pos.0, at.0, document.to_vec())).collect();
    let expected: Vec<_> = rows.iter().map(|(pos, at, document, _)| (*pos, *at, document.clone())).collect();
    assert_eq!(held, expected);
    assert_eq!((samples.len(), samples.is_empty()), (rows.len(), rows.is_empty()));
    assert_eq!(samples.n_bytes(), rows.iter().map(|row| row.2.len()).sum::<usize>());
    assert_eq!(samples.total_cost(), rows.iter().map(|row| row.2.len() + ELEMENT_BYTES).sum::<usize>());
    assert_eq!(samples.first_cost(), rows.first().map_or(0, |row| row.2.len() + ELEMENT_BYTES));
    assert!(samples.row_bytes() >= samples.n_bytes() && samples.memory() >= samples.row_bytes());
    assert_eq!(samples.first_pos(), rows.first().map(|row| Position(row.0)));
    assert_eq!(samples.last_pos(), rows.last().map(|row| Position(row.0)));
    let times = || rows.iter().map(|row| EventTime(row.1));
    assert_eq!(samples.bounds(), times().min().zip(times().max()));
    let values: Vec<f64> = rows.iter().map(|row| row.3).filter(|v| v.is_finite()).collect();
    assert_eq!(samples.stats_of(0).map_or(0, |stats| stats.n as usize), values.len());
    if let Some(stats) = samples.stats_of(0) {
        assert_eq!(stats.sum.to_bits(), values.iter().fold(0.0, |sum, v| sum + v).to_bits());
        assert!(values.iter().all(|v| stats.min <= *v && *v <= stats.max));
        assert!(values.contains(&stats.min) && values.contains(&stats.max));
    }
}

/// A place in `rows`, scaled from a byte.
fn place(rows: &[Row], byte: u8) -> usize {
    usize::from(byte) * (rows.len() + 1) / 256
}

fn apply(samples: &mut Samples, rows: &mut Vec<Row>, last: &mut i64, operation: &Operation) {
    let position_at = |rows: &[Row], byte| rows.get(place(rows, byte)).map_or(*last, |row| row.0);
    match *operation {
        Operation::Push(step, length, at) => {
            *last += i64::from(step) * 9_973;
            let document = vec![length; usize::from(length)];
            let value = if at % 5 == 0 { f64::NAN } else { f64::from(at) / 3.0 };
            samples.push(Position(*last), EventTime(i64::from(at)), &document, &[value]);
            rows.push((*last, i64::from(at), document, value));
        }
        Operation::Split(byte) => {
            let k = place(rows, byte);
            let front = samples.split_front(k);
            check(&front, &rows.drain(..k).collect::<Vec<_>>());
        }
        Operation::SplitAndPutBack(byte) => {
            let k = place(rows, byte);
            let mut front = samples.split_front(k);
            check(samples, &rows[k..]);
            // What comes back may itself have been split.
            let second = front.split_front(k / 2);
            samples.prepend(front);
            samples.prepend(second);
        }
        Operation::TrimUpto(byte) => {
            let pos = position_at(rows, byte);
            samples.trim_upto(Position(pos));
            rows.retain(|row| row.0 > pos);
        }
        Operation::DropFrom(byte) => {
            let pos = position_at(rows, byte);
            samples.drop_from(Position(pos));
            rows.retain(|row| row.0 < pos);
        }
        Operation::DropFromOffset(byte) => {
            let offset = Position(position_at(rows, byte)).offset();
            samples.drop_from_offset(offset);
            rows.retain(|row| Position(row.0).offset() < offset);
        }
    }
}

proptest! {
    #[test]
    fn behaves_like_a_list(operations in prop::collection::vec(operation(), 0..60)) {
        let (mut samples, mut rows, mut last) = (Samples::new(1), Vec::new(), 0);
        for operation in &operations {
            apply(&mut samples, &mut rows, &mut last, operation);
            check(&samples, &rows);
        }
    }

    #[test]
    fn fit_is_the_longest_front_within_both_limits(
        lengths in prop::collection::vec(0_usize..50, 1..30), gone in 0_usize..10, max in 0_usize..40, bytes in 0_usize..900,
    ) {
        let mut samples = Samples::new(0);
        for (i, length) in lengths.iter().enumerate() {
            samples.push(Position(i as i64), EventTime(0), &vec![0; *length], &[]);
        }
        let gone = gone.min(lengths.len() - 1);
        let _front = samples.split_front(gone);
        let cost = |k: usize| lengths[gone..gone + k].iter().map(|length| length + ELEMENT_BYTES).sum::<usize>();
        let longest = (1..=samples.len()).rev().find(|k| *k <= max && cost(*k) <= bytes).unwrap_or(1);
        prop_assert_eq!(samples.fit(max, bytes), longest);
    }
}

#[test]
fn composes_the_sample_document() {
    let info = bson::doc! { "temp": 21.5, "n": 3_i32 };
    let mut samples = Samples::new(1);
    let document = info.to_vec().expect("encodes");
    samples.push_sample(Position(1), EventTime(86_400_001), "time", "info", &document, &[21.5]);
    let expected = bson::doc! { "time": bson::DateTime::from_millis(86_400_001), "info": info };
    let (_, _, document) = samples.iter().next().expect("one sample");
    assert_eq!(document, expected.to_vec().expect("encodes"));
}

#[test]
fn keeps_no_large_spare_room() {
    let mut samples = Samples::new(1);
    for i in 0..10_000 {
        samples.push(Position(i), EventTime(i), &[7; 80], &[1.0]);
    }
    let front = samples.split_front(9_990);
    assert!(front.memory() <= 9_990 * (80 + 32));
    assert!(samples.memory() <= 2 * 10 * (80 + 32));
    assert_eq!((front.n_bytes(), samples.n_bytes()), (9_990 * 80, 10 * 80));
}

#[test]
fn fields_without_a_finite_number_have_no_stats() {
    let mut samples = Samples::new(2);
    samples.push(Position(1), EventTime(0), &[], &[f64::NAN, f64::INFINITY]);
    assert_eq!((samples.stats_of(0), samples.stats_of(1)), (None, None));
    samples.push(Position(2), EventTime(0), &[], &[f64::NAN, -2.0]);
    assert_eq!(samples.stats_of(1), Some(FieldStats { min: -2.0, max: -2.0, sum: -2.0, n: 1 }));
}

#[test]
fn a_sum_beyond_a_double_stays_finite() {
    let mut samples = Samples::new(1);
    for pos in 1..4 {
        samples.push(Position(pos), EventTime(0), &[], &[f64::MAX]);
    }
    assert_eq!(samples.stats_of(0).unwrap().sum.to_bits(), f64::MAX.to_bits());
}
