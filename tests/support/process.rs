//! A child server process that can be killed, frozen and thawed, and never outlives the tests.
//!
//! The kernel kills the children when the thread that started them ends (`PR_SET_PDEATHSIG`),
//! however the test process dies. Test threads end early, so one keeper thread starts them all.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use super::family::{family, freeze_family, kill_family, send, wait_until};

/// Processes started and not yet waited for: what is to be killed at exit.
static LIVE: Mutex<BTreeSet<libc::pid_t>> = Mutex::new(BTreeSet::new());

pub struct Process {
    child: Mutex<Child>,
    pid: libc::pid_t,
    log: PathBuf,
}

impl Process {
    /// Starts `command`; what it prints is appended to the file `log`.
    pub fn start(command: Command, log: &Path) -> Process {
        Self::start_apart(command, log, log)
    }

    /// Starts `command`; what it prints goes to `out`, what it complains about to `log`.
    pub fn start_apart(mut command: Command, out: &Path, log: &Path) -> Process {
        let open = |path: &Path| {
            let file = File::options().create(true).append(true).open(path);
            file.expect("the server's log file can be opened")
        };
        command.stdin(Stdio::null()).stdout(open(out)).stderr(open(log)).process_group(0);
        let shown = format!("{command:?}");
        let child = keep(command).unwrap_or_else(|e| panic!("cannot start {shown}: {e}"));
        let pid = libc::pid_t::try_from(child.id()).expect("a pid fits into pid_t");
        lock(&LIVE).insert(pid);
        Process { child: Mutex::new(child), pid, log: log.to_owned() }
    }

    pub fn pid(&self) -> libc::pid_t {
        self.pid
    }

    pub fn log(&self) -> &Path {
        &self.log
    }

    /// How the process ended, if it has.
    pub fn exited(&self) -> Option<ExitStatus> {
        let status = lock(&self.child).try_wait().expect("a child can be waited for");
        if status.is_some() {
            lock(&LIVE).remove(&self.pid);
        }
        status
    }

    /// SIGKILL to it and all its descendants: the crash of the server.
    pub fn kill(&self) {
        if self.exited().is_none() {
            kill_family(self.pid);
            lock(&self.child).wait().expect("a killed child can be waited for");
            lock(&LIVE).remove(&self.pid);
        }
    }

    /// Asks it to shut down; kills it when it has not within ten seconds.
    pub fn terminate(&self) {
        self.terminate_with(libc::SIGTERM);
    }

    /// Like `terminate`, for a server that is asked by another signal.
    pub fn terminate_with(&self, signal: libc::c_int) {
        if self.exited().is_some() {
            return;
        }
        self.thaw();
        send(self.pid, signal);
        if !wait_until(Duration::from_secs(10), || self.exited().is_some()) {
            self.kill();
        }
    }

    /// Stops it and its descendants: connections stay open, nothing is answered.
    pub fn freeze(&self) {
        if self.exited().is_none() {
            freeze_family(self.pid);
        }
    }

    /// Lets it run on after `freeze`.
    pub fn thaw(&self) {
        if self.exited().is_none() {
            for pid in family(self.pid) {
                send(pid, libc::SIGCONT);
            }
        }
    }

    /// All that it printed.
    pub fn log_text(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// The end of what it printed, to show when it failed.
    pub fn log_tail(&self) -> String {
        let text = self.log_text();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Runs a command to its end, under the same guard.
///
/// # Panics
/// With all it printed, when it fails.
pub fn run(mut command: Command) {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let shown = format!("{command:?}");
    let output = keep(command)
        .and_then(Child::wait_with_output)
        .unwrap_or_else(|e| panic!("cannot run {shown}: {e}"));
    assert!(
        output.status.success(),
        "{shown} failed ({}):\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
}

/// Kills every process still alive; for the exit of the test process.
pub fn kill_all() {
    for pid in lock(&LIVE).iter() {
        kill_family(*pid);
    }
}

/// Has the keeper thread start the command.
fn keep(command: Command) -> io::Result<Child> {
    type Order = (Command, mpsc::Sender<io::Result<Child>>);
    static KEEPER: LazyLock<mpsc::Sender<Order>> = LazyLock::new(|| {
        let (orders, inbox) = mpsc::channel::<Order>();
        std::thread::Builder::new()
            .name("keeper".into())
            .spawn(move || {
                for (mut command, answer) in inbox {
                    // Nobody listens when the ordering test has panicked meanwhile.
                    let _ = answer.send(die_with_this_thread(&mut command).spawn());
                }
            })
            .expect("the keeper thread starts");
        orders
    });
    let (answer, child) = mpsc::channel();
    KEEPER.send((command, answer)).expect("the keeper thread never ends");
    child.recv().expect("the keeper thread answers every order")
}

fn die_with_this_thread(command: &mut Command) -> &mut Command {
    let parent = std::process::id();
    // SAFETY: between fork and exec only async-signal-safe calls are made.
    unsafe {
        command.pre_exec(move || {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                return Err(io::Error::last_os_error());
            }
            // The parent may have died before the line above took effect.
            if std::os::unix::process::parent_id() != parent {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            Ok(())
        })
    }
}

/// A test that panicked holding a lock must not keep others from killing their servers.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
