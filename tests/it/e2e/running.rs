//! The program as a child process: its log, its signals, its end.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::world::LIMIT;

/// A `sakia` that runs. Killed when it goes out of scope.
pub(super) struct Running {
    child: Child,
    log: PathBuf,
}

impl Running {
    pub(super) fn start(mut command: Command, log: &Path) -> Self {
        let file = std::fs::File::create(log).unwrap();
        let child = command.stdout(Stdio::null()).stderr(file).spawn().unwrap();
        Self { child, log: log.to_owned() }
    }

    pub(super) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn is_alive(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// SIGKILL: nothing is said, nothing is finished.
    pub(super) fn kill(mut self) -> String {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.log()
    }

    /// Sends a signal such as `TERM`.
    pub(super) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([format!("-{name}"), self.pid().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// SIGTERM, then the orderly end.
    pub(super) fn stop(self) -> String {
        self.signal("TERM");
        let (status, log) = self.wait();
        assert!(status.success(), "sakia ended with {status}:\n{log}");
        log
    }

    /// Waits until it ends by itself.
    pub(super) fn wait(mut self) -> (ExitStatus, String) {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return (status, self.log());
            }
            assert!(started.elapsed() < LIMIT, "sakia does not end:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until the log says `text`.
    pub(super) fn until_log(&self, text: &str) {
        until(&format!("{text:?} in the log"), || self.log().contains(text));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Waits until `is_so`.
pub(super) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < LIMIT, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
