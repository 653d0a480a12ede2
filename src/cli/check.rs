//! `oncegate check`: the configuration in force, or everything that is wrong with it.

use std::io::Write;
use std::process::ExitCode;

use crate::config::{Config, Flags, Mistakes};

/// `EX_CONFIG` of sysexits.h.
const BAD_CONFIGURATION: u8 = 78;

pub fn run(flags: &Flags) -> ExitCode {
    match Config::load(flags) {
        Ok(config) => {
            // A reader that has seen enough closes the pipe; that is no failure.
            let _ = write!(std::io::stdout(), "{}", config.effective());
            ExitCode::SUCCESS
        }
        Err(mistakes) => complain(&mistakes),
    }
}

/// What every command does about a configuration that it cannot use.
pub fn complain(mistakes: &Mistakes) -> ExitCode {
    let count = match mistakes.list().len() {
        1 => "1 mistake".to_owned(),
        count => format!("{count} mistakes"),
    };
    eprintln!("{mistakes}\noncegate: {count} in the configuration");
    ExitCode::from(BAD_CONFIGURATION)
}
