//! Rules of the repository that neither the compiler nor clippy can see. Reads files, needs no feature and no service.
//!
//! Each rule is a function from text to findings, so that every one is shown to fail on a small sample.

mod rules;
mod text;

use std::fs;
use std::path::{Path, PathBuf};

use text::code_only;

/// Folders and files of the pure core; everything else may talk to the world.
const PURE: [&str; 7] = [
    "src/engine/",
    "src/decode/",
    "src/record.rs",
    "src/sink/encode",
    "src/sink/outcome",
    "src/sink/retry",
    "src/source/flow",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// (path from the root, content) of every Rust file that is ours.
fn rust_files() -> Vec<(String, String)> {
    let mut folders: Vec<PathBuf> = ["src", "tests", "benches", "loadtest"]
        .iter()
        .map(|name| root().join(name))
        .filter(|dir| dir.is_dir())
        .collect();
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of the repository can be read") {
            let path = entry.expect("an entry of a folder can be read").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(root()).expect("below the root").to_string_lossy().into_owned();
                let content = read(&name);
                files.push((name, content));
            }
        }
    }
    files.sort();
    assert!(files.len() > 10, "the rules must see the sources; found only {}", files.len());
    files
}

/// Applies `rule` to the files that `concerns` picks; all findings at once.
fn check(concerns: impl Fn(&str) -> bool, rule: impl Fn(&str) -> Vec<String>) {
    let findings: Vec<String> = rust_files()
        .iter()
        .filter(|(name, _)| concerns(name))
        .flat_map(|(name, content)| rule(content).into_iter().map(move |finding| format!("{name}: {finding}")))
        .collect();
    assert!(findings.is_empty(), "\n{}", findings.join("\n"));
}

#[test]
fn files_and_functions_are_short() {
    check(|_| true, |content| [rules::file_length(content), rules::function_lengths(&code_only(content))].concat());
}

#[test]
fn every_file_says_what_it_is() {
    // Unit tests in a file of their own are what the file beside them says.
    check(|name| !name.ends_with("tests.rs"), rules::opening);
}

#[test]
fn the_core_is_free_of_io_clock_and_threads() {
    check(|name| PURE.iter().any(|pure| name.starts_with(pure)), |content| rules::outside_world(&code_only(content)));
}

#[test]
fn only_configuration_is_serialized() {
    check(
        |name| name.starts_with("src/") && !name.starts_with("src/config/"),
        |content| rules::serde_derives(&code_only(content)),
    );
}

#[test]
fn every_warning_and_error_names_its_code() {
    check(|name| name.starts_with("src/"), |content| rules::events_without_code(&code_only(content)));
}

#[test]
fn every_code_is_used() {
    let (seed, sources): (Vec<_>, Vec<_>) = rust_files()
        .into_iter()
        .filter(|(name, _)| name.starts_with("src/"))
        .partition(|(name, _)| name == "src/code.rs");
    let used: String = sources.iter().map(|(_, content)| code_only(content)).collect();
    let unused = rules::unused_codes(&seed[0].1, &used);
    assert!(unused.is_empty(), "src/code.rs has codes that nothing says: {unused:?}");
}

#[test]
fn the_stated_rust_version_is_the_pinned_one() {
    let pinned = rules::value_of(&read("rust-toolchain.toml"), "channel").expect("rust-toolchain.toml has a channel");
    let stated = rules::value_of(&read("Cargo.toml"), "rust-version").expect("Cargo.toml has a rust-version");
    assert_eq!(pinned, stated, "rust-toolchain.toml and Cargo.toml");
}

#[test]
fn documents_name_commands_that_exist() {
    let makefile = read("Makefile");
    for name in ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", ".ci/run"] {
        let unknown = rules::unknown_targets(&read(name), &makefile);
        assert!(unknown.is_empty(), "{name} names targets that the Makefile has not: {unknown:?}");
    }
    for name in ["README.md", "CONTRIBUTING.md", ".ci/run"] {
        let text = read(name);
        assert!(text.contains("make test") && text.contains("make check"), "{name} names `make test` and `make check`");
    }
}
