//! The printed roles: enough for each command, and nothing less is.

use std::process::Output;

use mongodb::Client;
use mongodb::bson::{Document, doc};
use serde_json::Value;
use tokio::runtime::Runtime;

use super::mongod::Mongod;
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

    /// Calls `then` once for each action of a role, while the role is without it; it gets what must be told.
    fn without_each(&self, purpose: &str, mut then: impl FnMut(&Missing)) -> usize {
        let role = self.role(purpose);
        let name = role.get_str("createRole").unwrap();
        let privileges: Vec<_> =
            role.get_array("privileges").unwrap().iter().map(|p| p.as_document().unwrap()).collect();
        let update = |privileges: Vec<Document>| self.admin(doc! { "updateRole": name, "privileges": privileges });
        let mut n_actions = 0;
        for (i, privilege) in privileges.iter().enumerate() {
            let resource = privilege.get_document("resource").unwrap();
            let (database, collection) = (resource.get_str("db").unwrap(), resource.get_str("collection").unwrap());
            // Of a sharded cluster: there is none here.
            if database == "config" {
                continue;
            }
            for action in privilege.get_array("actions").unwrap() {
                let mut less: Vec<Document> = privileges.iter().map(|&privilege| privilege.clone()).collect();
                less[i].get_array_mut("actions").unwrap().retain(|other| other != action);
                less.retain(|privilege| !privilege.get_array("actions").unwrap().is_empty());
                update(less);
                let place = [database, collection].join(if collection.is_empty() { "" } else { "." });
                then(&Missing { action: action.as_str().unwrap().to_owned(), place });
                n_actions += 1;
            }
        }
        update(privileges.into_iter().cloned().collect());
        n_actions
    }
}

/// What a role is without.
struct Missing {
    action: String,
    place: String,
}

impl Missing {
    /// Whether a message names it: that of the look before a run, or that of a refused command.
    fn is_told(&self, text: &str) -> bool {
        let listed = format!("{} on {}", self.action, self.place);
        let before = |line: &str| {
            let rest = line.split_once("may not: ").and_then(|(_, rest)| rest.split_once("; grant these actions"));
            rest.is_some_and(|(list, _)| list.split(", ").any(|one| one == listed))
        };
        text.lines().any(before) || self.is_told_of_a_command(text)
    }

    fn is_told_of_a_command(&self, text: &str) -> bool {
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

/// Every action is taken from the role of `run` in turn. Readings of one device keep coming, so that its bucket is
/// inserted, read back and appended to; each run has a contract of its own, so that the ledger gets it and a stream.
#[test]
fn run_can_do_with_nothing_less() {
    let guarded = Guarded::new("roles_run");
    let world = &guarded.world;
    let (mut n_sent, mut n_bad) = (0, 0);
    let login = guarded.login("run");
    let n_actions = guarded.without_each("run", |missing| {
        world.send([bad(NOON)]);
        n_bad += 1;
        let group = format!("kafka.group={}-{n_bad}", world.name);
        let contract = format!("plausible.future={n_bad}d");
        let running = world.start(&["--set", &login, "--set", &group, "--set", &contract]);
        until(&missing.to_string(), || {
            world.send([reading(0, "d", NOON + n_sent, n_sent as f64)]);
            n_sent += 1;
            missing.is_told(&running.log())
        });
    });
    assert_eq!(n_actions, 8);
    // With all of them back, what was refused is stored, once.
    let (status, log) = world.start(&["--until-caught-up", "--set", &login]).wait();
    assert!(status.success(), "{log}");
    assert_eq!((world.n_samples() as i64, world.dead().len()), (n_sent, n_bad));
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
    for (command, says) in [("init", "mongo.uri has none; give it in SAKIA_MONGO"), ("run", "mongo.uri names no user")]
    {
        let output = world.sakia(command, &["--set", &format!("mongo.uri={}", mongod.uri())]).output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && err.contains(says) && err.contains("SAKIA_MONGO"), "{err}");
    }
}
