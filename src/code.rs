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
    AssignmentFailed "assignment-failed"
    BucketChanged "bucket-changed"
    BucketUnusable "bucket-unusable"
    BucketVanished "bucket-vanished"
    ChainStuck "chain-stuck"
    CollectionUnfit "collection-unfit"
    CommandHalved "command-halved"
    CommitFailed "commit-failed"
    CommitNotObeyed "commit-not-obeyed"
    CommitPastEnd "commit-past-end"
    Configuration "configuration"
    ContractChanged "contract-changed"
    ContractMissing "contract-missing"
    ContractUnknown "contract-unknown"
    DeadLetterRefused "dead-letter-refused"
    DeadLetterUnknown "dead-letter-unknown"
    DeadLetters "dead-letters"
    Failed "failed"
    ForeignUniqueIndex "foreign-unique-index"
    GroupNotJoined "group-not-joined"
    KafkaClient "kafka-client"
    KafkaCloseHangs "kafka-close-hangs"
    KafkaFatal "kafka-fatal"
    KafkaUnanswered "kafka-unanswered"
    KafkaUnreachable "kafka-unreachable"
    LedgerBusy "ledger-busy"
    LedgerEmpty "ledger-empty"
    LedgerEntryUnusable "ledger-entry-unusable"
    LedgerFieldNames "ledger-field-names"
    LedgerForeign "ledger-foreign"
    LedgerHeaderMissing "ledger-header-missing"
    LedgerRefused "ledger-refused"
    LedgerRetry "ledger-retry"
    LedgerSchema "ledger-schema"
    LedgerUnanswered "ledger-unanswered"
    Librdkafka "librdkafka"
    ListenFailed "listen-failed"
    MappingUnusable "mapping-unusable"
    MongoRefused "mongo-refused"
    MongoRetry "mongo-retry"
    MongoUnreachable "mongo-unreachable"
    MongoUnsuitable "mongo-unsuitable"
    MongoUri "mongo-uri"
    NotConfirmed "not-confirmed"
    OffsetOutOfRange "offset-out-of-range"
    OffsetSteppedBack "offset-stepped-back"
    Panicked "panicked"
    PartitionStalled "partition-stalled"
    PauseFailed "pause-failed"
    RecordsLost "records-lost"
    ReplayUnfinished "replay-unfinished"
    ReplayUnknown "replay-unknown"
    RightsMissing "rights-missing"
    SealRefused "seal-refused"
    StoppedEarly "stopped-early"
    StreamClosed "stream-closed"
    StreamTakenOver "stream-taken-over"
    ThreadSilent "thread-silent"
    TopicMissing "topic-missing"
    TopicRecreated "topic-recreated"
    TopicWithoutDecoder "topic-without-decoder"
}

/// The page that explains every code, compiled in.
const PAGE: &str = include_str!("../docs/errors.md");

impl Code {
    /// What the page says of it, under its heading.
    pub fn paragraph(self) -> &'static str {
        let heading = format!("\n## {}\n", self.name());
        let start = PAGE.find(&heading).map(|at| at + 1).expect("invariant: a test finds every heading");
        let text = &PAGE[start..];
        text.find("\n#").map_or(text, |end| &text[..end]).trim_end()
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a command came to nothing, or a partition stopped: its code, and what is wrong, where, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::{Reason, SkipReason};

    #[test]
    fn the_page_has_one_paragraph_a_code() {
        let names: Vec<_> = Code::ALL.iter().map(|code| code.name()).collect();
        assert!(names.is_sorted(), "in the order of the alphabet: {names:?}");
        let headings: Vec<_> = PAGE.lines().filter_map(|line| line.strip_prefix("## ")).collect();
        assert_eq!(headings, names, "docs/errors.md: one `## code` each, in this order");
        for code in Code::ALL {
            let paragraph = code.paragraph();
            assert!(paragraph.starts_with(&format!("## {code}\n\n")), "{paragraph}");
            assert!(paragraph.lines().count() > 4, "say what happened, what is at risk, and what to do: {paragraph}");
        }
    }

    #[test]
    fn names_are_kebab_case() {
        let is_kebab =
            |name: &str| name.split('-').all(|word| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase()));
        for code in Code::ALL {
            assert!(is_kebab(code.name()), "{code}");
        }
    }

    /// The names in the first column of the table under `heading`.
    fn table(heading: &str) -> Vec<&'static str> {
        let (_, rest) = PAGE.split_once(heading).expect("the page has this heading");
        let rows = rest.lines().take_while(|line| !line.starts_with("# "));
        rows.filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect()
    }

    #[test]
    fn the_page_explains_every_reason() {
        let mut dead: Vec<_> = Reason::ALL.iter().map(|reason| reason.name()).collect();
        dead.push("refused_by_server");
        assert_eq!(table("# Reasons of dead letters"), dead);
        let mut skips: Vec<_> = SkipReason::ALL.iter().map(|reason| reason.name()).collect();
        skips.extend(["covered", "replayed"]);
        assert_eq!(table("# Reasons of skips"), skips);
    }
}
