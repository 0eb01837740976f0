//! `sakia ledger contract`: all that decides how the readings of a stream were made.

use std::process::ExitCode;

use clap::Args;

use super::{Access, refused, show};
use crate::cli::LayerArgs;
use crate::code::Failure;

#[derive(Debug, Args)]
pub(super) struct ContractArgs {
    /// Fingerprint, or its first characters
    fingerprint: String,
    #[command(flatten)]
    pub(super) layer: LayerArgs,
}

pub(super) fn run(access: &Access<'_>, args: &ContractArgs) -> Result<ExitCode, Failure> {
    let kept = access.runtime.block_on(access.ledger("").read_all())?;
    let named: Vec<_> = kept.contracts.iter().filter(|c| c.fingerprint.starts_with(&args.fingerprint)).collect();
    match named.as_slice() {
        [one] => show::print(&format!("{}\n", one.text)),
        [] => Err(refused(format_args!(
            "the ledger holds no contract {}: `sakia ledger` lists those it holds",
            args.fingerprint
        ))),
        several => Err(refused(format_args!(
            "{} contracts begin with {}: give more of the fingerprint",
            several.len(),
            args.fingerprint
        ))),
    }
}
