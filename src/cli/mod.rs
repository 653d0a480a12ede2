//! The command line.

mod demo;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

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
}

pub fn main() -> ExitCode {
    let Arguments { command } = Arguments::parse();
    crate::telemetry::logs::start();
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("no threads could be started: {error}")),
    };
    let done = match command {
        Command::Demo => runtime.block_on(demo::run()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error.to_string()),
    }
}

fn fail(why: &str) -> ExitCode {
    eprintln!("oncegate: {why}");
    ExitCode::FAILURE
}
