//! The command line: flags to configuration layers, one command to run, one result to an exit status.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory as _, Parser, Subcommand};
use rdkafka::ClientConfig;
use rdkafka::error::KafkaError;

use crate::commands::{init, run};
use crate::config::{Config, Flag, Loaded, Machine, Problems, Sources};

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
    Run(RunArgs),
    /// Create or check the collections; safe to repeat
    Init(InitArgs),
}

#[derive(Debug, Args)]
struct RunArgs {
    /// Stop once everything that was in the topics at the start is stored
    #[arg(long)]
    until_caught_up: bool,
    #[command(flatten)]
    layer: LayerArgs,
}

#[derive(Debug, Args)]
struct InitArgs {
    /// Print the commands that are needed, one JSON document a line, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Report as one JSON document
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    layer: LayerArgs,
}

/// The highest layer of the configuration. Taken before and after the command's name alike: as clap's global arguments,
/// `--set` before the name would be dropped without a word as soon as one stands after it.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Configuration")]
struct LayerArgs {
    #[arg(long, value_name = "PATH", help = "Configuration file; also SAKIA_CONFIG")]
    config: Option<PathBuf>,
    #[arg(
        long = "set",
        value_name = "KEY=VALUE",
        help = "Set any key, such as bucket.max_samples=1000; may be repeated"
    )]
    sets: Vec<String>,
    /// kafka.brokers
    #[arg(long, value_name = "HOST:PORT")]
    brokers: Option<String>,
    /// kafka.group
    #[arg(long)]
    group: Option<String>,
    #[arg(
        long,
        value_name = "URI",
        help = "mongo.uri; passwords belong in SAKIA_MONGO, command lines are seen by others"
    )]
    mongo_uri: Option<String>,
    /// mongo.database
    #[arg(long)]
    database: Option<String>,
    /// mongo.collection
    #[arg(long)]
    collection: Option<String>,
    /// telemetry.listen
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    #[arg(long, value_name = "FORMAT", help = "telemetry.log_format: text or json")]
    log_format: Option<String>,
    #[arg(long, value_name = "LEVEL", help = "telemetry.log_level")]
    log_level: Option<String>,
    /// Print the effective configuration, each value with its origin, and exit
    #[arg(long)]
    print_config: bool,
}

impl LayerArgs {
    fn flags(&self) -> Vec<Flag> {
        let flags = [
            ("--brokers", "kafka.brokers", &self.brokers),
            ("--group", "kafka.group", &self.group),
            ("--mongo-uri", "mongo.uri", &self.mongo_uri),
            ("--database", "mongo.database", &self.database),
            ("--collection", "mongo.collection", &self.collection),
            ("--listen", "telemetry.listen", &self.listen),
            ("--log-format", "telemetry.log_format", &self.log_format),
            ("--log-level", "telemetry.log_level", &self.log_level),
        ];
        let given = flags.into_iter().filter_map(|(name, key, value)| Some((name, key, value.clone()?)));
        given.map(|(name, key, value)| Flag { name, key, value }).collect()
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
    let after = match &cli.command {
        Some(Command::Run(args)) => args.layer.clone(),
        Some(Command::Init(args)) => args.layer.clone(),
        None => LayerArgs::default(),
    };
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
        Some(Command::Run(args)) => run::run(config, run::RunOptions { until_caught_up: args.until_caught_up }),
        Some(Command::Init(args)) => {
            init::run(&config, init::InitOptions { dry_run: args.dry_run, json: args.json }).map_err(Into::into)
        }
        None => Ok(ExitCode::SUCCESS),
    };
    result.unwrap_or_else(|error| {
        say(&format!("sakia: {error:#}"));
        ExitCode::FAILURE
    })
}

fn refuse(problems: &Problems) -> ExitCode {
    say(&problems.to_string());
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
        let after = match cli.command {
            Some(Command::Run(args)) => args.layer,
            Some(Command::Init(args)) => args.layer,
            None => LayerArgs::default(),
        };
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
