//! Rates on a set clock, and the line on a recorded terminal.

use std::sync::{Arc, Mutex};

use indicatif::TermLike;
use tracing_subscriber::fmt::MakeWriter;

use super::*;

fn summary(readings: u64) -> Summary {
    Summary { readings, ..Summary::default() }
}

/// A terminal that notes what is done to it.
#[derive(Clone, Debug, Default)]
struct Recorder(Arc<Mutex<Vec<String>>>);

impl Recorder {
    fn note(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }

    fn notes(&self) -> Vec<String> {
        self.0.lock().unwrap().iter().filter(|note| !note.is_empty()).cloned().collect()
    }
}

impl TermLike for Recorder {
    fn width(&self) -> u16 {
        120
    }
    fn move_cursor_up(&self, _: usize) -> io::Result<()> {
        Ok(())
    }
    fn move_cursor_down(&self, _: usize) -> io::Result<()> {
        Ok(())
    }
    fn move_cursor_right(&self, _: usize) -> io::Result<()> {
        Ok(())
    }
    fn move_cursor_left(&self, _: usize) -> io::Result<()> {
        Ok(())
    }
    fn write_line(&self, text: &str) -> io::Result<()> {
        self.note(text);
        Ok(())
    }
    fn write_str(&self, text: &str) -> io::Result<()> {
        self.note(text.trim());
        Ok(())
    }
    fn clear_line(&self) -> io::Result<()> {
        self.note("<clear>");
        Ok(())
    }
    fn flush(&self) -> io::Result<()> {
        Ok(())
    }
}

impl Write for Recorder {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A terminal that takes one byte a call.
        self.note(format!("log {}", char::from(bytes[0])));
        Ok(1)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn drawn_on(recorder: &Recorder) -> Line {
    Line(Some(bar(ProgressDrawTarget::term_like(Box::new(recorder.clone())))))
}

#[test]
fn a_log_event_never_lands_inside_the_line() {
    let recorder = Recorder::default();
    let line = drawn_on(&recorder);
    line.set("halfway".to_owned());
    assert!(recorder.notes().last().unwrap().contains("halfway"));
    let before = recorder.notes().len();

    let shared = recorder.clone();
    let log = AroundLine { line: line.clone(), inner: move || shared.clone() };
    log.make_writer().write_all(b"ab").unwrap();

    let after = &recorder.notes()[before..];
    let first_log = after.iter().position(|note| note.starts_with("log")).unwrap();
    assert!(after[..first_log].contains(&"<clear>".to_owned()), "the line is cleared first: {after:?}");
    assert_eq!(after[first_log..first_log + 2], ["log a", "log b"], "the event stays whole");
    assert!(after[first_log + 2..].iter().any(|note| note.contains("halfway")), "the line comes back: {after:?}");

    line.clear();
    let before = recorder.notes().len();
    log.make_writer().write_all(b"c").unwrap();
    assert_eq!(recorder.notes()[before..], ["log c"]);
}

#[test]
fn rates_are_taken_between_reports() {
    let mut progress = Progress::new(Line::hidden());
    assert_eq!(progress.due(Tick(5_000), &summary(100)), None);
    assert_eq!(progress.due(Tick(14_999), &summary(900)), None);
    assert_eq!(progress.due(Tick(15_000), &summary(1_100)), Some(100));
    assert_eq!(progress.due(Tick(35_000), &summary(1_300)), Some(10));
}

#[test]
fn a_terminal_is_told_every_second() {
    let recorder = Recorder::default();
    let mut progress = Progress::new(drawn_on(&recorder));
    progress.report(Tick(0), &summary(0));
    progress.report(Tick(500), &summary(10));
    assert!(recorder.notes().is_empty());
    progress.report(Tick(1_000), &summary(12_345));
    assert!(recorder.notes().last().unwrap().contains("12,345 readings/s"));
}

#[test]
fn the_sentence_reads_well_and_fits() {
    let summary = Summary {
        readings: 0,
        samples: 1_000_000,
        buckets: 8_000,
        lag_records: 1_000_000,
        memory_bytes: 45 << 20,
        memory_budget_bytes: 256 << 20,
    };
    let sentence = Sentence { readings_per_s: 250_000, summary: &summary }.to_string();
    assert_eq!(sentence, "250,000 readings/s, lag 1,000,000, 1,000,000 stored, 8,000 buckets, 45/256 MiB");
    assert!("- ".len() + sentence.len() <= 80);
}
