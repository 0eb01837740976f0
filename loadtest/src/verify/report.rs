//! What was found.

use serde::Serialize;

/// Problems told in words; the rest is only counted.
const TOLD: usize = 20;

/// The answer of `verify`. `ok` only if every count of faults is 0 and there is no problem of any other kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    pub ok: bool,
    pub topics: Vec<String>,
    pub records: u64,
    /// Readings in the topics that can be stored.
    pub produced: u64,
    /// Samples in the buckets.
    pub stored: u64,
    pub buckets: u64,
    /// Dead letters there are.
    pub dead: u64,
    /// Readings and records in the topics that can never be stored.
    pub expected_dead: u64,
    /// Neither stored nor a dead letter.
    pub lost: u64,
    /// Stored more often than produced, or stored and a dead letter too, or more than one dead letter.
    pub duplicated: u64,
    /// Samples and buckets that are not where or what they must be.
    pub misplaced: u64,
    /// Dead letters of readings that could have been stored, or with another reason than theirs.
    pub unexpected_dead: u64,
    pub n_problems: u64,
    /// The first of them, in words.
    pub problems: Vec<String>,
    pub seconds: f64,
}

/// Faults as they are found.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    pub lost: u64,
    pub duplicated: u64,
    pub misplaced: u64,
    pub unexpected_dead: u64,
    pub n_problems: u64,
    pub problems: Vec<String>,
}

impl Findings {
    pub fn lost(&mut self, n: u64, text: impl FnOnce() -> String) {
        self.lost += n;
        self.problem(|| format!("lost: {}", text()));
    }

    pub fn duplicated(&mut self, n: u64, text: impl FnOnce() -> String) {
        self.duplicated += n;
        self.problem(|| format!("duplicated: {}", text()));
    }

    pub fn misplaced(&mut self, n: u64, text: impl FnOnce() -> String) {
        self.misplaced += n;
        self.problem(|| format!("misplaced: {}", text()));
    }

    pub fn unexpected_dead(&mut self, text: impl FnOnce() -> String) {
        self.unexpected_dead += 1;
        self.problem(|| format!("dead letter: {}", text()));
    }

    /// A fault of no other kind. Millions may be found, so a text is made only if it will be told.
    pub fn problem(&mut self, text: impl FnOnce() -> String) {
        self.n_problems += 1;
        if self.problems.len() < TOLD {
            self.problems.push(text());
        }
    }
}
