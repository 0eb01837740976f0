use super::*;

fn parse(line: &str) -> (LayerArgs, LayerArgs) {
    let cli = Cli::try_parse_from(line.split(' ')).unwrap();
    let after = cli.command.as_ref().map(|command| command.layer().clone()).unwrap_or_default();
    (cli.layer, after)
}

#[test]
fn definition_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn flags_count_before_and_after_the_command() {
    let (before, after) = parse("sakia --config a --set a.b=1 --group g run --set a.c=2 --group h --config b");
    let sources = sources(&before, &after);
    assert_eq!(sources.sets, ["a.b=1", "a.c=2"]);
    assert_eq!(sources.file, Some("b".into()));
    let groups: Vec<_> = sources.flags.iter().map(|flag| flag.value.as_str()).collect();
    assert_eq!(groups, ["g", "h"]);
}

#[test]
fn librdkafka_knows_its_options() {
    assert_eq!(librdkafka_takes("security.protocol", "sasl_ssl"), Ok(()));
    assert!(librdkafka_takes("client.idd", "x").unwrap_err().contains("client.idd"));
    assert!(librdkafka_takes("fetch.wait.max.ms", "soon").is_err());
}

/// Pages and sources that tell people what to type.
fn texts() -> Vec<(String, String)> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut paths: Vec<_> =
        ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "config/default.toml"].map(|name| root.join(name)).into();
    let mut folders = ["docs", "src", "deploy", "config/examples"].map(|name| root.join(name)).to_vec();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if !path.ends_with("cli/tests.rs") {
                paths.push(path);
            }
        }
    }
    let read = |path: PathBuf| {
        let name = path.strip_prefix(root).unwrap().display().to_string();
        Some((name, std::fs::read_to_string(path).ok()?))
    };
    paths.into_iter().filter_map(read).collect()
}

/// What follows `sakia` in every code span, and on lines that are code: fenced, or indented as in help texts.
fn commands_in(text: &str) -> Vec<String> {
    let spans = text.split('`').filter_map(|span| span.strip_prefix("sakia "));
    let mut is_fenced = false;
    let lines = text.lines().filter_map(|line| {
        is_fenced ^= line.starts_with("```");
        let is_code = is_fenced || line.starts_with("  ");
        line.trim_start().trim_start_matches("$ ").strip_prefix("sakia ").filter(|_| is_code)
    });
    let without_comment = |line: &str| {
        let line = line.split(['\n', '>', '|', '"', '#']).next().unwrap_or_default();
        line.split("  ").next().unwrap_or_default().trim().to_owned()
    };
    let is_command = |line: &String| line.starts_with(|c: char| c.is_ascii_lowercase() || c == '-');
    spans.chain(lines).map(without_comment).filter(is_command).collect()
}

fn is_placeholder(c: char) -> bool {
    c.is_ascii_uppercase()
}

#[test]
fn every_command_that_a_text_names_is_understood() {
    use clap::error::ErrorKind as Kind;

    let cli = Cli::command();
    let mut n_whole = 0;
    for (name, text) in texts() {
        for line in commands_in(&text) {
            let parsed = cli.clone().try_get_matches_from(["sakia"].into_iter().chain(line.split_whitespace()));
            match parsed.map_err(|error| error.kind()) {
                Ok(_) => n_whole += 1,
                // A mention may name the command alone, and help is help.
                Err(
                    Kind::MissingRequiredArgument
                    | Kind::MissingSubcommand
                    | Kind::DisplayHelp
                    | Kind::DisplayVersion
                    | Kind::DisplayHelpOnMissingArgumentOrSubcommand,
                ) => {}
                // What stands for a value, such as OFFSET, is none.
                Err(Kind::ValueValidation | Kind::InvalidValue) if line.contains(is_placeholder) => {}
                Err(kind) => panic!("{name}: `sakia {line}` is not understood: {kind}"),
            }
        }
    }
    assert!(n_whole > 20, "only {n_whole} command lines were found");
}

#[test]
fn commands_are_found_in_text() {
    let text =
        "Run `sakia init`:\nsakia is\n```sh\nsakia --config a run # starts\n```\n  sakia run --x > y\nthe `sakia` way";
    assert_eq!(commands_in(text), ["init", "--config a run", "run --x"]);
}

/// Whoever looks for help finds how a command is used.
#[test]
fn every_command_has_examples_that_name_it() {
    let mut cli = Cli::command();
    let names: Vec<_> = cli.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    for name in names.iter().filter(|name| !["help", "reference"].contains(&name.as_str())) {
        let command = cli.find_subcommand_mut(name).unwrap();
        let help = command.render_long_help().to_string();
        assert!(help.contains("Examples:") && help.contains(&format!("  sakia {name} ")), "{help}");
    }
}

#[test]
fn the_version_names_what_it_is_made_of() {
    assert!(
        version::SHORT.starts_with(env!("CARGO_PKG_VERSION")) && version::SHORT.ends_with(')'),
        "{}",
        version::SHORT
    );
    for part in ["decoder version ", "ledger schema ", "librdkafka 2.", "mongodb driver 3.", "rustc 1."] {
        assert!(version::long().contains(part), "{part}: {}", version::long());
    }
}
