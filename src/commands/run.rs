//! `sakia run`: a member of the live consumer group.

use std::process::ExitCode;

use crate::config::Config;

#[derive(Clone, Copy, Debug)]
pub struct RunOptions {
    /// Stop once everything that was in the topics at the start is stored.
    pub until_caught_up: bool,
}

pub fn run(config: Config, options: RunOptions) -> anyhow::Result<ExitCode> {
    let RunOptions { until_caught_up } = options;
    anyhow::bail!(
        "this build has no pipeline: cannot read {:?} (until_caught_up: {until_caught_up})",
        config.kafka.topics
    )
}
