//! Every body against the same command made by the bson crate.

use std::sync::Arc;

use bson::{DateTime, Document, doc};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::*;
use crate::engine::samples::Samples;
use crate::record::{Assignment, EventTime, Origin, StreamId};

fn fields() -> FieldNames {
    let name = |s: &str| s.to_owned();
    FieldNames {
        deviceid: name("dev"),
        date: name("date"),
        first: name("first"),
        last: name("last"),
        count: name("count"),
        open: name("open"),
        meta: name("meta"),
        samples: name("samples"),
        time: name("time"),
        info: name("info"),
        stats: name("st"),
        schema: name("schema"),
        src: name("src"),
        pos: name("p"),
    }
}

fn encoder(max_statements: usize) -> Encoder {
    Encoder { collection: "readings".into(), fields: fields(), timeout_ms: 30_000, max_statements }
}

fn write() -> impl Strategy<Value = Write> {
    prop_oneof![
        (0_u32..3, any::<bool>()).prop_map(|(n, open)| Write::Insert { n, open }),
        (0_u32..3, any::<i64>(), any::<bool>()).prop_map(|(n, hi, seal)| Write::Append { n, hi: Position(hi), seal }),
        (0_u32..3, any::<i64>()).prop_map(|(n, hi)| Write::Seal { n, hi: Position(hi) }),
    ]
}

/// Fewer fields than samples, some without a value in any of them.
fn delta() -> impl Strategy<Value = Delta> {
    let value = prop_oneof![2 => -1e9..1e9_f64, 1 => Just(f64::NAN)];
    let row = (1_i64..1_000_000, any::<i32>(), "[a-z]{0,9}", prop::collection::vec(value, 2));
    let rows = prop::collection::vec(row, 1..14);
    (write(), "[a-zé\\.\\$]{1,12}", any::<i32>(), any::<i64>(), any::<bool>(), rows).prop_map(
        |(write, device, window, s, with_meta, rows)| {
            let (mut samples, mut pos) = (Samples::new(2), 0);
            for (step, at, text, stats) in rows.iter().filter(|_| !matches!(write, Write::Seal { .. })) {
                pos += step;
                let info = doc! { "text": text }.to_vec().expect("encodes");
                samples.push_sample(Position(pos), EventTime(i64::from(*at)), "time", "info", &info, stats);
            }
            let origin = Origin { cluster: "c".into(), topic: "t".into(), incarnation: 1, partition: 2 };
            let meta = doc! { "site": "north" }.to_vec().expect("encodes");
            Delta {
                assignment: Assignment(1),
                slot: 0,
                key: Arc::new(ChainKey {
                    device: device.into(),
                    window: EventTime(i64::from(window)),
                    stream: StreamId(s),
                }),
                origin: Arc::new(origin),
                write,
                meta: with_meta.then(|| meta.into()),
                samples,
                stats: Arc::new([Box::from("temp"), Box::from("speed")]),
            }
        },
    )
}

/// The same statement through `bson::Document`.
fn expected(delta: &Delta) -> Document {
    let date = |at: EventTime| DateTime::from_millis(at.0);
    let key = &delta.key;
    let id = |n: u32| doc! { "w": date(key.window), "d": &*key.device, "s": key.stream.0, "n": n as i32 };
    let filter = |n, hi: Position| doc! { "_id": id(n), "dev": &*key.device, "date": date(key.window), "open": true, "p.hi": hi.0 };
    let samples: Vec<Document> =
        delta.samples.iter().map(|(_, _, document)| Document::from_reader(document).expect("a document")).collect();
    let times = || delta.samples.iter().map(|(_, at, _)| at);
    let (first, last) = (times().min().map(date), times().max().map(date));
    let stats: Vec<_> = ["temp", "speed"].into_iter().enumerate().collect();
    let stats = stats.iter().filter_map(|(j, name)| Some((*name, delta.samples.stats_of(*j)?)));
    match delta.write {
        Write::Seal { n, hi } => doc! { "q": filter(n, hi), "u": { "$unset": { "open": "" } } },
        Write::Append { n, hi, seal } => {
            let mut inc = doc! { "count": samples.len() as i32 };
            let (mut min, mut max) = (doc! { "first": first }, doc! { "last": last });
            for (name, stats) in stats {
                inc.extend([
                    (format!("st.{name}.sum"), stats.sum.into()),
                    (format!("st.{name}.n"), (stats.n as i32).into()),
                ]);
                min.insert(format!("st.{name}.min"), stats.min);
                max.insert(format!("st.{name}.max"), stats.max);
            }
            let hi_after = delta.samples.last_pos().expect("samples").0;
            let mut u = doc! { "$push": { "samples": { "$each": samples } }, "$inc": inc, "$min": min, "$max": max,
            "$set": { "p.hi": hi_after } };
            if seal {
                u.insert("$unset", doc! { "open": "" });
            }
            doc! { "q": filter(n, hi), "u": u }
        }
        Write::Insert { n, open } => {
            let mut bucket = doc! { "_id": id(n), "dev": &*key.device, "date": date(key.window), "first": first,
            "last": last, "count": samples.len() as i32 };
            if open {
                bucket.insert("open", true);
            }
            if delta.meta.is_some() {
                bucket.insert("meta", doc! { "site": "north" });
            }
            bucket.insert("samples", samples);
            let stats = stats.map(|(name, s)| {
                (name.to_owned(), doc! { "min": s.min, "max": s.max, "sum": s.sum, "n": s.n as i32 }.into())
            });
            let stats: Document = stats.collect();
            if !stats.is_empty() {
                bucket.insert("st", stats);
            }
            bucket.insert("schema", 1);
            if n == 0 {
                bucket.insert("src", doc! { "cluster": "c", "topic": "t", "incarnation": 1, "partition": 2 });
            }
            let (lo, hi) =
                (delta.samples.first_pos().expect("samples").0, delta.samples.last_pos().expect("samples").0);
            bucket.insert("p", doc! { "lo": lo, "hi": hi });
            bucket
        }
    }
}

proptest! {
    #[test]
    fn bodies_equal_the_bson_crates(deltas in prop::collection::vec(delta(), 0..14), max_statements in 1_usize..6) {
        let encoder = encoder(max_statements);
        let mut seen = vec![0; deltas.len()];
        for command in encoder.commands(&deltas) {
            let (verb, name) = if command.kind == Kind::Insert { ("insert", "documents") } else { ("update", "updates") };
            let statements: Vec<_> = command.deltas.iter().map(|i| expected(&deltas[*i])).collect();
            let whole = doc! { verb: "readings", "ordered": false, "writeConcern": { "w": "majority", "wtimeout": 30_000 },
                "maxTimeMS": 30_000, name: statements };
            let body = encoder.body(command.kind, command.deltas.iter().map(|i| &deltas[*i]));
            prop_assert_eq!(&body, &whole.to_vec().expect("encodes"));
            prop_assert!(!command.deltas.is_empty() && command.deltas.len() <= max_statements);
            prop_assert!(command.deltas.iter().all(|i| Kind::of(deltas[*i].write) == command.kind));
            command.deltas.iter().for_each(|i| seen[*i] += 1);
            // No reallocation while a body of megabytes is written.
            let guess = STATEMENT_BYTES + command.deltas.iter().map(|i| statement_bytes(&deltas[*i])).sum::<usize>();
            prop_assert!(body.len() <= guess);
        }
        prop_assert!(seen.iter().all(|n| *n == 1), "each delta in one command");
    }
}

#[test]
fn commands_close_at_their_limit_of_bytes() {
    let any = delta().new_tree(&mut TestRunner::deterministic()).expect("generates").current();
    let of_size = |n_bytes| {
        let mut samples = Samples::new(2);
        samples.push(Position(1), EventTime(0), &vec![0; n_bytes], &[1.0, 2.0]);
        Delta { write: Write::Insert { n: 0, open: false }, samples, ..any.clone() }
    };
    let deltas = [of_size(MAX_BODY_BYTES + 1), of_size(MAX_BODY_BYTES / 2), of_size(10)];
    let groups: Vec<_> = encoder(100).commands(&deltas).into_iter().map(|command| command.deltas).collect();
    assert_eq!(groups, vec![vec![0], vec![1, 2]]);
}
