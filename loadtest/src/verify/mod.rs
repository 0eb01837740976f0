//! `loadtest verify`: reads topics and collections again and accounts for every reading.
//!
//! `truth` is what Kafka holds, `stored` what MongoDB holds, `check` compares them; `claims` compares the manifests
//! with the truth, so that a topic that lost records does not pass for the whole.

pub mod bucket;
pub mod check;
pub mod claims;
mod collections;
pub mod devices;
pub mod fold;
pub mod json;
pub mod names;
pub mod report;
pub mod stats;
pub mod stored;
mod topic;
pub mod truth;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use clap::Args;

use crate::clock::Stopwatch;
use crate::manifest::Folder;
use names::FieldNames;
pub use report::Report;
use stored::Stored;
use truth::Truth;

#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Kafka bootstrap servers
    #[arg(long, env = "SAKIA_KAFKA")]
    pub brokers: String,
    /// MongoDB connection string
    #[arg(long, env = "SAKIA_MONGO", hide_env_values = true)]
    pub mongo: String,
    #[arg(long, default_value = "sakia")]
    pub database: String,
    #[arg(long, default_value = "readings")]
    pub collection: String,
    /// Topic; may be given several times. All topics that the collection is filled from
    #[arg(long = "topic", required = true)]
    pub topics: Vec<String>,
    /// Folder of the manifests; those of a topic are in a folder of its name below
    #[arg(long, default_value = ".local/manifests")]
    pub manifest_dir: PathBuf,
    /// Take the topics as they are: for records that `produce` did not send
    #[arg(long)]
    pub no_manifests: bool,
    /// Samples a bucket may hold
    #[arg(long, default_value_t = 200)]
    pub max_samples: u32,
    /// Bytes of samples a bucket may hold; a single sample may be larger
    #[arg(long, default_value_t = 65_536)]
    pub target_bytes: u32,
    /// Length of a window
    #[arg(long, default_value_t = 86_400_000, value_parser = clap::value_parser!(i64).range(1..))]
    pub window_ms: i64,
    /// How far windows start before UTC's
    #[arg(long, default_value_t = 0, allow_hyphen_values = true)]
    pub window_offset_ms: i64,
    /// Field of a reading that belongs to the bucket's tags; may be given several times
    #[arg(long = "tag")]
    pub tags: Vec<String>,
    /// Field whose totals every bucket keeps; may be given several times. Totals that are there are always checked
    #[arg(long = "stats")]
    pub stats: Vec<String>,
    /// A stored name that is not the default, as in time=t; may be given several times
    #[arg(long = "name", value_parser = parse_name)]
    pub names: Vec<(String, String)>,
}

impl Options {
    /// Name of a collection that belongs to the buckets'.
    fn beside(&self, what: &str) -> String {
        format!("{}_{what}", self.collection)
    }

    fn windows(&self) -> Windows {
        Windows { length_ms: self.window_ms, offset_ms: self.window_offset_ms }
    }
}

/// Fixed spans of event time.
#[derive(Clone, Copy, Debug)]
pub struct Windows {
    pub length_ms: i64,
    pub offset_ms: i64,
}

impl Windows {
    pub fn start(self, at_ms: i64) -> i64 {
        at_ms - (at_ms + self.offset_ms).rem_euclid(self.length_ms)
    }
}

/// What a bucket must be like.
#[derive(Clone, Debug)]
pub struct Rules {
    pub names: FieldNames,
    pub windows: Windows,
    pub max_samples: u32,
    pub target_bytes: u32,
    pub stats: Vec<String>,
}

pub async fn run(options: Options) -> Result<Report> {
    let watch = Stopwatch::start();
    let options = Arc::new(options);
    let mut stored = Stored::new(Rules {
        names: FieldNames::renamed(&options.names).map_err(anyhow::Error::msg)?,
        windows: options.windows(),
        max_samples: options.max_samples,
        target_bytes: options.target_bytes,
        stats: options.stats.clone(),
    });
    let kafka = Arc::clone(&options);
    let truth = tokio::task::spawn_blocking(move || read_topics(&kafka));
    collections::read(&options, &mut stored).await?;
    let truth = truth.await.context("the thread that reads Kafka died")??;

    let mut findings = std::mem::take(&mut stored.findings);
    if !options.no_manifests {
        for topic in &options.topics {
            let manifests = Folder::new(&options.manifest_dir, topic).load()?;
            claims::check(topic, &manifests, &truth, &mut findings);
        }
    }
    let mut report = check::check(truth, stored, findings);
    report.topics.clone_from(&options.topics);
    report.seconds = watch.elapsed().as_secs_f64();
    Ok(report)
}

fn read_topics(options: &Options) -> Result<Truth> {
    let mut truth = Truth::new(options.windows(), options.tags.clone());
    for (i, name) in options.topics.iter().enumerate() {
        ensure!(!options.topics[..i].contains(name), "--topic {name} is given twice");
        topic::read(&options.brokers, name, &mut truth)?;
    }
    Ok(truth)
}

fn parse_name(text: &str) -> Result<(String, String), String> {
    let (default, stored) = text.split_once('=').ok_or("not of the form default=stored")?;
    Ok((default.to_owned(), stored.to_owned()))
}
