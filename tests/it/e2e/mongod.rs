//! A MongoDB of the test's own, so that pausing and killing it harms no other test.

use std::fs::Permissions;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use mongodb::Client;
use mongodb::bson::{Document, doc};
use tokio::runtime::Runtime;

use super::world::until;

/// In the server's folder; where it exists, the server asks for logins.
const KEY_FILE: &str = "key";

/// A replica set of one. Killed when it goes out of scope.
pub(super) struct Mongod {
    child: Child,
    port: u16,
    dir: tempfile::TempDir,
    runtime: Runtime,
}

impl Mongod {
    pub(super) fn start() -> Self {
        Self::start_in(tempfile::tempdir().unwrap())
    }

    /// One that asks for logins. So far it has one, `root`; as of all, its password is its name.
    pub(super) fn start_with_logins() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(KEY_FILE), "aGVscCBteXNlbGY=").unwrap();
        std::fs::set_permissions(dir.path().join(KEY_FILE), Permissions::from_mode(0o600)).unwrap();
        let mongod = Self::start_in(dir);
        // Allowed without a login as long as there is none.
        let root = doc! { "createUser": "root", "pwd": "root", "roles": ["root"] };
        mongod.admin(root).expect("the first login may be made by anybody on this machine");
        mongod
    }

    fn start_in(dir: tempfile::TempDir) -> Self {
        std::fs::create_dir(dir.path().join("db")).unwrap();
        let port = free_port();
        let mongod = Self { child: spawn(dir.path(), port), port, dir, runtime: Runtime::new().unwrap() };
        until("the server answers", || mongod.admin(doc! { "ping": 1 }).is_some());
        let member = doc! { "_id": 0, "host": format!("127.0.0.1:{port}") };
        let set = doc! { "replSetInitiate": { "_id": "rs0", "members": [member] } };
        mongod.admin(set).expect("a fresh server takes it");
        mongod.until_primary();
        mongod
    }

    pub(super) fn uri(&self) -> String {
        format!("mongodb://127.0.0.1:{}/?replicaSet=rs0&directConnection=true", self.port)
    }

    pub(super) fn uri_as(&self, login: &str) -> String {
        let place = format!("127.0.0.1:{}/?replicaSet=rs0&directConnection=true&authSource=admin", self.port);
        format!("mongodb://{login}:{login}@{place}")
    }

    /// The process stands still and its connections stay open, until the guard goes out of scope.
    pub(super) fn pause(&self) -> Paused {
        let paused = Paused { pid: self.child.id() };
        paused.signal("STOP");
        paused
    }

    /// SIGKILL, and the same data again.
    pub(super) fn kill_and_restart(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.child = spawn(self.dir.path(), self.port);
        self.until_primary();
    }

    fn until_primary(&self) {
        let is_primary = |hello: Document| hello.get_bool("isWritablePrimary").unwrap_or(false);
        until("the server is a primary", || self.admin(doc! { "hello": 1 }).is_some_and(is_primary));
    }

    /// A new client each time: one that saw the server go waits before it looks again.
    fn admin(&self, command: Document) -> Option<Document> {
        let uri = format!("mongodb://127.0.0.1:{}/?directConnection=true&serverSelectionTimeoutMS=1000", self.port);
        self.runtime.block_on(async {
            let client = Client::with_uri_str(uri).await.unwrap();
            let db = client.database("admin");
            let answer = tokio::time::timeout(Duration::from_secs(5), db.run_command(command).into_future());
            answer.await.ok()?.ok()
        })
    }
}

impl Drop for Mongod {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Lets the server go on when it goes out of scope, also where a test fails: whoever cleans up needs it.
pub(super) struct Paused {
    pid: u32,
}

impl Paused {
    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([format!("-{name}"), self.pid.to_string()]).status().unwrap();
        assert!(sent.success());
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        self.signal("CONT");
    }
}

fn spawn(dir: &Path, port: u16) -> Child {
    let log = std::fs::File::options().create(true).append(true).open(dir.join("log")).unwrap();
    let key_file = dir.join(KEY_FILE);
    // As few rounds of hashing as the server lets us: unoptimised, the usual number costs each connection a second.
    let cheap = ["--setParameter".into(), "scramSHA256IterationCount=5000".into()];
    let logins = key_file.exists().then(|| ["--keyFile".into(), key_file.into_os_string()].into_iter().chain(cheap));
    Command::new(binary())
        .args(logins.into_iter().flatten())
        .arg("--dbpath")
        .arg(dir.join("db"))
        .args(["--replSet", "rs0", "--bind_ip", "127.0.0.1", "--port", &port.to_string(), "--nounixsocket"])
        .args(["--wiredTigerCacheSizeGB", "0.25", "--oplogSize", "200"])
        .args(["--setParameter", "diagnosticDataCollectionEnabled=false"])
        .stdout(log)
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

pub(super) fn binary() -> String {
    let services = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/local/services.sh");
    let output = Command::new(services).arg("mongod-bin").stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "no mongod of the test's own");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Below the ports that outgoing connections get, or one of them could take it while the server is restarted.
pub(super) fn free_port() -> u16 {
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    std::iter::repeat_with(|| fastrand::u16(20_000..30_000)).find(is_free).expect("one of ten thousand")
}
