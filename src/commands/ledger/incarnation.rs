//! `sakia ledger incarnation`: a topic was deleted and created again; its records are new ones though their offsets are
//! not.

use std::collections::BTreeMap;
use std::process::ExitCode;

use clap::Args;

use super::broker::Broker;
use super::confirm::{ConfirmArgs, confirm};
use super::show::print;
use super::{Access, refused};
use crate::cli::LayerArgs;
use crate::code::{Code, Failure};
use crate::record::Origin;
use crate::sink::ledger::coverage::incarnation::{Evidence, evidence, first_entry};
use crate::sink::ledger::entry::Entry;

#[derive(Debug, Args)]
pub(super) struct IncarnationArgs {
    topic: String,
    #[command(flatten)]
    confirm: ConfirmArgs,
    #[command(flatten)]
    pub(super) layer: LayerArgs,
}

pub(super) fn run(access: &Access<'_>, args: &IncarnationArgs) -> Result<ExitCode, Failure> {
    let topic = args.topic.as_str();
    let Some(contract) = access.config.contract_for(topic) else {
        return Err(refused(format_args!("no [[decoder]] names topic {topic}")));
    };
    let broker = Broker::connect(&access.config.kafka)?;
    let ledger = access.ledger(&broker.cluster);
    access.runtime.block_on(ledger.check(access.config))?;
    let kept = access.runtime.block_on(ledger.read_all())?;
    let of_topic = kept.entries.iter().filter(|k| k.origin.cluster == broker.cluster && k.origin.topic == topic);
    let newest = of_topic.clone().map(|kept| kept.origin.incarnation).max().unwrap_or(0);
    let newest_entries = of_topic.filter(|kept| kept.origin.incarnation == newest);
    let entries: BTreeMap<i32, Entry> =
        newest_entries.filter_map(|kept| Some((kept.origin.partition, kept.entry.clone().ok()?))).collect();

    let partitions = broker.partitions(topic)?;
    if partitions.is_empty() {
        return Err(refused(format_args!("kafka has no topic {topic}: create it first")));
    }
    let topic_id = broker.topic_id(topic)?;
    let mut ends = BTreeMap::new();
    for &partition in &partitions {
        ends.insert(partition, broker.ends(topic, partition)?.high);
    }
    let evidence =
        evidence(&entries, topic_id.as_deref(), &ends).map_err(|why| refused(format_args!("{topic}: {why}")))?;
    let incarnation = newest + 1;
    print(&format!(
        "{topic}: {}\nincarnation {incarnation} begins at offset 0 of its {} partitions; what is stored of the old topic stays\n",
        describe(&evidence),
        partitions.len()
    ))?;
    if !confirm(&args.confirm)? {
        return Ok(ExitCode::SUCCESS);
    }
    let fingerprint = contract.fingerprint();
    let first = |&partition: &i32| {
        let origin = Origin { cluster: broker.cluster.clone(), topic: topic.to_owned(), incarnation, partition };
        (origin, first_entry(topic_id.as_deref(), &fingerprint, ledger.random_id()))
    };
    let first: Vec<_> = partitions.iter().map(first).collect();
    let n_known = access.runtime.block_on(async {
        ledger.keep_contract(&contract).await?;
        ledger.make_entries(&first).await
    })?;
    if n_known > 0 {
        let message = format!("{n_known} partitions got incarnation {incarnation} from somebody else at the same time");
        return Err(Failure::new(Code::LedgerBusy, format_args!("{message}; see `sakia ledger --topic {topic}`")));
    }
    print("done; running members take it up within a minute\n")
}

fn describe(evidence: &Evidence) -> String {
    match evidence {
        Evidence::TopicId { was, is } => format!("the topic has id {is} now, the ledger knows it as {was}"),
        Evidence::Behind(partition, high, next) => {
            format!("partition {partition} ends at offset {high}, the ledger has it stored up to {next}")
        }
        Evidence::None => "nothing tells that the topic was created again. If it was not, all of its records will be \
                           stored a second time"
            .to_owned(),
    }
}
