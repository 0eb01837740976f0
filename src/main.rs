//! The `sakia` program. Everything it does is in the library, where tests reach it.

use std::process::ExitCode;

/// Many small buffers live and die at different times; the system's allocator keeps several times their size.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    sakia::cli::main()
}
