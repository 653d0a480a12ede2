//! The one decision: given what was found, what happens to this request?
//!
//! `decide` is total and pure. Whatever may have run is executed again only on the paths that say
//! so here: a failure whose record allows it, and an unknown outcome where the policy is `retry`.

use std::time::Duration;

use super::record::AfterFailure;
use super::{
    Credential, Fingerprint, Found, Origin, Policy, Record, ReplayTo, Snapshot, State, WhenUnknown,
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
        | State::Failed { then: AfterFailure::Replay { answer }, .. } => {
            replay(record.credential, answer, asked, policy)
        }
        State::Failed { then: AfterFailure::Refuse, .. } => {
            Decision::Refuse(Refusal::AttemptFailed { retry_after: None })
        }
        State::Failed { then: AfterFailure::Allowed, .. } => Decision::Execute(Admission::TakeOver),
        State::Failed { then: AfterFailure::Execute { from }, .. } => {
            again(record, *from, now, policy, |retry_after| Refusal::AttemptFailed { retry_after })
        }
        State::Processing { lease_until } if now < *lease_until => {
            Decision::Wait { lease_until: *lease_until }
        }
        State::Processing { lease_until: from } | State::Unknown { retry_at: from } => match policy
            .when_unknown
        {
            WhenUnknown::Hold => Decision::Refuse(Refusal::OutcomeUnknown { retry_after: None }),
            // Its retries are the decision API's own affair; a call's are for its route to allow.
            WhenUnknown::Retry
                if (policy.origin, record.origin) == (Origin::Decision, Origin::Call) =>
            {
                Decision::Refuse(Refusal::OutcomeUnknown { retry_after: None })
            }
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
        super::Body::TooLong => {
            Decision::Refuse(Refusal::ResponseNotStored { original_status: answer.status })
        }
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::idempotency::arbitrary::{founds, policies};
    use crate::idempotency::{Body, WhenUnknown};

    fn asked() -> impl Strategy<Value = Asked> {
        let digest = || proptest::option::of((0..2u8).prop_map(|n| [n; 32]));
        (digest(), digest()).prop_map(|(fingerprint, credential)| Asked {
            fingerprint: fingerprint.map(Fingerprint::from_bytes),
            credential: credential.map(Credential::from_bytes),
        })
    }

    fn executes(decision: &Decision<'_>) -> bool {
        matches!(decision, Decision::Execute(_))
    }

    #[test]
    fn nothing_found_executes() {
        let decision = decide(None, &Asked::default(), &Policy::default());
        assert_eq!(decision, Decision::Execute(Admission::New));
    }

    proptest! {
        #[test]
        fn an_answer_that_has_not_expired_is_never_executed_again(
            found in founds(), asked in asked(), policy in policies()
        ) {
            let answered = matches!(
                found.record.state,
                State::Succeeded { .. } | State::Failed { then: AfterFailure::Replay { .. }, .. }
            );
            if answered && !found.record.is_expired(found.now) {
                prop_assert!(!executes(&decide(Some(&found), &asked, &policy)));
            }
        }

        #[test]
        fn what_may_have_run_is_executed_again_only_where_policy_says_so(
            found in founds(), asked in asked(), policy in policies()
        ) {
            let decision = decide(Some(&found), &asked, &policy);
            let (State::Processing { lease_until: from } | State::Unknown { retry_at: from }) =
                found.record.state else { return Ok(()) };
            if executes(&decision) {
                prop_assert_eq!(policy.when_unknown, WhenUnknown::Retry);
                prop_assert!(from <= found.now, "the lease still runs");
                prop_assert!(found.record.attempt < policy.max_attempts);
            }
        }

        #[test]
        fn a_decision_never_takes_over_what_a_call_left_unknown(
            found in founds(), asked in asked(), policy in policies()
        ) {
            let open = matches!(found.record.state, State::Processing { .. } | State::Unknown { .. });
            if open && policy.origin == Origin::Decision && found.record.origin == Origin::Call {
                prop_assert!(!executes(&decide(Some(&found), &asked, &policy)));
            }
        }

        #[test]
        fn another_fingerprint_is_never_executed_or_replayed(
            found in founds(), asked in asked(), policy in policies()
        ) {
            let decision = decide(Some(&found), &asked, &policy);
            if differs(found.record.fingerprint, asked.fingerprint)
                && !found.record.is_expired(found.now)
            {
                prop_assert_eq!(decision, Decision::Refuse(Refusal::KeyReused));
            }
        }

        #[test]
        fn an_answer_goes_only_to_whom_policy_allows(
            found in founds(), asked in asked(), policy in policies()
        ) {
            if let Decision::Replay(answer) = decide(Some(&found), &asked, &policy) {
                prop_assert!(matches!(answer.body, Body::Stored(_)));
                prop_assert!(
                    policy.replay_to == ReplayTo::AnyCredential
                        || found.record.credential == asked.credential
                );
            }
        }

        #[test]
        fn a_pause_that_is_named_is_enough(
            found in founds(), asked in asked(), policy in policies()
        ) {
            let decision = decide(Some(&found), &asked, &policy);
            let Decision::Refuse(
                Refusal::AttemptFailed { retry_after: Some(pause) }
                | Refusal::OutcomeUnknown { retry_after: Some(pause) },
            ) = decision else { return Ok(()) };
            prop_assert!(!pause.is_zero());
            let later = Found { now: found.now + pause, ..found };
            prop_assert!(executes(&decide(Some(&later), &asked, &policy)));
        }

        #[test]
        fn a_run_under_its_lease_is_waited_for(
            found in founds(), policy in policies()
        ) {
            if let State::Processing { lease_until } = found.record.state
                && found.now < lease_until
            {
                let decision = decide(Some(&found), &Asked::default(), &policy);
                prop_assert_eq!(decision, Decision::Wait { lease_until });
            }
        }
    }
}
