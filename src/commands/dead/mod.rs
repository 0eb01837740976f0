//! `sakia dead`: looks at dead letters, and stores their readings once the cause is mended.

mod count;
mod filter;
mod letter;
mod list;
mod pretty;
mod replay;
mod show;

use std::io;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use mongodb::bson::Document;
use mongodb::options::ReadConcern;
use mongodb::{Collection, Cursor};

use crate::cli::LayerArgs;
use crate::code::{Code, Failure};
use crate::commands::server::{CommandError, Server};
use crate::config::{Config, redact_uri};

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
    // Of one thread: those of a larger one may panic in the driver's timers while it is taken down.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| Failure::new(Code::Failed, format_args!("cannot start a runtime: {error}")))?;
    runtime.block_on(async {
        let (server, letters) = open(config).await?;
        match &args.command {
            DeadCommand::List(args) => list::run(&letters, args).await,
            DeadCommand::Count(args) => count::run(&letters, args).await,
            DeadCommand::Show(args) => show::run(&letters, args).await,
            DeadCommand::Replay(args) => replay::run(config, server.db(), &letters, args).await,
        }
    })
}

async fn open(config: &Config) -> Result<(Server, Letters), Failure> {
    let uri = redact_uri(&config.mongo.uri.0);
    let server = Server::connect(&config.mongo, "dead").await;
    let server =
        server.map_err(|error| Failure::new(Code::Failed, format_args!("mongo.uri {uri} cannot be used: {error}")))?;
    server.hello().await.map_err(|reason| {
        let advice = "check that it runs, and the address and login in mongo.uri";
        Failure::new(Code::MongoUnreachable, format_args!("the server at {uri} cannot be asked: {reason}; {advice}"))
    })?;
    let letters = Letters(server.db().collection(&format!("{}_dead", config.mongo.collection)));
    Ok((server, letters))
}

impl Letters {
    /// In the order of partition and position.
    async fn find(&self, filter: Document, projection: Document) -> Result<Cursor<Document>, Failure> {
        let find = self.0.find(filter).sort(letter::order()).projection(projection).allow_disk_use(true);
        find.read_concern(ReadConcern::majority()).await.map_err(|error| self.failed(error))
    }

    async fn next(&self, cursor: &mut Cursor<Document>) -> Result<Option<Document>, Failure> {
        if !cursor.advance().await.map_err(|error| self.failed(error))? {
            return Ok(None);
        }
        cursor.deserialize_current().map(Some).map_err(|error| self.failed(error))
    }

    fn failed(&self, error: mongodb::error::Error) -> Failure {
        let error = CommandError::from(error);
        let code = match error {
            CommandError::Refused { .. } => Code::MongoRefused,
            _ => Code::MongoUnreachable,
        };
        Failure::new(code, format_args!("{} cannot be read: {error}", self.0.namespace()))
    }
}

/// The report cannot be written. A reader that has seen enough, as `head` does, is no failure.
fn unwritten(written: io::Result<()>) -> Result<ExitCode, Failure> {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new(Code::Failed, format_args!("cannot write to standard output: {error}")))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}
