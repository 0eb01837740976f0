//! `sakia ledger`: shows which offsets of which partition are stored, and the few changes that people may make to that:
//! `skip`, `incarnation`, `rebuild`. Each of these shows what it will do, and asks.
//!
//! What to do is decided by pure functions beside the coverage rule (`sink/ledger/coverage`); here it is asked, shown,
//! confirmed and sent.

mod broker;
mod confirm;
mod contract;
mod incarnation;
mod rebuild;
mod show;
mod skip;
mod survey;
mod timeline;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use tokio::runtime::Runtime;

use crate::cli::LayerArgs;
use crate::code::{Code, Failure};
use crate::commands::reach::{reach, runtime};
use crate::commands::server::Server;
use crate::config::Config;
use crate::sink::ledger::Ledger;

const EXAMPLES: &str = "\
Examples:
  sakia ledger                                   what is stored of every partition
  sakia ledger --topic readings --json           the same of one topic, for programs
  sakia ledger contract 0f3a                     the text of a contract, by the start of its fingerprint
  sakia ledger skip readings/3 --to latest       leave out what is not read yet
  sakia ledger incarnation readings              the topic was deleted and created again
  sakia ledger rebuild --dry-run                 the ledger was lost: what the buckets tell of it";

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, after_help = EXAMPLES)]
pub struct LedgerArgs {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    show: show::ShowArgs,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show streams, coverage, holes and reservations; what `sakia ledger` alone does
    Show(show::ShowArgs),
    /// Print the contract that a stream is written under
    Contract(contract::ContractArgs),
    /// Leave records out: go on at a later offset, and keep the hole visible
    Skip(skip::SkipArgs),
    /// Accept that a topic was deleted and created again
    Incarnation(incarnation::IncarnationArgs),
    /// Make a lost ledger again from the buckets and dead letters
    Rebuild(rebuild::RebuildArgs),
}

impl LedgerArgs {
    pub(crate) fn layer(&self) -> &LayerArgs {
        match &self.action {
            None => &self.show.layer,
            Some(Action::Show(args)) => &args.layer,
            Some(Action::Contract(args)) => &args.layer,
            Some(Action::Skip(args)) => &args.layer,
            Some(Action::Incarnation(args)) => &args.layer,
            Some(Action::Rebuild(args)) => &args.layer,
        }
    }
}

pub fn run(config: &Config, args: &LedgerArgs) -> Result<ExitCode, Failure> {
    let access = Access::start(config)?;
    match &args.action {
        None => show::run(&access, &args.show),
        Some(Action::Show(args)) => show::run(&access, args),
        Some(Action::Contract(args)) => contract::run(&access, args),
        Some(Action::Skip(args)) => skip::run(&access, args),
        Some(Action::Incarnation(args)) => incarnation::run(&access, args),
        Some(Action::Rebuild(args)) => rebuild::run(&access, args),
    }
}

/// What all of them need.
struct Access<'a> {
    config: &'a Config,
    runtime: Runtime,
    server: Server,
}

impl<'a> Access<'a> {
    fn start(config: &'a Config) -> Result<Self, Failure> {
        let runtime = runtime()?;
        let (server, _) = runtime.block_on(reach(&config.mongo, "ledger"))?;
        Ok(Self { config, runtime, server })
    }

    /// The ledger as seen from a Kafka cluster; to look at it, any will do.
    fn ledger(&self, cluster: &str) -> Ledger {
        Ledger::unopened(self.server.database().clone(), self.config, cluster.to_owned())
    }
}

fn failed(message: impl std::fmt::Display) -> Failure {
    Failure::new(Code::Failed, message)
}

fn refused(message: impl std::fmt::Display) -> Failure {
    Failure::new(Code::LedgerRefused, message)
}
