//! What a command prints for people and programs.

use std::io;

use crate::code::{Code, Failure};

/// Whether a report is out. A reader that has seen enough, as `head` has, is no failure.
pub(super) fn written(result: io::Result<()>) -> Result<(), Failure> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new(Code::Failed, format_args!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_may_leave_early() {
        assert_eq!(written(Err(io::ErrorKind::BrokenPipe.into())), Ok(()));
        assert!(written(Err(io::ErrorKind::StorageFull.into())).is_err());
    }
}
