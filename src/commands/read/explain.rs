//! How the server answers the queries of `read`: stages, bounds in the index, and what was looked at. The samples stay out.

use std::fmt::Write as _;

use mongodb::bson::{Bson, Document, doc};

use super::ReadError;
use super::range::{Slices, Wanted};
use super::source::Source;
use crate::sink::reply::whole;

/// The queries of a read of all samples.
pub(super) async fn range(source: &Source, wanted: Wanted<'_>) -> Result<String, ReadError> {
    let starts = source.starts(wanted.span).await?;
    let after = wanted.span.from.saturating_sub(source.windows.longest_ms());
    let mut text = String::new();
    let seek = source.queries.next_window(after, wanted.span.to);
    one(source, "starts of windows, one after the other", seek, &mut text).await?;
    let mut slices = Slices::new(source, &starts, wanted);
    if let Some(slice) = slices.next() {
        let query = source.queries.buckets(&slice.windows, wanted.devices, slice.span);
        one(source, &format!("buckets of {} windows", slice.windows.len()), query, &mut text).await?;
    }
    let rest = slices.count();
    if rest > 0 {
        writeln!(text, "and up to {rest} more like the last, over {} windows in all", starts.len()).ok();
    }
    Ok(text)
}

/// The queries of a read of the newest samples, for the last window.
pub(super) async fn newest(source: &Source, devices: Option<&[String]>, from: i64) -> Result<String, ReadError> {
    let mut text = String::new();
    let seek = source.queries.previous_window(i64::MAX);
    one(source, "the last window", seek.clone(), &mut text).await?;
    let Some(window) = source.start(seek).await? else { return Ok(text) };
    let query = source.queries.newest_buckets(window, devices, from);
    let found = source.documents(query.clone()).await?;
    one(source, "newest buckets of the last window", query, &mut text).await?;
    let bucket = |found: &Document| {
        let id = found.get_document("newest").ok()?.get("id")?.clone();
        Some((id, found.get_str("_id").ok()?.to_owned()))
    };
    let (ids, names): (Vec<Bson>, Vec<String>) = found.iter().filter_map(bucket).take(1).unzip();
    one(source, "their newest samples (here of the first)", source.queries.newest_samples(&ids, &names), &mut text)
        .await?;
    if devices.is_none() {
        one(source, "devices of each earlier window", source.queries.devices(window), &mut text).await?;
    }
    Ok(text)
}

async fn one(source: &Source, what: &str, mut query: Document, text: &mut String) -> Result<(), ReadError> {
    // The server explains no query that names a read concern.
    query.remove("readConcern");
    let plan = source.run(doc! { "explain": query, "verbosity": "executionStats" }).await?;
    text.push_str(&shown(what, &plan));
    Ok(())
}

fn shown(what: &str, plan: &Document) -> String {
    let mut found = Found::default();
    found.visit(plan);
    let mut text = format!("{what}\n  {}\n", found.stages.join(" < "));
    for bound in &found.bounds {
        writeln!(text, "  {bound}").ok();
    }
    let [keys, documents, returned] = found.counts;
    writeln!(text, "  {keys} keys and {documents} documents examined, {returned} returned").ok();
    text
}

#[derive(Debug, Default)]
struct Found {
    /// From the last to the first, each once: a query of many ranges has as many branches.
    stages: Vec<String>,
    bounds: Vec<String>,
    /// Keys and documents examined, documents returned by the part that uses the index.
    counts: [i64; 3],
}

impl Found {
    /// Plans are nested differently by each server and engine; what matters has the same names in all of them.
    fn visit(&mut self, plan: &Document) {
        for (name, value) in plan {
            match (name.as_str(), value) {
                ("winningPlan", Bson::Document(plan)) => self.stage(plan),
                ("executionStats", Bson::Document(stats)) => {
                    let names = ["totalKeysExamined", "totalDocsExamined", "nReturned"];
                    for (count, name) in self.counts.iter_mut().zip(names) {
                        *count += stats.get(name).and_then(whole).unwrap_or(0);
                    }
                }
                ("rejectedPlans", _) => {}
                (_, Bson::Document(inner)) => self.visit(inner),
                (_, Bson::Array(items)) => items.iter().filter_map(Bson::as_document).for_each(|item| self.visit(item)),
                _ => {}
            }
        }
    }

    fn stage(&mut self, plan: &Document) {
        if let Ok(stage) = plan.get_str("stage") {
            let index = plan.get_str("indexName").map_or_else(|_| String::new(), |index| format!(" {index}"));
            let stage = format!("{stage}{index}");
            if !self.stages.contains(&stage) {
                self.stages.push(stage);
            }
        }
        for range in plan.get_document("indexBounds").into_iter().flatten() {
            let ranges = range.1.as_array().into_iter().flatten();
            self.bounds.extend(ranges.map(|bound| format!("{} {}", range.0, bound.as_str().unwrap_or_default())));
        }
        for (name, value) in plan {
            match value {
                Bson::Document(inner) if matches!(name.as_str(), "queryPlan" | "inputStage" | "winningPlan") => {
                    self.stage(inner);
                }
                Bson::Array(inner) if matches!(name.as_str(), "inputStages" | "shards") => {
                    inner.iter().filter_map(Bson::as_document).for_each(|inner| self.stage(inner));
                }
                _ => {}
            }
        }
    }
}
