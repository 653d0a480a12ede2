//! Arguments in, exit code out.

use std::process::ExitCode;

/// Requests are made on one thread and finished on another, which the system's allocator answers
/// with locks and with pages given back and asked for again.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    oncegate::cli::main()
}
