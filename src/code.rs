//! Stable codes of errors and warnings: what people search for. Each has a paragraph in `docs/errors.md`.

use std::fmt;

macro_rules! codes {
    ($($variant:ident $name:literal)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Code { $($variant),* }

        impl Code {
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }
        }
    };
}

// One a line, in the order of the alphabet: a code is never renamed or used again for something else.
codes! {
    BucketChanged "bucket-changed"
    BucketUnreadable "bucket-unreadable"
    BucketVanished "bucket-vanished"
    ChainStuck "chain-stuck"
    DeadLetterUnknown "dead-letter-unknown"
    DeadLetters "dead-letters"
    Failed "failed"
    KafkaUnreachable "kafka-unreachable"
    LedgerBusy "ledger-busy"
    LedgerRefused "ledger-refused"
    LedgerUnusable "ledger-unusable"
    MongoRefused "mongo-refused"
    MongoUnreachable "mongo-unreachable"
    MongoUnsuitable "mongo-unsuitable"
    NotConfirmed "not-confirmed"
    PartitionStalled "partition-stalled"
    ReplayUnfinished "replay-unfinished"
    ReplayUnknown "replay-unknown"
    RightsMissing "rights-missing"
    TopicMissing "topic-missing"
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a command came to nothing: its code, and what is wrong, where, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("error[{code}]: {message}")]
pub struct Failure {
    pub code: Code,
    pub message: String,
}

impl Failure {
    pub fn new(code: Code, message: impl fmt::Display) -> Self {
        Self { code, message: message.to_string() }
    }
}
