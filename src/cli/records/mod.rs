//! `oncegate records`: an operator's view of the records, through the admin API.

mod admin;
mod change;
mod confirm;
mod list;
mod record;
mod show;
mod text;

use std::io::Write;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::config::Environment;
use admin::Admin;

#[derive(Subcommand)]
pub enum Command {
    /// List records: what has waited longest for somebody, or whatever is asked for
    List(list::Options),
    /// Show one record, its life so far, and who did what to it
    Show(show::Options),
    /// Settle a record by hand: it succeeded, it failed, or it may be run again
    Resolve(change::Resolve),
    /// Forget a record: the next request with its key is a new one
    Forget(change::Forget),
}

/// Where the records are asked for, and how they are printed.
#[derive(Args)]
struct Place {
    /// The gateway's admin listener, as a URL or an address; http://127.0.0.1:8081 if not set
    /// (`ONCEGATE_ADMIN`, or the gateway's own `ONCEGATE_ADMIN_LISTEN`)
    #[arg(long, visible_alias = "admin-listen", value_name = "URL")]
    admin: Option<String>,
    /// The gateway's admin token; other users of this machine can see it here, so rather set
    /// ONCEGATE_ADMIN_TOKEN
    #[arg(long, visible_alias = "admin-token", value_name = "TOKEN")]
    token: Option<String>,
    /// Print the admin API's JSON, for scripts
    #[arg(long)]
    json: bool,
}

/// Which record.
#[derive(Args)]
struct Named {
    /// The idempotency key
    #[arg(value_name = "KEY", required_unless_present = "key")]
    bare: Option<String>,
    /// The same, as `list` takes it
    #[arg(long, value_name = "KEY", conflicts_with = "bare", allow_hyphen_values = true)]
    key: Option<String>,
    /// Which operation: the scope of its route
    #[arg(long, default_value = "default")]
    scope: String,
    /// Whose key it is; none if not set
    #[arg(long, default_value = "", hide_default_value = true)]
    tenant: String,
}

impl Named {
    fn key(&self) -> &str {
        self.bare.as_deref().or(self.key.as_deref()).unwrap_or_default()
    }
}

/// Why nothing was done.
#[derive(Debug, PartialEq, Eq)]
enum Trouble {
    /// It was asked for in a way that cannot be meant.
    Usage(String),
    NotPossible(String),
}

pub async fn run(command: &Command) -> ExitCode {
    let place = match command {
        Command::List(list::Options { place, .. })
        | Command::Show(show::Options { place, .. })
        | Command::Resolve(change::Resolve { place, .. })
        | Command::Forget(change::Forget { place, .. }) => place,
    };
    let done = match Admin::new(place, &Environment::of_process()) {
        Ok(admin) => match command {
            Command::List(options) => list::run(options, &admin).await,
            Command::Show(options) => show::run(options, &admin).await,
            Command::Resolve(options) => change::resolve(options, &admin).await,
            Command::Forget(options) => change::forget(options, &admin).await,
        },
        Err(trouble) => Err(trouble),
    };
    match done {
        Ok(text) => {
            // A reader that has seen enough closes the pipe; that is no failure.
            let _ = std::io::stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(Trouble::NotPossible(why)) => super::fail(&why),
        Err(Trouble::Usage(why)) => {
            eprintln!("oncegate: {why}");
            ExitCode::from(2)
        }
    }
}
