//! One raw command to the primary, under a deadline of our own.
//!
//! The driver has no operation time-out and may be left inconsistent by a dropped future, so each call runs in a task
//! of its own; on expiry the task is left behind. Its late write is harmless: the protocol fences it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mongodb::Database;
use mongodb::bson::{Document, RawDocumentBuf};
use mongodb::error::{Error, ErrorKind, RETRYABLE_ERROR, RETRYABLE_WRITE_ERROR};
use tokio::sync::Semaphore;

use super::counts::{SinkCounts, add};
use super::outcome::{Again, Answer, judge_failure};
use super::privileges;
use super::retry::Backoff;
use crate::code::{Code, Failure};

/// The server's own deadline (`maxTimeMS`, `wtimeout`) comes first; only a server or path that is silent reaches ours.
const MARGIN: Duration = Duration::from_secs(5);
/// Calls under way, those left behind included: a black-holed server must not collect bodies without end.
const MAX_CALLS: usize = 64;
/// The server's code for a login that may not do this.
const UNAUTHORIZED: i32 = 13;

/// Sends commands to one database.
#[derive(Clone, Debug)]
pub struct Caller {
    db: Database,
    deadline: Duration,
    permits: Arc<Semaphore>,
    counts: Arc<SinkCounts>,
    /// Another one a command, from another start a process: retries of many writers must not fall together.
    backoff_seed: Arc<AtomicU64>,
}

/// Why a command has no reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The server refused the command as a whole.
    #[error("{message} (code {code})")]
    Server { code: i32, message: String },
    /// It may have been executed or not.
    #[error("{0}")]
    NoAnswer(String),
    /// Credentials, certificates or versions: it will not get better by itself.
    #[error("{0}")]
    Unusable(String),
}

impl Caller {
    /// `timeout_ms` is what the bodies say in `maxTimeMS`.
    pub fn new(db: Database, timeout_ms: u64) -> Self {
        Self {
            db,
            deadline: Duration::from_millis(timeout_ms) + MARGIN,
            permits: Arc::new(Semaphore::new(MAX_CALLS)),
            counts: Arc::default(),
            backoff_seed: Arc::new(AtomicU64::new(fastrand::u64(..))),
        }
    }

    /// Runs one command. Dropping the future is safe: the task goes on by itself.
    pub async fn call(&self, body: Vec<u8>) -> Result<Document, CallError> {
        let body = RawDocumentBuf::from_bytes(body).expect("invariant: bodies are whole documents");
        let permit = Arc::clone(&self.permits).acquire_owned().await.expect("invariant: never closed");
        let (db, counts, n_bytes) = (self.db.clone(), Arc::clone(&self.counts), body.as_bytes().len() as u64);
        counts.body_bytes.fetch_add(n_bytes, Ordering::Relaxed);
        let target = target(&body);
        let task = tokio::spawn(async move {
            let reply = db.run_raw_command(body).await;
            counts.body_bytes.fetch_sub(n_bytes, Ordering::Relaxed);
            drop(permit);
            reply
        });
        match tokio::time::timeout(self.deadline, task).await {
            Ok(Ok(reply)) => reply.map_err(|error| self.explained(CallError::from(&error), target)),
            Ok(Err(error)) => Err(CallError::NoAnswer(format!("the call ended early: {error}"))),
            Err(_) => {
                add(&self.counts.abandoned, 1);
                Err(CallError::NoAnswer(format!("no answer within {} s", self.deadline.as_secs())))
            }
        }
    }

    fn explained(&self, error: CallError, target: Option<(String, Option<String>)>) -> CallError {
        match (error, target) {
            (CallError::Server { code: UNAUTHORIZED, message }, Some((verb, target))) => {
                let message = privileges::explain(&message, &verb, self.db.name(), target.as_deref());
                CallError::Server { code: UNAUTHORIZED, message }
            }
            (other, _) => other,
        }
    }

    pub fn counts(&self) -> &Arc<SinkCounts> {
        &self.counts
    }

    /// Delays for the tries of one command.
    pub fn backoff(&self) -> Backoff {
        Backoff::new(self.backoff_seed.fetch_add(1, Ordering::Relaxed))
    }

    /// Waits before the same statements are sent again.
    pub async fn pause(&self, backoff: &mut Backoff, again: Again, reason: &str) {
        add(&self.counts.resends[again as usize], 1);
        let wait_ms = backoff.next_ms();
        let tries = backoff.n_tries();
        tracing::warn!(code = %Code::MongoRetry, reason, tries, wait_ms, "no answer from the store, trying again");
        wait(wait_ms).await;
    }
}

/// A command's name and collection: its first element.
fn target(body: &RawDocumentBuf) -> Option<(String, Option<String>)> {
    let (verb, target) = body.iter().next()?.ok()?;
    Some((verb.to_string(), target.as_str().map(str::to_owned)))
}

#[expect(clippy::disallowed_methods, reason = "the one place where retries wait")]
pub async fn wait(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}

impl From<&Error> for CallError {
    /// The driver's own display lists labels and empty members.
    fn from(error: &Error) -> Self {
        let retryable = error.contains_label(RETRYABLE_WRITE_ERROR) || error.contains_label(RETRYABLE_ERROR);
        match error.kind.as_ref() {
            ErrorKind::Command(command) if !retryable => {
                Self::Server { code: command.code, message: command.message.clone() }
            }
            ErrorKind::Authentication { .. }
            | ErrorKind::InvalidTlsConfig { .. }
            | ErrorKind::InvalidArgument { .. }
            | ErrorKind::IncompatibleServer { .. } => Self::Unusable(error.kind.to_string()),
            _ => Self::NoAnswer(error.kind.to_string()),
        }
    }
}

impl CallError {
    /// What it says about the `n_sent` statements of the command.
    pub fn judge(self, n_sent: usize) -> Answer {
        match self {
            Self::Server { code, message } => judge_failure(code, message, n_sent),
            Self::NoAnswer(reason) => Answer::Resend(Again::NoAnswer, reason),
            Self::Unusable(reason) => Answer::Broken(Failure::new(Code::MongoRefused, reason)),
        }
    }
}
