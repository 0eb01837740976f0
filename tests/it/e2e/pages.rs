//! What a running process shows of itself: its pages over HTTP, and its memory as the kernel counts it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::lint;
use super::world::{NOON, Running, World, reading, until};

/// Options that make a process serve its pages.
pub(super) const LISTEN: [&str; 2] = ["--listen", "127.0.0.1:0"];

/// A process's pages.
pub(super) struct Pages(String);

impl Pages {
    pub(super) fn of(running: &Running) -> Self {
        running.until_log("serving /metrics, /live and /ready");
        let log = running.log();
        let (_, rest) = log.split_once("serving /metrics, /live and /ready").unwrap();
        let (_, address) = rest.split_once("address=").unwrap();
        Self(address.split_whitespace().next().unwrap().to_owned())
    }

    /// Status and body.
    pub(super) fn get(&self, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.0).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    pub(super) fn status(&self, path: &str) -> u16 {
        self.get(path).0
    }

    /// Sum over all series of a counter or gauge; all of them are whole numbers.
    pub(super) fn sum(&self, name: &str) -> u64 {
        let page = self.get("/metrics").1;
        let of = |line: &str| {
            let rest = line.strip_prefix(name)?;
            if rest.starts_with([' ', '{']) { rest.rsplit(' ').next()?.parse::<u64>().ok() } else { None }
        };
        page.lines().filter_map(of).sum()
    }
}

/// Memory of a process that the kernel cannot take back: resident without the pages of files. Those of a debug build's
/// program, which are no part of any budget, are some thirty MiB and grow with the code.
pub(super) fn anonymous_bytes(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

#[test]
fn a_running_process_shows_every_metric_and_no_device() {
    let world = World::new("pages", 2);
    let running = world.start(&LISTEN);
    let pages = Pages::of(&running);
    assert_eq!(pages.status("/live"), 200);
    world.send((0..2).map(|p| reading(p, "device-that-is-no-label", NOON + i64::from(p), 1.0)));
    until("ready", || pages.status("/ready") == 200);
    until("samples are counted", || pages.sum("sakia_samples_total") == 2);
    until("both watermarks", || pages.sum("sakia_partition_watermark_offset") == 2);
    until("lags are known", || pages.get("/metrics").1.contains("\nsakia_partition_lag_records{"));
    until("no lag", || pages.sum("sakia_partition_lag_records") == 0);
    let page = pages.get("/metrics").1;
    let findings = lint::findings(&page);
    assert!(findings.is_empty(), "{findings:#?}\n{page}");
    assert!(!page.contains("device-that"), "{page}");
    assert_eq!(pages.sum("sakia_partitions_assigned"), 2);
    until("ready is published", || pages.sum("sakia_ready") == 1);
    assert!(pages.sum("sakia_ledger_commands_total") > 0 && pages.sum("sakia_retries_total") == 0);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    assert!(now - pages.sum("sakia_start_time_seconds") < 120);
    assert!(pages.sum("sakia_memory_bytes") <= pages.sum("sakia_memory_budget_bytes"));
    running.stop();
}
