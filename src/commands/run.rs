//! `sakia run`: a member of the live consumer group.

use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;

use crate::cli::LayerArgs;
use crate::code::{Code, Failure};
use crate::commands::preflight::preflight;
use crate::config::{Config, LogFormat};
use crate::pipeline;
use crate::source::{Halt, Stop, Stopped};
use crate::telemetry::log::{self, Format};
use crate::telemetry::progress::Line;

pub(crate) const ABOUT: &str = "\
Store readings as a member of the consumer group.

Every process of one group takes a share of the partitions; start more of them to go faster. Readings wait in memory for \
up to bucket.flush_age and are written as few, large statements. What is stored is known to a ledger in MongoDB: killing, \
restarting or reading again neither loses nor doubles anything.";

const MORE: &str = "\
Configuration:
  Layers, each over the one before: compiled-in defaults, the file, SAKIA_... variables, flags.
  All problems are shown at once, before anything is started.
  --print-config shows what is in effect, `sakia reference` every key there is.

Stopping:
  SIGTERM or Ctrl-C: it stops polling, writes what it holds for at most flow.drain_timeout,
  commits, and leaves the group. A second one ends at once. What was not stored is read again.

Exit status:
  0  stopped as asked; with --until-caught-up, everything is stored
  1  it could not start or go on; with --until-caught-up, also if something is not stored
  2  wrong usage or configuration; nothing was started

Examples:
  sakia run --config sakia.toml
  sakia run --config sakia.toml --listen 0.0.0.0:9464 --log-format json
  sakia run --config sakia.toml --until-caught-up   store what is in the topics now, then end
  sakia run --config sakia.toml --set bucket.max_samples=1000 --print-config";

#[derive(Debug, Args)]
#[command(after_help = "More with --help.", after_long_help = MORE)]
pub struct RunArgs {
    /// Stop once everything that was in the topics at the start is stored
    #[arg(long)]
    until_caught_up: bool,
    #[command(flatten)]
    pub(crate) layer: LayerArgs,
}

pub fn run(config: Config, args: &RunArgs) -> Result<ExitCode, Failure> {
    let line = start_log(&config)?;
    preflight(&config, args.until_caught_up)?;
    let until_caught_up = args.until_caught_up;
    let stop = Arc::new(Stop::default());
    let stopped = pipeline::run(config, until_caught_up, stop, line.clone());
    line.clear();
    let stopped = stopped?;
    let status = report(&stopped, until_caught_up);
    if !stopped.is_closed {
        // Closing the client hangs when its brokers are gone; everything durable is committed, so leave.
        std::process::exit(i32::from(status));
    }
    Ok(ExitCode::from(status))
}

fn start_log(config: &Config) -> Result<Line, Failure> {
    let format = match config.telemetry.log_format {
        LogFormat::Text => Format::Text,
        LogFormat::Json => Format::Json,
    };
    let line = Line::new(format);
    log::init(format, Some(&config.telemetry.log_level), line.clone())?;
    Ok(line)
}

/// Says how it ended; 0 unless everything was wanted and not everything is stored: whoever waits for that goes on to
/// something that relies on it.
fn report(stopped: &Stopped, until_caught_up: bool) -> u8 {
    if stopped.n_unsettled > 0 {
        let n_records = stopped.n_unsettled;
        tracing::warn!(code = %Code::StoppedEarly, n_records, "not stored in time, will be read again");
    }
    for halt in &stopped.halts {
        let Halt { topic, partition, reason: Failure { code, message } } = halt;
        tracing::error!(%code, %topic, partition, reason = message, "partition not read");
    }
    tracing::info!("stopped");
    let is_complete = stopped.has_caught_up && stopped.n_unsettled == 0 && stopped.halts.is_empty();
    u8::from(until_caught_up && !is_complete)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn success_is_claimed_for_everything_or_for_a_stop_that_was_asked_for() {
        let complete = Stopped { has_caught_up: true, is_closed: true, ..Stopped::default() };
        let halt = Halt { topic: "t".into(), partition: 0, reason: Failure::new(Code::Failed, "") };
        for (stopped, status) in [
            (complete.clone(), 0),
            (Stopped { has_caught_up: false, ..complete.clone() }, 1),
            (Stopped { n_unsettled: 1, ..complete.clone() }, 1),
            (Stopped { halts: vec![halt], ..complete }, 1),
        ] {
            assert_eq!(report(&stopped, true), status, "{stopped:?}");
            assert_eq!(report(&stopped, false), 0, "{stopped:?}");
        }
    }
}
