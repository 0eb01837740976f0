//! `sakia completions`: what a shell needs to complete the command line.

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::Args;
use clap_complete::Shell;

use crate::code::Failure;
use crate::commands::stdout::written;

const EXAMPLES: &str = "\
Examples:
  sakia completions bash > ~/.local/share/bash-completion/completions/sakia
  sakia completions zsh > ~/.zfunc/_sakia
  sakia completions fish > ~/.config/fish/completions/sakia.fish";

#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CompletionsArgs {
    /// The shell to complete for
    shell: Shell,
}

pub fn run(args: &CompletionsArgs, mut cli: clap::Command) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut cli, "sakia", &mut script);
    let mut out = io::stdout().lock();
    written(out.write_all(&script).and_then(|()| out.flush())).map(|()| ExitCode::SUCCESS)
}
