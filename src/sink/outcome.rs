//! What a server's answer to a command says about each of its statements.
//!
//! Rule 7: a belief comes only from an answer without `writeConcernError`; with one, whatever else the answer says
//! may still be rolled back, so it is no answer.

use super::retry::ErrorClass;
use crate::code::{Code, Failure};

/// The parts of an answer that matter; `n` of an update counts matches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    pub n: i64,
    pub write_errors: Vec<WriteError>,
    pub write_concern_error: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteError {
    pub index: usize,
    pub code: i32,
    pub message: String,
    /// Of a duplicate: whether the index is that of `_id`; a server that does not say is believed to mean `_id`.
    pub on_id: bool,
}

/// Why something is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// Nothing came back: a server, a network or a time-out.
    NoAnswer,
    /// The primary answered that a majority did not confirm.
    Majority,
    /// The server answered that it cannot now: an election, a lock, a shutdown.
    Server,
}

impl Again {
    pub const ALL: [Self; 3] = [Self::NoAnswer, Self::Majority, Self::Server];

    /// Stable name, for metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::NoAnswer => "no_answer",
            Self::Majority => "majority",
            Self::Server => "server",
        }
    }
}

/// Answer to a whole command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing is known: the same statements again.
    Resend(Again, String),
    /// The command as a whole was not taken, for the sake of one of its statements: halve it.
    Halve { code: i32, message: String },
    /// Nothing can be written until somebody mends something.
    Broken(Failure),
    /// One verdict a statement.
    Statements(Vec<Verdict>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Applied,
    /// There is a document of this `_id` already, by majority.
    Present,
    /// Not known which of the command's statements had no effect.
    Doubtful,
    /// Try this one again.
    Resend(String),
    Refused {
        code: i32,
        message: String,
    },
}

/// How many effects a command's `n` counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counting {
    /// Each statement without an error has had its effect (insert).
    Each,
    /// A statement without an error may have matched nothing (update): only the sum is known.
    Sum,
}

impl Reply {
    /// Judges `n_sent` statements.
    pub fn judge(self, counting: Counting, n_sent: usize) -> Answer {
        if let Some(reason) = self.write_concern_error {
            return Answer::Resend(Again::Majority, reason);
        }
        let n_missed = n_sent as i64 - self.write_errors.len() as i64 - self.n;
        let quiet = match (n_missed, counting) {
            (0, _) => Verdict::Applied,
            (_, Counting::Sum) => Verdict::Doubtful,
            // No server should answer so; a repeat meets what was inserted.
            (_, Counting::Each) => {
                return Answer::Resend(Again::Server, format!("{n_missed} inserts are unaccounted for"));
            }
        };
        let mut verdicts = vec![quiet; n_sent];
        for error in self.write_errors {
            let Some(verdict) = verdicts.get_mut(error.index) else {
                return Answer::Resend(Again::Server, format!("write error for statement {} of {n_sent}", error.index));
            };
            *verdict = match (ErrorClass::of(error.code), counting) {
                (ErrorClass::Duplicate, Counting::Each) if error.on_id => Verdict::Present,
                (ErrorClass::Duplicate, _) => return Answer::Broken(foreign_unique_index(&error)),
                (ErrorClass::Transient, _) => Verdict::Resend(error.to_string()),
                (ErrorClass::All, _) => return Answer::Broken(Failure::new(Code::MongoRefused, error)),
                (ErrorClass::Statement, _) => Verdict::Refused { code: error.code, message: error.message },
            };
        }
        Answer::Statements(verdicts)
    }
}

/// A command of `n_sent` statements that failed as a whole with an error of the server.
pub fn judge_failure(code: i32, message: String, n_sent: usize) -> Answer {
    match ErrorClass::of(code) {
        ErrorClass::Transient => Answer::Resend(Again::Server, format!("{message} (code {code})")),
        // Inside one statement only: bytes that the server cannot take, found before any statement ran.
        ErrorClass::Statement if n_sent > 1 => Answer::Halve { code, message },
        ErrorClass::Statement => Answer::Statements(vec![Verdict::Refused { code, message }]),
        ErrorClass::All | ErrorClass::Duplicate => {
            Answer::Broken(Failure::new(Code::MongoRefused, format_args!("{message} (code {code})")))
        }
    }
}

fn foreign_unique_index(error: &WriteError) -> Failure {
    let message = format_args!("a unique index other than that of _id refuses a bucket; drop that index: {error}");
    Failure::new(Code::ForeignUniqueIndex, message)
}

impl std::fmt::Display for WriteError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (code {})", self.message, self.code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(index: usize, code: i32) -> WriteError {
        WriteError { index, code, message: "m".into(), on_id: true }
    }

    /// One letter a statement: applied, present, doubtful, resend, refused (x); or the whole: R resend, H halve, B broken.
    fn check(counting: Counting, n_sent: usize, n: i64, write_errors: Vec<WriteError>) -> String {
        letters(Reply { n, write_errors, write_concern_error: None }.judge(counting, n_sent))
    }

    fn letters(answer: Answer) -> String {
        match answer {
            Answer::Resend(..) => "R".into(),
            Answer::Halve { .. } => "H".into(),
            Answer::Broken(_) => "B".into(),
            Answer::Statements(verdicts) => verdicts
                .iter()
                .map(|verdict| match verdict {
                    Verdict::Applied => 'a',
                    Verdict::Present => 'p',
                    Verdict::Doubtful => 'd',
                    Verdict::Resend(_) => 'r',
                    Verdict::Refused { .. } => 'x',
                })
                .collect(),
        }
    }

    #[test]
    fn inserts_are_judged_one_by_one() {
        assert_eq!(check(Counting::Each, 3, 3, vec![]), "aaa");
        assert_eq!(check(Counting::Each, 4, 1, vec![error(1, 11_000), error(2, 121), error(3, 112)]), "apxr");
        assert_eq!(check(Counting::Each, 3, 1, vec![error(0, 11_000)]), "R", "does not add up");
    }

    #[test]
    fn a_missed_update_puts_all_its_neighbours_in_doubt() {
        assert_eq!(check(Counting::Sum, 3, 3, vec![]), "aaa");
        assert_eq!(check(Counting::Sum, 3, 2, vec![]), "ddd");
        assert_eq!(check(Counting::Sum, 3, 2, vec![error(1, 17_420)]), "axa");
        assert_eq!(check(Counting::Sum, 3, 1, vec![error(1, 17_420)]), "dxd");
    }

    #[test]
    fn another_unique_index_is_a_mistake_of_the_configuration() {
        let foreign = WriteError { on_id: false, ..error(0, 11_000) };
        assert_eq!(check(Counting::Each, 1, 0, vec![foreign]), "B");
        assert_eq!(check(Counting::Sum, 1, 0, vec![error(0, 11_000)]), "B");
    }

    #[test]
    fn a_write_concern_error_is_no_answer() {
        let reply = Reply { n: 1, write_errors: vec![error(0, 11_000)], write_concern_error: Some("timeout".into()) };
        assert_eq!(letters(reply.clone().judge(Counting::Each, 1)), "R");
        assert_eq!(letters(Reply { write_errors: vec![], ..reply }.judge(Counting::Sum, 1)), "R");
    }

    #[test]
    fn whole_failures() {
        let of = |code, n_sent| letters(judge_failure(code, String::new(), n_sent));
        assert_eq!((of(10_107, 2), of(50, 1)), ("R".into(), "R".into()));
        assert_eq!((of(13, 2), of(18, 1)), ("B".into(), "B".into()));
        assert_eq!((of(22, 2), of(22, 1)), ("H".into(), "x".into()));
        assert_eq!(check(Counting::Each, 2, 1, vec![error(1, 13)]), "B");
        assert_eq!(check(Counting::Sum, 1, 0, vec![error(5, 121)]), "R", "an index that was never sent");
    }
}
