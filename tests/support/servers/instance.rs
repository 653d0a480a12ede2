//! One running server of any kind: its folder, its port, its process, and how to start it again.

use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::support::ports::Port;
use crate::support::process::Process;
use crate::support::scratch;

/// Generous, since a loaded machine with two cores may start several servers at once.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// The command line of a server, given its folder and port.
type CommandLine = Box<dyn Fn(&Path, u16) -> Command + Send + Sync>;

/// How servers of one kind are run.
pub struct Recipe {
    pub name: &'static str,
    pub command: CommandLine,
    /// Logs in on the port; an error as long as the server does not serve.
    pub ready: fn(u16) -> io::Result<()>,
    /// The signal that asks for an orderly shutdown without waiting for clients.
    pub stop_signal: libc::c_int,
}

pub struct Instance {
    // Dropped first: the folder can only be removed when nobody writes to it any more.
    process: Mutex<Process>,
    recipe: Recipe,
    port: Port,
    folder: TempDir,
}

impl Instance {
    /// Starts a server in a new folder, which `prepare` fills, and waits until it serves.
    pub fn start(recipe: Recipe, prepare: impl FnOnce(&Path)) -> Instance {
        let folder = scratch::folder(recipe.name);
        prepare(folder.path());
        let port = Port::claim();
        let process = Mutex::new(launch(&recipe, folder.path(), port.number()));
        Instance { process, recipe, port, folder }
    }

    pub fn port(&self) -> u16 {
        self.port.number()
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn pid(&self) -> libc::pid_t {
        self.process().pid()
    }

    /// The end of what the server printed.
    pub fn log_tail(&self) -> String {
        self.process().log_tail()
    }

    pub fn kill(&self) {
        self.process().kill();
    }

    pub fn stop(&self) {
        self.process().terminate_with(self.recipe.stop_signal);
    }

    pub fn freeze(&self) {
        self.process().freeze();
    }

    pub fn thaw(&self) {
        self.process().thaw();
    }

    pub fn restart(&self) {
        let mut process = self.process();
        process.kill();
        *process = launch(&self.recipe, self.folder.path(), self.port.number());
    }

    fn process(&self) -> MutexGuard<'_, Process> {
        // Poisoned by a restart that failed: the process in there can still be killed.
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn launch(recipe: &Recipe, folder: &Path, port: u16) -> Process {
    let process = Process::start((recipe.command)(folder, port), &folder.join("log"));
    let start = Instant::now();
    loop {
        let Err(refusal) = (recipe.ready)(port) else {
            return process;
        };
        let trouble = match process.exited() {
            Some(status) => format!("ended ({status})"),
            None if start.elapsed() > START_TIMEOUT => "does not come up".to_owned(),
            None => {
                std::thread::sleep(Duration::from_millis(5));
                continue;
            }
        };
        panic!(
            "{} on port {port} {trouble}: {refusal}; the end of its log:\n{}",
            recipe.name,
            process.log_tail()
        );
    }
}
