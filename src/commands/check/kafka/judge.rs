//! Facts of Kafka to findings. Pure.

use super::{Facts, Group, Partition, Topic, retention_ms};
use crate::code::Code;
use crate::commands::check::finding::{Area, Finding, State, plural};
use crate::config::topics::{Unrouted, found_by, is_pattern};
use crate::config::{Config, did_you_mean};

pub(in crate::commands::check) fn judge(config: &Config, facts: &Facts) -> Vec<Finding> {
    let finding = |state, what: &str, detail: String| Finding::new(Area::Kafka, state, what, detail);
    let mut findings = vec![
        finding(State::Ok, "brokers", format!("{} answer, cluster {}", facts.brokers.join(", "), facts.cluster)),
        finding(State::Ok, "client", format!("librdkafka {}", facts.client)),
    ];
    findings.extend(config.kafka.topics.iter().filter_map(|entry| judge_pattern(entry, &facts.visible)));
    for topic in &facts.topics {
        findings.extend(judge_topic(config, topic, &facts.visible));
    }
    let n_partitions = facts.topics.iter().map(|topic| topic.partitions.len()).sum();
    findings.push(judge_group(config, &facts.group, n_partitions));
    findings
}

/// The sentence about a topic that is not there, and what to do.
pub(in crate::commands) fn missing_topic(name: &str, visible: &[String]) -> (String, String) {
    let detail = "does not exist on this cluster, or this user may not see it".to_owned();
    let known = visible.iter().map(String::as_str).filter(|known| !known.starts_with("__"));
    let mend = match did_you_mean(name, known) {
        Some(near) => format!("did you mean {near:?}? Set `topics` of its [[decoder]], or create the topic {name:?}"),
        None => format!("create the topic {name:?}, or set `topics` of its [[decoder]] to one that exists"),
    };
    (detail, mend)
}

/// What a pattern finds now; `None` where `entry` is a name.
fn judge_pattern(entry: &str, visible: &[String]) -> Option<Finding> {
    let finding = |state, detail| Some(Finding::new(Area::Kafka, state, format!("pattern {entry}"), detail));
    let found = is_pattern(entry).then(|| found_by(entry, visible))?;
    let Some(first) = found.first() else {
        return finding(State::Note, "matches no topic now; one that comes later is taken up".into());
    };
    let more = if found.len() > 1 { ", ..." } else { "" };
    finding(State::Ok, format!("matches {} topic{} now: {first}{more}", found.len(), plural(found.len())))
}

fn judge_topic(config: &Config, topic: &Topic, visible: &[String]) -> Vec<Finding> {
    let what = format!("topic {}", topic.name);
    let finding = |state, detail: String| Finding::new(Area::Kafka, state, &what, detail);
    if topic.partitions.is_empty() {
        let (detail, mend) = missing_topic(&topic.name, visible);
        return vec![finding(State::Fail, detail).mend(mend)];
    }
    let mut findings = vec![finding(State::Ok, shape(topic))];
    if let Err(Unrouted::Ambiguous { n, patterns, .. }) = config.decoder_for(&topic.name) {
        let detail =
            format!("is not read ({}): it matches patterns of {n} decoders: {patterns}", Code::TopicWithoutDecoder);
        let mend = "name it exactly in the topics of one of them, or make the patterns narrower";
        findings.push(finding(State::Fail, detail).mend(mend));
    }
    findings.extend(unreadable(topic).map(|detail| {
        finding(State::Fail, detail).mend(
            "bring the leaders up, and see to it that this host resolves and reaches the addresses that the brokers \
             advertise",
        )
    }));
    if topic.partitions.iter().any(|partition| partition.n_in_sync < partition.n_replicas) {
        let detail = "some replicas are not in sync: if a broker is lost now, records that were not stored yet may be";
        findings.push(finding(State::Warn, detail.into()).mend("look after the brokers that are behind or down"));
    }
    match &topic.id {
        Ok(Some(_)) => {}
        Ok(None) => findings.push(finding(
            State::Note,
            "the broker gives no topic ids: that a topic was created anew shows by its offsets only".into(),
        )),
        Err(error) => findings.push(
            finding(State::Fail, format!("its id cannot be asked for: {error}"))
                .mend("allow this user to describe the topic"),
        ),
    }
    match &topic.settings {
        Ok(settings) => findings.extend(judge_settings(config, topic, &|name| settings.get(name).cloned())),
        Err(error) => findings.push(finding(
            State::Note,
            format!("its settings cannot be looked at ({error}): retention and compaction are not judged"),
        )),
    }
    findings
}

fn shape(topic: &Topic) -> String {
    let ends = topic.partitions.iter().filter_map(|partition| partition.ends.as_ref().ok());
    let n_records: i64 = ends.map(|(low, high)| high - low).sum();
    let n_replicas = topic.partitions.iter().map(|partition| partition.n_replicas).min().unwrap_or(0);
    let retention = retention_ms(&topic.settings).map(|ms| format!(", kept for {}", duration(ms)));
    format!(
        "{} partitions, {n_replicas} replicas, {n_records} offsets{}",
        topic.partitions.len(),
        retention.unwrap_or_default()
    )
}

fn unreadable(topic: &Topic) -> Option<String> {
    let bad = |partition: &Partition| Some((partition.number, partition.ends.as_ref().err()?.clone()));
    let bad: Vec<_> = topic.partitions.iter().filter_map(bad).collect();
    let (number, reason) = bad.first()?;
    Some(format!("{} of its partitions cannot be read, such as {number}: {reason}", bad.len()))
}

fn judge_settings(config: &Config, topic: &Topic, setting: &dyn Fn(&str) -> Option<String>) -> Vec<Finding> {
    let what = format!("topic {}", topic.name);
    let finding = |state, detail: String| Finding::new(Area::Kafka, state, &what, detail);
    let number = |name: &str| setting(name).and_then(|value| value.parse::<u64>().ok());
    let mut findings = Vec::new();
    if setting("cleanup.policy").is_some_and(|policy| policy.contains("compact")) {
        let detail = "is compacted: readings are deleted as soon as their key comes again, stored or not";
        findings.push(
            finding(State::Warn, detail.into())
                .mend(format!("kafka-configs --alter --topic {} --add-config cleanup.policy=delete", topic.name)),
        );
    }
    // A quarter of the budget is the client's, and one record has to fit into it.
    let largest = number("max.message.bytes").filter(|bytes| *bytes > config.flow.memory_budget_bytes / 4);
    findings.extend(largest.map(|bytes| {
        let detail =
            format!("takes records of up to {bytes} bytes; one of them exceeds what flow.memory_budget allows for");
        finding(State::Warn, detail).mend(format!("set flow.memory_budget to {bytes} x 4 or more"))
    }));
    let deletes = setting("cleanup.policy").is_none_or(|policy| policy.contains("delete"));
    if deletes && retention_ms(&topic.settings).is_some_and(|ms| ms < DAY_MS) {
        let detail = "keeps records for less than a day: an outage of that length loses readings";
        findings.push(finding(State::Note, detail.into()));
    }
    findings
}

const DAY_MS: i64 = 86_400_000;

fn judge_group(config: &Config, group: &Result<Group, String>, n_partitions: usize) -> Finding {
    let what = format!("group {}", config.kafka.group);
    let finding = |state, detail: String| Finding::new(Area::Kafka, state, &what, detail);
    let group = match group {
        Ok(group) => group,
        Err(error) => {
            return finding(State::Fail, format!("cannot be looked at: {error}"))
                .mend("allow this user to read and describe the group");
        }
    };
    let n = group.members.len();
    let client_id = config.kafka.options.get("client.id").map_or("sakia", String::as_str);
    let stranger = group.members.iter().find(|(client, _)| !client.starts_with(client_id));
    if let Some((client, host)) = stranger {
        return finding(
            State::Fail,
            format!("{client} at {host} is a member too, which is no sakia of this configuration"),
        )
        .mend("give kafka.group a name that nobody else uses: members of one group take each other's partitions");
    }
    if n > 0 && !group.protocol.is_empty() && group.protocol != "cooperative-sticky" {
        return finding(State::Fail, format!("its members agreed on {}, sakia is cooperative-sticky", group.protocol))
            .mend("stop the other members, or choose another kafka.group");
    }
    if n > n_partitions && n_partitions > 0 {
        return finding(
            State::Note,
            format!("{n} members for {n_partitions} partitions: {} are idle", n - n_partitions),
        );
    }
    match group.state.as_str() {
        "" | "Dead" => finding(State::Ok, "is new".into()),
        state => finding(State::Ok, format!("{state}, {n} members")),
    }
}

pub(in crate::commands::check) fn duration(ms: i64) -> String {
    match ms {
        ms if ms >= 2 * DAY_MS => format!("{} days", ms / DAY_MS),
        ms if ms >= 7_200_000 => format!("{} hours", ms / 3_600_000),
        ms => format!("{} s", ms / 1_000),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::commands::check::finding::check_problems;

    fn config() -> Config {
        reading(&["t"])
    }

    /// One decoder for each of `topics`.
    fn reading(topics: &[&str]) -> Config {
        let table = |topic: &&str| {
            format!("[[decoder]]\ntopics = '{topic}'\ndevice_path = \"@key\"\ntimestamp_missing = \"kafka\"\n")
        };
        let servers = "kafka.brokers = \"h:1\"\nmongo.uri = \"mongodb://h/?replicaSet=rs0\"\n";
        Config::from_toml(&(servers.to_owned() + &topics.iter().map(table).collect::<String>())).unwrap()
    }

    fn topic(settings: &[(&str, &str)]) -> Topic {
        let ends = Ok((5, 10));
        let partition = Partition { number: 0, n_replicas: 1, n_in_sync: 1, ends, committed: None, young: None };
        let settings: BTreeMap<_, _> = settings.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Topic { name: "t".into(), partitions: vec![partition], id: Ok(Some("id".into())), settings: Ok(settings) }
    }

    fn facts(topic: Topic) -> Facts {
        let group = Ok(Group::default());
        let (cluster, client) = ("cluster".into(), "2".into());
        Facts {
            cluster,
            client,
            brokers: vec!["h:1".into()],
            topics: vec![topic],
            visible: vec!["readings".into()],
            group,
        }
    }

    /// The findings that are not ok, as `state detail -> mend`.
    fn check(facts: &Facts, expected: &[&[&str]]) {
        check_with(&config(), facts, expected);
    }

    fn check_with(config: &Config, facts: &Facts, expected: &[&[&str]]) {
        check_problems(&judge(config, facts), expected);
    }

    #[test]
    fn a_sound_topic_is_ok() {
        check(&facts(topic(&[("retention.ms", "604800000"), ("cleanup.policy", "delete")])), &[]);
        assert!(
            judge(&config(), &facts(topic(&[("retention.ms", "604800000")])))[2]
                .detail
                .contains("5 offsets, kept for 7 days")
        );
    }

    #[test]
    fn a_missing_topic_names_the_nearest() {
        let missing = Topic { name: "readngs".into(), partitions: vec![], ..topic(&[]) };
        check(&facts(missing), &[&["Fail", "topic readngs", "does not exist", "did you mean \"readings\"?"]]);
        let missing = Topic { name: "other".into(), partitions: vec![], ..topic(&[]) };
        check(&facts(missing), &[&["Fail", "does not exist", "create the topic \"other\""]]);
    }

    #[test]
    fn patterns_find_topics_none_or_those_of_another_pattern() {
        let facts = Facts { visible: vec!["t".into(), "__t".into()], ..facts(topic(&[])) };
        check_with(&reading(&["^t"]), &facts, &[]);
        let found = &judge(&reading(&["^t"]), &facts)[2];
        assert_eq!((found.what.as_str(), found.detail.as_str()), ("pattern ^t", "matches 1 topic now: t"));
        check_with(&reading(&["t", "^u"]), &facts, &[&["Note", "pattern ^u", "matches no topic now"]]);
        let both: &[&str] =
            &["Fail", "topic t", "topic-without-decoder", "2 decoders: \"^t\", \"^.\"", "name it exactly"];
        check_with(&reading(&["^t", "^."]), &facts, &[both]);
    }

    #[test]
    fn what_hurts_a_topic_is_named() {
        check(
            &facts(topic(&[("cleanup.policy", "compact,delete")])),
            &[&["Warn", "compacted", "cleanup.policy=delete"]],
        );
        check(&facts(topic(&[("retention.ms", "3600000")])), &[&["Note", "less than a day"]]);
        check(&facts(topic(&[("max.message.bytes", "2000000000")])), &[&["Warn", "2000000000", "flow.memory_budget"]]);
        let mut headless = topic(&[]);
        headless.partitions[0].ends = Err("it has no leader".into());
        headless.partitions[0].n_in_sync = 0;
        check(&facts(headless), &[&["Fail", "cannot be read, such as 0: it has no leader"], &["Warn", "in sync"]]);
        let closed = Topic { settings: Err("denied".into()), id: Err("denied".into()), ..topic(&[]) };
        check(&facts(closed), &[&["Fail", "its id"], &["Note", "denied"]]);
        check(&facts(Topic { id: Ok(None), ..topic(&[]) }), &[&["Note", "no topic ids"]]);
    }

    #[test]
    fn other_members_of_the_group_are_seen() {
        let with = |protocol: &str, members: &[&str]| {
            let members = members.iter().map(|client| ((*client).to_owned(), "/10.0.0.1".to_owned())).collect();
            let group = Group { state: "Stable".into(), protocol: protocol.into(), members };
            Facts { group: Ok(group), ..facts(topic(&[])) }
        };
        check(&with("cooperative-sticky", &["sakia-1f"]), &[]);
        check(&with("range", &["billing"]), &[&["Fail", "billing at /10.0.0.1", "kafka.group"]]);
        check(&with("range", &["sakia-1f"]), &[&["Fail", "agreed on range"]]);
        check(&with("cooperative-sticky", &["sakia-1", "sakia-2"]), &[&["Note", "1 are idle"]]);
        check(&Facts { group: Err("denied".into()), ..facts(topic(&[])) }, &[&["Fail", "denied", "allow"]]);
    }
}
