//! Which decoder reads a topic: exact names first, then patterns.
//!
//! Two engines judge a pattern: librdkafka's (POSIX, of the C library) what is subscribed to, ours which decoder reads
//! it. Where they differed, a topic would be left out without a word; so a pattern holds only what both take alike.

use std::iter::Peekable;
use std::str::Chars;

use regex::Regex;

use super::Config;
use super::contract::DecoderTable;
use super::names::check_topic_name;

/// Topics that a broker keeps for itself; a pattern such as `^.*` does not mean them.
pub const INTERNAL_TOPICS: &str = "^__consumer_offsets$,^__transaction_state$,^__share_group_state$";

/// Why no decoder reads a topic that was handed over.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unrouted {
    #[error("no [[decoder]] reads topic {topic:?}; name it in the topics of one")]
    Unnamed { topic: String },
    #[error(
        "topic {topic:?} matches patterns of {n} decoders: {patterns}; name it exactly in one of them, or make the \
         patterns narrower"
    )]
    Ambiguous { topic: String, n: usize, patterns: String },
}

impl Config {
    /// The topics that are named one by one.
    pub fn named_topics(&self) -> Vec<String> {
        self.kafka.topics.iter().filter(|entry| !is_pattern(entry)).cloned().collect()
    }

    /// What a member would subscribe to: the topics that are named, whether they are there or not, then those of `visible`
    /// that patterns find, in the order of the alphabet.
    pub fn topics_among(&self, visible: &[String]) -> Vec<String> {
        let mut topics = self.named_topics();
        let mut found: Vec<_> = self.kafka.topics.iter().flat_map(|entry| found_by(entry, visible)).cloned().collect();
        found.sort_unstable();
        found.dedup();
        found.retain(|name| !topics.contains(name));
        topics.extend(found);
        topics
    }

    /// The decoder that reads `topic`. One that names it exactly goes before any pattern, whatever their order.
    pub fn decoder_for(&self, topic: &str) -> Result<&DecoderTable, Unrouted> {
        let names = |table: &&DecoderTable| table.topics.iter().any(|entry| entry == topic);
        if let Some(table) = self.decoders.iter().find(names) {
            return Ok(table);
        }
        let pattern_of = |table: &DecoderTable| table.topics.iter().find(|entry| matches(entry, topic)).cloned();
        let found: Vec<_> = self.decoders.iter().filter_map(|table| Some((table, pattern_of(table)?))).collect();
        match &*found {
            [] => Err(Unrouted::Unnamed { topic: topic.to_owned() }),
            [(table, _)] => Ok(table),
            several => {
                let patterns: Vec<_> = several.iter().map(|(_, pattern)| format!("{pattern:?}")).collect();
                Err(Unrouted::Ambiguous { topic: topic.to_owned(), n: several.len(), patterns: patterns.join(", ") })
            }
        }
    }
}

pub fn is_pattern(entry: &str) -> bool {
    entry.starts_with('^')
}

/// Those of `visible` that a pattern finds; none where `entry` is a name.
pub fn found_by<'a>(entry: &str, visible: &'a [String]) -> Vec<&'a String> {
    let Some(pattern) = is_pattern(entry).then(|| compiled(entry)) else { return Vec::new() };
    visible.iter().filter(|name| pattern.is_match(name) && !is_internal(name)).collect()
}

fn is_internal(topic: &str) -> bool {
    INTERNAL_TOPICS.split(',').any(|pattern| pattern.trim_matches(['^', '$']) == topic)
}

/// What librdkafka is to subscribe to. One pattern for all as soon as there is any: a topic that two entries match would
/// otherwise stand in the subscription twice (`rd_kafka_metadata_topic_match` of librdkafka 2.12).
pub fn subscription(entries: &[String]) -> Vec<String> {
    if !entries.iter().any(|entry| is_pattern(entry)) {
        return entries.to_vec();
    }
    let alternatives: Vec<_> = entries.iter().map(|entry| alternative(entry)).collect();
    vec![format!("^({})", alternatives.join("|"))]
}

/// A name as it is, or a pattern that matches from the start of names.
pub(super) fn check_topic(entry: &str) -> Result<(), String> {
    let Some(rest) = entry.strip_prefix('^') else { return check_topic_name(entry) };
    if rest.is_empty() {
        return Err("\"^\" would match every topic; write `^.*` if that is meant".into());
    }
    check_dialect(rest).map_err(|what| format!("the pattern {entry:?} {what}"))?;
    let compiled = Regex::new(&anchored(entry));
    compiled.map(|_| ()).map_err(|error| format!("the pattern {entry:?} is no regular expression: {error}"))
}

/// Whether `entry` is a pattern that `topic` matches.
fn matches(entry: &str, topic: &str) -> bool {
    is_pattern(entry) && compiled(entry).is_match(topic)
}

fn compiled(pattern: &str) -> Regex {
    Regex::new(&anchored(pattern)).expect("invariant: checked when it was read")
}

fn anchored(pattern: &str) -> String {
    format!("^{}", alternative(pattern))
}

/// An entry as one branch of a larger expression, which starts at the start of the name.
fn alternative(entry: &str) -> String {
    match entry.strip_prefix('^') {
        Some(rest) => format!("({rest})"),
        None => format!("({}$)", entry.replace('.', "\\.")),
    }
}

/// Only what POSIX's extended expressions and ours take alike.
fn check_dialect(rest: &str) -> Result<(), String> {
    let mut chars = rest.chars().peekable();
    let mut follows_repeat = false;
    while let Some(c) = chars.next() {
        let is_repeat = matches!(c, '*' | '+' | '?' | '{');
        if is_repeat && follows_repeat {
            return Err(format!("has {c:?} right after another repeat, which not every engine takes"));
        }
        match c {
            '\\' if chars.next() != Some('.') => {
                return Err("has a backslash; only `\\.` is known, classes are written as [0-9]".into());
            }
            '(' if chars.peek() == Some(&'?') => return Err("has `(?`, which not every engine takes".into()),
            '[' => check_class(&mut chars)?,
            '{' => while chars.next_if(|c| matches!(c, '0'..='9' | ',')).is_some() {},
            '\\' | '.' | '_' | '-' | '*' | '+' | '?' | '|' | '(' | ')' | '}' | '$' => {}
            c if c.is_ascii_alphanumeric() => {}
            c => return Err(format!("has {c:?}, which stands in no topic's name and has no meaning in a pattern")),
        }
        follows_repeat = matches!(c, '*' | '+' | '?' | '}');
    }
    Ok(())
}

/// The rest of a class such as `[a-z0-9]`.
fn check_class(chars: &mut Peekable<Chars<'_>>) -> Result<(), String> {
    chars.next_if_eq(&'^');
    let mut before = '[';
    for c in chars.by_ref() {
        match c {
            ']' if before != '[' => return Ok(()),
            '-' if before == '-' => break,
            c if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') => before = c,
            _ => break,
        }
    }
    Err("has a class that is not understood; write letters, digits, `.`, `_`, `-` and ranges, as in [a-z0-9]".into())
}

#[cfg(test)]
mod tests;
