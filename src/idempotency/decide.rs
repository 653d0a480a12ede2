//! The one decision: given what was found, what happens to this request?
//!
//! `decide` is total and pure. Whatever may have run is executed again only on the paths that say
//! so here: a failure whose record allows it, and an unknown outcome where the policy is `retry`.

use std::time::Duration;

use super::record::AfterFailure;
use super::{
    Credential, Fingerprint, Found, Policy, Record, ReplayTo, Snapshot, State, WhenUnknown,
};
use crate::clock::Timestamp;

/// What a request brings to the decision, beside its identity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// None: the caller does not tell requests apart, every request is the same one.
    pub fingerprint: Option<Fingerprint>,
    pub credential: Option<Credential>,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Decision<'r> {
    Execute(Admission),
    Replay(&'r Snapshot),
    /// Somebody runs it now, under a lease that ends then.
    Wait {
        lease_until: Timestamp,
    },
    Refuse(Refusal),
}

/// How the durable tier is to admit an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Nothing is there: insert.
    New,
    /// What is there has expired: remove it, then insert.
    Replace,
    /// Compare and set the next attempt.
    TakeOver,
}

/// Why a request is neither executed nor replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    KeyReused,
    InProgress { retry_after: Duration },
    OutcomeUnknown { retry_after: Option<Duration> },
    AttemptFailed { retry_after: Option<Duration> },
    ResponseNotStored { original_status: u16 },
    CredentialMismatch,
}

impl Refusal {
    /// The problem code, the log word and the metric label.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::KeyReused => "key-reused",
            Self::InProgress { .. } => "in-progress",
            Self::OutcomeUnknown { .. } => "outcome-unknown",
            Self::AttemptFailed { .. } => "attempt-failed",
            Self::ResponseNotStored { .. } => "response-not-stored",
            Self::CredentialMismatch => "credential-mismatch",
        }
    }
}

pub fn decide<'r>(found: Option<&'r Found>, asked: &Asked, policy: &Policy) -> Decision<'r> {
    let Some(Found { record, now }) = found else {
        return Decision::Execute(Admission::New);
    };
    let now = *now;
    if record.is_expired(now) {
        return Decision::Execute(Admission::Replace);
    }
    if differs(record.fingerprint, asked.fingerprint) {
        return Decision::Refuse(Refusal::KeyReused);
    }
    match &record.state {
        State::Succeeded { answer, .. }
        | State::Failed {
            then: AfterFailure::Replay { answer },
            ..
        } => replay(record.credential, answer, asked, policy),
        State::Failed {
            then: AfterFailure::Refuse,
            ..
        } => Decision::Refuse(Refusal::AttemptFailed { retry_after: None }),
        State::Failed {
            then: AfterFailure::Execute { from },
            ..
        } => again(record, *from, now, policy, |retry_after| {
            Refusal::AttemptFailed { retry_after }
        }),
        State::Processing { lease_until } if now < *lease_until => Decision::Wait {
            lease_until: *lease_until,
        },
        State::Processing { lease_until: from } | State::Unknown { retry_at: from } => match policy
            .when_unknown
        {
            WhenUnknown::Hold => Decision::Refuse(Refusal::OutcomeUnknown { retry_after: None }),
            WhenUnknown::Retry => again(record, *from, now, policy, |retry_after| {
                Refusal::OutcomeUnknown { retry_after }
            }),
        },
    }
}

/// Whether a finished answer may go to this caller. Also used for answers out of a cache, where
/// only finished records are kept.
pub fn replay<'r>(
    first: Option<Credential>,
    answer: &'r Snapshot,
    asked: &Asked,
    policy: &Policy,
) -> Decision<'r> {
    if policy.replay_to == ReplayTo::SameCredential && first != asked.credential {
        return Decision::Refuse(Refusal::CredentialMismatch);
    }
    match answer.body {
        super::Body::Stored(_) => Decision::Replay(answer),
        super::Body::TooLong => Decision::Refuse(Refusal::ResponseNotStored {
            original_status: answer.status,
        }),
    }
}

/// Two requests differ only when both say what they are.
pub fn differs(one: Option<Fingerprint>, other: Option<Fingerprint>) -> bool {
    matches!((one, other), (Some(one), Some(other)) if one != other)
}

fn again<'r>(
    record: &Record,
    from: Timestamp,
    now: Timestamp,
    policy: &Policy,
    refusal: impl Fn(Option<Duration>) -> Refusal,
) -> Decision<'r> {
    if record.attempt >= policy.max_attempts {
        return Decision::Refuse(refusal(None));
    }
    if now < from {
        return Decision::Refuse(refusal(Some(from.since(now))));
    }
    Decision::Execute(Admission::TakeOver)
}
