//! How long a connection has been open and unused, and how long it may.

use std::time::{Duration, Instant};

use crate::config;

#[derive(Clone, Copy)]
pub struct Wear {
    opened: Instant,
    pub idle_since: Instant,
}

#[derive(Clone, Copy)]
pub struct Limits {
    idle_timeout: Duration,
    max_age: Duration,
}

/// A connection nobody uses, as those see it who decide whether it stays.
pub struct Idle {
    pub wear: Wear,
    /// By the other side; its socket may be gone already.
    pub closed: bool,
}

impl Wear {
    pub fn new(now: Instant) -> Self {
        Self { opened: now, idle_since: now }
    }
}

impl Limits {
    pub fn new(connections: &config::Connections) -> Self {
        Self { idle_timeout: connections.idle_timeout, max_age: connections.max_age }
    }

    /// Whether it may take another request.
    pub fn allow(&self, wear: &Wear, now: Instant) -> bool {
        self.allow_age(wear, now)
            && now.saturating_duration_since(wear.idle_since) < self.idle_timeout
    }

    pub fn allow_age(&self, wear: &Wear, now: Instant) -> bool {
        now.saturating_duration_since(wear.opened) < self.max_age
    }

    /// Often enough that no connection outlives its limits by much.
    pub fn sweep_every(&self) -> Duration {
        let shortest = self.idle_timeout.min(self.max_age) / 2;
        shortest.clamp(Duration::from_millis(10), Duration::from_secs(1))
    }
}
