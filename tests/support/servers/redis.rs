//! Redis as it comes: snapshots only, no append-only file. Killed, it returns with the data of
//! its last snapshot, which in a test means empty.

use std::path::PathBuf;
use std::process::Command;

use super::binaries::{Kind, needed};
use super::instance::{Instance, Recipe};
use super::{Server, wire};

pub struct Redis {
    instance: Instance,
}

impl Redis {
    pub fn start() -> Redis {
        Redis::start_with(&[])
    }

    /// Starts it with further options, like `["--appendonly", "yes"]`.
    pub fn start_with(options: &[&str]) -> Redis {
        Redis::start_program(needed(Kind::Redis), options)
    }

    pub(super) fn start_program(program: PathBuf, options: &[&str]) -> Redis {
        let options: Vec<String> = options.iter().map(ToString::to_string).collect();
        let recipe = Recipe {
            name: "redis",
            command: Box::new(move |folder, port| {
                let mut command = Command::new(&program);
                command
                    .args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--dir"])
                    .arg(folder)
                    .args(&options);
                command
            }),
            ready,
            stop_signal: libc::SIGTERM,
        };
        Redis { instance: Instance::start(recipe, |_| {}) }
    }

    /// Sends one command; the answer as text, the elements of arrays one per line.
    ///
    /// # Panics
    /// When Redis answers with an error.
    pub fn command(&self, words: &[&str]) -> String {
        self.try_command(words).unwrap_or_else(|e| panic!("Redis refuses {words:?}: {e}"))
    }

    pub fn try_command(&self, words: &[&str]) -> std::io::Result<String> {
        wire::redis(self.port(), words)
    }

    /// Makes it forget everything.
    pub fn flush(&self) {
        self.command(&["FLUSHALL"]);
    }
}

impl Server for Redis {
    fn instance(&self) -> &Instance {
        &self.instance
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port())
    }
}

pub(super) fn ready(port: u16) -> std::io::Result<()> {
    wire::redis(port, &["PING"]).map(drop)
}
