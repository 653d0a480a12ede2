//! Signals to a server and all the processes it has forked.
//!
//! PostgreSQL gives each of its backends a process group of its own, so that neither a signal to
//! the server nor one to its group reaches them: the descendants are looked up in /proc.

use std::fs;
use std::time::{Duration, Instant};

/// Kills the process and its descendants, and waits until they are dead.
pub fn kill_family(pid: libc::pid_t) {
    // PostgreSQL's backends would end by themselves, but only after the restarted server has
    // found them alive and refused to start.
    let members = freeze_family(pid);
    for member in &members {
        send(*member, libc::SIGKILL);
    }
    let gone = |pid: &libc::pid_t| matches!(state(*pid), None | Some('Z' | 'X'));
    assert!(
        wait_until(Duration::from_secs(20), || members.iter().all(gone)),
        "processes {members:?} survive SIGKILL",
    );
}

/// Stops the process and its descendants, and returns them all.
pub fn freeze_family(pid: libc::pid_t) -> Vec<libc::pid_t> {
    let mut stopped = Vec::new();
    // A process may fork until it is stopped: look again until there is nobody new.
    loop {
        let new: Vec<_> = family(pid).into_iter().filter(|pid| !stopped.contains(pid)).collect();
        if new.is_empty() {
            return stopped;
        }
        for member in new {
            send(member, libc::SIGSTOP);
            let halted = || !matches!(state(member), Some('R' | 'S' | 'D'));
            assert!(wait_until(Duration::from_secs(20), halted), "process {member} does not stop");
            stopped.push(member);
        }
    }
}

/// The process and all its descendants, parents first.
pub fn family(pid: libc::pid_t) -> Vec<libc::pid_t> {
    let parents: Vec<(libc::pid_t, libc::pid_t)> = fs::read_dir("/proc")
        .expect("/proc can be listed")
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, stat(pid)?.1)))
        .collect();
    let mut members = vec![pid];
    let mut next = 0;
    while let Some(&parent) = members.get(next) {
        members.extend(parents.iter().filter(|(_, p)| *p == parent).map(|(child, _)| child));
        next += 1;
    }
    members
}

fn state(pid: libc::pid_t) -> Option<char> {
    Some(stat(pid)?.0)
}

/// State and parent of a process.
fn stat(pid: libc::pid_t) -> Option<(char, libc::pid_t)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program's name, in brackets, may contain anything, even brackets.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

pub fn send(pid: libc::pid_t, signal: libc::c_int) {
    // SAFETY: a plain system call. It fails only for a process that is gone already.
    unsafe { libc::kill(pid, signal) };
}

/// Polls until the condition holds; false when it has not within `timeout`.
pub fn wait_until(timeout: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while !condition() {
        if start.elapsed() > timeout {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    true
}

/// The processor time that the process and its descendants, dead ones included, have used.
pub fn cpu_time(pid: libc::pid_t) -> Duration {
    let ticks: u64 = family(pid).into_iter().filter_map(cpu_ticks).sum();
    // SAFETY: a query without arguments that touch memory.
    let per_second = u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).unwrap_or(100);
    Duration::from_millis(ticks * 1000 / per_second)
}

fn cpu_ticks(pid: libc::pid_t) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields = text.rsplit_once(')')?.1.split_whitespace();
    // User, system, and the same of children that were waited for.
    fields.skip(11).take(4).map(|ticks| ticks.parse::<u64>().ok()).sum()
}
