//! A real `oncegate serve` in a process of its own: started with a file, flags and variables,
//! killed, stopped and told by signals, and never left behind.

mod metrics;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use tempfile::TempDir;

use super::client::{Answer, Ask};
use super::eventually;
use super::family::send;
use super::http1::Connection;
use super::process::Process;
use super::scratch;
pub use metrics::Metrics;

/// Generous, since a loaded machine with two cores may start several servers at once.
const START_TIMEOUT: Duration = Duration::from_secs(60);
const FILE: &str = "oncegate.toml";
const LISTENING: &str = "oncegate: listening on ";
const ADMIN: &str = ", admin on http://";

/// How a gateway is to be started.
#[derive(Clone, Default)]
pub struct Launch {
    program: PathBuf,
    config: Option<String>,
    arguments: Vec<String>,
    variables: Vec<(String, String)>,
}

/// A gateway that listens. Dropped, it is killed.
pub struct Gateway {
    process: Process,
    addr: SocketAddr,
    admin: SocketAddr,
    folder: TempDir,
}

/// One that ended instead of listening.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Launch {
    /// `oncegate serve` on ports of its own.
    pub fn serve(program: &str) -> Self {
        Self { program: program.into(), ..Self::default() }
            .argument("serve")
            .flag("--listen", "127.0.0.1:0")
            .flag("--admin-listen", "127.0.0.1:0")
    }

    /// Any command of the program.
    pub fn command(program: &str, arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(ToString::to_string).collect();
        Self { program: program.into(), arguments, ..Self::default() }
    }

    pub fn argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    pub fn flag(self, name: &str, value: &str) -> Self {
        self.argument(name).argument(value)
    }

    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The text of its configuration file.
    pub fn config(self, toml: &str) -> Self {
        Self { config: Some(toml.to_owned()), ..self }
    }

    /// Waits until it listens.
    ///
    /// # Panics
    /// With all it said, when it ends instead or takes too long.
    pub async fn listening(self) -> Gateway {
        self.outcome().await.unwrap_or_else(|ended| panic!("it does not listen: {ended:#?}"))
    }

    /// Waits until it has ended by itself.
    ///
    /// # Panics
    /// When it listens instead.
    pub async fn ended(self) -> Ended {
        match self.outcome().await {
            Ok(gateway) => panic!("it listens on {}", gateway.addr),
            Err(ended) => ended,
        }
    }

    /// Starts it without waiting for anything.
    pub fn start(self) -> Starting {
        let folder = scratch::folder("gateway");
        let mut command = Command::new(&self.program);
        // The variables of whoever runs the tests are not part of them.
        command.env_clear().envs(self.variables).current_dir(folder.path()).args(self.arguments);
        if let Some(toml) = &self.config {
            write(folder.path(), toml);
            command.args(["--config", FILE]);
        }
        let [out, log] = ["stdout", "stderr"].map(|name| folder.path().join(name));
        let process = Process::start_apart(command, &out, &log);
        Starting { process, folder }
    }

    async fn outcome(self) -> Result<Gateway, Ended> {
        self.start().outcome().await
    }
}

/// A process of which nobody knows yet whether it will listen.
pub struct Starting {
    process: Process,
    folder: TempDir,
}

impl Starting {
    /// What it said so far.
    pub fn stderr(&self) -> String {
        self.process.log_text()
    }

    pub fn is_listening(&self) -> bool {
        addresses(&self.stderr()).is_some()
    }

    pub async fn outcome(self) -> Result<Gateway, Ended> {
        let Self { process, folder } = self;
        let mut found = None;
        let patience = tokio::time::timeout(START_TIMEOUT, async {
            while found.is_none() && process.exited().is_none() {
                tokio::time::sleep(Duration::from_millis(5)).await;
                found = addresses(&process.log_text());
            }
        });
        assert!(patience.await.is_ok(), "neither up nor down:\n{}", process.log_text());
        match (found, process.exited()) {
            (Some((addr, admin)), None) => Ok(Gateway { process, addr, admin, folder }),
            (_, status) => Err(Ended {
                status: status.expect("it has ended"),
                stdout: std::fs::read_to_string(folder.path().join("stdout")).unwrap_or_default(),
                stderr: process.log_text(),
            }),
        }
    }
}

impl Gateway {
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    pub fn admin(&self) -> SocketAddr {
        self.admin
    }

    pub fn ask(&self, method: &str, target: &str) -> Ask {
        Ask::new(self.addr, method, target)
    }

    /// A keyed POST that has not been sent yet.
    pub fn posting(&self, path: &str, key: &str, body: &str) -> Ask {
        self.ask("POST", path).key(key).header("Content-Type", "application/json").body(body)
    }

    pub async fn post(&self, path: &str, key: &str, body: &str) -> Answer {
        self.posting(path, key, body).send().await
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path).send().await
    }

    pub async fn connect(&self) -> Connection {
        Connection::connect(self.addr).await.expect("the gateway accepts")
    }

    /// What it counts, as Prometheus would read it.
    pub async fn metrics(&self) -> Metrics {
        let answer = Ask::new(self.admin, "GET", "/metrics").send().await;
        assert_eq!(answer.status, 200, "{answer:?}");
        Metrics::parse(&answer.text())
    }

    pub fn kill(&self) {
        self.process.kill();
    }

    pub fn freeze(&self) {
        self.process.freeze();
    }

    pub fn thaw(&self) {
        self.process.thaw();
    }

    pub fn signal(&self, signal: libc::c_int) {
        send(self.process.pid(), signal);
    }

    pub fn is_running(&self) -> bool {
        self.process.exited().is_none()
    }

    /// Its exit code, once it has ended; None when a signal ended it.
    pub async fn exit_code(&self, within: Duration) -> Option<i32> {
        eventually("the gateway ends", within, async || !self.is_running()).await;
        self.process.exited().expect("it has ended").code()
    }

    /// All that it said on stderr.
    pub fn stderr(&self) -> String {
        self.process.log_text()
    }

    /// Replaces its configuration file.
    pub fn rewrite_config(&self, toml: &str) {
        write(self.folder.path(), toml);
    }

    /// The memory it holds now.
    pub fn resident_bytes(&self) -> u64 {
        self.status_bytes("VmRSS:")
    }

    /// The most memory it has ever held.
    pub fn peak_bytes(&self) -> u64 {
        self.status_bytes("VmHWM:")
    }

    fn status_bytes(&self, what: &str) -> u64 {
        let path = format!("/proc/{}/status", self.process.pid());
        let text = std::fs::read_to_string(path).expect("the process is there");
        let line = text.lines().find_map(|line| line.strip_prefix(what)).expect("Linux tells it");
        let kilobytes = line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number");
        kilobytes * 1024
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the gateway on {} said:\n{}", self.addr, self.process.log_tail());
        }
    }
}

fn write(folder: &Path, toml: &str) {
    std::fs::write(folder.join(FILE), toml).expect("the configuration can be written");
}

/// The two addresses in the line that says that it listens.
fn addresses(stderr: &str) -> Option<(SocketAddr, SocketAddr)> {
    // A line that has no end yet may be half a line.
    let whole = stderr.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    let mut said = whole.filter_map(|line| line.trim_end().strip_prefix(LISTENING));
    let (addr, admin) = said.next()?.split_once(ADMIN)?;
    let addr = addr.strip_prefix("http://").or(addr.strip_prefix("https://"))?;
    Some((addr.parse().ok()?, admin.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_addresses_are_read_from_the_whole_line() {
        let line = "oncegate: listening on http://127.0.0.1:80, admin on http://127.0.0.1:81";
        assert_eq!(addresses(line), None);
        let found = addresses(&format!("a warning\n{line}\nmore"));
        assert_eq!(found, Some(([127, 0, 0, 1], 80).into()).zip(Some(([127, 0, 0, 1], 81).into())));
    }
}
