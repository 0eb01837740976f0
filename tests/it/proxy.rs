//! A path to the server that spoils the reply to one write: the request arrives, what it did is not learnt.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use mongodb::bson::{Document, doc};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Fault {
    None,
    /// The connection ends in place of the reply.
    LostReply,
    /// The reply says that the write may be rolled back.
    WriteConcernError,
    /// The reply says that nothing was done: the server is no primary any more.
    NotPrimary,
}

#[derive(Clone, Debug)]
pub(crate) struct Proxy {
    pub(crate) address: String,
    next: Arc<AtomicU8>,
}

impl Proxy {
    pub(crate) async fn start(server: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address").to_string();
        let proxy = Self { address, next: Arc::default() };
        let next = Arc::clone(&proxy.next);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(&server).await.expect("the server answers");
                tokio::spawn(carry(client, server, Arc::clone(&next)));
            }
        });
        proxy
    }

    /// Spoils the reply to the next insert or update.
    pub(crate) fn spoil(&self, fault: Fault) {
        self.next.store(fault as u8, Ordering::SeqCst);
    }

    pub(crate) fn is_spent(&self) -> bool {
        self.next.load(Ordering::SeqCst) == Fault::None as u8
    }
}

/// Requests and replies alternate on a connection, except on the driver's monitoring connections, which carry no write.
async fn carry(client: TcpStream, server: TcpStream, next: Arc<AtomicU8>) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let (tell, mut told) = tokio::sync::watch::channel(false);
    tokio::spawn(async move {
        while let Some(request) = message(&mut from_client).await {
            let write = [b"insert\0".as_slice(), b"update\0"];
            // Header, flags, section kind, document length, type: then the command's name.
            tell.send_replace(write.iter().any(|name| request[26..].starts_with(name)));
            if to_server.write_all(&request).await.is_err() {
                return;
            }
        }
    });
    while let Some(reply) = message(&mut from_server).await {
        let is_write = *told.borrow_and_update();
        let fault = if is_write { next.swap(Fault::None as u8, Ordering::SeqCst) } else { Fault::None as u8 };
        let reply = if fault == Fault::LostReply as u8 {
            return;
        } else if fault == Fault::WriteConcernError as u8 {
            let error = doc! { "code": 64, "errmsg": "waiting for replication timed out" };
            spoiled(&reply, &doc! { "ok": 1.0, "n": 1, "writeConcernError": error })
        } else if fault == Fault::NotPrimary as u8 {
            spoiled(
                &reply,
                &doc! { "ok": 0.0, "code": 10_107, "codeName": "NotWritablePrimary", "errmsg": "not primary" },
            )
        } else {
            reply
        };
        if send(&mut to_client, &reply).await.is_none() {
            return;
        }
    }
}

async fn send(to: &mut OwnedWriteHalf, message: &[u8]) -> Option<()> {
    to.write_all(message).await.ok()
}

/// One message of the wire protocol; `None` at the end of the connection.
async fn message(from: &mut OwnedReadHalf) -> Option<Vec<u8>> {
    let mut bytes = vec![0; 4];
    from.read_exact(&mut bytes).await.ok()?;
    let length = u32::from_le_bytes(bytes[..4].try_into().expect("four bytes")) as usize;
    bytes.resize(length, 0);
    from.read_exact(&mut bytes[4..]).await.ok()?;
    Some(bytes)
}

/// A reply with the same header and another document.
fn spoiled(reply: &[u8], document: &Document) -> Vec<u8> {
    let body = document.to_vec().expect("encodes");
    let mut bytes = reply[..16].to_vec();
    bytes.extend_from_slice(&[0; 5]);
    bytes.extend_from_slice(&body);
    let length = (bytes.len() as u32).to_le_bytes();
    bytes[..4].copy_from_slice(&length);
    bytes
}
