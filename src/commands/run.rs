//! `sakia run`: a member of the live consumer group.

use std::process::ExitCode;
use std::sync::Arc;

use crate::config::{Config, LogFormat};
use crate::pipeline;
use crate::source::{Stop, Stopped};
use crate::telemetry::log::{self, Format};
use crate::telemetry::progress::Line;

#[derive(Clone, Copy, Debug)]
pub struct RunOptions {
    /// Stop once everything that was in the topics at the start is stored.
    pub until_caught_up: bool,
}

pub fn run(config: Config, options: RunOptions) -> anyhow::Result<ExitCode> {
    let format = match config.telemetry.log_format {
        LogFormat::Text => Format::Text,
        LogFormat::Json => Format::Json,
    };
    let line = Line::new(format);
    log::init(format, Some(&config.telemetry.log_level), line.clone())?;
    let stop = Arc::new(Stop::default());
    let stopped = pipeline::run(config, options.until_caught_up, stop, line.clone());
    line.clear();
    let stopped = stopped?;
    let status = report(&stopped, options);
    if !stopped.is_closed {
        // Closing the client hangs when its brokers are gone; everything durable is committed, so leave.
        std::process::exit(i32::from(status));
    }
    Ok(ExitCode::from(status))
}

/// Says how it ended; 0 unless a partition could not be read to its end although that was wanted.
fn report(stopped: &Stopped, options: RunOptions) -> u8 {
    if stopped.n_unsettled > 0 {
        tracing::warn!(records = stopped.n_unsettled, "stopped before everything was stored; these are read again");
    }
    for halt in &stopped.halts {
        tracing::error!(topic = %halt.topic, partition = halt.partition, reason = halt.reason, "partition not read");
    }
    tracing::info!("stopped");
    u8::from(options.until_caught_up && !stopped.halts.is_empty())
}
