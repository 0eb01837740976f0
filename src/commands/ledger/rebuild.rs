//! `sakia ledger rebuild`: the ledger was lost; makes it again from the buckets and dead letters.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::ExitCode;

use clap::{Args, ValueEnum};

use super::broker::Broker;
use super::confirm::{ConfirmArgs, confirm, say};
use super::show::print;
use super::survey::{Streams, survey};
use super::timeline::grouped;
use super::{Access, failed, refused};
use crate::cli::LayerArgs;
use crate::code::{Code, Failure};
use crate::config::Contract;
use crate::record::Origin;
use crate::sink::ledger::coverage::Edit;
use crate::sink::ledger::coverage::rebuild::{Found, Known, Older, Rebuilt, closed, plan, strangers};
use crate::sink::ledger::{Kept, KeptEntry, Ledger};

#[derive(Debug, Args)]
pub(super) struct RebuildArgs {
    /// What to do with streams before a partition's last one that nothing proves to be finished
    #[arg(long, value_enum)]
    older: Option<OlderArg>,
    /// Do not believe what the group has committed: read again all that Kafka still has
    #[arg(long)]
    ignore_commits: bool,
    #[command(flatten)]
    confirm: ConfirmArgs,
    #[command(flatten)]
    pub(super) layer: LayerArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum OlderArg {
    /// Read them again: they were written under this configuration
    Reread,
    /// Count them as complete: they were written under another one
    Complete,
}

/// What is to be written.
#[derive(Default)]
struct Work<'a> {
    make: Vec<(Origin, Edit)>,
    replace: Vec<(&'a KeptEntry, Edit)>,
    contracts: BTreeMap<String, Contract>,
    shown: String,
}

/// What the broker says of one topic.
struct Topic {
    partitions: Vec<i32>,
    committed: BTreeMap<i32, i64>,
    contract: Contract,
}

pub(super) fn run(access: &Access<'_>, args: &RebuildArgs) -> Result<ExitCode, Failure> {
    let broker = Broker::connect(&access.config.kafka)?;
    let ledger = access.ledger(&broker.cluster);
    access.runtime.block_on(ledger.check(access.config))?;
    let n_members = broker.n_members()?;
    if n_members > 0 && !args.confirm.dry_run {
        // What they still hold could be written beside the streams that are made for the gaps.
        let group = &access.config.kafka.group;
        return Err(refused(format_args!("group {group} has {n_members} running members: stop all of them first")));
    }
    let kept = access.runtime.block_on(ledger.read_all())?;
    say("reading all buckets and dead letters\n");
    let streams = survey(access)?;
    if streams.is_empty() && kept.entries.is_empty() {
        return Err(refused(
            "no bucket and no dead letter is of a partition's stream: there is nothing to make a ledger from, and no need \
             of one (should replays have left buckets, of streams below 0: move them away until a member has made it)",
        ));
    }
    let work = Rebuild { access, args, broker: &broker, ledger: &ledger, kept: &kept }.work(&streams)?;
    print(&work.shown)?;
    print(&lost_replays(access, &ledger)?)?;
    if work.make.is_empty() && work.replace.is_empty() && kept.header.is_some() {
        return print("nothing to rebuild: every partition that has buckets has its entry\n");
    }
    print(
        "\nThis is right only if the configuration decodes as it did when these buckets were written, if every member is \
         stopped,\nand if no topic was created again since. What was skipped before, or lost, is no longer known as such.\n",
    )?;
    if !confirm(&args.confirm)? {
        return Ok(ExitCode::SUCCESS);
    }
    access.runtime.block_on(apply(access, &ledger, &work))?;
    print("done\n")
}

/// Replays that were under way have lost what they need to be resumed.
fn lost_replays(access: &Access<'_>, ledger: &Ledger) -> Result<String, Failure> {
    let lost = access.runtime.block_on(ledger.lost_replays());
    let lost = lost.map_err(|error| failed(format_args!("runs of replays cannot be looked up: {error}")))?;
    let one = |run: &String| {
        format!(
            "replay {run} was under way and cannot be resumed: its dead letters stay claimed, for some may be stored \
             (docs/dead-letters.md says how to mend that)\n"
        )
    };
    Ok(lost.iter().map(one).collect())
}

/// The header comes last: without it no member uses what is there, so an end half-way is only begun again.
async fn apply(access: &Access<'_>, ledger: &Ledger, work: &Work<'_>) -> Result<(), Failure> {
    for contract in work.contracts.values() {
        ledger.keep_contract(contract).await?;
    }
    let mut n_changed = ledger.make_entries(&work.make).await?;
    for (unusable, edit) in &work.replace {
        n_changed += usize::from(!ledger.replace(unusable, edit).await?);
    }
    if n_changed > 0 {
        let message = format!("{n_changed} entries were made or changed by somebody else at the same time");
        return Err(Failure::new(Code::LedgerBusy, format_args!("{message}: stop all members, and run this again")));
    }
    ledger.keep_header(access.config).await?;
    Ok(())
}

struct Rebuild<'a> {
    access: &'a Access<'a>,
    args: &'a RebuildArgs,
    broker: &'a Broker<'a>,
    ledger: &'a Ledger,
    kept: &'a Kept,
}

impl<'a> Rebuild<'a> {
    fn work(&self, streams: &Streams) -> Result<Work<'a>, Failure> {
        let mut work = Work::default();
        let mut topics: BTreeMap<&str, Option<Topic>> = BTreeMap::new();
        let mut newest = BTreeMap::new();
        for origin in streams.keys().chain(self.kept.entries.iter().map(|kept| &kept.origin)) {
            let newest = newest.entry((&origin.cluster, &origin.topic)).or_insert(0);
            *newest = origin.incarnation.max(*newest);
        }
        for (origin, found) in streams {
            let name = format!("{}/{}", origin.topic, origin.partition);
            let kept = self.kept.entries.iter().find(|kept| kept.origin == *origin);
            if let Some(Ok(entry)) = kept.map(|kept| &kept.entry) {
                if let [first, ..] = strangers(entry, found).as_slice() {
                    return Err(refused(format_args!(
                        "the entry of {name} does not know stream {} of its buckets: it is older than they are; restore a \
                         newer one, or remove it and run this again",
                        first.0
                    )));
                }
                writeln!(work.shown, "{name}: its entry is there and stays").ok();
                continue;
            }
            let is_newest = newest[&(&origin.cluster, &origin.topic)] == origin.incarnation;
            let topic = if is_newest && origin.cluster == self.broker.cluster {
                if !topics.contains_key(origin.topic.as_str()) {
                    topics.insert(&origin.topic, self.topic(&origin.topic)?);
                }
                topics[origin.topic.as_str()].as_ref().filter(|topic| topic.partitions.contains(&origin.partition))
            } else {
                None
            };
            let rebuilt = self.rebuilt(origin, found, topic, &mut work)?;
            let edit = Edit { topic_id: None, streams: rebuilt.streams, lost: Vec::new(), skipped: Vec::new() };
            match kept {
                Some(unusable) => work.replace.push((unusable, edit)),
                None => work.make.push((origin.clone(), edit)),
            }
        }
        Ok(work)
    }

    /// `None`: nobody reads it under this configuration.
    fn topic(&self, name: &str) -> Result<Option<Topic>, Failure> {
        let Some(contract) = self.access.config.contract_for(name) else { return Ok(None) };
        let partitions = self.broker.partitions(name)?;
        let committed = if self.args.ignore_commits || partitions.is_empty() {
            BTreeMap::new()
        } else {
            self.broker.committed(name, &partitions)?
        };
        Ok(Some(Topic { partitions, committed, contract }))
    }

    fn rebuilt(
        &self,
        origin: &Origin,
        found: &[Found],
        topic: Option<&Topic>,
        work: &mut Work<'a>,
    ) -> Result<Rebuilt, Failure> {
        let name = format!("{}/{}", origin.topic, origin.partition);
        let failed = |why| refused(format_args!("{name}: {why}"));
        let Some(topic) = topic else {
            let streams = closed(found).map_err(failed)?;
            let n = streams.len();
            writeln!(work.shown, "{name}: {n} streams, all complete: nobody reads incarnation {}", origin.incarnation)
                .ok();
            let (to_read, taken_as_complete) = (Vec::new(), Vec::new());
            return Ok(Rebuilt { streams, to_read, taken_as_complete, is_behind: false });
        };
        let ends = self.broker.ends(&origin.topic, origin.partition)?;
        let fingerprint = topic.contract.fingerprint();
        let known = Known {
            low: ends.low,
            high: ends.high,
            committed: topic.committed.get(&origin.partition).copied(),
            contract: &fingerprint,
            older: self.args.older.map(|older| match older {
                OlderArg::Reread => Older::Reread,
                OlderArg::Complete => Older::Complete,
            }),
        };
        let rebuilt = plan(found, &known, || self.ledger.random_id()).map_err(failed)?;
        describe(&mut work.shown, &name, found, &known, &rebuilt);
        work.contracts.entry(fingerprint).or_insert_with(|| topic.contract.clone());
        Ok(rebuilt)
    }
}

fn describe(text: &mut String, name: &str, found: &[Found], known: &Known<'_>, rebuilt: &Rebuilt) {
    let n = found.len();
    let last = found.iter().map(|found| found.last).max().unwrap_or(0);
    write!(text, "{name}: {n} streams, stored up to offset {} of {}", grouped(last), grouped(known.high)).ok();
    match known.committed {
        Some(committed) => writeln!(text, "; the group has committed {}", grouped(committed)),
        None => writeln!(text, "; no commit is known"),
    }
    .ok();
    let mut list = |what: &str, ranges: &[std::ops::Range<i64>]| {
        for range in ranges {
            let (from, last) = (grouped(range.start), grouped(range.end - 1));
            writeln!(text, "{name}: offsets {from} to {last} {what}").ok();
        }
    };
    list("are read, and only what is missing is stored", &rebuilt.to_read);
    list("count as complete, without proof", &rebuilt.taken_as_complete);
    if rebuilt.is_behind {
        writeln!(
            text,
            "{name}: the log ends before what is stored: after this, run `sakia ledger incarnation` for its topic"
        )
        .ok();
    }
}
