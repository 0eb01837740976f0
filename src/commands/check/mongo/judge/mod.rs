//! Facts of MongoDB to findings. Pure.

use mongodb::bson::{Bson, Document};

use super::{Facts, rights};
use crate::commands::check::finding::{Area, Finding, State};
use crate::commands::init::steps::{self, Names, Topology, same_key, whole};
use crate::commands::init::survey::Survey;
use crate::config::Config;
use crate::sink::privileges::{GIVE_USER, NO_USER};

/// Before it, the server's defaults for write concerns and some replies are others.
const OLDEST: (u32, u32) = (5, 0);
const DAY_MS: i64 = 86_400_000;

fn finding(state: State, what: &str, detail: impl Into<String>) -> Finding {
    Finding::new(Area::Mongo, state, what, detail)
}

pub(in crate::commands::check) fn judge(config: &Config, facts: &Facts, now_ms: i64) -> Vec<Finding> {
    let mut findings = vec![judge_version(facts)];
    match &facts.set {
        Some(Ok(set)) => findings.extend(judge_set(set, facts.is_direct)),
        Some(Err(error)) => {
            let detail = format!("its configuration cannot be looked at ({error}): journaling is not judged");
            findings.push(finding(State::Note, "replica set", detail));
        }
        None => findings.push(finding(State::Ok, "sharded cluster", "by a mongos")),
    }
    findings.extend(judge_engine(&facts.engine));
    findings.push(judge_rights(config, facts));
    match &facts.survey {
        Ok(survey) => {
            findings.extend(judge_collections(config, survey, facts.topology));
            let uses = facts.index_uses.as_deref().unwrap_or_default();
            findings.extend(judge_indexes(config, survey, uses, now_ms));
            if let (Err(error), true) = (&facts.index_uses, survey.collections.contains_key(&config.mongo.collection)) {
                findings.push(finding(State::Note, "indexes", format!("whether they are used is not judged: {error}")));
            }
        }
        Err(error) => findings.push(finding(State::Note, "collections", format!("not judged: {error}"))),
    }
    findings.extend(judge_ttl(config));
    findings
}

fn judge_engine(engine: &Result<Option<String>, String>) -> Option<Finding> {
    match engine.as_ref().map(Option::as_deref) {
        Ok(None | Some("wiredTiger")) => None,
        Ok(Some(engine)) => {
            let detail = format!("is {engine}: what it acknowledges may be gone after a restart");
            Some(finding(State::Fail, "storage engine", detail).mend("use a server with WiredTiger"))
        }
        Err(error) => Some(finding(State::Note, "storage engine", format!("is not known: {error}"))),
    }
}

fn judge_version(facts: &Facts) -> Finding {
    let hosts = facts.hosts.join(", ");
    let version = match &facts.version {
        Ok(version) => version,
        Err(error) => return finding(State::Note, "server", format!("{hosts}; its version is not known: {error}")),
    };
    let mut numbers = version.split('.').map_while(|number| number.parse().ok());
    let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if found < OLDEST {
        let detail = format!("{hosts} is MongoDB {version}, older than {}.{}", OLDEST.0, OLDEST.1);
        return finding(State::Fail, "server", detail).mend("use a newer server; sakia is tested with 6.0");
    }
    finding(State::Ok, "server", format!("{hosts}, MongoDB {version}"))
}

fn judge_set(set: &Document, is_direct: bool) -> Vec<Finding> {
    let what = format!("replica set {}", set.get_str("_id").unwrap_or_default());
    let members = set.get_array("members").cloned().unwrap_or_default();
    let members: Vec<_> = members.iter().filter_map(Bson::as_document).collect();
    let is_arbiter = |member: &&&Document| member.get_bool("arbiterOnly").unwrap_or(false);
    let n_arbiters = members.iter().filter(is_arbiter).count();
    let mut findings = vec![finding(
        State::Ok,
        &what,
        format!("{} of {} members hold data", members.len() - n_arbiters, members.len()),
    )];
    if !set.get_bool("writeConcernMajorityJournalDefault").unwrap_or(true) {
        let detail =
            "writeConcernMajorityJournalDefault is false: what a majority acknowledges is lost if it loses power";
        let mend = "c = rs.conf(); c.writeConcernMajorityJournalDefault = true; rs.reconfig(c)";
        findings.push(finding(State::Fail, &what, detail).mend(mend));
    }
    if n_arbiters > 0 && members.len() - n_arbiters <= members.len() / 2 + 1 {
        let detail = "has an arbiter: with one member down no write is acknowledged, and sakia waits";
        findings.push(finding(State::Warn, &what, detail).mend("put a member that holds data in the arbiter's place"));
    }
    if is_direct && members.len() > 1 {
        let detail = "mongo.uri has directConnection=true: when another member becomes primary, sakia stops writing";
        let mend = "name all members in mongo.uri, without directConnection";
        findings.push(finding(State::Warn, &what, detail).mend(mend));
    }
    findings
}

fn judge_rights(config: &Config, facts: &Facts) -> Finding {
    let missing = rights::missing(&facts.rights, config);
    let user = |info: &Document| {
        info.get_array("authenticatedUsers").ok()?.first()?.as_document()?.get_str("user").ok().map(str::to_owned)
    };
    let user = facts.rights.get_document("authInfo").ok().and_then(user);
    match (user, missing.is_empty()) {
        (Some(user), true) => finding(State::Ok, "rights", format!("{user} may do all that `sakia run` does")),
        (user, false) => {
            finding(State::Fail, "rights", format!("{} may not: {}", user.unwrap_or_default(), missing.join(", ")))
                .mend(rights::GRANT)
        }
        (None, true) => match &facts.survey {
            Err(error) => finding(State::Fail, "rights", format!("{NO_USER}: {error}")).mend(GIVE_USER),
            Ok(_) => finding(State::Ok, "rights", "the server lets anybody in"),
        },
    }
}

fn judge_collections(config: &Config, survey: &Survey, topology: Topology) -> Vec<Finding> {
    let mut findings = Vec::new();
    let needed = match steps::steps(config, survey) {
        Ok(needed) => needed,
        Err(refusals) => {
            let fail = |refusal: String| finding(State::Fail, "collections", refusal);
            return refusals.into_iter().map(fail).collect();
        }
    };
    let (missing, others): (Vec<_>, Vec<_>) =
        needed.steps.into_iter().partition(|step| step.state == steps::State::Missing);
    if !missing.is_empty() {
        let names = missing.into_iter().map(|step| step.what).collect::<Vec<_>>().join(", ");
        findings.push(
            finding(State::Warn, "collections", format!("not there yet: {names}"))
                .mend("run `sakia init`: otherwise the first write makes what it needs, with the server's settings"),
        );
    }
    findings.extend(others.into_iter().map(|step| {
        match step.state {
            steps::State::Differs => finding(State::Warn, "collections", format!("{} differs", step.what))
                .mend("run `sakia init`, which changes it"),
            _ => finding(State::Ok, "collections", step.what),
        }
    }));
    findings.extend(needed.notices.into_iter().map(|notice| finding(State::Note, "collections", notice)));
    if topology == Topology::Sharded {
        let names = Names::of(config);
        let fields = (&config.fields.deviceid, &config.fields.date);
        findings.push(match survey.shard_keys.get(&names.readings) {
            Some(key) => finding(State::Ok, "shard key", format!("{key}")),
            None => finding(
                State::Note,
                "shard key",
                format!("{} is not sharded: one shard holds all of it", names.readings),
            )
            .mend(format!(
                "sh.shardCollection(\"{}.{}\", {{ {}: 1, {}: 1 }}), or hashed by {2} alone",
                config.mongo.database, names.readings, fields.0, fields.1
            )),
        });
    }
    findings
}

fn judge_indexes(config: &Config, survey: &Survey, uses: &[Document], now_ms: i64) -> Vec<Finding> {
    let readings = &config.mongo.collection;
    let date = Document::from_iter([(config.fields.date.clone(), Bson::Int32(1))]);
    let mut findings = Vec::new();
    for index in survey.indexes.iter().filter(|index| index.get_str("name").is_ok_and(|name| name != "_id_")) {
        let name = index.get_str("name").unwrap_or_default();
        let what = format!("index {name}");
        let drop = format!("db.{readings}.dropIndex({name:?})");
        let fields = index.get_document("key").map(|key| key.keys().cloned().collect::<Vec<_>>()).unwrap_or_default();
        let expires = index.get("expireAfterSeconds").and_then(whole);
        if index.get_bool("unique").unwrap_or(false) {
            let detail = format!(
                "is unique on {}: a second bucket of the same values is refused, and writing stops",
                fields.join(", ")
            );
            findings.push(finding(State::Fail, &what, detail).mend(drop));
            continue;
        }
        if let (Some(seconds), false) = (expires, same_key(index, &date)) {
            let detail =
                format!("deletes buckets {seconds} s after {}, which may still be written to", fields.join(", "));
            findings.push(finding(State::Warn, &what, detail).mend(drop));
            continue;
        }
        if expires.is_none() {
            findings.extend(judge_use(&what, name, uses, now_ms).map(|finding| finding.mend(drop)));
        }
    }
    findings
}

/// Each index beside that of `_id` costs every write.
fn judge_use(what: &str, name: &str, uses: &[Document], now_ms: i64) -> Option<Finding> {
    let used = uses
        .iter()
        .find(|used| used.get_str("name").is_ok_and(|found| found == name))?
        .get_document("accesses")
        .ok()?;
    if used.get("ops").and_then(whole)? > 0 {
        return None;
    }
    let since = used.get_datetime("since").ok()?;
    let is_long = now_ms - since.timestamp_millis() > 7 * DAY_MS;
    let state = if is_long { State::Warn } else { State::Note };
    let since = since.try_to_rfc3339_string().unwrap_or_default();
    Some(finding(state, what, format!("was not used by this member since {since}, and costs every write")))
}

fn judge_ttl(config: &Config) -> Option<Finding> {
    let ttl_ms = i64::from(config.storage.ttl_days?) * DAY_MS;
    let (window, past) = (config.bucket.window.length_ms, config.plausible.past_ms);
    if past > ttl_ms {
        let detail = format!(
            "plausible.past takes readings that are {} days old, but storage.ttl deletes buckets after {}: the oldest are \
             not kept",
            past / DAY_MS,
            ttl_ms / DAY_MS
        );
        let mend = format!("set plausible.past = \"{}d\", which makes them dead letters", (ttl_ms - window) / DAY_MS);
        return Some(finding(State::Note, "retention", detail).mend(mend));
    }
    None
}

#[cfg(test)]
mod tests;
