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

/// Flags that stand for a key.
pub const FLAGS: [(&str, &str); 8] = [
    ("--brokers", "kafka.brokers"),
    ("--group", "kafka.group"),
    ("--mongo-uri", "mongo.uri"),
    ("--database", "mongo.database"),
    ("--collection", "mongo.collection"),
    ("--listen", "telemetry.listen"),
    ("--log-format", "telemetry.log_format"),
    ("--log-level", "telemetry.log_level"),
];

impl LayerArgs {
    pub(super) fn flags(&self) -> Vec<Flag> {
        let values = [
            &self.brokers,
            &self.group,
            &self.mongo_uri,
            &self.database,
            &self.collection,
            &self.listen,
            &self.log_format,
            &self.log_level,
        ];
        let given = FLAGS.into_iter().zip(values).filter_map(|((name, key), value)| Some((name, key, value.clone()?)));
        given.map(|(name, key, value)| Flag { name, key, value }).collect()
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::super::Cli;
    use super::*;

    /// The order of two lists must agree, or a flag would set another's key.
    #[test]
    fn each_flag_sets_its_own_key() {
        for (name, key) in FLAGS {
            let cli = Cli::command().get_matches_from(["sakia", name, "typed"]);
            let layer = <LayerArgs as clap::FromArgMatches>::from_arg_matches(&cli).unwrap();
            let flags: Vec<_> = layer.flags().into_iter().map(|flag| (flag.name, flag.key, flag.value)).collect();
            assert_eq!(flags, [(name, key, "typed".to_owned())]);
        }
    }
}
