//! `sakia dead`: looks at dead letters, and stores their readings once the cause is mended.

mod count;
mod filter;
mod letter;
mod list;
mod pretty;
mod replay;
mod show;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use mongodb::bson::Document;
use mongodb::options::ReadConcern;
use mongodb::{Collection, Cursor};

use crate::cli::LayerArgs;
use crate::code::{Code, Failure};
use crate::commands::reach::{reach, runtime};
use crate::commands::server::{CommandError, Server};
use crate::config::Config;

const EXAMPLES: &str = "\
Examples:
  sakia dead count
  sakia dead list --reason missing_device --from 2026-11-29 --to 2026-11-30
  sakia dead show readings/3/1234
  sakia dead replay --dry-run --topic readings
  sakia dead replay --topic readings --partition 3 --offsets 1000..2000";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct DeadArgs {
    #[command(subcommand)]
    command: DeadCommand,
}

impl DeadArgs {
    pub(crate) fn layer(&self) -> &LayerArgs {
        match &self.command {
            DeadCommand::List(args) => &args.layer,
            DeadCommand::Count(args) => &args.layer,
            DeadCommand::Show(args) => &args.layer,
            DeadCommand::Replay(args) => &args.layer,
        }
    }
}

#[derive(Debug, Subcommand)]
enum DeadCommand {
    /// One line a letter, without the values
    List(list::ListArgs),
    /// How many there are, by topic, partition, reason and state
    Count(count::CountArgs),
    /// Everything about the letters of one record, with the place in the value that the reason names
    Show(show::ShowArgs),
    /// Decode letters again under the configuration as it is now, and store their readings
    Replay(replay::ReplayArgs),
}

/// The collection of dead letters, as the majority has it.
#[derive(Clone, Debug)]
struct Letters(Collection<Document>);

pub fn run(config: &Config, args: &DeadArgs) -> Result<ExitCode, Failure> {
    runtime()?.block_on(async {
        let (server, letters) = open(config).await?;
        match &args.command {
            DeadCommand::List(args) => list::run(&letters, args).await,
            DeadCommand::Count(args) => count::run(&letters, args).await,
            DeadCommand::Show(args) => show::run(&letters, args).await,
            DeadCommand::Replay(args) => replay::run(config, server.database(), &letters, args).await,
        }
    })
}

async fn open(config: &Config) -> Result<(Server, Letters), Failure> {
    let (server, _) = reach(&config.mongo, "dead").await?;
    let letters = Letters(server.database().collection(&format!("{}_dead", config.mongo.collection)));
    Ok((server, letters))
}

impl Letters {
    /// In the order of partition and position.
    async fn find(&self, filter: Document, projection: Document) -> Result<Cursor<Document>, Failure> {
        let find = self.0.find(filter).sort(letter::order()).projection(projection).allow_disk_use(true);
        find.read_concern(ReadConcern::majority()).await.map_err(|error| self.failed(error))
    }

    /// All topics that letters of `filter` are of.
    async fn topics(&self, filter: Document) -> Result<Vec<String>, Failure> {
        let topics = self.0.distinct("topic", filter).read_concern(ReadConcern::majority()).await;
        let topics = topics.map_err(|error| self.failed(error))?;
        Ok(topics.iter().filter_map(|topic| topic.as_str().map(str::to_owned)).collect())
    }

    async fn next(&self, cursor: &mut Cursor<Document>) -> Result<Option<Document>, Failure> {
        if !cursor.advance().await.map_err(|error| self.failed(error))? {
            return Ok(None);
        }
        cursor.deserialize_current().map(Some).map_err(|error| self.failed(error))
    }

    fn failed(&self, error: mongodb::error::Error) -> Failure {
        let namespace = self.0.namespace();
        let target = ("find".to_owned(), Some(namespace.coll));
        let error = CommandError::from(error).explained(&target, &namespace.db);
        let code = match error {
            CommandError::Refused { .. } => Code::MongoRefused,
            _ => Code::MongoUnreachable,
        };
        Failure::new(code, format_args!("{} cannot be read: {error}", self.0.namespace()))
    }
}
