//! The command line: flags to configuration layers, one command to run, one result to an exit status.

mod layer;
#[cfg(test)]
mod tests;
mod version;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::LazyLock;

use clap::{CommandFactory as _, Parser, Subcommand};
pub use layer::{FLAGS, LayerArgs};
use rdkafka::ClientConfig;
use rdkafka::error::KafkaError;
pub use version::COMMIT;

use crate::code::{Code, Failure};
use crate::commands::{check, completions, dead, explain, init, ledger, read, reference, run};
use crate::config::{Config, Loaded, Machine, Problems, Sources};

const EXAMPLES: &str = "\
Examples:
  sakia check --config sakia.toml                what is missing or will hurt, and what mends it
  sakia init --config sakia.toml --dry-run       what would be created in MongoDB
  sakia run --config sakia.toml                  store readings until it is stopped
  sakia read --config sakia.toml --last          the newest sample of each device
  sakia run --config sakia.toml --print-config   every value in effect, with its origin
  sakia run --help                               layers of the configuration, stopping, exit status
  sakia explain topic-recreated                  what an error is about, and what to do";

const ABOUT: &str = "Device readings from Kafka into MongoDB bucket documents, with exactly-once effect";

/// Wrong usage or configuration; nothing was started.
const MISUSE: u8 = 2;

#[derive(Debug, Parser)]
#[command(name = "sakia", version = version::SHORT, long_version = version::long(), about = ABOUT, after_help = EXAMPLES)]
#[command(max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    layer: LayerArgs,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Say what would make `run` fail or hurt later, and what mends it; writes nothing
    Check(check::CheckArgs),
    /// Create the collections, or put them right; safe to repeat
    Init(init::InitArgs),
    /// Store readings as a member of the consumer group
    #[command(long_about = run::ABOUT)]
    Run(run::RunArgs),
    /// Print samples of devices in order of time, or the newest of each
    Read(read::ReadArgs),
    /// Look at dead letters, and store their readings once the cause is mended
    Dead(dead::DeadArgs),
    /// Show which offsets are stored, and mend the ledger that says so
    Ledger(Box<ledger::LedgerArgs>),
    #[command(flatten)]
    Aside(Aside),
}

/// What works without a configuration.
#[derive(Clone, Debug, Subcommand)]
enum Aside {
    /// Say what an error or warning is about, and what to do
    Explain(explain::ExplainArgs),
    /// Print the reference of all configuration keys, as Markdown
    Reference,
    /// Print a script that completes the command line in a shell
    Completions(completions::CompletionsArgs),
}

impl Command {
    fn layer(&self) -> &LayerArgs {
        static NONE: LazyLock<LayerArgs> = LazyLock::new(LayerArgs::default);
        match self {
            Self::Run(args) => &args.layer,
            Self::Init(args) => &args.layer,
            Self::Read(args) => &args.layer,
            Self::Check(args) => &args.layer,
            Self::Ledger(args) => args.layer(),
            Self::Dead(args) => args.layer(),
            Self::Aside(_) => &NONE,
        }
    }
}

/// Where the configuration comes from, with the flags before and after the command's name; the latter win.
fn sources(before: &LayerArgs, after: &LayerArgs) -> Sources {
    let variable = || std::env::var_os("SAKIA_CONFIG").filter(|path| !path.is_empty()).map(PathBuf::from);
    Sources {
        file: after.config.clone().or_else(|| before.config.clone()).or_else(variable),
        env: std::env::vars_os().collect(),
        flags: [before.flags(), after.flags()].concat(),
        sets: [before.sets.as_slice(), after.sets.as_slice()].concat(),
        machine: Machine::here(),
        option_check: Some(librdkafka_takes),
    }
}

/// Asks librdkafka itself whether it knows an option and takes the value, so that a slip is reported with its line rather
/// than as a consumer that does not start.
fn librdkafka_takes(name: &str, value: &str) -> Result<(), String> {
    let config = ClientConfig::new().set(name, value).create_native_config();
    config.map(|_| ()).map_err(|error| match error {
        KafkaError::ClientConfig(_, description, _, _) => format!("librdkafka says: {description}"),
        other => other.to_string(),
    })
}

/// Runs the process's command line.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let after = cli.command.as_ref().map(|command| command.layer().clone()).unwrap_or_default();
    if let Some(Command::Aside(aside)) = cli.command {
        return finish(run_aside(&aside));
    }
    let is_print = cli.layer.print_config || after.print_config;
    if cli.command.is_none() && !is_print {
        Cli::command().print_help().ok();
        return ExitCode::from(MISUSE);
    }
    match Config::load(&sources(&cli.layer, &after)) {
        Err(problems) => refuse(&problems),
        Ok(loaded) if is_print => print(&loaded),
        Ok(loaded) => dispatch(cli.command, loaded),
    }
}

fn dispatch(command: Option<Command>, loaded: Loaded) -> ExitCode {
    finish(match command {
        Some(Command::Run(args)) => run::run(loaded.config, &args),
        Some(Command::Init(args)) => init::run(&loaded.config, &args),
        Some(Command::Check(args)) => check::run(&loaded, &args),
        Some(Command::Read(args)) => read::run(&loaded.config, &args),
        Some(Command::Ledger(args)) => ledger::run(&loaded.config, &args),
        Some(Command::Dead(args)) => dead::run(&loaded.config, &args),
        Some(Command::Aside(aside)) => run_aside(&aside),
        None => Ok(ExitCode::SUCCESS),
    })
}

fn run_aside(aside: &Aside) -> Result<ExitCode, Failure> {
    match aside {
        Aside::Explain(args) => explain::run(args),
        Aside::Reference => reference::run(),
        Aside::Completions(args) => completions::run(args, Cli::command()),
    }
}

fn finish(result: Result<ExitCode, Failure>) -> ExitCode {
    result.unwrap_or_else(|failure| {
        say(&failure.to_string());
        ExitCode::FAILURE
    })
}

/// One line a problem, so that each can be found and counted.
fn refuse(problems: &Problems) -> ExitCode {
    for problem in &problems.0 {
        say(&Failure::new(Code::Configuration, problem).to_string());
    }
    ExitCode::from(MISUSE)
}

fn print(loaded: &Loaded) -> ExitCode {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(loaded.print().as_bytes()).and_then(|()| out.flush());
    written.map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS)
}

/// To standard error; where that is closed there is nobody to tell.
fn say(text: &str) {
    writeln!(std::io::stderr(), "{text}").ok();
}
