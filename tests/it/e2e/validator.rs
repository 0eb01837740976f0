//! The validator of `storage.validator`, and one of an operator's own.

use std::collections::BTreeMap;

use mongodb::bson::{Bson, DateTime, Document, doc};

use super::stored::{assert_offsets, crash, samples};
use super::world::{NOON, Sent, World, reading, until};

/// The server's code for a document that its validator refuses.
const REFUSED: i32 = 121;

const STRICT: &str = "[storage]\nvalidator = \"error\"\n";

fn init(world: &World) -> String {
    let output = world.sakia("init", &[]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn options(world: &World) -> Document {
    let listed = world.command(doc! { "listCollections": 1, "filter": { "name": "readings" } });
    let batch = listed.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
    batch[0].as_document().unwrap().get_document("options").unwrap().clone()
}

#[test]
fn init_sets_changes_and_takes_away_its_validator() {
    let mut world = World::new("validator_init", 1);
    world.settings(STRICT);
    let dry = world.sakia("init", &["--dry-run"]).output().unwrap();
    assert!(String::from_utf8_lossy(&dry.stdout).contains("$jsonSchema"));
    assert!(init(&world).contains("created  validator of readings, action error"));
    assert!(init(&world).lines().all(|line| line.starts_with("exists")));
    assert_eq!(options(&world).get_str("validationAction").unwrap(), "error");
    world.settings(&STRICT.replace("error", "warn"));
    assert!(init(&world).contains("changed  validator of readings, action warn"));
    assert_eq!(options(&world).get_str("validationAction").unwrap(), "warn");
    world.settings("");
    assert!(init(&world).contains("changed  no validator on readings"));
    assert!(options(&world).get_document("validator").map_or(true, Document::is_empty));
    assert!(init(&world).lines().all(|line| line.starts_with("exists")));
}

#[test]
fn init_leaves_an_operators_own_validator_alone() {
    let mut world = World::new("validator_own", 1);
    let own = doc! { "deviceid": { "$ne": "x" } };
    world.command(doc! { "create": "readings", "validator": &own });
    assert!(init(&world).contains("note     readings has a validator of its own"));
    world.settings(STRICT);
    let output = world.sakia("init", &[]).output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && err.contains("take it away with collMod"), "{err}");
    assert_eq!(options(&world).get_document("validator").unwrap(), &own);
}

/// A reading of any shape that the decoder lets through.
fn any_reading(i: i64) -> String {
    const ODD: [&str; 12] = [
        "null",
        "\"\"",
        "\"NaN\"",
        "true",
        "[]",
        "[1,null,{\"a\":[]}]",
        "{}",
        "{\"a\":{\"b.c\":null}}",
        "1e300",
        "-0.0",
        "9223372036854775807",
        "123456789012345678901234567890",
    ];
    let pick = |n: usize| fastrand::usize(..n);
    let temp = if pick(3) == 0 { ODD[pick(12)].to_owned() } else { format!("{}", i % 50) };
    let meta = ["", r#","site":"north""#, r#","site":null"#, r#","site":{"a":[1]}"#][pick(20).saturating_sub(16)];
    let device = ["d0", "d1", "$d", "d.2", "geräte id"][pick(5)];
    let at = NOON + i - 3_600_000 * pick(12) as i64;
    format!(r#"{{"deviceid":"{device}","ts":{at},"i":{i},"yr.doy":1,"odd":{},"temp":{temp}{meta}}}"#, ODD[pick(12)])
}

/// Sends `n` readings in records of up to four.
fn send_any(world: &World, from: i64, n: i64) {
    let mut records = Vec::new();
    let mut i = from;
    while i < from + n {
        let upto = (i + fastrand::i64(1..=4)).min(from + n);
        let readings: Vec<_> = (i..upto).map(any_reading).collect();
        let value = format!("{{\"readings\":[{}]}}", readings.join(","));
        records.push(Sent { partition: 0, key: "k".to_owned(), value: Some(value.into_bytes()), timestamp: NOON });
        i = upto;
    }
    world.send(records);
}

/// Writes buckets of every shape in rounds, one while a member runs; they all pass.
fn writes_everything(world: &World) {
    init(world);
    let mut n_sent = 0;
    let running = world.start(&[]);
    for n in [1, 30, 4, 200, 7, 90, 2] {
        send_any(world, n_sent, n);
        n_sent += n;
        until("all are stored", || world.n_samples() as i64 == n_sent);
    }
    running.stop();
    send_any(world, n_sent, 100);
    crash(world, "after_write", 1);
    world.catch_up();
    assert_eq!((world.n_samples() as i64, world.dead()), (n_sent + 100, vec![]));
}

const SMALL: &str = "[bucket]\nflush_age = \"100ms\"\nmax_samples = 25\nmin_fill = 8\nwindow = \"6h\"\n";
const EVERYTHING: &str = "explode = \"readings\"\nmeta = [\"site\"]\nstats = [\"temp\", \"odd\"]\n";

#[test]
fn whatever_sakia_writes_passes_its_validator() {
    let mut world = World::new("validator_all", 1);
    world.settings(&format!("{SMALL}{STRICT}"));
    world.decoder(EVERYTHING);
    writes_everything(&world);
    let buckets = world.buckets();
    for (what, is_there) in [
        ("open", buckets.iter().any(|d| d.contains_key("open"))),
        ("sealed", buckets.iter().any(|d| !d.contains_key("open"))),
        ("meta", buckets.iter().any(|d| d.contains_key("meta"))),
        ("no meta", buckets.iter().any(|d| !d.contains_key("meta"))),
        ("stats", buckets.iter().any(|d| d.contains_key("stats"))),
        ("a later bucket", buckets.iter().any(|d| !d.contains_key("src"))),
    ] {
        assert!(is_there, "no bucket: {what}");
    }
    refuses_junk(&world, &buckets);
}

#[test]
fn fields_of_other_names_pass_too() {
    let mut world = World::new("validator_names", 1);
    let names = "[fields]\nsamples = \"s\"\npos = \"position\"\ntime = \"t\"\ninfo = \"v\"\nopen = \"Geräte offen\"\n\
                 stats = \"st\"\nmeta = \"tags\"\n";
    world.settings(&format!("{SMALL}{STRICT}{names}"));
    world.decoder(EVERYTHING);
    writes_everything(&world);
}

/// What hands do to a bucket, each of it refused.
fn refuses_junk(world: &World, buckets: &[Document]) {
    let bucket = buckets.iter().find(|d| d.contains_key("stats")).unwrap();
    let sample = doc! { "time": DateTime::now(), "info": {} };
    for change in [
        doc! { "$set": { "pos.hi": 1.0 } },
        doc! { "$unset": { "pos": "" } },
        doc! { "$set": { "pos.more": 1 } },
        doc! { "$set": { "count": "many" } },
        doc! { "$set": { "count": 0 } },
        doc! { "$set": { "open": false } },
        doc! { "$set": { "samples": [] } },
        doc! { "$push": { "samples": 1 } },
        doc! { "$push": { "samples": { "time": "noon", "info": {} } } },
        doc! { "$push": { "samples": { "time": DateTime::now() } } },
        doc! { "$push": { "samples": { "time": DateTime::now(), "info": {}, "by": "hand" } } },
        doc! { "$set": { "deviceid": 7 } },
        doc! { "$unset": { "date": "" } },
        doc! { "$set": { "first": Bson::Null } },
        doc! { "$set": { "meta": "north" } },
        doc! { "$set": { "stats.temp": { "min": 1.0 } } },
        doc! { "$set": { "stats.more": 1 } },
        doc! { "$rename": { "schema": "version" } },
    ] {
        let statement = doc! { "q": { "_id": bucket.get("_id").unwrap() }, "u": &change };
        assert_eq!(refusal(world, doc! { "update": "readings", "updates": [statement] }), Some(REFUSED), "{change}");
    }
    let with = |key: &str, value: Bson| {
        let mut other = bucket.clone();
        let mut id = bucket.get_document("_id").unwrap().clone();
        id.insert("d", "by hand");
        other.insert("_id", id);
        other.insert(key, value);
        other
    };
    let mut odd_id = bucket.get_document("_id").unwrap().clone();
    odd_id.insert("n", 0_i64);
    for document in [doc! { "a": 1 }, with("_id", 1.into()), with("_id", odd_id.into()), with("schema", 1.5.into())] {
        assert_eq!(
            refusal(world, doc! { "insert": "readings", "documents": [&document] }),
            Some(REFUSED),
            "{document}"
        );
    }
    // What does no harm passes.
    let good = with("note", "a field of somebody's own".into());
    assert_eq!(refusal(world, doc! { "insert": "readings", "documents": [good] }), None);
    let push = doc! { "q": { "_id": bucket.get("_id").unwrap() }, "u": { "$push": { "samples": sample } } };
    assert_eq!(refusal(world, doc! { "update": "readings", "updates": [push] }), None);
}

/// Code of the first write error.
fn refusal(world: &World, command: Document) -> Option<i32> {
    let reply = world.command(command);
    let error = reply.get_array("writeErrors").ok()?.first()?.as_document()?;
    Some(error.get_i32("code").unwrap())
}

/// Of every hundred readings the server refuses one.
fn is_refused(offset: i64) -> bool {
    offset % 100 == 37
}

fn numbered(i: i64) -> Sent {
    reading(0, &format!("d{}", i * 7 % 11), NOON + i, i as f64)
}

/// A chain's `pos.hi` may have passed a refused sample only if its dead letter was durable before.
fn check_order(world: &World, n_sent: i64) {
    let mut applied: BTreeMap<String, i64> = BTreeMap::new();
    for bucket in world.buckets() {
        let device = bucket.get_str("deviceid").unwrap().to_owned();
        let hi = bucket.get_document("pos").unwrap().get_i64("hi").unwrap() / 65_536;
        applied.entry(device).and_modify(|known| *known = hi.max(*known)).or_insert(hi);
    }
    // Read later: letters only become more.
    let dead: Vec<_> = world.dead().iter().map(|letter| letter.get_i64("offset").unwrap()).collect();
    for offset in (0..n_sent).filter(|offset| is_refused(*offset)) {
        let is_passed = applied.get(&format!("d{}", offset * 7 % 11)).is_some_and(|hi| *hi > offset);
        assert!(!is_passed || dead.contains(&offset), "offset {offset} is passed and has no dead letter");
    }
}

/// Rule "samples that the server refuses": an operator's own validator refuses one sample in a hundred, among inserts and
/// appends, kills between. Each ends once, as a sample or as a dead letter.
#[test]
fn one_refused_sample_in_a_hundred_dies_alone() {
    let mut world = World::new("validator_1pc", 1);
    world.settings("[bucket]\nflush_age = \"100ms\"\nmax_samples = 60\nmin_fill = 20\n");
    init(&world);
    let validator = doc! { "samples.info.temp": { "$not": { "$mod": [100, 37] } } };
    world.command(doc! { "collMod": "readings", "validator": validator });
    let mut n_sent = 0;
    for (round, n) in [700, 40, 60, 400, 100].into_iter().enumerate() {
        world.send((n_sent..n_sent + n).map(numbered));
        n_sent += n;
        crash(&world, ["before_write", "after_write", "before_ledger"][round % 3], 2 + round as u32 % 2);
        check_order(&world, n_sent);
    }
    // A member that runs, so that later ones are appended to buckets that it has open.
    let running = world.start(&[]);
    for _ in 0..20 {
        world.send((n_sent..n_sent + 20).map(numbered));
        n_sent += 20;
        until("they are dealt with", || {
            check_order(&world, n_sent);
            world.n_samples() + world.dead().len() == n_sent as usize
        });
    }
    running.stop();
    assert_offsets(&samples(&world), (0..n_sent).filter(|offset| !is_refused(*offset)));
    let letters = world.dead();
    let offsets: Vec<_> = letters.iter().map(|letter| letter.get_i64("offset").unwrap()).collect();
    assert_eq!(offsets, (0..n_sent).filter(|offset| is_refused(*offset)).collect::<Vec<_>>());
    for letter in &letters {
        assert_eq!(letter.get_str("reason").unwrap(), "refused_by_server", "{letter}");
        let detail = letter.get_str("detail").unwrap();
        assert!(detail.contains("121") && detail.contains("alidat"), "{detail}");
    }
}

/// What is wrong is the bucket, not a sample: each one refused by an append is taken as a bucket of its own.
#[test]
fn a_verdict_on_the_bucket_kills_no_sample() {
    let mut world = World::new("validator_bucket", 1);
    world.settings("[bucket]\nflush_age = \"100ms\"\nmax_samples = 60\nmin_fill = 20\n");
    init(&world);
    let validator = doc! { "count": { "$lte": 12 } };
    world.command(doc! { "collMod": "readings", "validator": validator });
    let running = world.start(&[]);
    for round in 0..8 {
        world.send((0..5).map(|i| reading(0, "d", NOON + i, (5 * round + i) as f64)));
        until("they are stored", || world.n_samples() as i64 == 5 * (round + 1));
    }
    running.stop();
    assert_offsets(&samples(&world), 0..40);
    assert_eq!(world.dead(), []);
    assert!(world.buckets().iter().all(|bucket| bucket.get_i32("count").unwrap() <= 12));
}
