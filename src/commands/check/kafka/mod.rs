//! What the brokers tell about the configured topics and the group.

mod judge;

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, ResourceSpecifier};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::Consumer;
use rdkafka::metadata::{Metadata, MetadataTopic};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

pub(super) use judge::judge;
use judge::missing_topic;

use crate::code::{Code, Failure};
use crate::commands::reach::runtime;
use crate::config::Config;
use crate::source::SourceError;
use crate::source::asking::Asker;

/// One question about one partition or topic.
const WAIT: Duration = Duration::from_secs(5);

/// A topic that was just made takes a moment to be known.
pub(super) const TOPIC_PATIENCE: Duration = Duration::from_secs(2);

/// What was found out. What could not be is the reason why not.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) cluster: String,
    pub(super) brokers: Vec<String>,
    pub(super) client: String,
    /// Of the topics that are named, in their order, then of those that patterns find.
    pub(super) topics: Vec<Topic>,
    /// All topics that may be seen, for names that were meant.
    pub(super) visible: Vec<String>,
    pub(super) group: Result<Group, String>,
}

#[derive(Clone, Debug)]
pub(super) struct Topic {
    pub(super) name: String,
    /// Empty: there is no such topic.
    pub(super) partitions: Vec<Partition>,
    pub(super) id: Result<Option<String>, String>,
    pub(super) settings: Result<BTreeMap<String, String>, String>,
}

#[derive(Clone, Debug)]
pub(super) struct Partition {
    pub(super) number: i32,
    pub(super) n_replicas: usize,
    pub(super) n_in_sync: usize,
    /// First offset that is still there, and the one after the last.
    pub(super) ends: Result<(i64, i64), String>,
    pub(super) committed: Option<i64>,
    /// Least offset whose record has more than a quarter of its retention before it.
    pub(super) young: Option<i64>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Group {
    pub(super) state: String,
    /// The assignor, while there are members.
    pub(super) protocol: String,
    /// Client id and host.
    pub(super) members: Vec<(String, String)>,
}

/// Asks everything that may be asked; fails only if no broker answers. Blocks.
pub(super) fn look(config: &Config, timeout: Duration, now_ms: i64) -> Result<Facts, SourceError> {
    let asker = Asker::new(&config.kafka)?;
    let metadata = asker.metadata_of(&config.named_topics(), timeout, TOPIC_PATIENCE)?;
    let mut facts = Facts {
        cluster: asker.cluster_id(timeout)?,
        brokers: metadata.brokers().iter().map(|broker| format!("{}:{}", broker.host(), broker.port())).collect(),
        client: rdkafka::util::get_rdkafka_version().1,
        visible: names(&metadata),
        group: group(&asker, &config.kafka.group),
        topics: Vec::new(),
    };
    for name in config.topics_among(&facts.visible) {
        let found = metadata.topics().iter().find(|topic| topic.name() == name);
        facts.topics.push(topic(&asker, config, &name, found, now_ms));
    }
    Ok(facts)
}

/// Topics that are there, as far as this user may see them.
pub(in crate::commands) fn names(metadata: &Metadata) -> Vec<String> {
    let is_there = |topic: &&MetadataTopic| !topic.partitions().is_empty();
    metadata.topics().iter().filter(is_there).map(|topic| topic.name().to_owned()).collect()
}

pub(in crate::commands) fn topic_missing(name: &str, visible: &[String]) -> Failure {
    let (detail, mend) = missing_topic(name, visible);
    Failure::new(Code::TopicMissing, format_args!("topic {name:?} {detail}; {mend}"))
}

fn topic(asker: &Asker, config: &Config, name: &str, found: Option<&MetadataTopic>, now_ms: i64) -> Topic {
    let Some(found) = found else {
        let (id, settings) = (Ok(None), Ok(BTreeMap::new()));
        return Topic { name: name.to_owned(), partitions: Vec::new(), id, settings };
    };
    let settings = settings(config, name);
    let mut partitions: Vec<_> = found.partitions().iter().map(|found| partition(asker, name, found)).collect();
    partitions.sort_by_key(|partition| partition.number);
    let list = |offset: Offset| {
        let mut list = TopicPartitionList::new();
        for partition in &partitions {
            // The offset is one of the constants or a time, all of which a list takes.
            list.add_partition_offset(name, partition.number, offset).ok();
        }
        list
    };
    let committed = asker.consumer().committed_offsets(list(Offset::Invalid), WAIT).ok();
    let young = retention_ms(&settings).and_then(|retention| {
        let since = Offset::Offset(now_ms - retention / 4 * 3);
        asker.consumer().offsets_for_times(list(since), WAIT).ok()
    });
    let at = |found: &Option<TopicPartitionList>, number: i32| {
        let offset = found.as_ref()?.find_partition(name, number)?.offset();
        if let Offset::Offset(offset) = offset { Some(offset) } else { None }
    };
    for partition in &mut partitions {
        partition.committed = at(&committed, partition.number);
        // None is young: the end of the partition is the least offset that none is before.
        let end = partition.ends.as_ref().ok().map(|ends| ends.1);
        partition.young = young.is_some().then(|| at(&young, partition.number).or(end)).flatten();
    }
    Topic { name: name.to_owned(), partitions, id: asker.topic_id(name, WAIT), settings }
}

fn partition(asker: &Asker, topic: &str, found: &rdkafka::metadata::MetadataPartition) -> Partition {
    let ends = if found.leader() < 0 {
        Err("it has no leader".to_owned())
    } else {
        asker.consumer().fetch_watermarks(topic, found.id(), WAIT).map_err(|error| error.to_string())
    };
    Partition {
        number: found.id(),
        n_replicas: found.replicas().len(),
        n_in_sync: found.isr().len(),
        ends,
        committed: None,
        young: None,
    }
}

/// `None` where records are kept for ever, or it is not known how long.
pub(super) fn retention_ms(settings: &Result<BTreeMap<String, String>, String>) -> Option<i64> {
    let retention = settings.as_ref().ok()?.get("retention.ms")?.parse().ok()?;
    (retention > 0).then_some(retention)
}

fn settings(config: &Config, topic: &str) -> Result<BTreeMap<String, String>, String> {
    let mut client = ClientConfig::new();
    client.set("bootstrap.servers", &config.kafka.brokers);
    for (name, value) in &config.kafka.options {
        client.set(name, value);
    }
    let admin: AdminClient<DefaultClientContext> = client.create().map_err(|error| error.to_string())?;
    let options = AdminOptions::new().request_timeout(Some(WAIT));
    let runtime = runtime().map_err(|failure| failure.message)?;
    let described = runtime.block_on(admin.describe_configs(&[ResourceSpecifier::Topic(topic)], &options));
    let described = described.map_err(|error| error.to_string())?.pop().ok_or("the answer is empty")?;
    let resource = described.map_err(|error| error.to_string())?;
    Ok(resource.entries.into_iter().filter_map(|entry| Some((entry.name, entry.value?))).collect())
}

fn group(asker: &Asker, name: &str) -> Result<Group, String> {
    let list = asker.consumer().fetch_group_list(Some(name), WAIT).map_err(|error| error.to_string())?;
    let Some(group) = list.groups().iter().find(|group| group.name() == name) else { return Ok(Group::default()) };
    let members = group.members().iter().map(|m| (m.client_id().to_owned(), m.client_host().to_owned()));
    Ok(Group { state: group.state().to_owned(), protocol: group.protocol().to_owned(), members: members.collect() })
}
