//! The command line: flags to configuration layers, one command to run, one result to an exit status.

mod layer;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
pub use layer::LayerArgs;
use rdkafka::ClientConfig;
use rdkafka::error::KafkaError;

use crate::code::{Code, Failure};
use crate::commands::{init, run};
use crate::config::{Config, Loaded, Machine, Problems, Sources};

const ABOUT: &str = "Device readings from Kafka into MongoDB bucket documents, with exactly-once effect";

/// Wrong usage or configuration; nothing was started.
const MISUSE: u8 = 2;

#[derive(Debug, Parser)]
#[command(name = "sakia", version, about = ABOUT, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    layer: LayerArgs,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Store readings as a member of the consumer group
    Run(run::RunArgs),
    /// Create or check the collections; safe to repeat
    Init(init::InitArgs),
}

impl Command {
    fn layer(&self) -> &LayerArgs {
        match self {
            Self::Run(args) => &args.layer,
            Self::Init(args) => &args.layer,
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
    let is_print = cli.layer.print_config || after.print_config;
    if cli.command.is_none() && !is_print {
        Cli::command().print_help().ok();
        return ExitCode::from(MISUSE);
    }
    match Config::load(&sources(&cli.layer, &after)) {
        Err(problems) => refuse(&problems),
        Ok(loaded) if is_print => print(&loaded),
        Ok(loaded) => dispatch(cli.command, loaded.config),
    }
}

fn dispatch(command: Option<Command>, config: Config) -> ExitCode {
    let result = match command {
        Some(Command::Run(args)) => run::run(config, &args),
        Some(Command::Init(args)) => init::run(&config, &args),
        None => Ok(ExitCode::SUCCESS),
    };
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

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> (LayerArgs, LayerArgs) {
        let cli = Cli::try_parse_from(line.split(' ')).unwrap();
        let after = cli.command.as_ref().map(|command| command.layer().clone()).unwrap_or_default();
        (cli.layer, after)
    }

    #[test]
    fn definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn flags_count_before_and_after_the_command() {
        let (before, after) = parse("sakia --config a --set a.b=1 --group g run --set a.c=2 --group h --config b");
        let sources = sources(&before, &after);
        assert_eq!(sources.sets, ["a.b=1", "a.c=2"]);
        assert_eq!(sources.file, Some("b".into()));
        let groups: Vec<_> = sources.flags.iter().map(|flag| flag.value.as_str()).collect();
        assert_eq!(groups, ["g", "h"]);
    }

    #[test]
    fn librdkafka_knows_its_options() {
        assert_eq!(librdkafka_takes("security.protocol", "sasl_ssl"), Ok(()));
        assert!(librdkafka_takes("client.idd", "x").unwrap_err().contains("client.idd"));
        assert!(librdkafka_takes("fetch.wait.max.ms", "soon").is_err());
    }
}
