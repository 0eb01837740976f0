//! Public reports about comparable systems, those that are about what a record or a configuration holds, and about records
//! that come again.

use mongodb::bson::{Bson, Document, doc};

use super::cases::{infos, letters, record};
use super::stored::{assert_offsets, bytes, numbered, samples};
use super::world::{NOON, SHORT_SESSION, Sent, World, reading, until};

/// As if the ledger had never heard of anything from `next` on: the member reads it again.
fn rewind(world: &World, next: i64) {
    let statement =
        doc! { "q": { "streams.0.next": { "$exists": true } }, "u": { "$set": { "streams.0.next": next } } };
    let reply = world.command(doc! { "update": "readings_ledger", "updates": [statement] });
    assert_eq!(reply.get_i32("n").unwrap(), 1, "{reply}");
}

/// <https://github.com/ClickHouse/clickhouse-kafka-connect/blob/main/docs/DESIGN.md>: a batch that comes again as it was,
/// or overlaps what is stored, or lies within it, or is older than it.
#[test]
fn case_09_a_replayed_batch_in_every_relation_to_what_is_stored() {
    const CAPS: [&str; 3] = ["max_samples = 40\nmin_fill = 10", "max_samples = 7\nmin_fill = 3", "max_samples = 90"];
    let mut world = World::new("case_09", 1);
    let mut n_sent = 0;
    // How far it goes back, and how many new records there are; another size of buckets each time.
    for (i, (back, more)) in
        [(0, 20), (20, 0), (10, 30), (45, 0), (50, 200), (250, 1), (3, 3), (254, 0)].iter().enumerate()
    {
        world.settings(&format!("[bucket]\nflush_age = \"100ms\"\n{}\n", CAPS[i % 3]));
        world.send((n_sent..n_sent + more).map(|offset| numbered(0, offset, NOON)));
        let before = bytes(&world.buckets());
        if n_sent > 0 {
            rewind(&world, n_sent - back);
        }
        n_sent += more;
        let log = world.catch_up();
        assert_offsets(&samples(&world), 0..n_sent);
        assert_eq!((world.dead(), world.committed(1)), (vec![], vec![Some(n_sent)]));
        assert!(!log.contains("ERROR"), "{log}");
        if *more == 0 {
            assert!(before == bytes(&world.buckets()), "the replay of {back} changed something");
        }
    }
}

/// <https://github.com/ORNL/flowcept/issues/352>: a field name with a dot sinks the whole batch.
#[test]
fn case_12_a_name_with_a_dot_is_kept_and_one_with_a_dollar_is_a_dead_letter() {
    let mut world = World::new("case_12", 1);
    world.decoder("meta = [\"site\"]\nstats = [\"temp\"]");
    // Dots and dollars where they may stand: kept as they are.
    let kept = [r#""yr.doy":2024.5"#, r#""a":{"b.c":[{".":1}]}"#, r#""a$b":1,"c$":2"#, r#""x":"$cmd","site":"$n.m""#];
    // Names that MongoDB would take for operators, and an empty one, at any depth and in a tag.
    let refused = [
        r#""yr.doy":2024.5,"$cmd":1"#,
        r#""a":{"$set":1}"#,
        r#""a":[{"b":{"$":1}}]"#,
        r#""temp":1,"":2"#,
        r#""temp":1,"site":{"$n":1}"#,
        r#""temp":1,"\u0024x":2"#,
    ];
    let odd = kept.iter().chain(&refused);
    let records = odd.flat_map(|fields| {
        (0..99).map(|i| reading(0, "d", NOON + i, i as f64)).chain([record("d", NOON + 1_000, fields)])
    });
    // Devices may be called what they like.
    let devices = ["$d", "a.b", ".", "$where", "0"];
    let n_records = 100 * (kept.len() + refused.len()) as i64;
    world.send(records.chain(devices.map(|device| reading(0, device, NOON, 1.0))));
    world.catch_up();
    assert_eq!(world.n_samples(), n_records as usize - refused.len() + devices.len());
    let infos = infos(&world);
    for info in [doc! { "yr.doy": 2024.5 }, doc! { "a": { "b.c": [{ ".": 1 }] } }, doc! { "a$b": 1, "c$": 2 }] {
        assert_eq!(infos.iter().filter(|found| **found == info).count(), 1, "{info}");
    }
    let expected: Vec<_> =
        (0..refused.len() as i64).map(|i| (100 * (kept.len() as i64 + i) + 99, "forbidden_name".to_owned())).collect();
    assert_eq!(letters(&world), expected);
}

/// <https://github.com/influxdata/telegraf/issues/12665>: a bare nan where JSON has no such word.
#[test]
fn case_13_a_bare_nan_is_a_dead_letter_with_its_place() {
    const NO_JSON: [&str; 12] =
        ["nan", "NaN", "-nan", "Infinity", "-Infinity", "inf", "+1", ".5", "01", "0x1F", "None", "undefined"];
    let mut world = World::new("case_13", 1);
    world.decoder("stats = [\"temp\", \"avg\"]");
    let mut records = vec![reading(0, "d", NOON, 1.0)];
    let mut places = Vec::new();
    for word in NO_JSON {
        let bad = record("d", NOON, &format!(r#""temp":100,"avg":{word}"#));
        places.push(String::from_utf8(bad.value.clone().unwrap()).unwrap().find("\"avg\":").unwrap() + 6);
        records.push(bad);
    }
    // As a text it is a text: stored, and no number.
    records.push(record("d", NOON, r#""temp":2,"avg":"NaN""#));
    world.send(records);
    world.catch_up();
    assert_eq!(infos(&world), [doc! { "temp": 1 }, doc! { "temp": 2, "avg": "NaN" }]);
    let stats = doc! { "temp": { "min": 1.0, "max": 2.0, "sum": 3.0, "n": 2 } };
    assert_eq!(world.buckets()[0].get_document("stats").unwrap(), &stats, "nothing of a dead letter counts");
    let dead = world.dead();
    assert_eq!(dead.len(), NO_JSON.len());
    for ((letter, word), place) in dead.iter().zip(NO_JSON).zip(places) {
        assert_eq!(letter.get_str("reason").unwrap(), "malformed", "{word}");
        let detail = letter.get_str("detail").unwrap();
        let at: usize = detail.rsplit(' ').next().unwrap().parse().unwrap();
        assert!((place..=place + word.len()).contains(&at), "{word} at {place}: {detail}");
    }
}

/// <https://github.com/deephaven/deephaven-core/issues/2342>: a number that is not there becomes 0.
#[test]
fn case_15_a_missing_number_is_missing() {
    let mut world = World::new("case_15", 1);
    world.settings("[bucket]\nflush_age = \"100ms\"\n");
    world.decoder("stats = [\"temp\"]");
    let running = world.start(&[]);
    // In a bucket of its own first, then appended.
    let values = ["", "null", "\"\"", "\"0\"", "false", "[]", "{}", "5", "", "null", "7.5", "\"8\"", ""];
    for (i, value) in values.iter().enumerate() {
        let temp = if value.is_empty() { String::new() } else { format!(r#""temp":{value},"#) };
        world.send([record("d", NOON + i as i64, &format!(r#"{temp}"speed":{i}"#))]);
        until("it is stored", || world.n_samples() == i + 1);
        if i == 6 {
            assert!(!world.buckets()[0].contains_key("stats"), "no number was there yet");
        }
    }
    running.stop();
    let temps: Vec<_> = infos(&world).iter().map(|info| info.get("temp").cloned()).collect();
    let expected: [Option<Bson>; 13] = [
        None,
        None,
        Some("".into()),
        Some("0".into()),
        Some(false.into()),
        Some(Bson::Array(vec![])),
        Some(doc! {}.into()),
        Some(5.into()),
        None,
        None,
        Some(7.5.into()),
        Some("8".into()),
        None,
    ];
    assert_eq!(temps, expected);
    let stats = world.buckets()[0].get_document("stats").unwrap().get_document("temp").unwrap().clone();
    for (figure, value) in [("min", 5.0), ("max", 7.5), ("sum", 12.5)] {
        assert_eq!(stats.get_f64(figure).unwrap().to_bits(), f64::to_bits(value), "{stats}");
    }
    assert_eq!(stats.get_i32("n").unwrap(), 2);
}

/// <https://github.com/influxdata/influxdb/issues/4150>: two values of one device at one instant.
#[test]
fn case_19_two_values_at_one_time_are_both_kept_and_a_replay_changes_nothing() {
    let mut world = World::new("case_19", 2);
    world.settings(&format!("[bucket]\nflush_age = \"100ms\"\n{SHORT_SESSION}"));
    // Also the same value twice, and from another partition.
    world.send([600.0, 700.0, 600.0].map(|temp| reading(0, "d", NOON, temp)));
    world.send([reading(1, "d", NOON, 600.0)]);
    // The ledger does not hear of it: the second process writes all again.
    let (status, log) = world.start_crashing("before_ledger", 2).wait();
    assert!(!status.success(), "{log}");
    world.catch_up();
    let stored = world.buckets();
    let mut temps: Vec<_> = infos(&world).iter().map(|info| info.get_i32("temp").unwrap()).collect();
    temps.sort_unstable();
    assert_eq!(temps, [600, 600, 600, 700]);
    world.commit(2, 0);
    world.catch_up();
    assert_eq!(world.buckets(), stored);
}

/// <https://github.com/influxdata/telegraf/issues/15729>: a name made of nothing, and writes that can never succeed.
#[test]
fn case_29_names_that_no_server_takes_are_refused_at_the_start() {
    let world = World::new("case_29", 1);
    let long = "a".repeat(70);
    let refused: [(&str, &str, &str); 16] = [
        ("mongo.database", "", "is empty"),
        ("mongo.database", "a.b", "holds '.'"),
        ("mongo.database", "a b", "holds ' '"),
        ("mongo.database", "$db", "holds '$'"),
        ("mongo.database", "local", "the server's own"),
        ("mongo.database", &long, "has 70 characters"),
        ("mongo.collection", "", "is empty"),
        ("mongo.collection", "system.buckets", "holds '.'"),
        ("mongo.collection", "system", "must not start"),
        ("mongo.collection", "a$b", "holds '$'"),
        ("mongo.collection", &long[..60], "has 60 characters"),
        ("fields.samples", "", "is empty"),
        ("fields.pos", "a.b", "holds '.'"),
        ("fields.info", "$x", "holds '$'"),
        ("fields.count", "_id", "the bucket's key"),
        ("storage.wildcard_index", "meta..x", "is empty"),
    ];
    for (key, value, reason) in refused {
        for command in ["run", "init"] {
            let output = world.sakia(command, &["--set", &format!("{key}={value}")]).output().unwrap();
            let err = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{key} = {value:?}: {err}");
            assert!(err.contains(&format!("--set {key}")) && err.contains(reason), "{key} = {value:?}: {err}");
        }
    }
    let collections = world.command(doc! { "listCollections": 1 });
    let batch = collections.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
    assert!(batch.is_empty(), "{batch:?}");
}

/// As before, where the mapping makes the name: from a record's own text, or in the decoder's table.
#[test]
fn case_29_names_that_a_mapping_makes() {
    let mut world = World::new("case_29_map", 1);
    for (decoder, reason) in [
        ("device_path = \"\"", "device_path"),
        ("stats = [\"a.b\"]", "stats: \"a.b\" holds '.'"),
        ("stats = [\"\"]", "stats: is empty"),
        ("meta = [\"a.$b\"]", "meta"),
        ("meta = [\"x.\\\"\\\"\"]", "meta"),
    ] {
        world.decoder(decoder);
        let output = world.sakia("run", &[]).output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && err.contains(reason), "{decoder}: {err}");
    }
    world.decoder("");
    let devices =
        ["\"\"", "null", "\"\\u0000\"", "{}", "[]", "true", &format!("\"{}\"", "d".repeat(1_025))].map(str::to_owned);
    let with_device = |device: &String| Sent {
        value: Some(format!(r#"{{"deviceid":{device},"ts":{NOON},"temp":1}}"#).into_bytes()),
        ..reading(0, "k", NOON, 0.0)
    };
    world.send(devices.iter().map(with_device).chain([reading(0, "good", NOON, 1.0)]));
    world.catch_up();
    assert_eq!((world.n_samples(), world.committed(1)), (1, vec![Some(devices.len() as i64 + 1)]));
    let reasons: Vec<_> = letters(&world).into_iter().map(|(_, reason)| reason).collect();
    assert_eq!(reasons.iter().filter(|reason| *reason == "bad_device").count(), 6, "{reasons:?}");
    assert_eq!(reasons[1], "missing_device");
}

/// Whether every filter in it names the device and the start of the window, as a shard key may ask.
fn is_targeted(filter: &Document) -> bool {
    filter.contains_key("deviceid") && filter.contains_key("date")
}

/// The filters of a pipeline and of those inside it.
fn matches(pipeline: &[Bson]) -> Vec<&Document> {
    let mut found = Vec::new();
    for stage in pipeline.iter().filter_map(Bson::as_document) {
        found.extend(stage.get_document("$match").ok());
        if let Some(inner) = stage.get_document("$unionWith").ok().and_then(|union| union.get_array("pipeline").ok()) {
            found.extend(matches(inner));
        }
    }
    found
}

/// <https://github.com/vdesabou/kafka-docker-playground/pull/1046>: writes to a collection that is sharded by device and
/// day. What the server saw is what counts: inserts of whole documents, and filters with both fields.
#[test]
fn case_30_every_filter_has_what_a_shard_key_may_ask_for() {
    let mut world = World::new("case_30", 1);
    world.settings("[bucket]\nflush_age = \"100ms\"\nmax_samples = 30\nmin_fill = 10\n");
    world.decoder("meta = [\"site\"]");
    world.command(doc! { "profile": 2 });
    let tagged =
        |i: i64, site: &str| record(&format!("d{}", i % 4), NOON + i, &format!(r#""temp":{i},"site":"{site}""#));
    // Appended to cold and to known tails, then left before they are full: sealed.
    for round in 0..3 {
        world.send((0..20).map(|i| tagged(20 * round + i, "north")));
        world.catch_up();
    }
    let running = world.start(&[]);
    for round in 3..6 {
        let site = if round == 4 { "south" } else { "north" };
        world.send((0..20).map(|i| tagged(20 * round + i, site)));
        until("they are stored", || world.n_samples() as i64 == 20 * (round + 1));
    }
    running.stop();
    world.command(doc! { "profile": 0 });
    let namespace = format!("{}.readings", world.name);
    let (mut n_appends, mut n_seals, mut n_inserts, mut n_tails) = (0, 0, 0, 0);
    for seen in world.documents("system.profile") {
        let is_ours =
            seen.get_str("ns").unwrap() == namespace && seen.get_str("appName").is_ok_and(|app| app == "sakia");
        if !is_ours {
            continue;
        }
        let command = seen.get_document("command").unwrap();
        match seen.get_str("op").unwrap() {
            "insert" => n_inserts += 1,
            "update" => {
                assert!(is_targeted(command.get_document("q").unwrap()), "{command}");
                let update = command.get_document("u").unwrap();
                *(if update.contains_key("$push") { &mut n_appends } else { &mut n_seals }) += 1;
            }
            // Whether there are any readings at all: asked once, at the start, of every shard.
            "query" => assert_eq!(command.get_document("filter").unwrap(), &doc! {}, "{command}"),
            _ => {
                let filters = matches(command.get_array("pipeline").unwrap());
                assert!(!filters.is_empty() && filters.iter().all(|filter| is_targeted(filter)), "{command}");
                n_tails += filters.len();
            }
        }
    }
    assert!(
        n_appends > 3 && n_seals > 1 && n_inserts > 1 && n_tails > 3,
        "{n_appends} {n_seals} {n_inserts} {n_tails}"
    );
}
