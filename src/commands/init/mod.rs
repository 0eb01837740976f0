//! `sakia init`: creates the collections, indexes and the ledger's header, or says what is there already. Safe to repeat,
//! and to run from several places at once.

mod roles;
pub(super) mod steps;
pub(super) mod survey;
mod validator;
mod view;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use crate::cli::LayerArgs;
use crate::code::{Code, Failure};
use crate::commands::reach::{ReachError, reach_primary, runtime};
use crate::commands::server::{CommandError, Server};
use crate::commands::stdout::written;
use crate::config::Config;
use steps::{Needed, State, Step};

const EXAMPLES: &str = "\
Creates the collections of readings, ledger and dead letters, their indexes, and the ledger's header. \
It says of each whether it exists, was created or was changed. What cannot be used is refused with the reason, \
and nothing is changed then.

Examples:
  sakia init --config sakia.toml --dry-run   print the commands and run none
  sakia init --config sakia.toml             create what is missing
  sakia init --config sakia.toml --json      the same, reported for a script";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct InitArgs {
    /// Print the commands that are needed, one JSON document a line, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Print the commands that make roles and logins with the least privileges, for mongosh, and ask the server nothing
    #[arg(long, conflicts_with = "dry_run")]
    print_roles: bool,
    /// Report as one JSON document
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub(crate) layer: LayerArgs,
}

#[derive(Debug, thiserror::Error)]
pub enum InitError {
    #[error("{0}")]
    Unreached(#[from] ReachError),
    #[error("{}", .0.join("\n"))]
    Refused(Vec<String>),
    #[error("{what}: {reason}")]
    Command { what: String, reason: CommandError },
    #[error("others keep creating and dropping {namespace}; run init again once they are done")]
    Unsettled { namespace: String },
}

/// Attempts, where another process creates the same things at the same time.
const MAX_ATTEMPTS: u32 = 5;

/// What there was and what was done.
struct Done {
    steps: Vec<(Step, State)>,
    notices: Vec<String>,
}

impl From<InitError> for Failure {
    fn from(error: InitError) -> Self {
        let code = match error {
            InitError::Unreached(error) => return error.into(),
            InitError::Command { .. } => Code::MongoRefused,
            InitError::Refused(_) => Code::CollectionUnfit,
            InitError::Unsettled { .. } => Code::Failed,
        };
        Self::new(code, error)
    }
}

pub fn run(config: &Config, args: &InitArgs) -> Result<ExitCode, Failure> {
    if args.print_roles {
        written(roles::print(&mut io::stdout().lock(), config, args.json))?;
        return Ok(ExitCode::SUCCESS);
    }
    let done = runtime()?.block_on(init(config, args.dry_run))?;
    let (out, notes) = (&mut io::stdout().lock(), &mut io::stderr().lock());
    written(match (args.json, args.dry_run) {
        (true, _) => report_json(out, config, args.dry_run, &done),
        (false, true) => report_commands(out, notes, config, &done),
        (false, false) => report_text(out, &done),
    })?;
    Ok(ExitCode::SUCCESS)
}

async fn init(config: &Config, dry_run: bool) -> Result<Done, InitError> {
    let (server, hello) = reach_primary(&config.mongo, "init").await?;
    let topology = steps::check_topology(&hello).map_err(ReachError::Unsuitable)?;
    // What earlier attempts created counts as created, not as found.
    let mut created = Vec::new();
    for _ in 0..MAX_ATTEMPTS {
        let survey = survey::survey(&server, config, topology).await?;
        let needed = steps::steps(config, &survey).map_err(InitError::Refused)?;
        if let Some(done) = apply(&server, needed, dry_run, &mut created).await? {
            return Ok(done);
        }
    }
    Err(InitError::Unsettled { namespace: server.namespace(&config.mongo.collection) })
}

/// Does what is needed. `None`: somebody else was at it too, look again.
async fn apply(
    server: &Server,
    needed: Needed,
    dry_run: bool,
    created: &mut Vec<String>,
) -> Result<Option<Done>, InitError> {
    let mut steps = Vec::new();
    for step in needed.steps {
        let mut state = if created.contains(&step.what) { State::Created } else { step.state };
        if let (false, Some(command)) = (dry_run, &step.command) {
            match server.run(command.clone()).await {
                Ok(_) => {
                    state = state.once_done();
                    created.extend((state == State::Created).then(|| step.what.clone()));
                }
                Err(error) if error.is_race() => return Ok(None),
                Err(reason) => return Err(InitError::Command { what: step.what, reason }),
            }
        }
        steps.push((step, state));
    }
    Ok(Some(Done { steps, notices: needed.notices }))
}

fn report_text(out: &mut impl Write, done: &Done) -> io::Result<()> {
    for (step, state) in &done.steps {
        writeln!(out, "{:<8} {}", state.name(), step.what)?;
    }
    done.notices.iter().try_for_each(|notice| writeln!(out, "note     {notice}"))
}

/// The commands alone on standard output, so that they can be kept and run elsewhere; everything else beside it.
fn report_commands(out: &mut impl Write, notes: &mut impl Write, config: &Config, done: &Done) -> io::Result<()> {
    let database = &config.mongo.database;
    writeln!(notes, "nothing is written; each line is a command for db.getSiblingDB({database:?}).runCommand(...)")?;
    for (step, state) in &done.steps {
        writeln!(notes, "{:<8} {}", state.name(), step.what)?;
        if let Some(command) = &step.command {
            writeln!(out, "{}", json!(command))?;
        }
    }
    done.notices.iter().try_for_each(|notice| writeln!(notes, "note     {notice}"))
}

fn report_json(out: &mut impl Write, config: &Config, dry_run: bool, done: &Done) -> io::Result<()> {
    let steps = done.steps.iter().map(|(step, state)| {
        let mut entry = json!({ "what": step.what, "state": state.name() });
        if let Some(command) = &step.command {
            entry["command"] = json!(command);
        }
        entry
    });
    let report = json!({
        "database": config.mongo.database,
        "collection": config.mongo.collection,
        "dry_run": dry_run,
        "steps": steps.collect::<Vec<_>>(),
        "notices": done.notices,
    });
    writeln!(out, "{report}")
}

#[cfg(test)]
mod tests;
