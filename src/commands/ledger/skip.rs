//! `sakia ledger skip`: leaves records out on purpose, also beside running members.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::str::FromStr;

use clap::Args;

use super::broker::Broker;
use super::confirm::{ConfirmArgs, confirm};
use super::show::print;
use super::timeline::grouped;
use super::{Access, refused};
use crate::cli::LayerArgs;
use crate::code::Failure;
use crate::sink::ledger::Target;
use crate::sink::ledger::coverage::skip::{NoSkip, Skip};

#[derive(Debug, Args)]
pub(super) struct SkipArgs {
    /// Topic, and a partition of it if not all are meant
    #[arg(value_name = "TOPIC[/PARTITION]")]
    place: Place,
    /// First offset that is to be stored again
    #[arg(long, value_name = "OFFSET|latest")]
    to: To,
    #[command(flatten)]
    confirm: ConfirmArgs,
    #[command(flatten)]
    pub(super) layer: LayerArgs,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    topic: String,
    partition: Option<i32>,
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('/') {
            None => Ok(Self { topic: text.to_owned(), partition: None }),
            Some((topic, number)) => {
                let number = number.parse().map_err(|_| format!("{number:?} is no number of a partition"))?;
                Ok(Self { topic: topic.to_owned(), partition: Some(number) })
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum To {
    Offset(i64),
    Latest,
}

impl FromStr for To {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "latest" {
            return Ok(Self::Latest);
        }
        let offset = text.parse().ok().filter(|offset| *offset >= 0);
        offset.map(Self::Offset).ok_or_else(|| "neither an offset nor `latest`".to_owned())
    }
}

pub(super) fn run(access: &Access<'_>, args: &SkipArgs) -> Result<ExitCode, Failure> {
    let topic = args.place.topic.as_str();
    let broker = Broker::connect(&access.config.kafka)?;
    let ledger = access.ledger(&broker.cluster);
    access.runtime.block_on(ledger.check(access.config))?;
    let topic_id = broker.topic_id(topic).ok().flatten();
    let contract = access.config.contract_for(topic);
    let mut targets = Vec::new();
    for partition in partitions(&broker, &args.place)? {
        let ends = broker.ends(topic, partition)?;
        let to = if let To::Offset(offset) = args.to { offset } else { ends.high };
        let (low, high) = (ends.low, ends.high);
        let contract = contract.as_ref();
        targets.push(Target { topic, partition, topic_id: topic_id.as_deref(), low, high, to, contract });
    }
    let mut shown = String::new();
    let mut wanted = Vec::new();
    for target in targets {
        match access.runtime.block_on(ledger.plan_skip(&target))? {
            Ok(skip) => {
                shown.push_str(&describe(&target, &skip));
                wanted.push(target);
            }
            Err(why @ NoSkip::Nothing { .. }) => _ = writeln!(shown, "{topic}/{}: {why}", target.partition),
            Err(why) => return Err(refused(format_args!("{topic}/{}: {why}", target.partition))),
        }
    }
    print(&shown)?;
    if wanted.is_empty() {
        return Err(refused("nothing was changed: there is nothing to skip"));
    }
    if !confirm(&args.confirm)? {
        return Ok(ExitCode::SUCCESS);
    }
    for target in wanted {
        // Planned anew: members have gone on meanwhile, and may even be past it.
        let done = access.runtime.block_on(ledger.skip(&target))?;
        print(&match done {
            Ok(skip) => format!("done: {}", describe(&target, &skip)),
            Err(why) => format!("left as it is: {topic}/{}: {why}\n", target.partition),
        })?;
    }
    Ok(ExitCode::SUCCESS)
}

fn partitions(broker: &Broker<'_>, place: &Place) -> Result<Vec<i32>, Failure> {
    let known = broker.partitions(&place.topic)?;
    match place.partition {
        _ if known.is_empty() => Err(refused(format_args!("kafka has no topic {}", place.topic))),
        None => Ok(known),
        Some(one) if known.contains(&one) => Ok(vec![one]),
        Some(one) => Err(refused(format_args!("topic {} has no partition {one}", place.topic))),
    }
}

fn describe(target: &Target<'_>, skip: &Skip) -> String {
    let (hole, rest) = (&skip.hole, &skip.rest);
    let (from, last, n) = (grouped(hole.start), grouped(hole.end - 1), grouped(hole.end - hole.start));
    let place = format!("{}/{}", target.topic, target.partition);
    let mut text =
        format!("{place}: offsets {from} to {last} are left out ({n}); it goes on at {}\n", grouped(hole.end));
    if !rest.is_empty() {
        let (from, last) = (grouped(rest.start), grouped(rest.end - 1));
        writeln!(text, "{place}: offsets {from} to {last} may be under way and are finished first").ok();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_ends_are_read() {
        let place = |topic: &str, partition| Ok(Place { topic: topic.into(), partition });
        assert_eq!("a.b-c".parse(), place("a.b-c", None));
        assert_eq!("a/12".parse(), place("a", Some(12)));
        assert!("a/x".parse::<Place>().is_err());
        assert_eq!(["7", "latest"].map(str::parse), [Ok(To::Offset(7)), Ok(To::Latest)]);
        assert!("-1".parse::<To>().is_err() && "last".parse::<To>().is_err());
    }
}
