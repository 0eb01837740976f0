//! Judges a page of metrics: the text format as a scraper reads it, and names, types, labels and help as documented.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Series that are there only once there is a reason for them.
const SILENT: [&str; 3] = ["sakia_skipped_total", "sakia_dead_letters_total", "sakia_seals_total"];

/// What a family says of itself and shows.
#[derive(Debug, Default, PartialEq, Eq)]
struct Family {
    kind: String,
    help: String,
    labels: BTreeSet<String>,
}

/// Everything that is wrong with `page`.
pub(super) fn findings(page: &str) -> Vec<String> {
    let mut findings = Vec::new();
    let mut served: BTreeMap<String, Family> = BTreeMap::new();
    let (mut current, mut series) = (String::new(), BTreeSet::new());
    for line in page.lines() {
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
            if served.contains_key(name) {
                findings.push(format!("{name} comes in two places"));
            }
            name.clone_into(&mut current);
            help.clone_into(&mut served.entry(current.clone()).or_default().help);
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            if name != current {
                findings.push(format!("the type of {name} does not follow its help"));
            }
            kind.clone_into(&mut served.entry(name.to_owned()).or_default().kind);
        } else if !line.starts_with('#') {
            let family = served.entry(current.clone()).or_default();
            findings.extend(sample(line, &current, family).err());
            if !series.insert(line.rsplit_once(' ').map_or(line, |(series, _)| series).to_owned()) {
                findings.push(format!("twice on one page: {line}"));
            }
        }
    }
    findings.extend(documented().into_iter().filter_map(|(name, wanted)| {
        let found = served.remove(&name);
        let is_silent = SILENT.contains(&name.as_str());
        let is_right = found.as_ref().is_some_and(|found| {
            let same_labels = found.labels == wanted.labels || is_silent && found.labels.is_empty();
            same_labels && found.kind == wanted.kind && found.help == wanted.help
        });
        (!is_right).then(|| format!("{name} is documented as {wanted:?}, and served as {found:?}"))
    }));
    findings.extend(served.keys().map(|name| format!("{name} is not documented")));
    findings
}

/// One line with a value, which belongs to the family `name`.
fn sample(line: &str, name: &str, family: &mut Family) -> Result<(), String> {
    let wrong = |what: &str| format!("{what}: {line}");
    let (series, value) = line.rsplit_once(' ').ok_or_else(|| wrong("no value"))?;
    let value: f64 = value.parse().map_err(|_| wrong("the value is no number"))?;
    let (of, labels) = match series.split_once('{') {
        Some((of, rest)) => (of, rest.strip_suffix('}').ok_or_else(|| wrong("labels without an end"))?),
        None => (series, ""),
    };
    let is_histogram = family.kind == "histogram";
    let suffix = of.strip_prefix(name).ok_or_else(|| wrong("not below its family's help"))?;
    if !(suffix.is_empty() && !is_histogram || is_histogram && ["_bucket", "_sum", "_count"].contains(&suffix)) {
        return Err(wrong("a name that its type does not have"));
    }
    if (family.kind == "counter") != name.ends_with("_total") {
        return Err(wrong("counters and only they end in _total"));
    }
    if family.kind == "counter" && (value < 0.0 || value.fract() != 0.0) {
        return Err(wrong("a counter counts whole things"));
    }
    // No value of ours holds a comma or a quote.
    for label in labels.split(',').filter(|label| !label.is_empty()) {
        let (name, value) = label.split_once('=').ok_or_else(|| wrong("a label without a value"))?;
        if !(value.len() > 2 && value.starts_with('"') && value.ends_with('"')) {
            return Err(wrong("an empty label, or one without quotes"));
        }
        if !(is_histogram && name == "le") {
            family.labels.insert(name.to_owned());
        }
    }
    Ok(())
}

/// The rows of `docs/metrics.md`.
fn documented() -> BTreeMap<String, Family> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/metrics.md");
    let page = std::fs::read_to_string(page).unwrap();
    let rows = page.lines().filter(|line| line.starts_with("| `sakia_"));
    let rows = rows.map(|row| {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [name, kind, labels, help] = cells[..] else { panic!("a row of four cells: {row}") };
        let labels = labels.split(", ").map(|label| label.trim_matches('`').to_owned());
        let labels = labels.filter(|label| !label.is_empty()).collect();
        (name.trim_matches('`').to_owned(), Family { kind: kind.to_owned(), help: help.to_owned(), labels })
    });
    rows.collect()
}

#[test]
fn what_a_scraper_would_refuse_is_found() {
    let wrong = |page: &str, what: &str| {
        let found = findings(page);
        assert!(found.iter().any(|finding| finding.contains(what)), "{what:?} in {found:#?}");
    };
    wrong("# HELP a A\n# TYPE a gauge\na x\n", "no number");
    wrong("# HELP a A\n# TYPE a gauge\na 1\na 1\n", "twice");
    wrong("# HELP a A\n# TYPE a counter\na 1\n", "_total");
    wrong("# HELP a A\n# TYPE a gauge\nb 1\n", "not below");
    wrong("# HELP a A\n# TYPE b gauge\n", "does not follow");
    wrong("# HELP a_total A\n# TYPE a_total counter\na_total -1\n", "whole things");
    wrong("# HELP a A\n# TYPE a gauge\na{x=\"\"} 1\n", "empty label");
    wrong("# HELP a A\n# TYPE a gauge\n", "a is not documented");
    wrong("", "sakia_records_total is documented");
}
