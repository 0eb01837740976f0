//! Facts about this build that the source does not know: the commit, the compiler, the driver's version. Each is
//! "unknown" where it cannot be had, as in a tarball without git: a build never fails for want of it.
#![allow(clippy::print_stdout, reason = "how a build script talks to cargo")]

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let root = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=Cargo.lock");
    let is_release = variable("PROFILE") == "release";
    // A debug build would be built anew after each commit, only to say so.
    let commit = || packaged_commit(&root).or_else(|| commit(&root));
    fact("COMMIT", if is_release { commit() } else { Some("debug build".to_owned()) });
    fact("DRIVER", locked_version(&root, "mongodb"));
    fact("RUSTC", first_line(Command::new(variable("RUSTC")).arg("--version")));
    fact("TARGET", Some(variable("TARGET")));
    fact("PROFILE", Some(variable("PROFILE")));
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

fn fact(name: &str, value: Option<String>) {
    let value = value.filter(|value| !value.is_empty()).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=BUILD_{name}={value}");
}

/// The commit that is checked out. Changes that are not committed are not told: to notice them, each edit of any file
/// would have to build everything anew.
fn commit(root: &Path) -> Option<String> {
    // Without it, git would answer for a repository that this source merely lies in.
    if !root.join(".git").exists() {
        return None;
    }
    let git = |args: &[&str]| first_line(Command::new("git").arg("-C").arg(root).args(args));
    // Written at each commit and checkout, in a worktree too. A path that does not exist would run this at every build.
    let log = root.join(git(&["rev-parse", "--git-path", "logs/HEAD"])?);
    if log.exists() {
        println!("cargo::rerun-if-changed={}", log.display());
    }
    git(&["describe", "--always", "--tags", "--abbrev=12"])
}

/// What `cargo package` noted.
fn packaged_commit(root: &Path) -> Option<String> {
    let info = std::fs::read_to_string(root.join(".cargo_vcs_info.json")).ok()?;
    let (_, rest) = info.split_once("\"sha1\": \"")?;
    Some(rest.split('"').next()?.chars().take(12).collect())
}

fn locked_version(root: &Path, package: &str) -> Option<String> {
    let lock = std::fs::read_to_string(root.join("Cargo.lock")).ok()?;
    let (_, rest) = lock.split_once(&format!("\nname = \"{package}\"\nversion = \""))?;
    Some(rest.split('"').next()?.to_owned())
}

fn first_line(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.lines().next()?.trim().to_owned())
}
