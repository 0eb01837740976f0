//! The reference of all keys as Markdown, put together from the compiled-in defaults with their comments and from what
//! the reader takes: there is no second list that could say something else.

use std::fmt::Write as _;

use super::machine::Machine;
use super::reader::Reader;
use super::{layers, raw, validate};

const HEAD: &str = "\
# Configuration

Made by `sakia reference` from `config/default.toml` and from what the program takes; do not edit it by hand.
";

/// A table of the defaults.
#[derive(Debug, Default)]
struct Section {
    /// As written, such as `[bucket]`.
    header: String,
    text: String,
    keys: Vec<Key>,
}

#[derive(Debug)]
struct Key {
    name: String,
    /// The default, or an example where there is none.
    value: String,
    has_default: bool,
    meaning: String,
}

/// `flags` are those that stand for a key: `("--brokers", "kafka.brokers")`.
pub fn reference(flags: &[(&str, &str)]) -> String {
    let (preamble, sections) = sections(raw::DEFAULTS);
    let layers = vec![raw::defaults(), raw::read_text("reference", &uncommented(raw::DEFAULTS), &mut Vec::new())];
    let merged = raw::RawConfig::merge(layers);
    let mut reader = Reader::new(&merged, Vec::new());
    validate::config(&mut reader, Machine::default(), None);
    let mut page = format!("{HEAD}\n{preamble}");
    for section in sections {
        write_section(&mut page, &section, &reader, flags).expect("invariant: writing to a String cannot fail");
    }
    page
}

fn write_section(
    page: &mut String,
    section: &Section,
    reader: &Reader<'_>,
    flags: &[(&str, &str)],
) -> std::fmt::Result {
    write!(page, "\n## `{}`\n\n{}", section.header, section.text)?;
    if section.keys.is_empty() {
        return Ok(());
    }
    let gap = if section.text.is_empty() { "" } else { "\n" };
    writeln!(page, "{gap}| key | value | default | variable, flag | meaning |\n|---|---|---|---|---|")?;
    let table = section.header.trim_matches(['[', ']']);
    for Key { name, value, has_default, meaning } in &section.keys {
        let path = format!("{table}.{name}");
        let form = reader.form(if table == "decoder" { path.replace('.', ".*.") } else { path.clone() }.as_str());
        let default = if *has_default { format!("`{value}`") } else { format!("none; such as `{value}`") };
        let variables = if table == "decoder" { vec!["in `SAKIA_DECODER`".to_owned()] } else { variables(&path) };
        let flag = flags.iter().filter(|(_, key)| *key == path).map(|(flag, _)| format!("`{flag}`"));
        let ways = variables.into_iter().chain(flag).collect::<Vec<_>>().join(", ");
        writeln!(page, "| `{name}` | {form} | {default} | {ways} | {meaning} |")?;
    }
    Ok(())
}

fn variables(path: &str) -> Vec<String> {
    let short = layers::SHORT_NAMES.iter().filter(|(_, key)| *key == path).map(|(name, _)| (*name).to_owned());
    short.chain([layers::variable_of_key(path)]).map(|name| format!("`{name}`")).collect()
}

/// What stands before the first table, and the tables.
fn sections(toml: &str) -> (String, Vec<Section>) {
    let (mut preamble, mut sections, mut comment) = (None, Vec::<Section>::new(), Vec::new());
    for line in toml.lines() {
        let body = line.strip_prefix("# ").or_else(|| line.strip_prefix('#')).unwrap_or(line);
        if body.is_empty() {
            if preamble.is_none() && line.is_empty() {
                preamble = Some(paragraph(&comment));
            }
            if preamble.is_some() {
                comment.clear();
            } else {
                comment.push("");
            }
        } else if body.starts_with('[') && body.ends_with(']') {
            sections.push(Section { header: body.to_owned(), text: paragraph(&comment), keys: Vec::new() });
            comment.clear();
        } else if let (Some((name, value)), Some(section)) = (key_of(body), sections.last_mut()) {
            let (value, after) = value.split_once(" # ").unwrap_or((value, ""));
            let words = comment.iter().copied().chain([after]).filter(|text: &&str| !text.is_empty());
            section.keys.push(Key {
                name: name.to_owned(),
                value: value.trim().to_owned(),
                has_default: !line.starts_with('#'),
                meaning: words.collect::<Vec<_>>().join(" "),
            });
        } else {
            comment.push(body);
        }
    }
    (preamble.unwrap_or_default(), sections)
}

/// The lines as they stand, which Markdown flows together; items of a list stay items.
fn paragraph(lines: &[&str]) -> String {
    lines.iter().fold(String::new(), |text, line| text + line + "\n")
}

/// `key = value`; prose may hold an equals sign, but a key is one word.
fn key_of(line: &str) -> Option<(&str, &str)> {
    line.split_once(" = ").filter(|(name, _)| !name.contains(' '))
}

/// The defaults with every key set, those too that have none.
pub(super) fn uncommented(toml: &str) -> String {
    toml.lines().fold(String::new(), |text, line| {
        let key = line.strip_prefix("# ").filter(|line| line.starts_with("[[") || key_of(line).is_some());
        text + key.unwrap_or(line) + "\n"
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_a_meaning_and_a_form() {
        let (preamble, sections) = sections(raw::DEFAULTS);
        assert!(preamble.contains("Layers, each over the one before"), "{preamble}");
        let headers: Vec<_> = sections.iter().map(|section| section.header.as_str()).collect();
        assert!(headers.contains(&"[bucket]") && headers.contains(&"[[decoder]]"), "{headers:?}");
        let page = reference(&[("--group", "kafka.group")]);
        let rows: Vec<_> = page.lines().filter(|line| line.starts_with("| `")).collect();
        assert_eq!(rows.len(), sections.iter().map(|section| section.keys.len()).sum::<usize>());
        for row in &rows {
            let n_full = row.split('|').filter(|cell| !cell.trim().is_empty()).count();
            assert_eq!(n_full, 5, "no comment says what it means: {row}");
        }
        let row = |start: &str| *rows.iter().find(|row| row.starts_with(start)).expect(start);
        assert_eq!(
            row("| `group` "),
            "| `group` | text | `\"sakia\"` | `SAKIA_KAFKA__GROUP`, `--group` | Consumer group. Members of one group share \
             the partitions. |"
        );
        assert!(row("| `max_samples` ").contains("| whole number, 1 to 100000 | `200` |"));
        assert!(row("| `uri` ").contains("`SAKIA_MONGO`, `SAKIA_MONGO__URI`"));
        assert!(row("| `exclude` ").contains("in `SAKIA_DECODER`") && row("| `exclude` ").contains("to leave out"));
    }
}
