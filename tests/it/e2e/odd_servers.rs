//! Servers of the test's own that a newcomer may have: one that stands alone, one that asks for a login, one that
//! acknowledges what it may lose.

use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Stdio};

use mongodb::Client;
use mongodb::bson::{Document, doc};
use tokio::runtime::Runtime;

use super::mongod::{binary, free_port};
use super::world::until;

/// Killed when it goes out of scope.
pub(super) struct OddServer {
    child: Child,
    pub(super) port: u16,
    runtime: Runtime,
    /// Login of whoever sets it up, with an `@`; empty before there is one.
    login: &'static str,
    _dir: tempfile::TempDir,
}

impl OddServer {
    fn start(args: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let key = dir.path().join("key");
        std::fs::write(&key, "a2V5IG9mIGEgdGVzdA==").unwrap();
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
        let port = free_port();
        let mut command = Command::new(binary());
        command.arg("--dbpath").arg(dir.path()).args(["--bind_ip", "127.0.0.1", "--port", &port.to_string()]);
        command.args(["--nounixsocket", "--wiredTigerCacheSizeGB", "0.25"]);
        command.args(["--setParameter", "diagnosticDataCollectionEnabled=false"]);
        for arg in args {
            if *arg == "--keyFile" {
                command.arg(arg).arg(&key)
            } else {
                command.arg(arg)
            };
        }
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let server = Self { child, port, runtime: Runtime::new().unwrap(), login: "", _dir: dir };
        until("the server answers", || server.admin(doc! { "ping": 1 }).is_ok());
        server
    }

    pub(super) fn alone() -> Self {
        Self::start(&[])
    }

    /// A replica set of one, with these settings beside its members.
    pub(super) fn set(settings: Document) -> Self {
        let server = Self::start(&["--replSet", "rs0"]);
        server.initiate(settings);
        server
    }

    /// A replica set of one that asks for a login. Its administrator is `root`.
    pub(super) fn guarded() -> Self {
        let mut server = Self::start(&["--replSet", "rs0", "--keyFile"]);
        server.initiate(doc! {});
        server.admin(doc! { "createUser": "root", "pwd": "secret", "roles": ["root"] }).unwrap();
        server.login = "root:secret@";
        server
    }

    fn initiate(&self, settings: Document) {
        let mut config = doc! { "_id": "rs0", "members": [{ "_id": 0, "host": format!("127.0.0.1:{}", self.port) }] };
        config.extend(settings);
        self.admin(doc! { "replSetInitiate": config }).unwrap();
        let is_primary = |hello: Document| hello.get_bool("isWritablePrimary").unwrap_or(false);
        until("the server is a primary", || self.admin(doc! { "hello": 1 }).is_ok_and(is_primary));
    }

    /// With a login such as `user:password@`, or none.
    pub(super) fn uri(&self, login: &str, options: &str) -> String {
        format!("mongodb://{login}127.0.0.1:{}/?{options}", self.port)
    }

    pub(super) fn admin_uri(&self) -> String {
        self.uri(self.login, "directConnection=true")
    }

    pub(super) fn admin(&self, command: Document) -> Result<Document, mongodb::error::Error> {
        let uri = format!("{}&serverSelectionTimeoutMS=1000", self.admin_uri());
        self.runtime.block_on(async { Client::with_uri_str(uri).await?.database("admin").run_command(command).await })
    }
}

impl Drop for OddServer {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
