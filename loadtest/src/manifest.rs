//! What a run put into a topic, one JSON file a run: the claim that `verify` holds against topic and collection.
//!
//! A file is there from before the first record (`complete: false`), so that records of a run that was killed are
//! explained rather than taken for somebody else's.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};

use crate::reading::{Poison, Shape};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    pub version: u32,
    pub topic: String,
    pub partitions: i32,
    /// Seed, run and shares: all that the content of the records is a function of.
    pub shape: Shape,
    pub complete: bool,
    pub records: u64,
    /// Readings that can be stored.
    pub readings: u64,
    pub offsets: Vec<OffsetRange>,
    pub expected_dead: Vec<ExpectedDead>,
}

/// Offsets `[from, to)` of one partition, all of them of this run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct OffsetRange {
    pub partition: i32,
    pub from: i64,
    pub to: i64,
}

/// A reading, or a record as a whole (index 0), that can never be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ExpectedDead {
    pub partition: i32,
    pub offset: i64,
    pub index: u16,
    pub reason: Poison,
}

/// The manifests of one topic: `<base>/<topic>/run-0001.json` and so on.
#[derive(Clone, Debug)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    pub fn new(base: &Path, topic: &str) -> Self {
        Self { path: base.join(topic) }
    }

    pub fn file(&self, run: u32) -> PathBuf {
        self.path.join(format!("run-{run:04}.json"))
    }

    /// All manifests, by run.
    pub fn load(&self) -> Result<Vec<Manifest>> {
        let mut manifests = Vec::new();
        for path in self.files()? {
            let text = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            let manifest: Manifest = serde_json::from_slice(&text)
                .with_context(|| format!("{} is not a manifest of this version", path.display()))?;
            manifests.push(manifest);
        }
        manifests.sort_by_key(|m| m.shape.run);
        Ok(manifests)
    }

    /// One past the highest run there is.
    pub fn next_run(&self) -> Result<u32> {
        Ok(self.load()?.last().map_or(1, |m| m.shape.run + 1))
    }

    /// Claims the run. Fails if another producer has just claimed it.
    pub fn begin(&self, manifest: &Manifest) -> Result<()> {
        fs::create_dir_all(&self.path).with_context(|| format!("cannot create {}", self.path.display()))?;
        let path = self.file(manifest.shape.run);
        match fs::File::create_new(&path) {
            Ok(_) => self.write(manifest),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                bail!("{} exists: another run of this topic has started; run one at a time", path.display())
            }
            Err(e) => Err(e).with_context(|| format!("cannot create {}", path.display())),
        }
    }

    /// Replaces the file in one step, so that a reader never sees half of it.
    pub fn write(&self, manifest: &Manifest) -> Result<()> {
        let path = self.file(manifest.shape.run);
        let draft = path.with_extension("json.new");
        fs::write(&draft, serde_json::to_vec_pretty(manifest)?)
            .and_then(|()| fs::rename(&draft, &path))
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// Puts manifests of an earlier topic of this name aside; returns how many. Their offsets mean nothing in a topic
    /// that was created anew.
    pub fn retire(&self) -> Result<usize> {
        let files = self.files()?;
        for path in &files {
            let aside = path.with_extension("json.stale");
            fs::rename(path, &aside).with_context(|| format!("cannot rename {}", path.display()))?;
        }
        Ok(files.len())
    }

    fn files(&self) -> Result<Vec<PathBuf>> {
        if !self.path.exists() {
            return Ok(Vec::new());
        }
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.path).with_context(|| format!("cannot list {}", self.path.display()))? {
            let path = entry?.path();
            if path.extension().is_some_and(|e| e == "json") {
                files.push(path);
            }
        }
        files.sort();
        Ok(files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(run: u32) -> Manifest {
        Manifest {
            version: 1,
            topic: "readings".into(),
            partitions: 1,
            shape: Shape { run, ..Shape::default() },
            complete: true,
            records: 2,
            readings: 1,
            offsets: vec![OffsetRange { partition: 0, from: 0, to: 2 }],
            expected_dead: vec![ExpectedDead { partition: 0, offset: 1, index: 0, reason: Poison::MissingTime }],
        }
    }

    #[test]
    fn runs_are_numbered_kept_and_put_aside() {
        let base = tempfile::tempdir().unwrap();
        let folder = Folder::new(base.path(), "readings");
        assert_eq!(folder.next_run().unwrap(), 1);
        folder.begin(&manifest(1)).unwrap();
        folder.begin(&manifest(2)).unwrap();
        assert!(folder.begin(&manifest(2)).is_err());
        assert_eq!(folder.load().unwrap(), vec![manifest(1), manifest(2)]);
        assert_eq!(folder.next_run().unwrap(), 3);
        assert_eq!(folder.retire().unwrap(), 2);
        assert_eq!(folder.next_run().unwrap(), 1);
    }

    #[test]
    fn a_file_that_is_no_manifest_is_named() {
        let base = tempfile::tempdir().unwrap();
        let folder = Folder::new(base.path(), "t");
        folder.begin(&manifest(1)).unwrap();
        fs::write(folder.file(7), "{}").unwrap();
        assert!(format!("{:#}", folder.load().unwrap_err()).contains("run-0007.json"));
    }
}
