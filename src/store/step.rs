//! What a look at the tiers comes to: the right to run, an answer, or neither.

use std::time::{Duration, Instant};

use crate::clock;
use crate::idempotency::decide::Asked;
use crate::idempotency::settle::Earlier;
use crate::idempotency::{Fence, Refusal};
use crate::store::fast::Finished;
use crate::telemetry::metrics::Tier;

/// Whom to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    FastFirst,
    /// The fast tier was asked before and may be out of date.
    DurableOnly,
}

/// What one look at the tiers came to.
#[derive(Debug)]
pub enum Step {
    Admitted(Admitted),
    Replay(Held, Tier),
    /// Somebody runs it now.
    Busy,
    Refuse(Refusal),
}

/// The right to run one attempt.
#[derive(Clone, Copy, Debug)]
pub struct Admitted {
    pub fence: Fence,
    pub attempt: u32,
    pub earlier: Earlier,
    /// Before the durable tier was asked: the lease cannot end sooner than this plus its length.
    pub since: Instant,
    /// What the record says of the request whose answer this will be.
    pub asked: Asked,
}

/// A finished answer, and how long it holds; None: longer than is known here.
#[derive(Clone, Debug)]
pub struct Held {
    pub finished: Finished,
    pub until: Option<Instant>,
}

impl Held {
    /// An answer that is kept for this long, counted from a moment before it was written: the
    /// database counts from inside its statement, and a copy must not outlive its record.
    pub fn since(began: Instant, keep: Duration, finished: Finished) -> Self {
        let until = began.checked_add(keep).unwrap_or_else(|| clock::after(keep));
        Self { finished, until: Some(until) }
    }
}
