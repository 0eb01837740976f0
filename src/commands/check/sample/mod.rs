//! Runs the decoder over records of a file or of a topic, and shows what would be stored of them, or why not.

mod excerpt;
mod input;
mod shown;

use std::io::{self, Read, Write};
use std::path::Path;
use std::time::Duration;

use self::shown::{Shown, Sums};
use super::{CheckArgs, kafka};
use crate::clock::wall_ms;
use crate::code::{Code, Failure};
use crate::commands::stdout::written;
use crate::config::{Config, DecoderTable};
use crate::decode::{Decoder, Scratch};
use crate::record::{Headers, Record};
use crate::source::asking::Asker;

/// A file of records is read whole.
const MAX_FILE_BYTES: u64 = 64 << 20;
/// How long brokers may take to answer.
const WAIT: Duration = Duration::from_secs(10);

/// The decoder of one topic, with what its readings are shown by.
struct Tool<'a> {
    topic: &'a str,
    table: &'a DecoderTable,
    decoder: Decoder,
    config: &'a Config,
}

/// Whether every record was taken or skipped.
pub(super) fn run(config: &Config, args: &CheckArgs) -> Result<bool, Failure> {
    let tool = Tool::of(config, args.topic.as_deref())?;
    let shown = match &args.sample {
        Some(path) => tool.file(path)?,
        None => tool.newest(args.n, args.first)?,
    };
    let out = &mut io::stdout().lock();
    written(if args.json { writeln!(out, "{}", shown::to_report(&shown)) } else { shown::write_text(out, &shown) })?;
    Ok(Sums::of(&shown).faults == 0)
}

fn failed(message: impl std::fmt::Display) -> Failure {
    Failure::new(Code::Failed, message)
}

impl<'a> Tool<'a> {
    fn of(config: &'a Config, topic: Option<&'a str>) -> Result<Self, Failure> {
        let choice = config.kafka.topics.join(", ");
        let (topic, table) = match (topic, config.decoders.as_slice()) {
            (Some(topic), _) => {
                let routed = config.decoder_for(topic);
                let unrouted = |why| Failure::new(Code::TopicWithoutDecoder, format_args!("{why}; there are {choice}"));
                (topic, routed.map_err(unrouted)?)
            }
            (None, [only]) => (only.topics[0].as_str(), only),
            (None, _) => {
                return Err(failed(format_args!("several decoders are configured; choose by --topic: {choice}")));
            }
        };
        let decoder = Decoder::new(&config.contract_of(table)).map_err(failed)?;
        Ok(Self { topic, table, decoder, config })
    }

    fn show(&self, origin: String, record: &Record<'_>, scratch: &mut Scratch) -> Shown {
        shown::show(origin, record, &self.decoder, self.table, self.config.bucket.window, scratch)
    }

    /// Records as if they arrived now, which is what their times are judged against.
    fn file(&self, path: &Path) -> Result<Vec<Shown>, Failure> {
        let bytes = read(path).map_err(|error| failed(format_args!("{} cannot be read: {error}", path.display())))?;
        let (now, mut scratch) = (wall_ms(), Scratch::default());
        let pieces = input::pieces(&bytes);
        if pieces.is_empty() {
            return Err(failed(format_args!("{} holds no record: write one JSON value a line", path.display())));
        }
        let show = |(offset, piece): (i64, input::Piece<'_>)| {
            let record = Record {
                topic: self.topic,
                partition: 0,
                offset,
                timestamp: Some(now),
                key: None,
                value: Some(piece.bytes),
                headers: Headers::default(),
            };
            self.show(format!("line {}", piece.line), &record, &mut scratch)
        };
        Ok((0..).zip(pieces).map(show).collect())
    }

    fn newest(&self, n: usize, first: bool) -> Result<Vec<Shown>, Failure> {
        let unreachable = |error| Failure::new(Code::KafkaUnreachable, error);
        let asker = Asker::new(&self.config.kafka).map_err(unreachable)?;
        let topics = [self.topic.to_owned()];
        let metadata = asker.metadata_of(&topics, WAIT, kafka::TOPIC_PATIENCE).map_err(unreachable)?;
        let Some(found) = metadata.topics().iter().find(|topic| topic.name() == self.topic) else {
            return Err(kafka::topic_missing(self.topic, &kafka::names(&metadata)));
        };
        let partitions: Vec<_> = found.partitions().iter().map(rdkafka::metadata::MetadataPartition::id).collect();
        let sampled = asker.sample(self.topic, &partitions, n, first);
        let sampled = sampled.map_err(|error| failed(format_args!("topic {} cannot be read: {error}", self.topic)))?;
        let mut scratch = Scratch::default();
        let show = |sampled: &crate::source::sampling::Sampled| {
            let origin = format!("{}/{} offset {}", sampled.topic, sampled.partition, sampled.offset);
            self.show(origin, &sampled.record(), &mut scratch)
        };
        Ok(sampled.iter().map(show).collect())
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if path == Path::new("-") {
        io::stdin().take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    } else {
        std::fs::File::open(path)?.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    }
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(io::Error::other(
            "more than 64 MiB; take its first lines: head -1000 FILE | sakia check --sample -",
        ));
    }
    Ok(bytes)
}
