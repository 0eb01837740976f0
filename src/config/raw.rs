//! A configuration as typed: the layers and their merge, nothing checked yet.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use figment::value::Value;
use figment::{Figment, Profile, Provider};

use super::file;
use super::layers::{self, Flag, Layer};
use super::machine::Machine;
use super::problem::Problem;

/// The reference of all keys, compiled in.
pub const DEFAULTS: &str = include_str!("../../config/default.toml");

/// Says whether librdkafka knows an option and takes the value.
pub type OptionCheck = fn(&str, &str) -> Result<(), String>;

/// Where a configuration comes from.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    pub file: Option<PathBuf>,
    /// All of the process's variables; only `SAKIA_...` are looked at.
    pub env: Vec<(OsString, OsString)>,
    pub flags: Vec<Flag>,
    /// `key=value`, as given to `--set`.
    pub sets: Vec<String>,
    pub machine: Machine,
    pub option_check: Option<OptionCheck>,
}

#[derive(Clone, Debug)]
pub(super) struct RawConfig {
    /// Lowest first; the compiled-in defaults are the first.
    layers: Vec<Layer>,
    merged: Figment,
    tree: Value,
}

impl RawConfig {
    /// Reads all layers. The problems are those that keep a layer from being read whole.
    pub(super) fn gather(sources: &Sources) -> (Self, Vec<Problem>) {
        let mut problems = Vec::new();
        let mut layers = vec![defaults()];
        if let Some(path) = &sources.file {
            layers.push(read_file(path, &mut problems));
        }
        layers.push(layers::environment(&sources.env, &mut problems));
        layers.push(layers::command_line(&sources.flags, &sources.sets, &mut problems));
        (Self::merge(layers), problems)
    }

    /// Lowest layer first.
    pub(super) fn merge(layers: Vec<Layer>) -> Self {
        let merged = layers.iter().fold(Figment::new(), |merged, layer| merged.merge(layer));
        let mut profiles = merged.data().expect("invariant: our layers never fail to provide");
        let tree = profiles.remove(&Profile::Default).unwrap_or_default().into();
        Self { layers, merged, tree }
    }

    /// The layers that somebody typed, lowest first.
    pub(super) fn typed_layers(&self) -> &[Layer] {
        &self.layers[1..]
    }

    /// The value in effect.
    pub(super) fn find(&self, path: &str) -> Option<&Value> {
        layers::find(&self.tree, path)
    }

    /// Where the value in effect was set; empty if nowhere.
    pub(super) fn place(&self, path: &str) -> String {
        self.place_of(path, self.find(path))
    }

    /// As `place`, for an option of `kafka.options`: its own name holds dots.
    pub(super) fn option_place(&self, name: &str) -> String {
        let options = self.find("kafka.options").and_then(|options| options.as_dict());
        self.place_of(&format!("kafka.options.{name}"), options.and_then(|options| options.get(name)))
    }

    fn place_of(&self, path: &str, value: Option<&Value>) -> String {
        let metadata = value.and_then(|value| self.merged.get_metadata(value.tag()));
        let keys: Vec<&str> = path.split('.').collect();
        metadata.map(|metadata| metadata.interpolate(&Profile::Default, &keys)).unwrap_or_default()
    }

    /// Whether somebody set the key, rather than the compiled-in defaults.
    pub(super) fn is_typed(&self, path: &str) -> bool {
        self.typed_layers().iter().any(|layer| layer.find(path).is_some())
    }
}

pub(super) fn defaults() -> Layer {
    let mut layer = Layer::new("default");
    let read = file::read_into(&mut layer, DEFAULTS, |_| "default".into());
    read.expect("invariant: a test reads the compiled-in defaults");
    layer
}

fn read_file(path: &Path, problems: &mut Vec<Problem>) -> Layer {
    match std::fs::read_to_string(path) {
        Ok(text) => read_text(&path.display().to_string(), &text, problems),
        Err(error) => {
            problems.push(Problem {
                place: path.display().to_string(),
                key: String::new(),
                message: format!("the configuration file cannot be read: {error}"),
            });
            Layer::new("file")
        }
    }
}

pub(super) fn read_text(name: &str, text: &str, problems: &mut Vec<Problem>) -> Layer {
    let mut layer = Layer::new("file");
    if let Err(errors) = file::read_into(&mut layer, text, |line| format!("{name}:{line}")) {
        problems.extend(errors.into_iter().map(|(line, message)| Problem {
            place: format!("{name}:{line}"),
            key: String::new(),
            message: format!("not valid TOML: {message}"),
        }));
    }
    layer
}
