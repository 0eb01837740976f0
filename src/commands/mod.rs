//! What the program can be asked to do, one file a command.

pub mod dead;
pub mod init;
pub mod run;
pub(crate) mod server;
