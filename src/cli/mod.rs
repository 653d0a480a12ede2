//! The command line.

mod check;
mod demo;
mod migrate;
mod records;
mod serve;

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
    Demo(demo::Options),
    /// Run the gateway.
    Serve(Flags),
    /// Print the configuration in force, secrets masked, or every mistake in it.
    Check(Flags),
    /// Create the durable tier's tables, or bring them up to date.
    Migrate(Flags),
    /// Look at records, settle them and forget them, through the admin API of a running gateway.
    #[command(subcommand)]
    Records(records::Command),
}

pub fn main() -> ExitCode {
    let Arguments { command } = Arguments::parse();
    // The gateway's own depend on its configuration.
    if !matches!(command, Command::Serve(_)) {
        crate::telemetry::logs::start();
    }
    match command {
        Command::Demo(options) => finish(async { succeed(demo::run(&options).await) }),
        Command::Serve(flags) => finish(serve::run(&flags)),
        Command::Check(flags) => check::run(&flags),
        Command::Migrate(flags) => finish(migrate::run(&flags)),
        Command::Records(command) => finish(records::run(&command)),
    }
}

/// Runs a command that needs threads. Half of the cores are enough for the tiers: the front has
/// threads of its own, and workers that find nothing to do cost more than they bring.
fn finish(command: impl Future<Output = ExitCode>) -> ExitCode {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let workers = (cores / 2).max(1);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(workers).enable_all().build();
    match runtime {
        Ok(runtime) => {
            let code = runtime.block_on(command);
            // Nothing that is still busy there keeps the process.
            runtime.shutdown_background();
            code
        }
        Err(error) => fail(&format!("no threads could be started: {error}")),
    }
}

fn succeed<E: Display>(result: Result<(), E>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error.to_string()),
    }
}

fn fail(why: &str) -> ExitCode {
    eprintln!("oncegate: {why}");
    ExitCode::FAILURE
}
