//! The API behind every proxy: an nginx that answers everything with the same bytes from memory,
//! and counts. What it counted is what was really executed.

use std::cell::Cell;
use std::net::SocketAddr;
use std::time::Duration;

use crate::probe;
use crate::proxies::{Proxy, nginx};
use crate::support::family::wait_until;

const COUNTERS: &str = "/counted";

pub struct Upstream {
    server: Proxy,
    /// How often it was asked for its counters, which it counts too.
    asked: Cell<u64>,
}

impl Upstream {
    pub fn start() -> Result<Self, String> {
        let counters = format!("location = {COUNTERS} {{ stub_status; }}");
        let server = nginx("upstream", 1, &format!("{} {counters}", constant()))?;
        Ok(Self { server, asked: Cell::new(0) })
    }

    pub fn addr(&self) -> SocketAddr {
        self.server.addr()
    }

    /// The requests that it got so far, those for this counter left out.
    pub fn executions(&self) -> u64 {
        let counters = probe::get(self.addr(), COUNTERS).expect("the upstream is asked");
        self.asked.set(self.asked.get() + 1);
        // "server accepts handled requests", then the three figures.
        let requests = counters.body.lines().nth(2).and_then(|line| line.split_whitespace().nth(2));
        let requests: u64 = requests.and_then(|n| n.parse().ok()).expect("nginx counts requests");
        requests - self.asked.get()
    }

    /// The same, once nothing comes any more: a call outlives the client that hung up.
    pub fn executions_at_rest(&self) -> u64 {
        let mut last = self.executions();
        wait_until(Duration::from_secs(20), || {
            std::thread::sleep(Duration::from_millis(50));
            let now = self.executions();
            std::mem::replace(&mut last, now) == now
        });
        last
    }
}

/// What nginx is told to answer with.
pub fn constant() -> String {
    format!("location / {{ default_type application/json; return 200 '{}'; }}", body())
}

/// About 600 bytes, like the receipt of a payment.
pub fn body() -> String {
    format!(
        r#"{{"id":"pay_1042","status":"captured","amount":4200,"currency":"EUR","note":"{}"}}"#,
        "x".repeat(520)
    )
}
