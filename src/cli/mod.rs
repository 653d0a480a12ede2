//! The command line.

mod check;
mod demo;

use std::fmt::Display;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::config::Flags;

/// Runs every operation at most once per idempotency key, and answers retries from its records.
#[derive(Parser)]
#[command(name = "oncegate", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show what it does, on a payment that must not happen twice; needs no set-up.
    Demo,
    /// Print the configuration in force, secrets masked, or every mistake in it.
    Check(Flags),
}

pub fn main() -> ExitCode {
    let Arguments { command } = Arguments::parse();
    crate::telemetry::logs::start();
    match command {
        Command::Demo => finish(demo::run()),
        Command::Check(flags) => check::run(&flags),
    }
}

/// Runs a command that needs threads.
fn finish<E: Display>(command: impl Future<Output = Result<(), E>>) -> ExitCode {
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("no threads could be started: {error}")),
    };
    match runtime.block_on(command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error.to_string()),
    }
}

fn fail(why: &str) -> ExitCode {
    eprintln!("oncegate: {why}");
    ExitCode::FAILURE
}
