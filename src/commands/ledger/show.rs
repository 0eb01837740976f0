//! `sakia ledger show`: all of the ledger as a timeline for people, or as JSON for programs. Kafka is asked for the ends
//! of the log, but need not answer.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::ops::Range;
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use super::Access;
use super::broker::{Broker, Ends};
use super::confirm::say;
use super::timeline::{Segment, bar, grouped, segments};
use crate::cli::LayerArgs;
use crate::code::Failure;
use crate::commands::stdout::written;
use crate::record::Origin;
use crate::sink::ledger::entry::Entry;
use crate::sink::ledger::{Kept, KeptContract, KeptEntry};

/// Without a terminal, and where it does not tell its width.
const WIDTH: usize = 100;

#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    /// Only this topic
    #[arg(long)]
    topic: Option<String>,
    /// Only this partition
    #[arg(long)]
    partition: Option<i32>,
    /// Report as one JSON document
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub(super) layer: LayerArgs,
}

/// A ledger beside what the broker says now.
struct View<'a> {
    ledger: &'a str,
    kept: &'a Kept,
    shown: Vec<&'a KeptEntry>,
    newest: BTreeMap<(&'a str, &'a str), i32>,
    logs: BTreeMap<&'a Origin, Ends>,
}

pub(super) fn run(access: &Access<'_>, args: &ShowArgs) -> Result<ExitCode, Failure> {
    let ledger = access.ledger("");
    let kept = access.runtime.block_on(ledger.read_all())?;
    let is_wanted = |kept: &&KeptEntry| {
        args.topic.as_ref().is_none_or(|topic| *topic == kept.origin.topic)
            && args.partition.is_none_or(|partition| partition == kept.origin.partition)
    };
    let mut newest = BTreeMap::new();
    for KeptEntry { origin, .. } in &kept.entries {
        newest.insert((origin.cluster.as_str(), origin.topic.as_str()), origin.incarnation);
    }
    let shown: Vec<_> = kept.entries.iter().filter(is_wanted).collect();
    let logs = ends_of(access, &shown, &newest);
    let view = View { ledger: ledger.name(), kept: &kept, shown, newest, logs };
    if args.json {
        return print(&format!("{}\n", view.json()));
    }
    let width = terminal_size::terminal_size().map_or(WIDTH, |(width, _)| usize::from(width.0));
    print(&view.text(width))
}

/// Ends of the log of what is read now. Whatever goes wrong is a note: the ledger is shown all the same.
fn ends_of<'a>(
    access: &Access<'_>,
    shown: &[&'a KeptEntry],
    newest: &BTreeMap<(&str, &str), i32>,
) -> BTreeMap<&'a Origin, Ends> {
    let mut logs = BTreeMap::new();
    if shown.is_empty() {
        return logs;
    }
    let broker = match Broker::connect(&access.config.kafka) {
        Ok(broker) => broker,
        Err(failure) => {
            say(&format!("note: shown without the ends of the log: {}\n", failure.message));
            return logs;
        }
    };
    let mut gone = BTreeSet::new();
    for KeptEntry { origin, .. } in shown {
        let is_read = newest.get(&(origin.cluster.as_str(), origin.topic.as_str())) == Some(&origin.incarnation);
        if origin.cluster != broker.cluster || !is_read || gone.contains(origin.topic.as_str()) {
            continue;
        }
        match broker.ends(&origin.topic, origin.partition) {
            Ok(ends) => _ = logs.insert(origin, ends),
            Err(failure) => {
                say(&format!("note: {}\n", failure.message));
                gone.insert(origin.topic.as_str());
            }
        }
    }
    logs
}

impl View<'_> {
    fn is_newest(&self, origin: &Origin) -> bool {
        self.newest.get(&(origin.cluster.as_str(), origin.topic.as_str())) == Some(&origin.incarnation)
    }

    fn text(&self, width: usize) -> String {
        let mut text = String::new();
        match self.kept.header.as_ref().and_then(|header| header.get_str("namespace").ok()) {
            Some(namespace) => writeln!(text, "ledger {} of {namespace}", self.ledger),
            None => writeln!(text, "ledger {} without a header: no member uses it", self.ledger),
        }
        .ok();
        for kept in &self.shown {
            self.entry_text(&mut text, kept, width);
        }
        if self.shown.is_empty() {
            text.push_str("no partition\n");
        }
        for contract in self.contracts() {
            let since = first_seen(contract).map_or_else(String::new, |at| format!("   first seen {at}"));
            writeln!(text, "contract {}{since}", contract.fingerprint).ok();
        }
        text.push_str("= stored  > under way  . waiting  ? unfinished  s skipped  x lost\n");
        text
    }

    fn entry_text(&self, text: &mut String, kept: &KeptEntry, width: usize) {
        let Origin { topic, partition, incarnation, .. } = &kept.origin;
        write!(text, "\n{topic}/{partition}").ok();
        if !self.is_newest(&kept.origin) {
            write!(text, "   incarnation {incarnation}, of a topic that is gone").ok();
        } else if *incarnation > 0 {
            write!(text, "   incarnation {incarnation}").ok();
        }
        let entry = match &kept.entry {
            Ok(entry) => entry,
            Err(reason) => {
                writeln!(text, "   cannot be used: {reason}").ok();
                return;
            }
        };
        let log = self.logs.get(&kept.origin).copied();
        if let Some(Ends { low, high }) = log {
            let lag = grouped(lag(entry, high));
            write!(text, "   log {} to {}   lag {lag}", grouped(low), grouped(high)).ok();
        }
        text.push('\n');
        let segments = segments(entry, log);
        if !segments.is_empty() {
            writeln!(text, "  |{}|", bar(&segments, width.saturating_sub(8).clamp(10, 150))).ok();
        }
        for segment in &segments {
            let line = segment_text(segment);
            writeln!(text, "{}", line.chars().take(width.max(40)).collect::<String>().trim_end()).ok();
        }
        if let Some(reason) = log.and_then(|log| out_of_reach(entry, log)) {
            writeln!(text, "  {reason}").ok();
        }
    }

    fn json(&self) -> Value {
        let entries: Vec<_> = self.shown.iter().map(|kept| self.entry_json(kept)).collect();
        let contracts = self.contracts();
        let contracts: Vec<_> = contracts
            .iter()
            .map(|contract| {
                let parsed = serde_json::from_str::<Value>(&contract.text).unwrap_or_default();
                json!({ "fingerprint": contract.fingerprint, "first_seen": first_seen(contract), "contract": parsed })
            })
            .collect();
        let namespace = self.kept.header.as_ref().and_then(|header| header.get_str("namespace").ok());
        json!({ "ledger": self.ledger, "namespace": namespace, "partitions": entries, "contracts": contracts })
    }

    fn entry_json(&self, kept: &KeptEntry) -> Value {
        let Origin { cluster, topic, incarnation, partition } = &kept.origin;
        let mut shown = json!({
            "cluster": cluster, "topic": topic, "incarnation": incarnation, "partition": partition,
            "newest": self.is_newest(&kept.origin),
        });
        let entry = match &kept.entry {
            Ok(entry) => entry,
            Err(reason) => {
                shown["error"] = json!(reason);
                return shown;
            }
        };
        let log = self.logs.get(&kept.origin).copied();
        // As text: 63 bits do not survive programs that know doubles only.
        let streams = entry.streams.iter().map(|s| {
            json!({
                "s": s.id.0.to_string(), "from": s.from, "to": s.to, "next": s.next, "reserved": s.reserved,
                "contract": &*s.contract,
            })
        });
        let ranges = |ranges: &[Range<i64>]| -> Vec<Value> {
            ranges.iter().map(|range| json!({ "from": range.start, "to": range.end })).collect()
        };
        let timeline = segments(entry, log);
        let timeline = timeline.iter().map(|segment| {
            let s = segment.stream.map(|stream| stream.id.0.to_string());
            json!({ "from": segment.range.start, "to": segment.range.end, "state": segment.state.name(), "s": s })
        });
        shown["version"] = json!(entry.version);
        shown["topic_id"] = json!(entry.topic_id);
        shown["streams"] = streams.collect();
        shown["timeline"] = timeline.collect();
        shown["lost"] = json!(ranges(&entry.lost));
        shown["skipped"] = json!(ranges(&entry.skipped));
        if let Some(Ends { low, high }) = log {
            shown["log"] = json!({ "low": low, "high": high });
            shown["lag"] = json!(lag(entry, high));
        }
        shown
    }

    /// Those that the shown streams are written under.
    fn contracts(&self) -> Vec<&KeptContract> {
        let entries = self.shown.iter().filter_map(|kept| kept.entry.as_ref().ok());
        let used: BTreeSet<_> = entries.flat_map(|entry| entry.streams.iter().map(|s| &*s.contract)).collect();
        self.kept.contracts.iter().filter(|contract| used.contains(contract.fingerprint.as_str())).collect()
    }
}

fn segment_text(segment: &Segment<'_>) -> String {
    let Range { start, end } = segment.range;
    let (first, last, n) = (grouped(start), grouped(end - 1), grouped(end - start));
    let mut text = format!("  {first:>15} to {last:>15}  {n:>15}  {:<10}", segment.state.name());
    if let Some(stream) = segment.stream {
        write!(text, "  contract {:.8}  stream {}", stream.contract, stream.id.0).ok();
    }
    text
}

/// Records that are in the log and not stored, holes left out.
fn lag(entry: &Entry, high: i64) -> i64 {
    let left = |(from, to): (i64, i64)| (to - from).max(0);
    entry.streams.iter().map(|s| left((s.covered_upto(), s.to.unwrap_or(high).min(high)))).sum()
}

/// What retention has taken, or will take next.
fn out_of_reach(entry: &Entry, log: Ends) -> Option<String> {
    let unfinished = entry.streams.iter().find(|stream| stream.is_unfinished())?;
    let (next, Ends { low, high }) = (unfinished.next, log);
    if next < low {
        return Some(format!(
            "offsets {} to {} are gone from the log before they were stored",
            grouped(next),
            grouped(low - 1)
        ));
    }
    (high < next).then(|| {
        format!(
            "the log ends at {} before what is stored: was the topic created again? see `sakia ledger incarnation`",
            grouped(high)
        )
    })
}

fn first_seen(contract: &KeptContract) -> Option<String> {
    contract.first_seen.and_then(|at| at.try_to_rfc3339_string().ok())
}

pub(super) fn print(text: &str) -> Result<ExitCode, Failure> {
    let mut out = io::stdout().lock();
    written(out.write_all(text.as_bytes()).and_then(|()| out.flush())).map(|()| ExitCode::SUCCESS)
}
