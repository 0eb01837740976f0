//! `sakia dead list`: one line a letter.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Args;
use mongodb::bson::{Document, doc};
use serde_json::json;

use super::filter::{FilterArgs, StateArg};
use super::{Letters, letter};
use crate::cli::LayerArgs;
use crate::clock::wall_ms;
use crate::code::Failure;
use crate::commands::stdout::written;
use crate::commands::when::time_text;

#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// What became of them
    #[arg(long, value_enum, default_value_t)]
    state: StateArg,
    /// Stop after so many
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// One JSON document a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    pub(super) layer: LayerArgs,
}

pub(super) async fn run(letters: &Letters, args: &ListArgs) -> Result<ExitCode, Failure> {
    let filter = doc! { "$and": [args.filter.document(wall_ms()), args.state.document()] };
    let mut found = letters.find(filter, doc! { "value": 0, "key": 0, "headers": 0 }).await?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    let mut left = args.limit.unwrap_or(u64::MAX);
    let mut is_first = true;
    while left > 0
        && let Some(letter) = letters.next(&mut found).await?
    {
        left -= 1;
        let printed = if args.json { line_json(&mut out, &letter) } else { line(&mut out, &letter, is_first) };
        is_first = false;
        if printed.is_err() {
            return written(printed).map(|()| ExitCode::SUCCESS);
        }
    }
    written(out.flush()).map(|()| ExitCode::SUCCESS)
}

/// The reading's place is first and what is wrong last: of those the lengths differ most.
fn line(out: &mut impl Write, letter: &Document, is_first: bool) -> io::Result<()> {
    if is_first {
        writeln!(out, "{:<32} {:<24} {:<8} {:<20} {:>8}  WHY", "RECORD", "TIME", "STATE", "REASON", "ATTEMPTS")?;
    }
    let text = |name: &str| letter.get_str(name).unwrap_or("?");
    let (place, time, state) = (letter::place(letter), time(letter).unwrap_or_default(), letter::state(letter));
    let attempts = letter.get_i32("attempts").unwrap_or(0);
    writeln!(out, "{place:<32} {time:<24} {state:<8} {:<20} {attempts:>8}  {}", text("reason"), text("detail"))
}

fn line_json(out: &mut impl Write, letter: &Document) -> io::Result<()> {
    writeln!(out, "{}", facts(letter))
}

/// Everything but the record itself.
pub(super) fn facts(letter: &Document) -> serde_json::Value {
    let text = |name: &str| letter.get_str(name).ok();
    let id = |name: &str| letter.get_document("_id").ok()?.get_i64(name).ok();
    json!({
        "topic": text("topic"),
        "partition": letter.get_i32("partition").ok(),
        "offset": letter.get_i64("offset").ok(),
        "index": letter.get_i32("index").ok(),
        "cluster": text("cluster"),
        "incarnation": letter.get_i32("incarnation").ok(),
        "stream": id("s"),
        "time": time(letter),
        "scope": text("scope"),
        "device": text("device"),
        "reason": text("reason"),
        "detail": text("detail"),
        "attempts": letter.get_i32("attempts").unwrap_or(0),
        "state": letter::state(letter),
        "run": letter.get_document("replay").ok().and_then(|replay| replay.get_str("run").ok()),
    })
}

/// The record's own time.
pub(super) fn time(letter: &Document) -> Option<String> {
    let ms = letter.get_datetime("timestamp").ok()?.timestamp_millis();
    Some(time_text(ms))
}

#[cfg(test)]
mod tests {
    use mongodb::bson::DateTime;

    use super::*;

    #[test]
    fn a_letter_is_a_line() {
        let letter = doc! {
            "_id": { "s": 5_i64, "pos": 3 }, "topic": "t", "partition": 0, "offset": 7_i64, "index": 2,
            "reason": "missing_time", "detail": "no timestamp path has a value", "timestamp": DateTime::from_millis(0),
            "attempts": 4,
        };
        let mut out = Vec::new();
        line(&mut out, &letter, true).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<Vec<_>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0], ["RECORD", "TIME", "STATE", "REASON", "ATTEMPTS", "WHY"]);
        assert_eq!(lines[1][..5], ["t/0/7/2", "1970-01-01T00:00:00.000Z", "pending", "missing_time", "4"]);
        assert!(text.ends_with("no timestamp path has a value\n"));
        assert_eq!(facts(&letter)["offset"], 7);
    }
}
