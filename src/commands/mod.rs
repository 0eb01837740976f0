//! What the program can be asked to do, one file a command.

pub mod check;
pub mod dead;
pub mod init;
pub mod ledger;
mod preflight;
pub mod read;
pub mod run;
pub(crate) mod server;
pub(crate) mod when;
