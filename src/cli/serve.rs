//! `oncegate serve`: the gateway.

use std::process::ExitCode;

use super::{check, fail};
use crate::app::App;
use crate::config::{Config, Flags};
use crate::lifecycle::{self, Signals};
use crate::telemetry::{logs, traces};

pub async fn run(flags: &Flags) -> ExitCode {
    let config = match check::usable(Config::load(flags)) {
        Ok(config) => config,
        Err(code) => return code,
    };
    // Until the end, so that what is left is sent.
    let _collecting = match &config.traces.endpoint {
        None => {
            logs::start();
            None
        }
        Some(url) => match traces::start(url.expose(), config.traces.sample_percent) {
            Ok(collecting) => Some(collecting),
            Err(why) => return fail(&why),
        },
    };
    let mut signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(error) => return fail(&format!("signals cannot be heard: {error}")),
    };
    let started = tokio::select! {
        started = App::start(config) => started,
        () = signals.stop_asked() => return fail("stopped before it began"),
    };
    match started {
        Ok(app) => {
            // In one piece: scripts wait for this line.
            let line = format!("oncegate: {app}\n");
            eprint!("{line}");
            lifecycle::run(app, signals, flags).await
        }
        Err(error) => fail(&error.to_string()),
    }
}
