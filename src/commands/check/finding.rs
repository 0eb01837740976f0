//! What `sakia check` has to say of one thing, and how all of it is shown.

use std::io::{self, Write};

use serde_json::{Value, json};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum State {
    Ok,
    /// Worth knowing; nothing has to be done.
    Note,
    /// Will hurt later.
    Warn,
    /// `sakia run` fails, or loses or doubles something.
    Fail,
}

impl State {
    const ALL: [Self; 4] = [Self::Ok, Self::Note, Self::Warn, Self::Fail];

    fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Area {
    Configuration,
    Kafka,
    Mongo,
    Ledger,
}

impl Area {
    fn name(self) -> &'static str {
        match self {
            Self::Configuration => "configuration",
            Self::Kafka => "kafka",
            Self::Mongo => "mongodb",
            Self::Ledger => "ledger",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) area: Area,
    pub(super) what: String,
    pub(super) state: State,
    pub(super) detail: String,
    /// What to do about it; empty where nothing is to be done, or where `detail` says it.
    pub(super) mend: String,
}

impl Finding {
    pub(super) fn new(area: Area, state: State, what: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { area, what: what.into(), state, detail: detail.into(), mend: String::new() }
    }

    #[must_use]
    pub(super) fn mend(mut self, mend: impl Into<String>) -> Self {
        self.mend = mend.into();
        self
    }
}

/// Whether `sakia run` can be expected to do well.
pub(super) fn is_sound(findings: &[Finding]) -> bool {
    findings.iter().all(|finding| finding.state != State::Fail)
}

fn count(findings: &[Finding], state: State) -> usize {
    findings.iter().filter(|finding| finding.state == state).count()
}

/// One table, by area in order of appearance; what is to be done stands below each problem.
pub(super) fn write_table(out: &mut impl Write, findings: &[Finding]) -> io::Result<()> {
    let width = findings.iter().map(|finding| finding.what.chars().count()).max().unwrap_or(0).min(40);
    let mut area = None;
    for finding in findings {
        if area.replace(finding.area) != Some(finding.area) {
            writeln!(out, "{}", finding.area.name())?;
        }
        writeln!(out, "  {:<4}  {:<width$}  {}", finding.state.name(), finding.what, finding.detail)?;
        if !finding.mend.is_empty() {
            writeln!(out, "        {:<width$}  -> {}", "", finding.mend)?;
        }
    }
    let n = |state| count(findings, state);
    let (warn, fail) = (n(State::Warn), n(State::Fail));
    writeln!(
        out,
        "{} checked: {} ok, {} to note, {warn} warning{}, {fail} failure{}",
        findings.len(),
        n(State::Ok),
        n(State::Note),
        plural(warn),
        plural(fail)
    )
}

/// Holds the findings that are not ok each against the words that it must hold.
#[cfg(test)]
pub(super) fn check_problems(findings: &[Finding], expected: &[&[&str]]) {
    let bad: Vec<_> = findings.iter().filter(|finding| finding.state != State::Ok).collect();
    assert_eq!(bad.len(), expected.len(), "{findings:#?}");
    for (finding, words) in bad.iter().zip(expected) {
        let text = format!("{:?} {} {} -> {}", finding.state, finding.what, finding.detail, finding.mend);
        assert!(words.iter().all(|word| text.contains(word)), "{words:?}: {text}");
    }
}

pub(super) fn plural(n: usize) -> &'static str {
    if n == 1 { "" } else { "s" }
}

pub(super) fn to_json(findings: &[Finding]) -> Value {
    let rows = findings.iter().map(|finding| {
        let mut row = json!({
            "area": finding.area.name(), "what": finding.what, "state": finding.state.name(), "detail": finding.detail,
        });
        if !finding.mend.is_empty() {
            row["mend"] = json!(finding.mend);
        }
        row
    });
    let mut report = json!({ "findings": rows.collect::<Vec<_>>() });
    for state in State::ALL {
        report[state.name()] = json!(count(findings, state));
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings() -> Vec<Finding> {
        vec![
            Finding::new(Area::Kafka, State::Ok, "brokers", "1 answers"),
            Finding::new(Area::Kafka, State::Fail, "topic t", "does not exist").mend("create it"),
            Finding::new(Area::Mongo, State::Warn, "indexes", "too many"),
        ]
    }

    #[test]
    fn the_table_groups_by_area_and_says_what_to_do() {
        let mut out = Vec::new();
        write_table(&mut out, &findings()).unwrap();
        let expected = "kafka\n  ok    brokers  1 answers\n  fail  topic t  does not exist\n                 -> create \
                        it\nmongodb\n  warn  indexes  too many\n3 checked: 1 ok, 0 to note, 1 warning, 1 failure\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        assert!(!is_sound(&findings()) && is_sound(&findings()[..1]));
    }

    #[test]
    fn the_json_has_the_same_rows_and_counts() {
        let report = to_json(&findings());
        assert_eq!(report["findings"][1]["mend"], "create it");
        assert_eq!(report["findings"][0].get("mend"), None);
        assert_eq!((&report["ok"], &report["note"], &report["fail"]), (&json!(1), &json!(0), &json!(1)));
    }
}
