//! What the program can be asked to do, one file a command.

pub mod completions;
pub mod explain;
pub mod init;
pub mod reference;
pub mod run;
pub(crate) mod server;
