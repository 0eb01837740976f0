//! `sakia dead count`: how many letters there are, by topic, partition, reason and state.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Args;
use mongodb::bson::{Bson, Document, doc};
use mongodb::options::ReadConcern;
use serde_json::json;

use super::Letters;
use super::filter::{FilterArgs, StateArg};
use crate::cli::LayerArgs;
use crate::clock::wall_ms;
use crate::code::Failure;
use crate::commands::stdout::written;

#[derive(Debug, Args)]
pub(super) struct CountArgs {
    /// What became of them
    #[arg(long, value_enum, default_value_t = StateArg::All)]
    state: StateArg,
    /// One JSON document a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    pub(super) layer: LayerArgs,
}

struct Row {
    topic: String,
    partition: i64,
    reason: String,
    state: String,
    /// Of letters that belong to one.
    run: Option<String>,
    n: i64,
}

pub(super) async fn run(letters: &Letters, args: &CountArgs) -> Result<ExitCode, Failure> {
    let rows = rows(letters, args).await?;
    let out = &mut io::stdout().lock();
    let printed = if args.json { rows.iter().try_for_each(|row| row_json(out, row)) } else { table(out, &rows) };
    written(printed).map(|()| ExitCode::SUCCESS)
}

async fn rows(letters: &Letters, args: &CountArgs) -> Result<Vec<Row>, Failure> {
    let of_run = doc! { "$in": ["$replay.state", ["claimed", "writing"]] };
    let state = doc! { "$switch": {
        "branches": [
            { "case": of_run.clone(), "then": "claimed" },
            { "case": { "$in": ["$replay.state", ["done", "expired"]] }, "then": "$replay.state" },
        ],
        "default": "pending",
    } };
    let run = doc! { "$cond": [of_run, "$replay.run", null] };
    let group = doc! {
        "_id": { "topic": "$topic", "partition": "$partition", "reason": "$reason", "state": state, "run": run },
        "n": { "$sum": 1_i64 },
    };
    let wanted = doc! { "$and": [args.filter.document(wall_ms()), args.state.document()] };
    let steps = [doc! { "$match": wanted }, doc! { "$group": group }, doc! { "$sort": { "_id": 1 } }];
    let counted = letters.0.aggregate(steps).read_concern(ReadConcern::majority()).allow_disk_use(true).await;
    let mut counted = counted.map_err(|error| letters.failed(error))?;
    let mut rows = Vec::new();
    while let Some(found) = letters.next(&mut counted).await? {
        rows.extend(row(&found));
    }
    Ok(rows)
}

fn row(found: &Document) -> Option<Row> {
    let id = found.get_document("_id").ok()?;
    let number = |value: Option<&Bson>| value.and_then(|n| n.as_i64().or(n.as_i32().map(i64::from)));
    Some(Row {
        topic: id.get_str("topic").ok()?.to_owned(),
        partition: number(id.get("partition"))?,
        reason: id.get_str("reason").ok()?.to_owned(),
        state: id.get_str("state").ok()?.to_owned(),
        run: id.get_str("run").ok().map(str::to_owned),
        n: number(found.get("n"))?,
    })
}

fn row_json(out: &mut impl Write, row: &Row) -> io::Result<()> {
    let Row { topic, partition, reason, state, run, n } = row;
    let row = json!({
        "topic": topic, "partition": partition, "reason": reason, "state": state, "run": run, "letters": n,
    });
    writeln!(out, "{row}")
}

fn table(out: &mut impl Write, rows: &[Row]) -> io::Result<()> {
    writeln!(out, "{:<24} {:>9}  {:<20} {:<8} {:>12}", "TOPIC", "PARTITION", "REASON", "STATE", "LETTERS")?;
    for Row { topic, partition, reason, state, run, n } in rows {
        let of_run = run.as_ref().map(|run| format!("  run {run}")).unwrap_or_default();
        writeln!(out, "{topic:<24} {partition:>9}  {reason:<20} {state:<8} {n:>12}{of_run}")?;
    }
    let sum: i64 = rows.iter().map(|row| row.n).sum();
    writeln!(out, "{:<24} {:>9}  {:<20} {:<8} {sum:>12}", "all", "", "", "")
}
