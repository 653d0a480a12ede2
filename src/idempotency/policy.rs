//! What the operator decided for a route: the part of a decision that is not in the record.

use std::time::Duration;

use super::Origin;

const BACKOFF_CAP: Duration = Duration::from_secs(3600);
const BACKOFF_DOUBLINGS: u32 = 6;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// How long a finished answer is kept, from completion.
    pub ttl: Duration,
    /// How long a running attempt is protected without a heartbeat.
    pub lease: Duration,
    /// How old a silent run gets before it is settled; an unknown outcome is not probed later.
    pub settle_after: Duration,
    /// How long a duplicate of a running call waits for its answer.
    pub wait: Duration,
    pub when_failed: WhenFailed,
    pub when_unknown: WhenUnknown,
    pub max_attempts: u32,
    /// Base of the pause before a failed record executes again.
    pub retry_backoff: Duration,
    pub replay_to: ReplayTo,
    /// Who runs what is admitted. A caller of the decision API never runs what a call left unknown.
    pub origin: Origin,
}

/// After a definite failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFailed {
    /// A retry executes again.
    Retry,
    /// The failure is the answer: stored and replayed.
    Replay,
    /// Stored as failed; retries are refused.
    Reject,
}

/// After it was sent and nobody knows what happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenUnknown {
    /// Held until a probe or an operator settles it.
    Hold,
    /// A retry may execute again once the lease is over.
    Retry,
}

/// Who gets the stored answer of an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayTo {
    /// Whoever has the identity: the tenant was set by a trusted layer.
    AnyCredential,
    /// Only the credential of the first request.
    SameCredential,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            ttl: Duration::from_secs(24 * 3600),
            lease: Duration::from_secs(30),
            settle_after: Duration::from_secs(600),
            wait: Duration::ZERO,
            when_failed: WhenFailed::Retry,
            when_unknown: WhenUnknown::Hold,
            max_attempts: 10,
            retry_backoff: Duration::ZERO,
            replay_to: ReplayTo::AnyCredential,
            origin: Origin::Call,
        }
    }
}

impl Policy {
    /// When an unknown outcome is probed for the first time: what was sent has had the time of a
    /// lease to end by itself, unless the operator wants to know sooner.
    pub fn probe_in(&self) -> Duration {
        self.lease.min(self.settle_after)
    }
}

/// `min(base × 2^min(attempt, 6), 1 h)`.
pub fn backoff(base: Duration, attempt: u32) -> Duration {
    base.saturating_mul(1 << attempt.min(BACKOFF_DOUBLINGS)).min(BACKOFF_CAP)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_doubles_six_times_and_never_exceeds_an_hour() {
        let seconds: Vec<_> =
            (1..=8).map(|n| backoff(Duration::from_secs(60), n).as_secs()).collect();
        assert_eq!(seconds, [120, 240, 480, 960, 1920, 3600, 3600, 3600]);
        assert_eq!(backoff(Duration::from_secs(10), 7), Duration::from_secs(640));
        assert_eq!(backoff(Duration::ZERO, 3), Duration::ZERO);
        assert_eq!(backoff(Duration::MAX, 6), BACKOFF_CAP);
    }
}
