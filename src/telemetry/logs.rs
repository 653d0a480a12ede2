//! Log lines on stderr, coloured only on a terminal.

use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::clock;

const SELDOM: Duration = Duration::from_secs(1);

/// Keeps a line that every request would write to one a second.
pub struct Seldom(Mutex<Option<Instant>>);

impl Seldom {
    pub const fn new() -> Self {
        Self(Mutex::new(None))
    }

    pub fn is_due(&self) -> bool {
        let mut last = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let now = clock::now();
        let due = last.is_none_or(|last| now - last >= SELDOM);
        if due {
            *last = Some(now);
        }
        due
    }
}

impl Default for Seldom {
    fn default() -> Self {
        Self::new()
    }
}

pub fn start() {
    let lines = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_max_level(tracing::Level::WARN)
        .with_target(false);
    // Somebody who embeds this may have set up logs before.
    let _ = lines.try_init();
}
