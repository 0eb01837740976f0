//! A way to the test's MongoDB that can be blocked: what is sent arrives later, as on a network that hangs.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

pub(super) struct Relay {
    uri: String,
    is_frozen: Arc<AtomicBool>,
}

impl Relay {
    pub(super) fn start() -> Self {
        let uri = std::env::var("SAKIA_MONGO").expect("SAKIA_MONGO must name a replica set; `make test` starts one");
        let server = uri.trim_start_matches("mongodb://").split(['/', '?']).next().unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let uri = uri.replacen(&server, &listener.local_addr().unwrap().to_string(), 1);
        let relay = Self { uri, is_frozen: Arc::default() };
        let is_frozen = Arc::clone(&relay.is_frozen);
        thread::spawn(move || {
            for client in listener.incoming() {
                let (client, server) = (client.unwrap(), TcpStream::connect(&server).unwrap());
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let is_frozen = Arc::clone(&is_frozen);
                    thread::spawn(move || carry(from, to, &is_frozen));
                }
            }
        });
        relay
    }

    /// The connection string of the way through here.
    pub(super) fn uri(&self) -> String {
        self.uri.clone()
    }

    pub(super) fn freeze(&self) {
        self.is_frozen.store(true, Ordering::SeqCst);
    }

    pub(super) fn thaw(&self) {
        self.is_frozen.store(false, Ordering::SeqCst);
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream, is_frozen: &AtomicBool) {
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(n @ 1..) = from.read(&mut bytes) {
        while is_frozen.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(10));
        }
        if to.write_all(&bytes[..n]).is_err() {
            break;
        }
    }
    to.shutdown(std::net::Shutdown::Both).ok();
}
