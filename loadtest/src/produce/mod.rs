//! `loadtest produce`: sends a run's records, checks each delivery, writes the manifest.

mod delivery;
mod options;
mod pace;
mod send;
mod topic;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, Result};
use serde::Serialize;

use crate::clock;
use crate::manifest::{Folder, Manifest, OffsetRange};
use crate::reading::Maker;
pub use options::Options;

/// What a run did.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    pub topic: String,
    pub partitions: i32,
    pub run: u32,
    pub seed: u64,
    pub records: u64,
    /// Readings that can be stored.
    pub readings: u64,
    pub expected_dead: usize,
    pub value_bytes: u64,
    /// From the first record sent to the last one acknowledged.
    pub seconds: f64,
    /// Readings sent a second, poisoned ones too.
    pub readings_per_second: f64,
    pub offsets: Vec<OffsetRange>,
    pub manifest: PathBuf,
    /// Manifests of an earlier topic of this name that were put aside.
    pub manifests_put_aside: usize,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "run {} of topic {} ({} partitions): {} readings in {} records, and {} that must become dead letters",
            self.run, self.topic, self.partitions, self.readings, self.records, self.expected_dead
        )?;
        writeln!(f, "{:.1} s, {:.0} readings a second", self.seconds, self.readings_per_second)?;
        if self.manifests_put_aside > 0 {
            writeln!(f, "put aside {} manifests of an earlier topic of this name", self.manifests_put_aside)?;
        }
        write!(f, "manifest {}", self.manifest.display())
    }
}

/// One run. `stop` ends it early and in order: what was sent is delivered and in the manifest.
pub async fn run(options: Options, stop: Arc<AtomicBool>) -> Result<Summary> {
    options.check()?;
    let folder = Folder::new(&options.manifest_dir, &options.topic);
    let target = topic::ensure(&options.brokers, &options.topic, options.partitions).await?;
    let put_aside = if target.created { folder.retire()? } else { 0 };
    let maker = Maker::new(options.shape(folder.next_run()?, clock::now_ms()));
    let mut manifest = Manifest {
        version: 1,
        topic: options.topic.clone(),
        partitions: target.partitions,
        shape: maker.shape().clone(),
        complete: false,
        records: 0,
        readings: 0,
        offsets: Vec::new(),
        expected_dead: Vec::new(),
    };
    folder.begin(&manifest)?;
    let limits = options.limits();
    let sent = tokio::task::spawn_blocking(move || send::all(&options, &limits, &maker, &stop))
        .await
        .context("the sending thread died")??;

    manifest.complete = true;
    manifest.records = sent.records;
    manifest.readings = sent.good;
    manifest.offsets = sent.offsets;
    manifest.expected_dead = sent.expected_dead;
    folder.write(&manifest)?;
    Ok(Summary {
        partitions: target.partitions,
        run: manifest.shape.run,
        seed: manifest.shape.seed,
        records: sent.records,
        readings: sent.good,
        expected_dead: manifest.expected_dead.len(),
        value_bytes: sent.value_bytes,
        seconds: sent.seconds,
        readings_per_second: sent.readings as f64 / sent.seconds.max(1e-9),
        offsets: manifest.offsets,
        manifest: folder.file(manifest.shape.run),
        manifests_put_aside: put_aside,
        topic: manifest.topic,
    })
}
