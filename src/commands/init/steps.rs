//! From what is configured and what is there: the commands that are needed, or the reasons why there can be none. Pure.

use mongodb::bson::{Bson, Document, doc};

use super::survey::{Found, Survey};
use super::{validator, view};
use crate::config::Config;
use crate::sink::ledger::{self, HEADER_SCHEMA};

const TTL_INDEX: &str = "sakia_ttl";
const WILDCARD_INDEX: &str = "sakia_wildcard";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::commands) enum Topology {
    ReplicaSet,
    Sharded,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::commands) enum State {
    Exists,
    Missing,
    Created,
    Differs,
    Changed,
}

impl State {
    pub(in crate::commands) fn name(self) -> &'static str {
        match self {
            Self::Exists => "exists",
            Self::Missing => "missing",
            Self::Created => "created",
            Self::Differs => "differs",
            Self::Changed => "changed",
        }
    }

    /// The state after the step's command.
    pub(super) fn once_done(self) -> Self {
        match self {
            Self::Missing => Self::Created,
            Self::Differs => Self::Changed,
            done => done,
        }
    }
}

/// One thing that has to be there.
#[derive(Clone, Debug)]
pub(in crate::commands) struct Step {
    pub(in crate::commands) what: String,
    pub(in crate::commands) state: State,
    /// Brings it about; none if it is there.
    pub(in crate::commands) command: Option<Document>,
}

#[derive(Clone, Debug, Default)]
pub(in crate::commands) struct Needed {
    pub(in crate::commands) steps: Vec<Step>,
    /// What is otherwise than configured and stays so.
    pub(in crate::commands) notices: Vec<String>,
}

/// The collections that belong together.
#[derive(Clone, Debug)]
pub(in crate::commands) struct Names {
    pub(in crate::commands) readings: String,
    pub(in crate::commands) ledger: String,
    pub(in crate::commands) dead: String,
    /// The view of one document a sample.
    pub(in crate::commands) samples: String,
}

impl Names {
    pub(in crate::commands) fn of(config: &Config) -> Self {
        let readings = config.mongo.collection.clone();
        Self {
            ledger: format!("{readings}_ledger"),
            dead: format!("{readings}_dead"),
            samples: format!("{readings}_samples"),
            readings,
        }
    }

    pub(in crate::commands) fn all(&self) -> [&str; 3] {
        [&self.readings, &self.ledger, &self.dead]
    }
}

/// Whether the server can do what the protocol asks of it.
pub(in crate::commands) fn check_topology(hello: &Document) -> Result<Topology, String> {
    if hello.get_str("msg").is_ok_and(|msg| msg == "isdbgrid") {
        return Ok(Topology::Sharded);
    }
    if is_true(hello, "isreplicaset") {
        return Err("the server waits to become a replica set; run rs.initiate() on it first".into());
    }
    if hello.get_str("setName").is_err() {
        return Err(
            "the server stands alone; what it acknowledges can be lost when it crashes. Start it with --replSet \
                    and run rs.initiate(): a replica set of one member is enough"
                .into(),
        );
    }
    if !is_true(hello, "isWritablePrimary") {
        return Err("the server is not the primary; name all members in mongo.uri, without directConnection".into());
    }
    Ok(Topology::ReplicaSet)
}

fn is_true(document: &Document, key: &str) -> bool {
    document.get_bool(key).unwrap_or(false)
}

/// Everything that has to be there, in the order in which it is made; or every reason against it.
pub(in crate::commands) fn steps(config: &Config, survey: &Survey) -> Result<Needed, Vec<String>> {
    let names = Names::of(config);
    let refusals = refusals(config, survey, &names);
    if !refusals.is_empty() {
        return Err(refusals);
    }
    let mut needed = Needed::default();
    for name in names.all() {
        needed.steps.push(collection(config, survey, name, name == names.readings));
    }
    needed.notices.extend(storage_notice(config, survey, &names));
    validator::step(config, survey, &names, &mut needed);
    ttl(config, survey, &names, &mut needed);
    wildcard(config, survey, &names, &mut needed);
    let insert = doc! {
        "insert": &names.ledger, "documents": [header(config)], "writeConcern": { "w": "majority" },
    };
    needed.steps.push(step(format!("header of {}", names.ledger), survey.header.is_some(), insert));
    view::view(config, survey, &names, &mut needed);
    Ok(needed)
}

pub(super) fn step(what: String, exists: bool, command: Document) -> Step {
    let state = if exists { State::Exists } else { State::Missing };
    Step { what, state, command: (!exists).then_some(command) }
}

fn refusals(config: &Config, survey: &Survey, names: &Names) -> Vec<String> {
    let mut refusals = Vec::new();
    for name in names.all() {
        refusals.extend(survey.collections.get(name).and_then(|found| wrong_collection(name, found)));
        let allowed: &[&str] =
            if name == names.readings { &[&config.fields.deviceid, &config.fields.date] } else { &["_id"] };
        refusals.extend(survey.shard_keys.get(name).and_then(|key| wrong_shard_key(name, key, allowed)));
    }
    refusals.extend(validator::refusal(config, survey, names));
    match &survey.header {
        Some(found) => refusals.extend(wrong_header(names, found, &header(config))),
        None if survey.has_readings => refusals.push(format!(
            "{} holds documents but {} has no header: with an empty ledger everything would be stored once more; choose \
             an empty collection, restore the ledger, or run `sakia ledger rebuild`",
            names.readings, names.ledger
        )),
        None => {}
    }
    refusals
}

fn wrong_collection(name: &str, found: &Found) -> Option<String> {
    if found.kind != "collection" {
        return Some(format!("{name} is a {}; choose another mongo.collection, or drop it", found.kind));
    }
    if is_true(&found.options, "capped") {
        return Some(format!("{name} is capped: the server would drop buckets; choose another mongo.collection"));
    }
    let locale = found.options.get_document("collation").and_then(|collation| collation.get_str("locale"));
    let locale = locale.ok().filter(|locale| *locale != "simple")?;
    Some(format!(
        "{name} has the collation {locale:?}: devices whose ids it takes for equal would share a bucket. A collation \
         cannot be changed; choose another mongo.collection, or drop it"
    ))
}

fn wrong_shard_key(name: &str, key: &Document, allowed: &[&str]) -> Option<String> {
    if key.keys().all(|field| allowed.contains(&field.as_str())) {
        return None;
    }
    let fields = key.keys().cloned().collect::<Vec<_>>().join(", ");
    Some(format!(
        "{name} is sharded by {fields}: one _id could then live on two shards, and readings would be stored twice. The \
         fields of its shard key may be {} only",
        allowed.join(" and ")
    ))
}

fn wrong_header(names: &Names, found: &Document, own: &Document) -> Option<String> {
    let ledger = &names.ledger;
    if found.get("namespace") != own.get("namespace") {
        return Some(format!("{ledger} belongs to {}, not to {}", shown(found, "namespace"), shown(own, "namespace")));
    }
    if found.get("schema") != own.get("schema") {
        return Some(format!("{ledger} has schema {}, this binary knows {HEADER_SCHEMA}", shown(found, "schema")));
    }
    let [theirs, ours] = [found, own].map(|header| header.get_document("fields").cloned().unwrap_or_default());
    let differing = ours.iter().filter(|(key, name)| theirs.get(key.as_str()) != Some(name));
    let differing = differing.map(|(key, name)| format!("fields.{key} is {}, configured {name}", shown(&theirs, key)));
    let differing = differing.collect::<Vec<_>>().join("; ");
    (!differing.is_empty()).then(|| format!("{ledger} was made for other field names: {differing}"))
}

fn shown(document: &Document, key: &str) -> String {
    document.get(key).map_or_else(|| "missing".into(), Bson::to_string)
}

fn header(config: &Config) -> Document {
    ledger::header(&format!("{}.{}", config.mongo.database, config.mongo.collection), &config.fields)
}

fn collection(config: &Config, survey: &Survey, name: &str, holds_readings: bool) -> Step {
    let mut create = doc! { "create": name };
    if holds_readings {
        create.insert("storageEngine", doc! { "wiredTiger": { "configString": storage_options(config) } });
    }
    // Stated, so that a change of the server's default can never give another one.
    create.insert("collation", doc! { "locale": "simple" });
    create.insert("writeConcern", doc! { "w": "majority" });
    step(format!("collection {name}"), survey.collections.contains_key(name), create)
}

fn storage_options(config: &Config) -> String {
    let compressor = format!("block_compressor={}", config.storage.compressor);
    let page = config.storage.leaf_page_max.as_ref().map(|max| format!("leaf_page_max={max}"));
    [Some(compressor), page].into_iter().flatten().collect::<Vec<_>>().join(",")
}

/// Storage options are fixed when a collection is created.
fn storage_notice(config: &Config, survey: &Survey, names: &Names) -> Option<String> {
    let options = &survey.collections.get(&names.readings)?.options;
    let engine = options.get_document("storageEngine").and_then(|engine| engine.get_document("wiredTiger"));
    // The server's own default, where nothing was said.
    let found = engine.and_then(|engine| engine.get_str("configString")).unwrap_or("block_compressor=snappy");
    let wanted = storage_options(config);
    (found != wanted).then(|| {
        format!(
            "{} keeps its storage options {found:?}: they are fixed at creation, {wanted:?} has no effect",
            names.readings
        )
    })
}

fn ttl(config: &Config, survey: &Survey, names: &Names, needed: &mut Needed) {
    let date = &config.fields.date;
    let key = doc! { date: 1 };
    let existing = survey.indexes.iter().find(|index| same_key(index, &key));
    let found = existing.and_then(|index| whole(index.get("expireAfterSeconds")?));
    let Some(days) = config.storage.ttl_days else {
        needed.notices.extend(found.map(|found| {
            format!(
                "{} has an index that deletes buckets {found} s after {date}; storage.ttl is not set, it stays",
                names.readings
            )
        }));
        return;
    };
    let wanted = i64::from(days) * 86_400;
    let what = format!("index that deletes buckets of {} {days} days after {date}", names.readings);
    let Some(index) = existing else {
        let index = doc! { "key": key, "name": TTL_INDEX, "expireAfterSeconds": wanted };
        needed.steps.push(step(what, false, create_index(names, index)));
        return;
    };
    if found == Some(wanted) {
        needed.steps.push(Step { what, state: State::Exists, command: None });
        return;
    }
    let name = index.get_str("name").unwrap_or(TTL_INDEX);
    let change = doc! {
        "collMod": &names.readings, "index": { "name": name, "expireAfterSeconds": wanted },
        "writeConcern": { "w": "majority" },
    };
    let before = found.map_or_else(|| "not at all".into(), |found| format!("after {found} s"));
    needed.steps.push(Step {
        what: format!("{what} (before: {before})"),
        state: State::Differs,
        command: Some(change),
    });
}

fn wildcard(config: &Config, survey: &Survey, names: &Names, needed: &mut Needed) {
    let Some(path) = &config.storage.wildcard_index else { return };
    let key = doc! { format!("{path}.$**"): 1 };
    let exists = survey.indexes.iter().any(|index| same_key(index, &key));
    let index = doc! { "key": key, "name": WILDCARD_INDEX };
    needed.steps.push(step(
        format!("wildcard index on {path} of {}", names.readings),
        exists,
        create_index(names, index),
    ));
}

fn create_index(names: &Names, index: Document) -> Document {
    doc! { "createIndexes": &names.readings, "indexes": [index], "writeConcern": { "w": "majority" } }
}

/// Whether an index has this key, whatever number type its direction was given in.
pub(in crate::commands) fn same_key(index: &Document, key: &Document) -> bool {
    let Ok(found) = index.get_document("key") else { return false };
    found.len() == key.len() && found.iter().zip(key).all(|(a, b)| a.0 == b.0 && whole(a.1) == whole(b.1))
}

/// A whole number, whatever type the server keeps it in.
pub(in crate::commands) fn whole(value: &Bson) -> Option<i64> {
    match value {
        Bson::Int32(n) => Some(i64::from(*n)),
        Bson::Int64(n) => Some(*n),
        Bson::Double(n) => Some(*n as i64),
        _ => None,
    }
}
