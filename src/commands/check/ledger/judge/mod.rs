//! What `sakia run` would decide about each partition, by the very rule that it decides by. Pure.

use std::collections::BTreeMap;

use super::Facts;
use crate::commands::check::finding::{Area, Finding, State, plural};
use crate::commands::check::kafka;
use crate::config::topics::Unrouted;
use crate::config::{Config, Contract};
use crate::record::{Origin, StreamId};
use crate::sink::ledger::coverage::{self, Ask, Decision, Recreated, Warning};
use crate::sink::ledger::entry::Entry;

fn finding(state: State, what: &str, detail: impl Into<String>) -> Finding {
    Finding::new(Area::Ledger, state, what, detail)
}

/// What can be said without Kafka.
pub(in crate::commands::check) fn damaged(facts: &Facts) -> Vec<Finding> {
    let one = |(id, reason): &(String, String)| {
        finding(State::Fail, "entry", format!("{id} cannot be used: {reason}"))
            .mend("restore it from a backup, or run `sakia ledger rebuild`")
    };
    facts.damaged.iter().map(one).collect()
}

pub(in crate::commands::check) fn judge(config: &Config, facts: &Facts, kafka: &kafka::Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    let has_members = kafka.group.as_ref().is_ok_and(|group| !group.members.is_empty());
    for topic in kafka.topics.iter().filter(|topic| !topic.partitions.is_empty()) {
        let Some(contract) = config.contract_for(&topic.name) else { continue };
        let look = Look { facts, cluster: &kafka.cluster, topic, fingerprint: contract.fingerprint(), has_members };
        findings.extend(look.judge());
    }
    findings.extend(orphans(config, facts));
    findings
}

fn orphans(config: &Config, facts: &Facts) -> Option<Finding> {
    let mut names: Vec<_> = facts.entries.keys().map(|origin| origin.topic.as_str()).collect();
    names.retain(|name| matches!(config.decoder_for(name), Err(Unrouted::Unnamed { .. })));
    names.dedup();
    let detail = || format!("knows topics that no [[decoder]] names any more: {}", names.join(", "));
    (!names.is_empty()).then(|| finding(State::Note, "topics", detail()))
}

/// One topic against its entries.
struct Look<'a> {
    facts: &'a Facts,
    cluster: &'a str,
    topic: &'a kafka::Topic,
    fingerprint: String,
    /// Somebody is at work: commits go on while they are looked at.
    has_members: bool,
}

/// Findings of partitions that say the same, by state, text and what mends it.
type Grouped = BTreeMap<(State, String, String), Vec<i32>>;

impl Look<'_> {
    fn judge(&self) -> Vec<Finding> {
        let origins = || self.facts.entries.keys().filter(|origin| origin.topic == self.topic.name);
        let here = || origins().filter(|origin| origin.cluster == self.cluster);
        let what = format!("topic {}", self.topic.name);
        if let (None, Some(elsewhere)) = (here().next(), origins().next()) {
            let detail = format!(
                "was stored from cluster {}, and this one is {}: all of it would be stored as new",
                elsewhere.cluster, self.cluster
            );
            return vec![
                finding(State::Warn, &what, detail).mend("see to it that kafka.brokers is the cluster you mean"),
            ];
        }
        let incarnation = here().map(|origin| origin.incarnation).max().unwrap_or(0);
        let mut grouped = Grouped::new();
        let mut n_to_do = 0;
        for partition in &self.topic.partitions {
            let Ok((low, high)) = partition.ends else { continue };
            let entry = self.entry(incarnation, partition.number);
            for (state, detail, mend) in self.partition(entry, incarnation, partition, &mut n_to_do, (low, high)) {
                grouped.entry((state, detail, mend)).or_default().push(partition.number);
            }
        }
        let n_known = here().filter(|origin| origin.incarnation == incarnation).count();
        let known =
            format!("{n_known} of {} partitions known, {n_to_do} records to store", self.topic.partitions.len());
        let mut findings = vec![finding(State::Ok, &what, known)];
        findings.extend(grouped.into_iter().map(|((state, detail, mend), partitions)| {
            finding(state, &what, format!("{}: {detail}", listed(&partitions))).mend(mend)
        }));
        findings
    }

    fn entry(&self, incarnation: i32, partition: i32) -> Option<&Entry> {
        let topic = self.topic.name.clone();
        self.facts.entries.get(&Origin { cluster: self.cluster.to_owned(), topic, incarnation, partition })
    }

    fn partition(
        &self,
        entry: Option<&Entry>,
        incarnation: i32,
        partition: &kafka::Partition,
        n_to_do: &mut i64,
        (low, high): (i64, i64),
    ) -> Vec<(State, String, String)> {
        let topic_id = self.topic.id.as_ref().ok().and_then(Option::as_deref);
        let committed = partition.committed;
        let ask = Ask { topic_id, committed, low, high, contract: &self.fingerprint };
        let mut last_id = 0;
        let decided = coverage::decide(entry, &ask, || {
            last_id += 1;
            StreamId(last_id)
        });
        let decided = match self.created_anew(incarnation, topic_id).filter(|_| entry.is_none()) {
            Some(why) => Err(why),
            None => decided,
        };
        let decision = match decided {
            Ok(decision) => decision,
            Err(why) => {
                let mend = format!(
                    "if the topic was created again and its records are new ones, run `sakia ledger incarnation {}`",
                    self.topic.name
                );
                return vec![(State::Fail, format!("not the one that the ledger knows: {why}"), mend)];
            }
        };
        let ends = decision.spans.iter().map(|span| span.to.unwrap_or(high).min(high) - span.from.max(low));
        *n_to_do += ends.map(|n| n.max(0)).sum::<i64>();
        let mut said: Vec<_> = decision.warnings.iter().filter_map(|warning| self.warning(warning)).collect();
        said.extend(self.unfinished(&decision));
        let next = decision.spans.first().map(|span| span.from);
        if let (Some(next), Some(young)) = (next.filter(|next| *next < high), partition.young)
            && next < young
        {
            let detail = "the oldest records that are not stored yet have less than a quarter of their retention left";
            said.push((State::Warn, detail.to_owned(), "start more members, or raise the topic's retention.ms".into()));
        }
        said
    }

    /// A topic that was created again may have more partitions than before: those have no entry that could object.
    fn created_anew(&self, incarnation: i32, topic_id: Option<&str>) -> Option<Recreated> {
        let is = topic_id?;
        let beside = self.facts.entries.iter().filter(|(origin, _)| {
            origin.topic == self.topic.name && origin.cluster == self.cluster && origin.incarnation == incarnation
        });
        let was = beside.filter_map(|(_, entry)| entry.topic_id.as_deref()).find(|was| *was != is)?;
        Some(Recreated::TopicId { was: was.to_owned(), is: is.to_owned() })
    }

    fn warning(&self, warning: &Warning) -> Option<(State, String, String)> {
        let said = warning.to_string();
        Some(match warning {
            // It was read after the ledger.
            Warning::CommitNotObeyed { .. } if self.has_members => return None,
            Warning::CommitNotObeyed { .. } | Warning::CommitPastEnd { .. } => {
                (State::Warn, said, "reset the group's offsets, if they are not meant".into())
            }
            Warning::Lost(lost) => (
                State::Fail,
                format!(
                    "offsets {} to {} were deleted by the broker before they were stored",
                    lost.start,
                    lost.end - 1
                ),
                "raise the topic's retention.ms before more are; `sakia run` notes the loss and goes on".into(),
            ),
            Warning::ContractChanged { .. } => (State::Note, said, String::new()),
        })
    }

    /// What was begun under another contract has to be finished under it.
    fn unfinished(&self, decision: &Decision) -> Option<(State, String, String)> {
        let mut others = decision.spans.iter().filter(|span| *span.contract != *self.fingerprint);
        let wrong = |fingerprint: &str| match self.facts.contracts.get(fingerprint) {
            None => Some((format!("contract {fingerprint} is not in the ledger"), "restore the ledger from a backup")),
            Some(text) => {
                Contract::parse(text).err().map(|why| (why.to_string(), "run the sakia release that began them"))
            }
        };
        let (from, (why, mend)) = others.find_map(|span| Some((span.from, wrong(&span.contract)?)))?;
        Some((State::Fail, format!("offsets from {from} cannot be finished: {why}"), mend.to_owned()))
    }
}

fn listed(partitions: &[i32]) -> String {
    let first: Vec<_> = partitions.iter().take(5).map(i32::to_string).collect();
    let more = partitions.len().saturating_sub(5);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("partition{} {}{more}", plural(partitions.len()), first.join(", "))
}

#[cfg(test)]
mod tests;
