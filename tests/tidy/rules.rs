//! The rules themselves: text in, findings out. Below each stands a sample that it must object to.

const FILE_LINES: usize = 400;
const FUNCTION_LINES: usize = 60;

pub(crate) fn file_length(content: &str) -> Vec<String> {
    let lines = content.lines().count();
    if lines > FILE_LINES {
        vec![format!("{lines} lines; at most {FILE_LINES}, split it by what it is about")]
    } else {
        vec![]
    }
}

#[test]
fn a_long_file_is_found() {
    assert!(file_length(&"x\n".repeat(400)).is_empty());
    assert_eq!(file_length(&"x\n".repeat(401)).len(), 1);
}

/// `code` as from `code_only`: braces in comments and strings would be counted otherwise.
pub(crate) fn function_lengths(code: &str) -> Vec<String> {
    let long = |(at, name): (usize, &str)| {
        let lines = code[at..at + body_end(&code[at..])?].matches('\n').count() + 1;
        let line = code[..at].matches('\n').count() + 1;
        let long = lines > FUNCTION_LINES;
        long.then(|| format!("{line}: function {name} has {lines} lines; at most {FUNCTION_LINES}"))
    };
    functions(code).into_iter().filter_map(long).collect()
}

/// Where each `fn` with a name starts.
fn functions(code: &str) -> Vec<(usize, &str)> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let named = |(at, _): (usize, &str)| {
        let begins = !code[..at].ends_with(is_word);
        let name = code[at + 3..].trim_start().split(|c| !is_word(c)).next().unwrap_or_default();
        (begins && !name.is_empty()).then_some((at, name))
    };
    code.match_indices("fn ").filter_map(named).collect()
}

/// Length up to the brace that closes the body; `None` for a declaration without one.
fn body_end(code: &str) -> Option<usize> {
    let (mut braces, mut brackets) = (0_i32, 0_i32);
    for (at, c) in code.char_indices() {
        match c {
            // The `;` of an array type is not the end.
            '(' | '[' => brackets += 1,
            ')' | ']' => brackets -= 1,
            ';' if braces == 0 && brackets == 0 => return None,
            '{' => braces += 1,
            '}' => {
                braces -= 1;
                if braces <= 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

#[test]
fn a_long_function_is_found() {
    let function =
        |lines: usize| format!("trait T {{ fn short(); }}\nfn f(a: [u8; 2])\n{{{}}}\n", "\n".repeat(lines - 2));
    assert_eq!(function_lengths(&function(60)), Vec::<String>::new());
    assert_eq!(function_lengths(&function(61)), ["2: function f has 61 lines; at most 60"]);
    // A function within a function counts for both.
    let nested = format!("fn outer() {{ fn inner() {{{}}} }}", "\n".repeat(60));
    assert_eq!(function_lengths(&nested).len(), 2);
}

pub(crate) fn opening(content: &str) -> Vec<String> {
    if content.starts_with("//!") { vec![] } else { vec!["opens without a `//!` that says what it is".to_owned()] }
}

#[test]
fn a_file_without_a_word_is_found() {
    assert!(opening("//! What it is.\n").is_empty());
    assert_eq!(opening("use std::fmt;\n").len(), 1);
}

/// What the pure core must not name. `std::time` has `Duration` too, but time is a tick or milliseconds there.
const OUTSIDE: [&str; 7] = ["rdkafka", "mongodb", "tokio", "Instant", "SystemTime", "crossbeam", "axum"];
const OUTSIDE_STD: [&str; 6] = ["thread", "time", "fs", "net", "process", "env"];

/// `code` as from `code_only`: comments may speak of anything.
pub(crate) fn outside_world(code: &str) -> Vec<String> {
    let words: Vec<(usize, &str)> =
        code.lines().enumerate().flat_map(|(i, line)| words(line).map(move |w| (i + 1, w))).collect();
    let mut findings: Vec<String> = words
        .iter()
        .filter(|(_, word)| OUTSIDE.contains(word))
        .map(|(line, word)| format!("{line}: names {word}; the core has no IO, clock or threads"))
        .collect();
    for part in std_parts(code) {
        if OUTSIDE_STD.contains(&part) {
            findings.push(format!("names std::{part}; the core has no IO, clock or threads"));
        }
    }
    findings
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// First parts after each `std::`, also inside `std::{...}`.
fn std_parts(code: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    for (at, prefix) in code.match_indices("std::") {
        let rest = &code[at + prefix.len()..];
        match rest.strip_prefix('{') {
            None => parts.extend(words(rest).next()),
            // Every path of a group, however deep: rather one finding too many than one too few.
            Some(group) => parts.extend(words(group.split(';').next().unwrap_or_default())),
        }
    }
    parts
}

#[test]
fn the_outside_world_is_found() {
    for code in [
        "use rdkafka::Message;",
        "use std::time::Duration;",
        "std::thread::spawn(f)",
        "use std::{fmt, net::SocketAddr};",
        "use std::{\n    collections::BTreeMap,\n    fs,\n};",
        "let now = Instant::now();",
    ] {
        assert!(!outside_world(code).is_empty(), "{code}");
    }
    for code in ["use std::collections::BTreeMap;", "use std::{fmt, mem};", "let instant = time(record);"] {
        assert_eq!(outside_world(code), Vec::<String>::new(), "{code}");
    }
}

/// Data of the core changes with the core; what is stored or sent is written by hand where its form is documented.
pub(crate) fn serde_derives(code: &str) -> Vec<String> {
    let derives = code.split("derive(").skip(1).map(|rest| rest.split(')').next().unwrap_or_default());
    let traits = derives.flat_map(words).filter(|word| ["Serialize", "Deserialize"].contains(word));
    traits.map(|name| format!("derives {name}; only types of src/config do")).collect()
}

#[test]
fn a_serde_derive_is_found() {
    assert_eq!(serde_derives("#[derive(Debug,\n    serde::Serialize)]\nstruct S;").len(), 1);
    assert!(serde_derives("#[derive(Debug)]\nstruct S; impl Serialize for S {}").is_empty());
}

/// `code` as from `code_only`. A code is the first field, after the target where there is one.
pub(crate) fn events_without_code(code: &str) -> Vec<String> {
    let events = ["warn!(", "error!("].iter().flat_map(|call| code.match_indices(call));
    let is_coded = |rest: &str| {
        let fields = rest.trim_start();
        let fields = fields.strip_prefix("target:").map_or(fields, |rest| rest.trim_start_matches([' ', ',']));
        ["code = %", "%code,"].iter().any(|start| fields.starts_with(start))
    };
    let without = events.filter(|(at, call)| !is_coded(&code[at + call.len()..]));
    let line = |at: usize| code[..at].matches('\n').count() + 1;
    without.map(|(at, _)| format!("{}: an event without `code = %...` as its first field", line(at))).collect()
}

#[test]
fn an_event_without_a_code_is_found() {
    for code in ["warn!( )", "tracing::error!(%error, )", "warn!(error, code = %Code::X, )", "warn!(target:  , x, )"] {
        assert_eq!(events_without_code(code).len(), 1, "{code}");
    }
    for code in [
        "warn!(code = %Code::X, )",
        "warn!(\n    code = %error.code(),\n",
        "error!(%code, )",
        "warn!(target:  , code = %c, )",
    ] {
        assert_eq!(events_without_code(code), Vec::<String>::new(), "{code}");
    }
}

/// Variants that `list`, the source of the codes, has and `used` does not name.
pub(crate) fn unused_codes(list: &str, used: &str) -> Vec<String> {
    let (_, codes) = list.split_once("\ncodes! {").unwrap_or_default();
    let variants = codes.split('}').next().unwrap_or_default().split_whitespace().step_by(2);
    let names = |variant: &&str| words(used).collect::<Vec<_>>().windows(2).any(|pair| pair == ["Code", variant]);
    variants.filter(|variant| !names(variant)).map(str::to_owned).collect()
}

#[test]
fn an_unused_code_is_found() {
    let list = "macro_rules! codes {}\ncodes! {\n    A \"a\"\n    Ab \"ab\"\n}\n";
    assert_eq!(unused_codes(list, "f(Code::Ab)"), ["A"]);
    assert!(unused_codes(list, "Code::A; Code::Ab").is_empty());
}

/// The string that `key = "..."` gives in a TOML text.
pub(crate) fn value_of(toml: &str, key: &str) -> Option<String> {
    let line = toml.lines().find(|line| line.split('=').next().is_some_and(|left| left.trim() == key))?;
    Some(line.split('"').nth(1)?.to_owned())
}

#[test]
fn values_are_read() {
    assert_eq!(value_of("a-channel = \"1\"\nchannel = \"1.2.3\"", "channel").as_deref(), Some("1.2.3"));
    assert_eq!(value_of("channels = \"1\"", "channel"), None);
}

/// Targets that `document` tells people to make and `makefile` does not have.
pub(crate) fn unknown_targets(document: &str, makefile: &str) -> Vec<String> {
    // Only commands: at the start of a line of code, or in a code span. "make" is also an English word.
    let line_starts = document.lines().filter_map(|line| line.strip_prefix("make "));
    let spans = document.split('`').skip(1).step_by(2).filter_map(|span| span.strip_prefix("make "));
    let target =
        |rest: &str| rest.split(|c: char| !c.is_ascii_lowercase() && c != '-').next().unwrap_or_default().to_owned();
    let known =
        |name: &String| makefile.lines().any(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(':')));
    line_starts.chain(spans).map(target).filter(|name| !name.is_empty() && !known(name)).collect()
}

#[test]
fn an_unknown_target_is_found() {
    let makefile = "test: a\n\tcargo test\nservices-up:\n";
    assert!(unknown_targets("Run `make test`:\n\nmake services-up\nThey make tests.", makefile).is_empty());
    assert_eq!(unknown_targets("Run `make tests`.\nmake services", makefile), ["services", "tests"]);
}
