//! `oncegate migrate`: the durable tier's tables, created or brought up to date.

use std::process::ExitCode;

use super::{check, fail};
use crate::app;
use crate::config::{Config, Flags};

pub async fn run(flags: &Flags) -> ExitCode {
    let config = match check::usable(Config::load_to_migrate(flags)) {
        Ok(config) => config,
        Err(code) => return code,
    };
    match app::migrate(&config).await {
        Ok(database) => {
            println!("oncegate: the {database} tables are up to date");
            ExitCode::SUCCESS
        }
        Err(error) => fail(&error.to_string()),
    }
}
