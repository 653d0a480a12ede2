//! `oncegate check`: the configuration in force, or everything that is wrong with it.

use std::io::Write;
use std::process::ExitCode;

use crate::config::{Config, Flags, Mistakes};

/// `EX_CONFIG` of sysexits.h.
const BAD_CONFIGURATION: u8 = 78;

pub fn run(flags: &Flags) -> ExitCode {
    match usable(Config::load(flags)) {
        Ok(config) => {
            // A reader that has seen enough closes the pipe; that is no failure.
            let _ = write!(std::io::stdout(), "{}", config.effective());
            ExitCode::SUCCESS
        }
        Err(code) => code,
    }
}

/// What every command says about a configuration that it was given, and about one that it cannot
/// use.
pub fn usable(config: Result<Config, Mistakes>) -> Result<Config, ExitCode> {
    match config {
        Ok(config) => {
            for remark in config.remarks() {
                eprintln!("oncegate: warning: {remark}");
            }
            Ok(config)
        }
        Err(mistakes) => {
            let count = match mistakes.list().len() {
                1 => "1 mistake".to_owned(),
                count => format!("{count} mistakes"),
            };
            eprintln!("{mistakes}\noncegate: {count} in the configuration");
            Err(ExitCode::from(BAD_CONFIGURATION))
        }
    }
}
