//! Engines in processes of their own: killed, stopped, and with clocks that are wrong.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use crate::bed::{Database, Fresh};
use crate::support::servers::{self, Kind, Server};
use crate::support::{eventually, scratch, shared};

const SOON: Duration = Duration::from_secs(30);

/// Servers, and a file that counts executions.
struct Site {
    durable: Fresh,
    fast: String,
    executions: PathBuf,
    key: String,
    _folder: tempfile::TempDir,
}

impl Site {
    async fn new() -> Option<Self> {
        if !servers::require(Kind::Redis) {
            return None;
        }
        let durable = Database::MySql.fresh()?;
        durable.open().await;
        let folder = scratch::folder("executions");
        Some(Self {
            durable,
            fast: shared::redis().url(),
            executions: folder.path().join("count"),
            key: uuid::Uuid::new_v4().to_string(),
            _folder: folder,
        })
    }

    fn engine(&self, when_unknown: &str, lease_ms: u32) -> Engine {
        self.engine_through(&[], when_unknown, lease_ms)
    }

    /// `wrapper` is a command that starts another one.
    fn engine_through(&self, wrapper: &[&str], when_unknown: &str, lease_ms: u32) -> Engine {
        let program = engine_program();
        let mut words: Vec<&str> = wrapper.to_vec();
        words.push(program.to_str().expect("the path is text"));
        let mut command = Command::new(words[0]);
        command.args(&words[1..]);
        command.args([&self.durable.url, &self.fast, &self.key, when_unknown]);
        command.arg(lease_ms.to_string()).arg(&self.executions);
        Engine::start(command)
    }

    /// An engine that runs it once the lease of the one before is over.
    async fn takes_over(&self) -> Engine {
        let mut second = None;
        eventually("the lease is over and another takes it", SOON, async || {
            let mut engine = self.engine("retry", 1000);
            let runs = engine.line() == "running";
            second = Some(engine);
            runs
        })
        .await;
        second.expect("it runs")
    }

    fn executions(&self) -> u64 {
        std::fs::metadata(&self.executions).map_or(0, |file| file.len())
    }
}

/// Built by cargo beside the tests.
fn engine_program() -> PathBuf {
    let tests = std::env::current_exe().expect("the test binary has a path");
    let profile = tests.parent().and_then(Path::parent).expect("it lies in target/…/deps");
    profile.join("examples").join("engine_process")
}

struct Engine {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Engine {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect(
            "`cargo build --example engine_process` builds it; a plain `cargo test` does too",
        );
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        Self { child, input, output }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("it can be read");
        line.trim().to_owned()
    }

    fn finish(&mut self) {
        let mut input = self.input.take().expect("it has not been finished before");
        input.write_all(b"\n").expect("it listens");
    }

    #[allow(unsafe_code, reason = "std can only kill")]
    fn signal(&self, signal: libc::c_int) {
        let pid = libc::pid_t::try_from(self.child.id()).expect("a process id");
        // SAFETY: the process is our child and has not been waited for.
        assert_eq!(unsafe { libc::kill(pid, signal) }, 0, "the process is there");
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_in_mid_run_it_is_held_and_never_runs_again() {
    let Some(site) = Site::new().await else {
        return;
    };
    let mut first = site.engine("hold", 1000);
    assert_eq!(first.line(), "running");
    first.signal(libc::SIGKILL);
    let mut answers = Vec::new();
    eventually("the lease is over and it is held", SOON, async || {
        answers.push(site.engine("hold", 1000).line());
        answers.last().is_some_and(|last| last.contains("Unknown"))
    })
    .await;
    assert!(
        answers.iter().all(|a| a.contains("InProgress") || a.contains("Unknown")),
        "{answers:?}"
    );
    assert_eq!(site.executions(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_in_mid_run_it_runs_again_where_the_operator_said_so() {
    let Some(site) = Site::new().await else {
        return;
    };
    let mut first = site.engine("retry", 1000);
    assert_eq!(first.line(), "running");
    first.signal(libc::SIGKILL);
    let mut second = site.takes_over().await;
    second.finish();
    assert_eq!(second.line(), "Ok(Executed(2))");
    assert_eq!(site.engine("retry", 1000).line(), "Ok(Replayed(2))");
    assert_eq!(site.executions(), 2, "once for each attempt");
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_past_its_lease_it_wakes_up_fenced() {
    let Some(site) = Site::new().await else {
        return;
    };
    let mut stalled = site.engine("retry", 1000);
    assert_eq!(stalled.line(), "running");
    stalled.signal(libc::SIGSTOP);
    let mut second = site.takes_over().await;
    stalled.finish();
    stalled.signal(libc::SIGCONT);
    assert_eq!(stalled.line(), "Err(Superseded)");
    second.finish();
    assert_eq!(second.line(), "Ok(Executed(2))");
    assert_eq!(site.engine("retry", 1000).line(), "Ok(Replayed(2))");
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_past_its_lease_and_held_its_answer_still_counts() {
    let Some(site) = Site::new().await else {
        return;
    };
    let mut stalled = site.engine("hold", 1000);
    assert_eq!(stalled.line(), "running");
    stalled.signal(libc::SIGSTOP);
    eventually("the lease is over and it is held", SOON, async || {
        site.engine("hold", 1000).line().contains("Unknown")
    })
    .await;
    stalled.finish();
    stalled.signal(libc::SIGCONT);
    assert_eq!(stalled.line(), "Ok(Executed(1))");
    assert_eq!(site.engine("hold", 1000).line(), "Ok(Replayed(1))");
    assert_eq!(site.executions(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn clocks_an_hour_apart_change_nothing() {
    for (wrong, right) in [("+1h", "-1h"), ("-1h", "+1h")] {
        let Some(site) = Site::new().await else {
            return;
        };
        if !servers::require(Kind::Faketime) {
            return;
        }
        let mut first = site.engine_through(&["faketime", "-f", wrong], "retry", 3000);
        assert_eq!(first.line(), "running");
        let mut ahead = site.engine_through(&["faketime", "-f", right], "retry", 3000);
        assert_eq!(ahead.line(), "Ok(InProgress)", "a live call is nobody else's");
        assert_eq!(site.engine("retry", 3000).line(), "Ok(InProgress)");
        first.finish();
        assert_eq!(first.line(), "Ok(Executed(1))");
        let mut retry = site.engine_through(&["faketime", "-f", right], "retry", 3000);
        assert_eq!(retry.line(), "Ok(Replayed(1))", "its answer has not expired");
        assert_eq!(site.executions(), 1);
    }
}
