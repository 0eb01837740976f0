//! Topics beside a world's own, and records that the broker forgets.

use std::time::Duration;

use rdkafka::admin::{AdminOptions, NewTopic, TopicReplication};
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use tokio::runtime::Runtime;

use super::world::{Sent, World, admin, client};

/// Longer than any of these steps takes on a busy machine.
const LIMIT: Duration = Duration::from_mins(1);

pub(super) fn create_topic(name: &str, n_partitions: i32) {
    let topic = NewTopic::new(name, n_partitions, TopicReplication::Fixed(1)).set("retention.ms", "-1");
    let created = Runtime::new().unwrap().block_on(admin().create_topics([&topic], &AdminOptions::new())).unwrap();
    for result in created {
        result.unwrap();
    }
}

/// How many partitions a topic has, as far as the broker has heard: of a topic created anew it may tell the old one's for
/// a while.
pub(super) fn n_partitions(topic: &str) -> usize {
    let asking: BaseConsumer = client().create().unwrap();
    let metadata = asking.fetch_metadata(Some(topic), LIMIT).unwrap();
    metadata.topics().iter().map(|found| found.partitions().len()).sum()
}

/// As `World::send`, to another topic.
pub(super) fn send(topic: &str, records: impl IntoIterator<Item = Sent>) {
    let producer: BaseProducer = client().set("linger.ms", "5").create().unwrap();
    for record in records {
        let value = record.value.unwrap_or_default();
        let message = BaseRecord::to(topic)
            .partition(record.partition)
            .key(record.key.as_str())
            .timestamp(record.timestamp)
            .payload(&value);
        producer.send(message).map_err(|(error, _)| error).unwrap();
        producer.poll(Duration::ZERO);
    }
    producer.flush(LIMIT).unwrap();
}

/// Lets the broker forget what lies before `offset`, as retention does.
pub(super) fn delete_records(topic: &str, partition: i32, offset: i64) {
    let mut upto = TopicPartitionList::new();
    upto.add_partition_offset(topic, partition, Offset::Offset(offset)).unwrap();
    let deleted = Runtime::new().unwrap().block_on(admin().delete_records(&upto, &AdminOptions::new())).unwrap();
    for element in deleted.elements() {
        element.error().unwrap();
    }
}

/// Makes the world read `topic` too, with the paths of `reading`.
pub(super) fn beside(world: &mut World, topic: &str) {
    world.settings(&format!(
        "[bucket]\nflush_age = \"300ms\"\n[[decoder]]\ntopics = [\"{topic}\"]\ndevice_path = \"deviceid\"\n\
         timestamp_path = \"ts\"\ntimestamp_format = \"unix_ms\"\n"
    ));
}
