//! What the program can be asked to do, one file a command.

pub mod check;
pub mod completions;
pub mod dead;
pub mod explain;
pub mod init;
pub mod ledger;
mod preflight;
mod reach;
pub mod read;
pub mod reference;
pub mod run;
pub(crate) mod server;
mod stdout;
pub(crate) mod when;
