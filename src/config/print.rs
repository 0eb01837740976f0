//! The effective configuration as TOML that reads back as the same, except for masked secrets.

use std::fmt::Write as _;

use super::reader::Entry;

pub(super) fn print(entries: &[Entry]) -> String {
    let mut out = String::new();
    let mut table = "";
    for entry in entries {
        if entry.table != table {
            table = &entry.table;
            let gap = if out.is_empty() { "" } else { "\n" };
            let header = if table.starts_with("decoder.") { "[[decoder]]".into() } else { format!("[{table}]") };
            line(&mut out, &format!("{gap}{header}"), "");
        }
        let key = quoted(&entry.key);
        match &entry.value {
            Some(value) => line(&mut out, &format!("{key} = {value}"), &entry.origin),
            None => line(&mut out, &format!("# {key} is not set"), ""),
        }
    }
    out
}

/// `12 by sakia.toml, 1 by SAKIA_MONGO, 40 by default`.
pub(super) fn origins(entries: &[Entry]) -> String {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for origin in entries.iter().filter(|entry| entry.value.is_some()).map(|entry| short(&entry.origin)) {
        match counts.iter_mut().find(|(known, _)| *known == origin) {
            Some((_, n)) => *n += 1,
            None => counts.push((origin, 1)),
        }
    }
    // What people typed first; defaults and what follows from them last.
    counts.sort_by_key(|(origin, _)| ["default", "derived", ""].contains(origin));
    let said =
        counts.iter().map(|(origin, n)| format!("{n} by {}", if origin.is_empty() { "themselves" } else { origin }));
    said.collect::<Vec<_>>().join(", ")
}

/// A place without its line, a rule without what it says.
fn short(origin: &str) -> &str {
    if origin.starts_with("derived") {
        return "derived";
    }
    match origin.rsplit_once(':') {
        Some((file, line)) if !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit()) => file,
        _ => origin,
    }
}

fn line(out: &mut String, text: &str, origin: &str) {
    let comment = if origin.is_empty() { String::new() } else { format!("  # {origin}") };
    writeln!(out, "{text}{comment}").expect("invariant: writing to a String cannot fail");
}

/// Names of librdkafka options hold dots: bare, they would be read as tables.
fn quoted(key: &str) -> String {
    let is_bare = key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    if is_bare && !key.is_empty() { key.to_owned() } else { toml::Value::from(key).to_string() }
}
