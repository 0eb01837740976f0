//! Why a ledger cannot be used: what is wrong, where, and what mends it.

use super::command::CommandError;
use super::coverage::Recreated;
use crate::code::{Code, Failure};
use crate::config::contract::ContractError;

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(
        "ledger {ledger} belongs to the collection {found}, not to {expected}: \
         set mongo.database and mongo.collection to the one it belongs to, or move the ledger away"
    )]
    OtherNamespace { ledger: String, found: String, expected: String },
    #[error(
        "ledger {ledger} was made with other field names ({differences}): \
         set [fields] to those names, or use another collection"
    )]
    OtherFields { ledger: String, differences: String },
    #[error("ledger {ledger} has schema {found}, this release knows {known} only: use the release that made it")]
    OtherSchema { ledger: String, found: String, known: i32 },
    #[error(
        "ledger {ledger} is empty, but collection {collection} is not: everything in it would be stored again; \
         run `sakia ledger rebuild`, or use another collection"
    )]
    EmptyBesideReadings { ledger: String, collection: String },
    #[error(
        "ledger {ledger} has entries but no header that says which collection it belongs to: \
         restore it from a backup, or run `sakia ledger rebuild`"
    )]
    NoHeader { ledger: String },
    #[error("ledger {ledger} cannot be opened: {reason}")]
    Denied { ledger: String, reason: String },
    /// Worth another try.
    #[error(
        "ledger {ledger} cannot be reached; check that the servers of mongo.uri run and can be reached from here: {reason}"
    )]
    Unavailable { ledger: String, reason: String },
}

impl OpenError {
    pub(super) fn of(ledger: &str, error: CommandError) -> Self {
        let ledger = ledger.to_owned();
        match error {
            CommandError::Transient(reason) => Self::Unavailable { ledger, reason },
            CommandError::Permanent(reason) => Self::Denied { ledger, reason },
        }
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        let code = match error {
            OpenError::OtherNamespace { .. } => Code::LedgerForeign,
            OpenError::OtherFields { .. } => Code::LedgerFieldNames,
            OpenError::OtherSchema { .. } => Code::LedgerSchema,
            OpenError::EmptyBesideReadings { .. } => Code::LedgerEmpty,
            OpenError::NoHeader { .. } => Code::LedgerHeaderMissing,
            OpenError::Denied { .. } => Code::MongoRefused,
            OpenError::Unavailable { .. } => Code::MongoUnreachable,
        };
        Self::new(code, error)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum AssignError {
    /// This partition cannot be written until somebody mends something.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Worth another try, with the partition's bounds read again.
    #[error("the ledger cannot hand over the partition now: {0}")]
    Unavailable(String),
}

impl From<AssignError> for Failure {
    fn from(error: AssignError) -> Self {
        match error {
            AssignError::Refused(refusal) => refusal.into(),
            AssignError::Unavailable(_) => Self::new(Code::LedgerUnanswered, error),
        }
    }
}

impl From<CommandError> for AssignError {
    fn from(error: CommandError) -> Self {
        match error {
            CommandError::Transient(reason) => Self::Unavailable(reason),
            CommandError::Permanent(reason) => Self::Refused(Refusal::Denied { reason }),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error(
        "{topic}/{partition} is not the partition that the ledger knows: {why}. The topic was recreated, or its log was \
         cut; if its records are new ones, run `sakia ledger incarnation {topic}`"
    )]
    Recreated { topic: String, partition: i32, why: Recreated },
    #[error(
        "offsets {from} to {last} of {topic}/{partition} were begun under another configuration and have to be finished \
         under it, but {why}"
    )]
    UnknownContract { topic: String, partition: i32, from: i64, last: String, why: ContractError },
    #[error(
        "offsets from {from} of {topic}/{partition} were begun under contract {fingerprint}, which ledger {ledger} does \
         not hold: restore the ledger from a backup"
    )]
    MissingContract { topic: String, partition: i32, from: i64, fingerprint: String, ledger: String },
    #[error(
        "the entry of {topic}/{partition} in ledger {ledger} cannot be used: {reason}; restore it, or run \
         `sakia ledger rebuild`"
    )]
    Malformed { topic: String, partition: i32, ledger: String, reason: String },
    #[error(
        "ledger {ledger} was removed while it was in use, and with it what is stored of {topic}/{partition}: stop all \
         members, then restore it from a backup, or run `sakia ledger rebuild`"
    )]
    Lost { topic: String, partition: i32, ledger: String },
    #[error("MongoDB refuses the ledger's commands, see `sakia check`: {reason}")]
    Denied { reason: String },
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        let code = match refusal {
            Refusal::Recreated { .. } => Code::TopicRecreated,
            Refusal::UnknownContract { .. } => Code::ContractUnknown,
            Refusal::MissingContract { .. } => Code::ContractMissing,
            Refusal::Malformed { .. } => Code::LedgerEntryUnusable,
            Refusal::Lost { .. } => Code::LedgerHeaderMissing,
            Refusal::Denied { .. } => Code::MongoRefused,
        };
        Self::new(code, refusal)
    }
}
