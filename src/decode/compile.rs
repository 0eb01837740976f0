//! A contract's table compiled once: paths into trees, names into slots. What is wrong with it is said here, for the
//! person who wrote it.

use super::path::{Base, Path, Segment};
use super::scan::Limits;
use super::tree::{NodeId, Role, Tree};
use crate::config::contract::{Contract, DECODER_VERSION, DecoderTable, TimestampFormat};
use crate::record::Position;

#[derive(Clone, Debug)]
pub(super) struct Compiled {
    /// Paths from the reading.
    pub(super) reading: Tree,
    /// With `explode`: the way to the array, and paths from `$`.
    pub(super) root: Option<Tree>,
    /// Paths into the key.
    pub(super) key: Option<Tree>,
    pub(super) limits: Limits,
    pub(super) sources: Sources,
}

/// Where the parts of a reading that are not its fields come from.
#[derive(Clone, Debug)]
pub(super) struct Sources {
    pub(super) device: Vec<Source>,
    pub(super) time: Vec<Source>,
    pub(super) time_formats: Vec<TimestampFormat>,
    pub(super) time_from_record: bool,
    /// Name and source of each tag.
    pub(super) meta: Vec<(String, Source)>,
    pub(super) past_ms: i64,
    pub(super) future_ms: i64,
    /// Bytes that `info` and `meta` of a reading may have together.
    pub(super) max_stored_bytes: usize,
    /// Numbers of spans: of the key, then of the root, then of each reading.
    pub(super) n_key_slots: usize,
    pub(super) n_root_slots: usize,
    pub(super) n_reading_slots: usize,
}

/// Where a path leads, resolved as far as it can be without a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Reading(usize),
    Root(usize),
    KeyPath(usize),
    Key,
    Header(String),
    Timestamp,
    Topic,
    Partition,
}

pub(super) fn compile(contract: &Contract) -> Result<Compiled, String> {
    let table = &contract.decoder;
    check_contract(contract)?;
    let mut trees = Trees::new(table.explode.as_deref())?;
    let device = trees.sources("device_path", &table.device_path)?;
    let time = trees.sources("timestamp_path", &table.timestamp_path)?;
    check_device_and_time(table, &device, &time)?;
    let meta = trees.meta(&table.meta)?;
    trees.fields(table)?;
    trees.check_explode()?;
    let Trees { mut reading, root, mut key, .. } = trees;
    reading.finish();
    let root = root.map(|(mut tree, _)| {
        tree.finish();
        tree
    });
    key.finish();
    let max_stored_bytes = (contract.max_sample_bytes as usize)
        .checked_sub(sample_overhead(contract))
        .ok_or("max_sample_bytes leaves no room for a field")?;
    let limits = Limits {
        n_stats: table.stats.len(),
        max_readings: contract.max_readings as usize,
        max_info_bytes: max_stored_bytes,
    };
    let sources = Sources {
        device,
        time,
        time_formats: table.timestamp_format.clone(),
        time_from_record: table.timestamp_missing_kafka,
        meta,
        past_ms: contract.plausible_past_ms,
        future_ms: contract.plausible_future_ms,
        max_stored_bytes,
        n_key_slots: key.n_slots(),
        n_root_slots: root.as_ref().map_or(0, Tree::n_slots),
        n_reading_slots: reading.n_slots(),
    };
    let key = (key.n_slots() > 0).then_some(key);
    Ok(Compiled { reading, root, key, limits, sources })
}

/// Bytes of a sample's document beside those of `info`: length, time with its header, header of `info`, end.
fn sample_overhead(contract: &Contract) -> usize {
    4 + (1 + contract.time_name.len() + 1 + 8) + (1 + contract.info_name.len() + 1) + 1
}

fn check_contract(contract: &Contract) -> Result<(), String> {
    let version = contract.decoder_version;
    if version != DECODER_VERSION {
        return Err(format!(
            "decoder version {version} is unknown to this build, which has {DECODER_VERSION}; \
             records of such a stream are finished with the build that began it"
        ));
    }
    let n = i64::from(contract.max_readings);
    if !(1..=Position::PER_RECORD).contains(&n) {
        return Err(format!("max_readings is {n}; it must be from 1 to {}", Position::PER_RECORD));
    }
    Ok(())
}

fn check_device_and_time(table: &DecoderTable, device: &[Source], time: &[Source]) -> Result<(), String> {
    if device.is_empty() {
        return Err("device_path: names no path, so readings belong to nobody".to_owned());
    }
    if device.contains(&Source::Timestamp) {
        return Err("device_path: `@timestamp` is a time, not a device".to_owned());
    }
    if time.is_empty() && !table.timestamp_missing_kafka {
        return Err("timestamp_path: names no path, and timestamp_missing does not allow the record's own".to_owned());
    }
    if time.iter().any(|source| matches!(source, Source::Topic | Source::Partition)) {
        return Err("timestamp_path: `@topic` and `@partition` are not times".to_owned());
    }
    let formats = &table.timestamp_format;
    if formats.is_empty() && time.iter().any(|source| *source != Source::Timestamp) {
        return Err("timestamp_format: is missing".to_owned());
    }
    if formats.iter().filter(|format| **format != TimestampFormat::Iso8601).count() > 1 {
        return Err("timestamp_format: two units of numbers cannot be told apart; name one".to_owned());
    }
    Ok(())
}

/// The trees while they are built.
struct Trees {
    reading: Tree,
    /// With the node of the exploded array.
    root: Option<(Tree, NodeId)>,
    key: Tree,
}

impl Trees {
    fn new(explode: Option<&str>) -> Result<Self, String> {
        let root = explode.map(explode_tree).transpose()?;
        Ok(Self { reading: Tree::new(), root, key: Tree::new() })
    }

    fn sources(&mut self, option: &str, paths: &[String]) -> Result<Vec<Source>, String> {
        paths.iter().map(|path| self.source(path).map_err(|what| format!("{option}: {what}"))).collect()
    }

    fn source(&mut self, path: &str) -> Result<Source, String> {
        let Path { base, segments } = Path::parse(path)?;
        if segments.is_empty() && matches!(base, Base::Reading | Base::Root) {
            return Err(format!("path `{path}`: names no field"));
        }
        Ok(match (base, &mut self.root) {
            (Base::Root, Some((root, _))) => Source::Root(root.slot(&segments)),
            (Base::Root | Base::Reading, _) => Source::Reading(self.reading.slot(&segments)),
            (Base::Key, _) if segments.is_empty() => Source::Key,
            (Base::Key, _) => Source::KeyPath(self.key.slot(&segments)),
            (Base::Header, _) => Source::Header(last_name(&segments).unwrap_or_default().to_owned()),
            (Base::Timestamp, _) => Source::Timestamp,
            (Base::Topic, _) => Source::Topic,
            (Base::Partition, _) => Source::Partition,
        })
    }

    fn meta(&mut self, paths: &[String]) -> Result<Vec<(String, Source)>, String> {
        let mut meta: Vec<(String, Source)> = Vec::with_capacity(paths.len());
        for path in paths {
            let wrong = |what: &str| format!("meta: path `{path}`: {what}");
            let source = self.source(path).map_err(|what| format!("meta: {what}"))?;
            let segments = Path::parse(path)?.segments;
            let name = match &source {
                Source::Timestamp => {
                    return Err(wrong("a tag that changes with each record fills buckets with one each"));
                }
                Source::Key => "key",
                Source::Topic => "topic",
                Source::Partition => "partition",
                _ => last_name(&segments).ok_or_else(|| wrong("must end in a name, under which it is stored"))?,
            };
            if name.starts_with('$') || name.contains('\0') {
                return Err(wrong("its last name cannot be stored"));
            }
            if meta.iter().any(|(known, _)| known == name) {
                return Err(wrong("another path ends in the same name, under which both would be stored"));
            }
            meta.push((name.to_owned(), source));
        }
        Ok(meta)
    }

    /// Marks the fields object and decides what of it is stored. Last of all paths, since those may take fields out.
    fn fields(&mut self, table: &DecoderTable) -> Result<(), String> {
        let path = Path::parse(&table.fields_path).map_err(|what| format!("fields_path: {what}"))?;
        if path.base != Base::Reading {
            return Err(format!("fields_path: path `{}`: must lead from the reading", table.fields_path));
        }
        let fields = self.reading.reach(Tree::ROOT, &path.segments);
        self.reading.node_mut(fields).role = Role::Fields;
        self.reading.mark_stored(fields, &table.include, &table.exclude);
        for (i, name) in table.stats.iter().enumerate() {
            let wrong = |what: &str| format!("stats: field `{name}`: {what}");
            if name.is_empty() || name.starts_with('$') || name.contains(['.', '\0']) {
                return Err(wrong("a name in update paths can be neither empty nor hold dots, a leading $ or NUL"));
            }
            let id = self.reading.reach(fields, &[Segment::Name(name.clone())]);
            let stores_unnamed = self.reading.stores_unnamed;
            let node = self.reading.node_mut(id);
            // A node made just now is of a field that no list and no path names.
            node.stored |= stores_unnamed && !node.is_watched() && !table.exclude.contains(name);
            if !node.stored {
                return Err(wrong("is not stored; list it in `include`, or take it out of `exclude`"));
            }
            if node.stat.replace(i).is_some() {
                return Err(wrong("is listed twice"));
            }
        }
        Ok(())
    }

    /// The walk hands the exploded array's elements to the readings; a path from `$` into it would find nothing.
    fn check_explode(&self) -> Result<(), String> {
        match &self.root {
            Some((root, array)) if root.node(*array).is_watched() => {
                Err("explode: a path from `$` leads into the exploded array; write it relative to the element"
                    .to_owned())
            }
            _ => Ok(()),
        }
    }
}

fn explode_tree(explode: &str) -> Result<(Tree, NodeId), String> {
    let path = Path::parse(explode.strip_suffix("[]").unwrap_or(explode)).map_err(|what| format!("explode: {what}"))?;
    if !matches!(path.base, Base::Reading | Base::Root) {
        return Err(format!("explode: path `{explode}`: must lead into the record's value"));
    }
    let mut tree = Tree::new();
    let array = tree.reach(Tree::ROOT, &path.segments);
    tree.node_mut(array).role = Role::Explode;
    Ok((tree, array))
}

fn last_name(segments: &[Segment]) -> Option<&str> {
    match segments.last() {
        Some(Segment::Name(name)) => Some(name),
        _ => None,
    }
}
