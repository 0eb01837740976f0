//! `sakia check`: everything that would make `sakia run` fail, or hurt later, in one table with what mends it. Writes
//! nothing, anywhere.
//!
//! `kafka`, `mongo` and `ledger` each collect facts in `look`, with whatever could not be found out as such, and judge
//! them in `judge`, which is pure. `sample` runs the decoder over records instead.

mod finding;
pub(super) mod kafka;
mod ledger;
pub(super) mod mongo;
mod sample;

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use self::finding::{Area, Finding, State};
use crate::cli::LayerArgs;
use crate::clock::wall_ms;
use crate::code::Failure;
use crate::commands::reach::{ReachError, runtime};
use crate::commands::stdout::written;
use crate::config::Loaded;

const EXAMPLES: &str = "\
Examples:
  sakia check --config sakia.toml                    is everything there that `sakia run` needs?
  sakia check --config sakia.toml --sample day.json  what would be stored of these records?
  sakia check --config sakia.toml --topic readings   what would be stored of the newest records of a topic?

The exit status is 1 if something fails: a check, or one of the sampled records.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CheckArgs {
    /// Decode the records of a file instead: one JSON value a line, or one document; `-` is standard input
    #[arg(long, value_name = "FILE")]
    sample: Option<PathBuf>,
    /// Decode records of this topic instead; with --sample, use this topic's decoder
    #[arg(long)]
    topic: Option<String>,
    /// Number of records of the topic
    #[arg(long, value_name = "NUMBER", default_value_t = 10, requires = "topic", conflicts_with = "sample")]
    n: usize,
    /// The topic's first records rather than its newest
    #[arg(long, requires = "topic", conflicts_with = "sample")]
    first: bool,
    /// Report as one JSON document
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub(crate) layer: LayerArgs,
}

/// How long brokers may take to answer. Somebody waits at a terminal.
const KAFKA_WAIT: Duration = Duration::from_secs(10);

pub fn run(loaded: &Loaded, args: &CheckArgs) -> Result<ExitCode, Failure> {
    let is_sound = if args.sample.is_some() || args.topic.is_some() {
        sample::run(&loaded.config, args)?
    } else {
        let findings = check(loaded)?;
        let out = &mut io::stdout().lock();
        written(if args.json {
            writeln!(out, "{}", finding::to_json(&findings))
        } else {
            finding::write_table(out, &findings)
        })?;
        finding::is_sound(&findings)
    };
    Ok(if is_sound { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn check(loaded: &Loaded) -> Result<Vec<Finding>, Failure> {
    let config = &loaded.config;
    let runtime = runtime()?;
    let now_ms = wall_ms();
    let mut findings = vec![Finding::new(Area::Configuration, State::Ok, "values", loaded.origins())];
    // The ledger before Kafka: where a topic ends must not be older than what is covered of it.
    let mongo = runtime.block_on(async {
        let (server, facts) = mongo::look(config).await?;
        Ok::<_, ReachError>((facts, ledger::look(&server, config).await))
    });
    let kafka = kafka::look(config, KAFKA_WAIT, now_ms);
    match &kafka {
        Ok(facts) => findings.extend(kafka::judge(config, facts)),
        Err(error) => findings.push(Finding::new(Area::Kafka, State::Fail, "brokers", error.to_string())),
    }
    match mongo {
        Err(error) => findings.push(Finding::new(Area::Mongo, State::Fail, "server", error.to_string())),
        Ok((facts, ledger)) => {
            findings.extend(mongo::judge(config, &facts, now_ms));
            match (ledger, &kafka) {
                (Err(error), _) => findings.push(
                    Finding::new(Area::Ledger, State::Fail, "entries", format!("cannot be read: {error}"))
                        .mend("see the rights above"),
                ),
                (Ok(ledger), kafka) => {
                    findings.extend(ledger::damaged(&ledger));
                    findings.extend(kafka.iter().flat_map(|kafka| ledger::judge(config, &ledger, kafka)));
                }
            }
        }
    }
    Ok(findings)
}
