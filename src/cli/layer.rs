//! The flags that every command takes: the highest layer of the configuration.

use std::path::PathBuf;

use clap::Args;

use crate::config::Flag;

/// The highest layer of the configuration. Taken before and after the command's name alike: as clap's global arguments,
/// `--set` before the name would be dropped without a word as soon as one stands after it.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Configuration")]
pub struct LayerArgs {
    #[arg(long, value_name = "PATH", help = "Configuration file; also SAKIA_CONFIG")]
    pub(super) config: Option<PathBuf>,
    #[arg(
        long = "set",
        value_name = "KEY=VALUE",
        help = "Set any key, such as bucket.max_samples=1000; may be repeated"
    )]
    pub(super) sets: Vec<String>,
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
    pub(super) print_config: bool,
}

impl LayerArgs {
    pub(super) fn flags(&self) -> Vec<Flag> {
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
