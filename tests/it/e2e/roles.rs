//! The printed roles: enough for each command, and nothing less is.

use std::process::Output;

use mongodb::Client;
use mongodb::bson::{Document, doc};
use serde_json::Value;
use tokio::runtime::Runtime;

use super::mongod::Mongod;
use super::pages::LISTEN;
use super::topics::{create_topic, send};
use super::world::{NOON, Sent, World, reading, until};

/// Everything that costs a privilege.
const SETTINGS: &str = "[mongo]\nconnections = 1\n[bucket]\nflush_age = \"100ms\"\n[storage]\nttl = \"400d\"\nwildcard_index = \"meta\"\n\
                        validator = \"error\"\n";

/// A server that asks for logins, and one login for each printed role.
struct Guarded {
    world: World,
    /// As printed.
    roles: Vec<Document>,
    root: Client,
    runtime: Runtime,
    /// Goes last: the world takes its database away before.
    mongod: Mongod,
}

impl Guarded {
    fn new(purpose: &str) -> Self {
        let mongod = Mongod::start_with_logins();
        let mut world = World::beside(purpose, 1, &mongod.uri_as("root"));
        world.settings(SETTINGS);
        let printed = world.sakia("init", &["--print-roles", "--json"]).output().unwrap();
        let printed: Value = serde_json::from_slice(&printed.stdout).unwrap();
        let documents = |key: &str| -> Vec<Document> {
            let of = |value: &Value| serde_json::from_value(value.clone()).unwrap();
            printed[key].as_array().unwrap().iter().map(of).collect()
        };
        let runtime = Runtime::new().unwrap();
        let root = runtime.block_on(Client::with_uri_str(mongod.uri_as("root"))).unwrap();
        let guarded = Self { world, roles: documents("roles"), root, runtime, mongod };
        for role in &guarded.roles {
            guarded.admin(role.clone());
        }
        for mut user in documents("users") {
            let name = user.get_str("createUser").unwrap().to_owned();
            user.insert("pwd", name);
            guarded.admin(user);
        }
        guarded
    }

    fn admin(&self, command: Document) {
        self.runtime.block_on(async { self.root.database("admin").run_command(command).await }).unwrap();
    }

    fn role(&self, purpose: &str) -> &Document {
        let is_it = |role: &&Document| role.get_str("createRole").unwrap().ends_with(&format!("_{purpose}"));
        self.roles.iter().find(is_it).unwrap()
    }

    /// `--set` that makes a command log in with the role of this purpose.
    fn login(&self, purpose: &str) -> String {
        format!("mongo.uri={}", self.mongod.uri_as(self.role(purpose).get_str("createRole").unwrap()))
    }

    fn init(&self) -> Output {
        self.world.sakia("init", &["--set", &self.login("init")]).output().unwrap()
    }

    fn privileges(&self, purpose: &str) -> Vec<Document> {
        let privileges = self.role(purpose).get_array("privileges").unwrap();
        privileges.iter().map(|privilege| privilege.as_document().unwrap().clone()).collect()
    }

    /// All that a role may do, without what is of a sharded cluster: there is none here.
    fn actions(&self, purpose: &str) -> Vec<Missing> {
        let mut all = Vec::new();
        for (i, privilege) in self.privileges(purpose).iter().enumerate() {
            let resource = privilege.get_document("resource").unwrap();
            let place = match ["db", "collection"].map(|key| resource.get_str(key)) {
                [Ok("config"), _] => continue,
                [Ok(database), Ok("")] => database.to_owned(),
                [Ok(database), Ok(collection)] => format!("{database}.{collection}"),
                _ => "the cluster".to_owned(),
            };
            let actions = privilege.get_array("actions").unwrap().iter().map(|action| action.as_str().unwrap());
            all.extend(actions.map(|action| Missing { privilege: i, action: action.to_owned(), place: place.clone() }));
        }
        all
    }

    /// Gives a role all that was printed, but for one action.
    fn grant(&self, purpose: &str, without: Option<&Missing>) {
        let mut privileges = self.privileges(purpose);
        if let Some(without) = without {
            let actions = privileges[without.privilege].get_array_mut("actions").unwrap();
            actions.retain(|action| action.as_str() != Some(&without.action));
            privileges.retain(|privilege| !privilege.get_array("actions").unwrap().is_empty());
        }
        let name = self.role(purpose).get_str("createRole").unwrap();
        self.admin(doc! { "updateRole": name, "privileges": privileges });
    }

    /// Calls `then` once for each action of a role, while the role is without it; it gets what must be told. At the end
    /// the role has all of them again.
    fn without_each(&self, purpose: &str, mut then: impl FnMut(&Missing)) -> usize {
        let actions = self.actions(purpose);
        for missing in &actions {
            self.grant(purpose, Some(missing));
            then(missing);
        }
        self.grant(purpose, None);
        actions.len()
    }

    /// Runs a command with the login of a purpose: whether it was content, and all that it said.
    fn says(&self, purpose: &str, command: &str, args: &[&str]) -> (bool, String) {
        let login = self.login(purpose);
        let output = self.world.sakia(command, &[args, &["--set", &login]].concat()).output().unwrap();
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        (output.status.success(), text)
    }
}

/// What a role is without.
struct Missing {
    /// Its place among the role's privileges.
    privilege: usize,
    action: String,
    place: String,
}

impl Missing {
    /// Whether a message names it.
    fn is_told(&self, text: &str) -> bool {
        text.lines().any(|line| {
            let Some((_, rest)) = line.split_once("lacks the action ") else { return false };
            let Some((actions, rest)) = rest.split_once(" on ") else { return false };
            let names_it = actions.split([' ', '(', ')']).any(|word| word == self.action);
            names_it && rest.starts_with(&format!("{}; `sakia init --print-roles`", self.place))
        })
    }
}

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "that {} on {} is missing", self.action, self.place)
    }
}

fn bad(at: i64) -> Sent {
    Sent { partition: 0, key: "bad".to_owned(), value: Some(b"no json".to_vec()), timestamp: at }
}

#[test]
fn logins_of_exactly_the_printed_roles_can_do_everything() {
    let mut guarded = Guarded::new("roles");
    let output = guarded.init();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    guarded.world.produce(&["--total", "3000", "--devices", "30"]);
    let login = guarded.login("run");
    let (status, log) = guarded.world.start(&["--until-caught-up", "--set", &login]).wait();
    assert!(status.success(), "{log}");
    guarded.world.check(&[]);
    // Another contract: the stream is closed, and goes on in a new one.
    guarded.world.decoder("exclude = [\"unknown\"]");
    guarded.world.send([bad(NOON)]);
    let (status, log) = guarded.world.start(&["--until-caught-up", "--set", &login]).wait();
    assert!(status.success(), "{log}");
    assert_eq!((guarded.world.n_samples(), guarded.world.dead().len()), (3_000, 1));
    // An index and a validator that are to be otherwise.
    guarded.world.settings(&SETTINGS.replace("400d", "30d").replace("error", "warn"));
    let output = guarded.init();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout).matches("changed ").count(), 2);
}

/// A decoder table for these topics, in place of the world's, and the wait for new ones shortened.
fn reads(topics: &str) -> [String; 4] {
    let table = format!(
        "decoder=[{{topics=['{topics}'],device_path=\"deviceid\",timestamp_path=\"ts\",timestamp_format=\"unix_ms\"}}]"
    );
    ["--set".into(), table, "--set".into(), "kafka.options.topic.metadata.refresh.interval.ms=500".into()]
}

/// Every action is taken from the role of `run` in turn, from a process that has it at the start: one that has not does
/// not start. Its topic comes only then, so that everything is still to be done. Somebody seals its buckets, so that it
/// has to look at them. Each process has a contract of its own, so that the ledger gets it and a stream.
#[test]
fn run_can_do_with_nothing_less() {
    let guarded = Guarded::new("roles_run");
    let world = &guarded.world;
    let (mut n_sent, mut n_bad) = (0, 0);
    let login = guarded.login("run");
    let actions = guarded.actions("run");
    assert_eq!(actions.len(), 8);
    for missing in &actions {
        n_bad += 1;
        let topic = format!("{}.{n_bad}", world.name);
        let (group, contract) = (format!("kafka.group={topic}"), format!("plausible.future={n_bad}d"));
        let reads = reads(&format!("^{topic}$"));
        let mut args = vec!["--set", &login, "--set", &group, "--set", &contract, LISTEN[0], LISTEN[1]];
        args.extend(reads.iter().map(String::as_str));
        guarded.grant("run", None);
        let running = world.start(&args);
        running.until_log("serving /metrics");
        guarded.grant("run", Some(missing));
        create_topic(&topic, 1);
        send(&topic, [bad(NOON)]);
        until(&missing.to_string(), || {
            send(&topic, [reading(0, "d", NOON + n_sent, n_sent as f64)]);
            n_sent += 1;
            let seal = doc! { "q": { "open": true }, "u": { "$unset": { "open": "" } }, "multi": true };
            world.command(doc! { "update": "readings", "updates": [seal] });
            missing.is_told(&running.log())
        });
    }
    // With all of them back, what was refused is stored, once.
    guarded.grant("run", None);
    let reads = reads(&format!("^{}\\.", world.name));
    let args: Vec<_> =
        ["--until-caught-up", "--set", &login].into_iter().chain(reads.iter().map(String::as_str)).collect();
    let (status, log) = world.start(&args).wait();
    assert!(status.success(), "{log}");
    assert_eq!((world.n_samples() as i64, world.dead().len()), (n_sent, n_bad));
}

#[test]
fn read_can_do_with_nothing_less() {
    let guarded = Guarded::new("roles_read");
    assert!(guarded.init().status.success());
    guarded.world.send([bad(NOON), reading(0, "d", NOON, 1.0)]);
    guarded.world.catch_up();
    let uri = guarded.login("read").replace("mongo.uri=", "");
    let view = || {
        guarded.runtime.block_on(async {
            let db = Client::with_uri_str(&uri).await.unwrap().database(&guarded.world.name);
            db.run_command(doc! { "find": "readings_samples" }).await
        })
    };
    let say = || {
        let commands: [(&str, &[&str]); 5] = [
            ("read", &["--device", "d"]),
            ("read", &["--last"]),
            ("dead", &["list"]),
            ("dead", &["count"]),
            ("ledger", &[]),
        ];
        commands.map(|(command, args)| guarded.says("read", command, args))
    };
    let n_actions = guarded.without_each("read", |missing| {
        if missing.place.ends_with("_samples") {
            assert!(view().unwrap_err().to_string().contains("not authorized"));
        } else {
            let said = say();
            assert!(said.iter().any(|(is_content, text)| !is_content && missing.is_told(text)), "{missing}: {said:?}");
        }
    });
    assert_eq!(n_actions, 4);
    view().unwrap();
    let said = say();
    assert!(said.iter().all(|(is_content, _)| *is_content), "{said:?}");
}

#[test]
fn check_can_do_with_nothing_less() {
    let guarded = Guarded::new("roles_check");
    assert!(guarded.init().status.success());
    let n_actions = guarded.without_each("check", |missing| {
        let (_, text) = guarded.says("check", "check", &[]);
        assert!(missing.is_told(&text), "{missing}:\n{text}");
    });
    assert_eq!(n_actions, 7);
    let (_, text) = guarded.says("check", "check", &[]);
    assert!(!text.contains("lacks the action"), "{text}");
}

/// Letters of one record, of which one reading stays bad: it gets a letter of its own.
fn half_good(at: i64) -> Sent {
    let value = format!(r#"{{"all":[{{"deviceid":"d","ts":{at},"temp":1}},{{"deviceid":"d","temp":1}}]}}"#);
    Sent { partition: 0, key: "d".to_owned(), value: Some(value.into_bytes()), timestamp: at }
}

#[test]
fn mend_can_do_with_nothing_less() {
    let mut guarded = Guarded::new("roles_mend");
    guarded.world.decoder("explode = \"nothing\"");
    let actions = guarded.actions("mend");
    let n = actions.len() as i64;
    guarded.world.send((0..n).map(|i| half_good(NOON + i)));
    guarded.world.catch_up();
    guarded.world.decoder("explode = \"all\"");
    for (i, missing) in actions.iter().enumerate() {
        guarded.grant("mend", Some(missing));
        // Letters of its own, since those of a run that was stopped are that run's.
        let replay = guarded.says("mend", "dead", &["replay", "--offsets", &format!("{i}..{}", i + 1)]);
        let said = [replay, guarded.says("mend", "ledger", &["rebuild", "--dry-run"])];
        assert!(said.iter().any(|(is_content, text)| !is_content && missing.is_told(text)), "{missing}: {said:?}");
    }
    guarded.grant("mend", None);
    for run in guarded
        .world
        .documents("readings_ledger")
        .iter()
        .filter_map(|d| d.get_document("_id").ok()?.get_str("replay").ok())
    {
        guarded.says("mend", "dead", &["replay", "--resume", run]);
    }
    guarded.says("mend", "dead", &["replay"]);
    assert_eq!(guarded.world.n_samples() as i64, n, "every good reading is stored");
    guarded.world.command(doc! { "drop": "readings_ledger" });
    let (is_content, text) = guarded.says("mend", "ledger", &["rebuild", "--yes"]);
    assert!(is_content, "{text}");
    guarded.world.send([half_good(NOON)]);
    let skip = ["skip", &guarded.world.name, "--to", "latest", "--yes"];
    let (is_content, text) = guarded.says("mend", "ledger", &skip);
    assert!(is_content, "{text}");
}

#[test]
fn init_can_do_with_nothing_less() {
    let guarded = Guarded::new("roles_init");
    let n_actions = guarded.without_each("init", |missing| {
        guarded.world.command(doc! { "dropDatabase": 1 });
        // The first makes everything, the second looks at what is there and puts right what is otherwise.
        let first = guarded.init();
        let other_view = doc! { "collMod": "readings_samples", "viewOn": "readings", "pipeline": [] };
        if first.status.success() {
            guarded.world.command(other_view);
        }
        let refused = [first, guarded.init()].into_iter().find(|output| !output.status.success());
        let err = String::from_utf8(refused.unwrap_or_else(|| panic!("not noticed: {missing}")).stderr).unwrap();
        assert!(missing.is_told(&err), "{missing}: {err}");
    });
    assert_eq!(n_actions, 11);
}

#[test]
fn a_server_that_asks_for_a_login_says_so() {
    let mongod = Mongod::start_with_logins();
    let world = World::beside("roles_none", 1, &mongod.uri_as("root"));
    for command in ["init", "run"] {
        let output = world.sakia(command, &["--set", &format!("mongo.uri={}", mongod.uri())]).output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert!(
            !output.status.success()
                && err.contains("mongo.uri names no user")
                && err.contains("give user and password in SAKIA_MONGO"),
            "{err}"
        );
    }
}
