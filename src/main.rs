//! Arguments in, exit code out.

use std::process::ExitCode;

fn main() -> ExitCode {
    oncegate::cli::main()
}
