//! What the upstream has executed, in order.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use tokio::sync::watch;

use crate::support::http1::{Headers, all, header};

/// Longer bodies are counted, not kept.
pub const KEPT_BYTES: usize = 4 << 20;

/// One request that was executed.
#[derive(Clone, Debug)]
pub struct Execution {
    /// Counted from one, over all paths.
    pub number: usize,
    pub method: String,
    /// As it stands in the first line.
    pub target: String,
    /// With `host`, also over HTTP/2.
    pub headers: Headers,
    pub body: Vec<u8>,
    pub body_bytes: u64,
    pub trailers: Headers,
    /// When it began: all of it was read, or as much as its behaviour wants.
    pub at: Instant,
    /// Which of the gateway's connections it came on.
    pub connection: usize,
}

impl Execution {
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    pub fn all(&self, name: &str) -> Vec<&str> {
        all(&self.headers, name)
    }

    pub fn key(&self) -> Option<&str> {
        self.header("idempotency-key")
    }

    pub fn attempt(&self) -> Option<u32> {
        self.header("idempotency-attempt")?.parse().ok()
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

pub struct Executions {
    all: watch::Sender<Vec<Execution>>,
    malformed: Mutex<Vec<String>>,
}

impl Default for Executions {
    fn default() -> Self {
        Self { all: watch::Sender::new(Vec::new()), malformed: Mutex::default() }
    }
}

impl Executions {
    /// Numbers it and puts it on record.
    pub fn begin(&self, mut execution: Execution) -> Execution {
        self.all.send_modify(|all| {
            execution.number = all.len() + 1;
            all.push(execution.clone());
        });
        execution
    }

    pub fn all(&self) -> Vec<Execution> {
        self.all.borrow().clone()
    }

    pub async fn at_least(&self, times: usize) {
        let mut all = self.all.subscribe();
        all.wait_for(|all| all.len() >= times).await.expect("the upstream is still there");
    }

    pub fn note_malformed(&self, what: String) {
        self.malformed.lock().unwrap_or_else(PoisonError::into_inner).push(what);
    }

    pub fn malformed(&self) -> Vec<String> {
        self.malformed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
