//! What the command line promises besides storing: `init`, `--print-config`, problems of a configuration.

use std::process::{Command, Output};

use mongodb::bson::{Document, doc};

use super::stored::bytes;
use super::world::{World, program};

/// The last one is where the server keeps views.
const COLLECTIONS: [&str; 5] = ["readings", "readings_dead", "readings_ledger", "readings_samples", "system.views"];

fn init(world: &World, args: &[&str]) -> (Output, String, String) {
    let output = world.sakia("init", args).output().unwrap();
    let texts = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let [out, err] = texts;
    (output, out, err)
}

/// Names and options of the collections that are there.
fn collections(world: &World) -> Vec<Document> {
    let listed = world.command(doc! { "listCollections": 1 });
    let batch = listed.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
    let mut found: Vec<_> = batch.iter().map(|found| found.as_document().unwrap().clone()).collect();
    found.sort_by_key(|found| found.get_str("name").unwrap().to_owned());
    found
}

fn indexes(world: &World) -> Vec<Document> {
    let listed = world.command(doc! { "listIndexes": "readings" });
    let batch = listed.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
    batch.iter().map(|found| found.as_document().unwrap().clone()).collect()
}

#[test]
fn init_makes_what_is_missing_and_repeats_without_effect() {
    let world = World::new("init", 1);
    let (output, out, err) = init(&world, &[]);
    assert!(output.status.success(), "{err}");
    assert!(out.lines().count() == 5 && out.lines().all(|line| line.starts_with("created")), "{out}");
    let made = collections(&world);
    assert_eq!(made.iter().map(|c| c.get_str("name").unwrap()).collect::<Vec<_>>(), COLLECTIONS);
    let ledger = bytes(&world.documents("readings_ledger"));
    let (output, out, err) = init(&world, &[]);
    assert!(output.status.success(), "{err}");
    assert!(out.lines().count() == 5 && out.lines().all(|line| line.starts_with("exists")), "{out}");
    assert_eq!(collections(&world), made);
    assert!(ledger == bytes(&world.documents("readings_ledger")));
    world.produce(&["--total", "2000", "--devices", "20"]);
    world.catch_up();
    world.check(&[]);
    let (output, out, err) = init(&world, &[]);
    assert!(output.status.success() && out.lines().all(|line| line.starts_with("exists")), "{out}{err}");
}

#[test]
fn init_dry_run_writes_nothing_and_prints_what_would_do_it() {
    let mut world = World::new("init_dry", 1);
    world.settings("[storage]\nttl = \"400d\"\nwildcard_index = \"meta\"\n");
    let (output, out, err) = init(&world, &["--dry-run"]);
    assert!(output.status.success(), "{err}");
    assert!(collections(&world).is_empty(), "a dry run wrote something");
    let commands: Vec<Document> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(commands.len(), 7, "three collections, two indexes, the header, the view: {out}");
    // Run by hand, they leave nothing to do.
    for command in commands {
        world.command(command);
    }
    let (_, out, _) = init(&world, &[]);
    assert!(out.lines().all(|line| line.starts_with("exists")), "{out}");
    let (_, out, _) = init(&world, &["--dry-run"]);
    assert_eq!(out, "", "nothing is needed");
}

#[test]
fn init_makes_the_indexes_that_are_asked_for() {
    let mut world = World::new("init_index", 1);
    world.settings("[storage]\nttl = \"400d\"\nwildcard_index = \"meta\"\n");
    let (output, _, err) = init(&world, &[]);
    assert!(output.status.success(), "{err}");
    let found = indexes(&world);
    assert_eq!(found.len(), 3, "{found:?}");
    let with_key = |key: &Document| found.iter().find(|index| index.get_document("key").unwrap() == key).unwrap();
    let seconds = with_key(&doc! { "date": 1 }).get("expireAfterSeconds").unwrap().clone();
    assert_eq!(seconds.as_i64().or(seconds.as_i32().map(i64::from)), Some(400 * 86_400));
    with_key(&doc! { "meta.$**": 1 });
    // Another retention changes the index that is there.
    world.settings("[storage]\nttl = \"30d\"\nwildcard_index = \"meta\"\n");
    let (output, out, err) = init(&world, &[]);
    assert!(output.status.success() && out.contains("changed"), "{out}{err}");
    let found = indexes(&world);
    assert_eq!(found.len(), 3, "{found:?}");
    world.produce(&["--total", "1000", "--devices", "20"]);
    world.catch_up();
    world.check(&[]);
}

#[test]
fn init_refuses_a_collation_and_makes_nothing() {
    let world = World::new("init_collation", 1);
    world.command(doc! { "create": "readings", "collation": { "locale": "en", "strength": 2 } });
    let (output, _, err) = init(&world, &[]);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.contains("collation \"en\"") && err.contains("mongo.collection"), "{err}");
    assert_eq!(collections(&world).len(), 1, "nothing is made beside it");
}

/// `sakia run` with layers of its own; neither server is there, so nothing may try to reach them.
fn layered(world: &World, file: &str, env: &[(&str, &str)], args: &[&str]) -> (Option<i32>, String, String) {
    let path = world.path().join("layers.toml");
    std::fs::write(&path, file).unwrap();
    let mut command = Command::new(program("sakia"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("SAKIA_")) {
        command.env_remove(name);
    }
    let output = command.arg("run").arg("--config").arg(&path).args(args).envs(env.iter().copied()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(&path.display().to_string(), "FILE");
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

const DECODER: &str = "[[decoder]]\ntopics = [\"t\"]\ndevice_path = \"d\"\ntimestamp_path = \"ts\"\n\
                       timestamp_format = \"unix_ms\"\n";

#[test]
fn three_wrong_values_in_three_layers_give_three_lines() {
    let world = World::new("problems", 1);
    let file = format!("[bucket]\nmax_samples = 0\n[kafka]\nbrokers = \"127.0.0.1:1\"\n{DECODER}");
    let env = [("SAKIA_BUCKET__FLUSH_AGE", "soon"), ("SAKIA_MONGO", "mongodb://127.0.0.1:1/?replicaSet=rs0")];
    let (code, out, err) = layered(&world, &file, &env, &["--set", "flow.plan_statements=many"]);
    assert_eq!((code, out.as_str()), (Some(2), ""), "{err}");
    let lines: Vec<_> = err.lines().filter(|line| line.contains(": ")).collect();
    assert_eq!(lines.len(), 3, "{err}");
    for place in ["FILE:2: bucket.max_samples: ", "SAKIA_BUCKET__FLUSH_AGE: ", "--set flow.plan_statements: "] {
        assert!(lines.iter().any(|line| line.trim_start().contains(place)), "{place:?} is missing:\n{err}");
    }
}

#[test]
fn print_config_shows_origins_and_no_secrets() {
    let world = World::new("print", 1);
    let file = format!(
        "[bucket]\nmax_samples = 1000\n[kafka]\nbrokers = \"127.0.0.1:1\"\n[kafka.options]\n\
         \"sasl.username\" = \"me\"\n\"sasl.password\" = \"hunter2\"\n{DECODER}"
    );
    let env = [("SAKIA_MONGO", "mongodb://me:hunter3@127.0.0.1:1/?replicaSet=rs0")];
    let (code, out, err) = layered(&world, &file, &env, &["--print-config", "--set", "bucket.flush_age=7s"]);
    assert_eq!(code, Some(0), "{err}");
    assert!(!out.contains("hunter") && !err.contains("hunter"), "{out}{err}");
    let line = |key: &str| out.lines().find(|line| line.starts_with(key)).unwrap_or_else(|| panic!("{key}:\n{out}"));
    assert!(line("max_samples").contains("1000") && line("max_samples").contains("FILE:2"), "{out}");
    assert!(line("flush_age").contains("7s") && line("flush_age").contains("--set"), "{out}");
    assert!(line("uri").contains("SAKIA_MONGO") && line("uri").contains("127.0.0.1"), "{out}");
    assert!(out.parse::<toml::Table>().is_ok(), "it reads back:\n{out}");
}
