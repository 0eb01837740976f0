//! `sakia explain`: the paragraph of `docs/errors.md` about a code, where there is no browser at hand.

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::code::{Code, Failure};
use crate::commands::stdout::written;

const EXAMPLES: &str = "\
Examples:
  sakia explain topic-recreated   what happened, what is at risk, what to do";

#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ExplainArgs {
    /// As in `error[code]`, and in the field `code` of a log line
    #[arg(value_parser = PossibleValuesParser::new(Code::ALL.iter().map(|code| code.name())), hide_possible_values = true)]
    code: String,
}

pub fn run(args: &ExplainArgs) -> Result<ExitCode, Failure> {
    let code = Code::ALL.iter().find(|code| code.name() == args.code);
    let paragraph = code.expect("invariant: the command line takes known codes only").paragraph();
    written(writeln!(io::stdout(), "{paragraph}")).map(|()| ExitCode::SUCCESS)
}
