//! Load from wrk, bounded in time and in keys; `load.lua` says what is sent and checks the answers.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

/// A bound that no run reaches by itself: what is written stays in the hundreds of megabytes.
pub const KEYS_PER_THREAD: u64 = 100_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keys {
    /// No key: the request concerns the gateway not at all.
    None,
    /// The same in every request.
    One,
    /// Another one in every request.
    New,
    /// Those of earlier first calls, each once.
    Known,
}

pub struct Load<'a> {
    pub method: &'a str,
    pub path: &'a str,
    pub keys: Keys,
    /// Of the keys; the key itself when there is one only.
    pub prefix: &'a str,
    /// What `Idempotency-Status` has to say; without it only the status is looked at.
    pub expected: Option<&'a str>,
    pub keys_per_thread: u64,
    pub connections: usize,
    pub threads: usize,
    pub seconds: u64,
}

#[derive(Debug, Clone, Copy)]
pub struct Outcome {
    pub requests: u64,
    pub took: Duration,
    /// Also those whose answer did not come in time.
    pub sent: u64,
    /// Sent by the thread that sent the fewest.
    pub sent_by_slowest: u64,
    pub p50: Duration,
    pub p99: Duration,
}

impl Load<'_> {
    /// # Errors
    /// When a connection broke or an answer was not what it had to be.
    pub fn run(&self, to: SocketAddr) -> Result<Outcome, String> {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/loadtest/comparison/load.lua");
        let keys = match self.keys {
            Keys::None => "none",
            Keys::One => "one",
            Keys::New => "new",
            Keys::Known => "known",
        };
        let mut wrk = Command::new("wrk");
        wrk.args(["--threads", &self.threads.to_string()]);
        wrk.args(["--connections", &self.connections.to_string()]);
        wrk.args(["--duration", &format!("{}s", self.seconds), "--timeout", "10s"]);
        wrk.args(["--script", script, &format!("http://{to}/"), "--"]);
        wrk.args([self.method, self.path, keys, self.prefix, self.expected.unwrap_or("-")]);
        wrk.arg(self.keys_per_thread.to_string());
        let output = wrk.output().map_err(|e| format!("wrk cannot be run: {e}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("RESULT "))
            .ok_or_else(|| format!("wrk: {text}{}", String::from_utf8_lossy(&output.stderr)))?;
        read(line)
    }
}

fn read(line: &str) -> Result<Outcome, String> {
    let number = |name: &str| {
        let found = line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        found.and_then(|n| n.parse::<u64>().ok()).ok_or_else(|| format!("wrk: no {name} in {line}"))
    };
    let micros = |name: &str| number(name).map(Duration::from_micros);
    let (broken, refused, wrong) = (number("broken")?, number("refused")?, number("wrong")?);
    let requests = number("requests")?;
    if broken + refused + wrong > 0 || requests == 0 {
        let said = line.split_once("said=").map_or("-", |(_, said)| said);
        return Err(format!(
            "of {requests} requests {broken} broke off, {refused} got a status above 399, {wrong} \
             were answered wrongly (such as: {said})"
        ));
    }
    Ok(Outcome {
        requests,
        took: micros("micros")?,
        sent: number("sent")?,
        sent_by_slowest: number("least")?,
        p50: micros("p50")?,
        p99: micros("p99")?,
    })
}
