//! How a run ends, and what becomes of one that never said.
//!
//! Once a byte may have reached the upstream a claim ends in exactly one of four ways ([`Ending`]);
//! `settle` turns it into the row that is written. [`Standing`] judges the runs that went silent.

use std::time::Duration;

use super::policy::backoff;
use super::{Policy, Record, Snapshot, State, WhenFailed};
use crate::clock::Timestamp;

const ERROR_MAX_CHARACTERS: usize = 4000;

/// What the runner saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    Completed {
        answer: Snapshot,
        result_ref: Option<String>,
    },
    /// A definite "it failed".
    Failed {
        answer: Option<Snapshot>,
        error: String,
    },
    /// Proof that nothing happened.
    Released { why: String },
    /// It may have happened.
    Unknown { why: String },
}

/// What was known before this attempt began: a release goes back to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Earlier {
    Nothing,
    Failed,
    Unknown,
}

/// What is written. Durations count from the durable tier's "now".
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settlement {
    Succeed {
        answer: Snapshot,
        result_ref: Option<String>,
        keep: Duration,
    },
    Fail {
        then: Failure,
        error: String,
        keep: Duration,
    },
    Hold {
        why: String,
        retry_in: Duration,
    },
    /// The record is removed, as if it had never been.
    Release,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    ExecuteAgain { after: Duration },
    Replay { answer: Snapshot },
    Refuse,
}

pub fn settle(ending: Ending, attempt: u32, earlier: Earlier, policy: &Policy) -> Settlement {
    let keep = policy.ttl;
    match ending {
        Ending::Completed { answer, result_ref } => Settlement::Succeed {
            answer,
            result_ref,
            keep,
        },
        Ending::Failed { answer, error } => {
            let then = match (policy.when_failed, answer) {
                (WhenFailed::Retry, _) => Failure::ExecuteAgain {
                    after: backoff(policy.retry_backoff, attempt),
                },
                (WhenFailed::Replay, Some(answer)) => Failure::Replay { answer },
                (WhenFailed::Replay, None) | (WhenFailed::Reject, _) => Failure::Refuse,
            };
            Settlement::Fail {
                then,
                error: cut(error),
                keep,
            }
        }
        Ending::Unknown { why } => Settlement::Hold {
            why: cut(why),
            retry_in: policy.lease,
        },
        Ending::Released { why } => match earlier {
            Earlier::Nothing => Settlement::Release,
            Earlier::Failed => Settlement::Fail {
                then: Failure::ExecuteAgain {
                    after: Duration::ZERO,
                },
                error: cut(why),
                keep,
            },
            Earlier::Unknown => Settlement::Hold {
                why: cut(why),
                retry_in: Duration::ZERO,
            },
        },
    }
}

/// An error message is evidence, not a log: the first 4000 characters are kept.
fn cut(message: String) -> String {
    match message.char_indices().nth(ERROR_MAX_CHARACTERS) {
        Some((end, _)) => message[..end].to_owned(),
        None => message,
    }
}

/// How a record stands with the reconciler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// Finished, or running under its lease.
    Fine,
    /// PROCESSING past its lease.
    Abandoned,
    /// Abandoned, and its attempt is older than `stuck_after`.
    Stuck,
    /// Abandoned, and its attempt is older than `settle_after`: ask the probe.
    Due,
}

pub fn standing(
    record: &Record,
    now: Timestamp,
    stuck_after: Duration,
    settle_after: Duration,
) -> Standing {
    match record.state {
        State::Processing { lease_until } if lease_until <= now => {
            match now.since(record.updated_at) {
                age if age >= settle_after => Standing::Due,
                age if age >= stuck_after => Standing::Stuck,
                _ => Standing::Abandoned,
            }
        }
        _ => Standing::Fine,
    }
}

/// What a probe of the upstream, or an operator, says of a silent run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Succeeded { answer: Snapshot },
    Failed,
    Unknown,
}

/// The ending that a verdict stands for.
pub fn conclude(verdict: Verdict) -> Ending {
    match verdict {
        Verdict::Succeeded { answer } => Ending::Completed {
            answer,
            result_ref: None,
        },
        Verdict::Failed => Ending::Failed {
            answer: None,
            error: "settled as failed after it went silent".into(),
        },
        Verdict::Unknown => Ending::Unknown {
            why: "it went silent and nobody knows".into(),
        },
    }
}
