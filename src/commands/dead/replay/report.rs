//! What a replay came to.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::{Value, json};

/// Letters and readings by what became of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Tally {
    /// Decoded only, nothing written.
    pub(super) is_rehearsal: bool,
    /// None where there was nothing to replay.
    pub(super) run: Option<String>,
    /// Letters that are dealt with: all of their readings are in buckets, or have letters of their own.
    pub(super) done: u64,
    /// Letters that failed again, and stay with what is wrong now.
    pub(super) failed: u64,
    /// Letters that cannot be tried, by why.
    pub(super) back: BTreeMap<String, u64>,
    /// Letters of which nothing was stored because all of it is past its time to live, and readings that are.
    pub(super) expired_letters: u64,
    pub(super) expired: u64,
    pub(super) stored: u64,
    /// Readings that a killed or a second process of the same run had stored already.
    pub(super) present: u64,
    /// What failed again, by reason.
    pub(super) reasons: BTreeMap<&'static str, u64>,
    /// Partitions that could not be finished.
    pub(super) stopped: Vec<String>,
}

impl Tally {
    pub(super) fn back(&mut self, why: &str, n: u64) {
        if n > 0 {
            *self.back.entry(why.to_owned()).or_default() += n;
        }
    }

    /// Nothing is left to look at.
    pub(super) fn is_clean(&self) -> bool {
        self.failed == 0 && self.back.is_empty() && self.reasons.is_empty() && self.stopped.is_empty()
    }

    pub(super) fn text(&self, out: &mut impl Write) -> io::Result<()> {
        let (stored, tense) = if self.is_rehearsal { ("would store", "would fail") } else { ("stored", "failed") };
        match &self.run {
            Some(run) => writeln!(out, "run {run}")?,
            None if self.is_rehearsal => writeln!(out, "nothing was written")?,
            None => writeln!(out, "nothing to replay")?,
        }
        let present = if self.present > 0 { format!(", {} were there already", self.present) } else { String::new() };
        writeln!(out, "  {stored}: {} readings of {} letters{present}", self.stored, self.done)?;
        if self.expired > 0 {
            let (n, letters) = (self.expired, self.expired_letters);
            writeln!(out, "  expired: {n} readings are past storage.ttl, among them all of {letters} letters")?;
        }
        if !self.reasons.is_empty() {
            let reasons = self.reasons.iter().map(|(reason, n)| format!("{n} {reason}"));
            let reasons = reasons.collect::<Vec<_>>().join(", ");
            writeln!(out, "  {tense} again: {} letters stay; of readings and records: {reasons}", self.failed)?;
        }
        for (why, n) in &self.back {
            writeln!(out, "  cannot be replayed: {n} letters: {why}")?;
        }
        self.stopped.iter().try_for_each(|stopped| writeln!(out, "  not finished: {stopped}"))
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "run": self.run,
            "dry_run": self.is_rehearsal,
            "letters": {
                "done": self.done, "expired": self.expired_letters, "failed_again": self.failed,
                "not_replayable": self.back,
            },
            "readings": { "stored": self.stored, "already_there": self.present, "expired": self.expired },
            "failed_again": self.reasons,
            "not_finished": self.stopped,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_says_what_is_left() {
        let mut tally = Tally { run: Some("7".into()), done: 2, stored: 5, ..Tally::default() };
        assert!(tally.is_clean());
        (tally.expired, tally.expired_letters) = (4, 1);
        assert!(tally.is_clean(), "nothing can be done about what is past its time");
        tally.back("parts of its record were cut", 3);
        tally.failed = 1;
        tally.reasons.insert("missing_time", 1);
        assert!(!tally.is_clean());
        let mut out = Vec::new();
        tally.text(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        for part in
            ["run 7", "expired: 4 readings", "stored: 5 readings of 2 letters", "1 missing_time", "3 letters: parts"]
        {
            assert!(text.contains(part), "{part:?} is missing:\n{text}");
        }
        assert_eq!(tally.json()["letters"]["failed_again"], 1);
    }
}
