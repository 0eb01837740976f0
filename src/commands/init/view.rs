//! The view `<collection>_samples`: one document a sample, for whoever would rather not take buckets apart. Pure.
//!
//! Its names are the same whatever the buckets' fields are called. `_id` stays the bucket's own, not changed in any way, so
//! that the server hands a match on it down to the index.

use mongodb::bson::{Bson, Document, doc};

use super::steps::{Names, Needed, State, Step, step};
use super::survey::Survey;
use crate::config::{Config, FieldNames};

pub(super) fn view(config: &Config, survey: &Survey, names: &Names, needed: &mut Needed) {
    let pipeline = pipeline(&config.fields);
    let what = format!("view {} of one document a sample", names.samples);
    let create = doc! {
        "create": &names.samples, "viewOn": &names.readings, "pipeline": &pipeline,
        // A view may not have another collation than what it looks at.
        "collation": { "locale": "simple" }, "writeConcern": { "w": "majority" },
    };
    let Some(found) = survey.collections.get(&names.samples) else {
        needed.steps.push(step(what, false, create));
        return;
    };
    if found.kind != "view" {
        let kind = &found.kind;
        needed
            .notices
            .push(format!("{} is a {kind} of somebody else's; the view of that name is left out", names.samples));
        return;
    }
    let stages = found.options.get_array("pipeline").ok();
    let is_same = found.options.get_str("viewOn").is_ok_and(|on| on == names.readings)
        && stages.is_some_and(|found| found.iter().eq(&bson(pipeline.clone())));
    let change = doc! {
        "collMod": &names.samples, "viewOn": &names.readings, "pipeline": pipeline, "writeConcern": { "w": "majority" },
    };
    let (state, command) = if is_same { (State::Exists, None) } else { (State::Differs, Some(change)) };
    needed.steps.push(Step { what, state, command });
}

fn bson(pipeline: Vec<Document>) -> Vec<Bson> {
    pipeline.into_iter().map(Bson::from).collect()
}

fn pipeline(fields: &FieldNames) -> Vec<Document> {
    let FieldNames { deviceid, date, meta, samples, time, info, pos, .. } = fields;
    vec![
        doc! { "$unwind": { "path": format!("${samples}"), "includeArrayIndex": "place" } },
        doc! { "$project": {
            "deviceid": format!("${deviceid}"), "date": format!("${date}"), "time": format!("${samples}.{time}"),
            "info": format!("${samples}.{info}"), "meta": format!("${meta}"),
            // With `time` in front, and `_id.s`, `_id.n` and `place` behind, the order of a device's samples.
            "pos": format!("${pos}"), "place": 1,
        } },
    ]
}

#[cfg(test)]
mod tests {
    use super::super::steps::steps;
    use super::super::survey::Found;
    use super::*;

    fn needed(more: &str, found: Option<(&str, Document)>) -> Needed {
        let minimal = "kafka.brokers = \"h:1\"\nmongo.uri = \"mongodb://h/?replicaSet=rs0\"\n\
                       decoder = [{ topics = \"t\", device_path = \"@key\", timestamp_missing = \"kafka\" }]\n";
        let config = Config::from_toml(&format!("{minimal}{more}")).unwrap();
        let mut survey = Survey::default();
        let found = found.map(|(kind, options)| Found { kind: kind.into(), options });
        survey.collections.extend(found.map(|found| ("readings_samples".into(), found)));
        let mut needed = steps(&config, &survey).unwrap();
        needed.steps.retain(|step| step.what.contains("_samples"));
        needed
    }

    #[test]
    fn a_view_of_other_names_is_changed_and_a_foreign_collection_left_alone() {
        let made = needed("", None).steps.remove(0);
        let options = made.command.unwrap();
        assert_eq!(made.state, State::Missing);
        assert_eq!(needed("", Some(("view", options.clone()))).steps[0].state, State::Exists);
        let renamed = needed("fields.samples = \"s\"", Some(("view", options)));
        assert_eq!(renamed.steps[0].state, State::Differs);
        assert_eq!(renamed.steps[0].command.as_ref().unwrap().get_str("collMod").unwrap(), "readings_samples");
        let foreign = needed("", Some(("collection", doc! {})));
        assert!(foreign.steps.is_empty() && foreign.notices[0].contains("left out"), "{:?}", foreign.notices);
    }
}
