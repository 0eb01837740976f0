//! Asks before something is done that cannot be undone by the same command.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use clap::Args;

use crate::code::{Code, Failure};

#[derive(Debug, Args)]
pub(super) struct ConfirmArgs {
    /// Do it without asking
    #[arg(long)]
    pub(super) yes: bool,
    /// Show what would be done, and do nothing
    #[arg(long, conflicts_with = "yes")]
    pub(super) dry_run: bool,
}

/// Whether to go on; the plan has been shown. A script that does not say `--yes` is refused rather than taken at its
/// word: it may be an old one.
pub(super) fn confirm(args: &ConfirmArgs) -> Result<bool, Failure> {
    if args.dry_run {
        say("dry run: nothing was changed\n");
        return Ok(false);
    }
    if args.yes {
        return Ok(true);
    }
    if !io::stdin().is_terminal() {
        let message = "nothing was changed: there is no terminal to ask at; check the plan above, then add --yes";
        return Err(Failure::new(Code::NotConfirmed, message));
    }
    say("type yes to go on: ");
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    if read.is_ok() && answer.trim() == "yes" {
        return Ok(true);
    }
    Err(Failure::new(Code::NotConfirmed, "nothing was changed: the answer was not yes"))
}

/// To standard error: what is asked for stands alone on standard output.
pub(super) fn say(text: &str) {
    let mut err = io::stderr().lock();
    err.write_all(text.as_bytes()).and_then(|()| err.flush()).ok();
}
