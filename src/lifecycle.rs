//! The life of a running gateway: signals in, exit code out.
//!
//! The first SIGTERM or SIGINT drains, a second one ends it at once, SIGHUP reads the configuration
//! again.

use std::process::ExitCode;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::app::App;
use crate::config::{Config, Flags};

/// What a shell says of a process that was interrupted.
const INTERRUPTED: u8 = 130;

pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

enum Asked {
    Stop,
    Reload,
}

impl Signals {
    /// From now on signals are kept for us.
    pub fn listen() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.terminate.recv() => Asked::Stop,
            _ = self.interrupt.recv() => Asked::Stop,
            _ = self.hang_up.recv() => Asked::Reload,
        }
    }

    pub async fn stop_asked(&mut self) {
        while matches!(self.next().await, Asked::Reload) {}
    }
}

/// Until it is told to stop.
pub async fn run(mut app: App, mut signals: Signals, flags: &Flags) -> ExitCode {
    while matches!(signals.next().await, Asked::Reload) {
        reload(&mut app, flags);
    }
    eprintln!("oncegate: stopping, what is in flight may finish; a second signal ends it at once");
    tokio::select! {
        () = app.stop() => ExitCode::SUCCESS,
        () = signals.stop_asked() => {
            eprintln!("oncegate: ended at once");
            ExitCode::from(INTERRUPTED)
        }
    }
}

fn reload(app: &mut App, flags: &Flags) {
    match Config::load(flags) {
        Ok(config) => {
            let remarks = app.reload(config);
            eprintln!("oncegate: the configuration was read again");
            for remark in remarks {
                eprintln!("oncegate: {remark}");
            }
        }
        Err(mistakes) => {
            eprintln!("{mistakes}\noncegate: the configuration has mistakes; the old one stays");
        }
    }
}
