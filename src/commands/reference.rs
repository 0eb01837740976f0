//! `sakia reference`: every configuration key, as `docs/configuration.md` has it.

use std::io::{self, Write as _};
use std::process::ExitCode;

use crate::cli::FLAGS;
use crate::code::Failure;
use crate::commands::stdout::written;
use crate::config::reference;

pub fn run() -> Result<ExitCode, Failure> {
    written(io::stdout().write_all(reference(&FLAGS).as_bytes())).map(|()| ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_what_the_code_says() {
        let page = include_str!("../../docs/configuration.md");
        assert!(page == reference(&FLAGS), "docs/configuration.md is old: `make docs` writes it anew");
    }
}
