//! Log lines on stderr, coloured only on a terminal.

use std::io::{self, IsTerminal};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

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
    // Somebody who embeds this may have set up logs before.
    let _ = tracing_subscriber::registry().with(lines()).try_init();
}

/// What is written to stderr of all that is said.
pub(super) fn lines<S>() -> impl Layer<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .with_target(false)
        .with_filter(LevelFilter::WARN)
}
