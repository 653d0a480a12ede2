//! One row in one round: load, the processor time it took, and whether the upstream was asked
//! exactly as often as it should have been.

use std::time::Duration;

use crate::bed::{Bed, HOT_KEY};
use crate::load::{KEYS_PER_THREAD, Keys, Load, Outcome};
use crate::rows::{Row, Who};

/// Lets the aftermath of the last row pass: connections that close, pages that are written.
const PAUSE: Duration = Duration::from_millis(200);
const WARM_UP_SECONDS: u64 = 1;

#[derive(Clone, Copy)]
pub struct Measured {
    pub per_second: f64,
    pub p50: Duration,
    pub p99: Duration,
    /// Of the proxy, per request.
    pub cpu_micros: f64,
    /// Of MySQL and Redis, per request.
    pub servers_cpu_micros: f64,
}

pub struct Bench {
    pub bed: Bed,
    threads: usize,
    seconds: u64,
    /// Prefix and number per thread of the keys that were executed on MySQL and Redis last.
    known: Option<(String, u64)>,
    runs: usize,
}

impl Bench {
    pub fn new(bed: Bed, threads: usize, seconds: u64) -> Self {
        Self { bed, threads, seconds, known: None, runs: 0 }
    }

    /// Connections, caches, prepared statements, the hot key: made before anything is measured.
    pub fn warm_up(&mut self, row: &Row) -> Result<(), String> {
        self.bed.proxy(row.who)?;
        if row.keys == Keys::One && row.who == Who::Gateway {
            // Its first call; what it is answered with is remembered from now on.
            self.load(row, None, 1, 1)?;
        }
        if row.keys != Keys::Known {
            self.load(row, row.expected(), row.connections, WARM_UP_SECONDS)?;
        }
        Ok(())
    }

    pub fn measure(&mut self, row: &Row) -> Result<Measured, String> {
        if row.who == Who::SecondOnServers {
            self.bed.stop(row.who)?;
        }
        self.bed.proxy(row.who)?;
        std::thread::sleep(PAUSE);
        let executed_before = self.bed.upstream.executions_at_rest();
        let (cpu_before, servers_before) = self.cpu(row)?;
        let outcome = self.load(row, row.expected(), row.connections, self.seconds)?;
        let (cpu, servers) = self.cpu(row)?;
        let executed = self.bed.upstream.executions_at_rest() - executed_before;
        verify(row, &outcome, executed)?;
        let per_request = |time: Duration| time.as_secs_f64() * 1e6 / outcome.requests as f64;
        Ok(Measured {
            per_second: outcome.requests as f64 / outcome.took.as_secs_f64(),
            p50: outcome.p50,
            p99: outcome.p99,
            cpu_micros: per_request(cpu - cpu_before),
            servers_cpu_micros: per_request(servers - servers_before),
        })
    }

    fn cpu(&mut self, row: &Row) -> Result<(Duration, Duration), String> {
        Ok((self.bed.proxy(row.who)?.cpu(), self.bed.servers_cpu()))
    }

    fn load(
        &mut self,
        row: &Row,
        expected: Option<&str>,
        connections: usize,
        seconds: u64,
    ) -> Result<Outcome, String> {
        self.runs += 1;
        let (prefix, keys_per_thread) = match row.keys {
            Keys::None => ("-".to_owned(), KEYS_PER_THREAD),
            Keys::One => (HOT_KEY.to_owned(), u64::MAX),
            Keys::New => (format!("run-{}", self.runs), KEYS_PER_THREAD),
            Keys::Known => self.known.clone().ok_or("there are no first calls to replay")?,
        };
        let load = Load {
            method: row.method,
            path: row.path(),
            keys: row.keys,
            prefix: &prefix,
            expected,
            keys_per_thread,
            connections,
            threads: self.threads.min(connections),
            seconds,
        };
        let outcome = load.run(self.bed.proxy(row.who)?.addr())?;
        if row.makes_known_keys() {
            // The last ones of a thread are not replayed: it overshoots a little before it stops.
            let spare = connections as u64;
            self.known = Some((prefix, outcome.sent_by_slowest.saturating_sub(spare).max(1)));
        }
        Ok(outcome)
    }
}

/// Calls that were cut off when the time was over may have been executed or not; all that were
/// answered must have been, and nothing twice.
fn verify(row: &Row, outcome: &Outcome, executed: u64) -> Result<(), String> {
    let expected = if row.executes() { outcome.requests..=outcome.sent } else { 0..=0 };
    if expected.contains(&executed) {
        return Ok(());
    }
    Err(format!(
        "{} requests were sent and {} answered, and the upstream was asked {executed} times \
         instead of {expected:?}",
        outcome.sent, outcome.requests
    ))
}
