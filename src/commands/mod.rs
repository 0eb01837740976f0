//! What the program can be asked to do, one file a command.

pub mod init;
pub mod ledger;
pub mod run;
pub(crate) mod server;
