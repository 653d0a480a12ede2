//! How a run ends, and what becomes of one that never said.
//!
//! Once a byte may have reached the upstream a claim ends in exactly one of four ways ([`Ending`]);
//! `settle` turns it into the row that is written. [`Standing`] judges the runs that went silent.
//!
//! ## Why a release gives the number of its attempt back
//! `max_attempts` limits what may have been executed, and an attempt that sent nothing was not. No
//! write relies on a number being used once: each is fenced by the token, and whoever ends a decision
//! by its number alone was told that number, after which a decision is never released.

use std::time::Duration;

use super::policy::backoff;
use super::record::AfterFailure;
use super::{Origin, Policy, Record, Snapshot, State, WhenFailed};
use crate::clock::Timestamp;

const ERROR_MAX_CHARACTERS: usize = 4000;
pub const WENT_SILENT: &str = "it went silent and nobody knows";

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
    Released {
        why: String,
    },
    /// It may have happened.
    Unknown {
        why: String,
    },
}

/// What was known before this attempt began, and the number of the attempt that left it: a release
/// goes back to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Earlier {
    Nothing,
    /// It failed, and another attempt was due.
    Failed {
        attempt: u32,
    },
    /// It failed, and an operator allowed another attempt.
    Allowed {
        attempt: u32,
    },
    Unknown {
        attempt: u32,
    },
}

impl Earlier {
    /// None: it is finished, and no attempt follows it.
    pub fn of(record: &Record) -> Option<Self> {
        let attempt = record.attempt;
        match &record.state {
            State::Processing { .. } | State::Unknown { .. } => Some(Self::Unknown { attempt }),
            State::Failed { then: AfterFailure::Execute { .. }, .. } => {
                Some(Self::Failed { attempt })
            }
            State::Failed { then: AfterFailure::Allowed, .. } => Some(Self::Allowed { attempt }),
            State::Failed { then: AfterFailure::Replay { .. } | AfterFailure::Refuse, .. }
            | State::Succeeded { .. } => None,
        }
    }
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
        /// When policy may let a retry execute.
        retry_in: Duration,
        /// When the upstream is probed for what happened.
        probe_in: Duration,
    },
    /// The record is removed, as if it had never been.
    Release,
    /// The attempt did not take place: what was there before it is written again, under the number
    /// of the attempt that left it.
    Undo {
        attempt: u32,
        back: Box<Settlement>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    ExecuteAgain {
        after: Duration,
    },
    /// By an operator's leave, however many attempts there were.
    Allowed,
    Replay {
        answer: Snapshot,
    },
    Refuse,
}

pub fn settle(ending: Ending, attempt: u32, earlier: Earlier, policy: &Policy) -> Settlement {
    let keep = policy.ttl;
    match ending {
        Ending::Completed { answer, result_ref } => {
            Settlement::Succeed { answer, result_ref, keep }
        }
        Ending::Failed { answer, error } => {
            let then = match (policy.when_failed, answer) {
                (WhenFailed::Retry, _) => {
                    Failure::ExecuteAgain { after: backoff(policy.retry_backoff, attempt) }
                }
                (WhenFailed::Replay, Some(answer)) => Failure::Replay { answer },
                (WhenFailed::Replay, None) | (WhenFailed::Reject, _) => Failure::Refuse,
            };
            Settlement::Fail { then, error: cut(error), keep }
        }
        Ending::Unknown { why } => {
            let (retry_in, probe_in) = (policy.lease, policy.probe_in());
            Settlement::Hold { why: cut(why), retry_in, probe_in }
        }
        Ending::Released { why } => {
            let failed = |then, why| Settlement::Fail { then, error: cut(why), keep };
            let (attempt, back) = match earlier {
                Earlier::Nothing => return Settlement::Release,
                Earlier::Failed { attempt } => {
                    (attempt, failed(Failure::ExecuteAgain { after: Duration::ZERO }, why))
                }
                Earlier::Allowed { attempt } => (attempt, failed(Failure::Allowed, why)),
                Earlier::Unknown { attempt } => {
                    let (retry_in, probe_in) = (Duration::ZERO, policy.probe_in());
                    (attempt, Settlement::Hold { why: cut(why), retry_in, probe_in })
                }
            };
            Settlement::Undo { attempt, back: Box::new(back) }
        }
    }
}

/// An error message is evidence, not a log: the first 4000 characters are kept, without the one
/// character that not every database takes.
pub(crate) fn cut(message: String) -> String {
    let message = message.replace('\0', "");
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
    /// Abandoned, and its attempt is older than `stuck_after`; of a decision, its lock ran out so
    /// long ago.
    Stuck,
    /// The same with `settle_after`: ask the probe.
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
            let since = match record.origin {
                Origin::Call => record.updated_at,
                Origin::Decision => lease_until,
            };
            match now.since(since) {
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
        Verdict::Succeeded { answer } => Ending::Completed { answer, result_ref: None },
        Verdict::Failed => {
            Ending::Failed { answer: None, error: "settled as failed after it went silent".into() }
        }
        Verdict::Unknown => Ending::Unknown { why: WENT_SILENT.into() },
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::idempotency::arbitrary::{founds, policies, snapshots};
    use crate::idempotency::decide::Asked;
    use crate::idempotency::{Admission, Decision, decide};

    fn endings() -> impl Strategy<Value = Ending> {
        prop_oneof![
            snapshots().prop_map(|answer| Ending::Completed { answer, result_ref: None }),
            (proptest::option::of(snapshots()), ".{0,20}")
                .prop_map(|(answer, error)| Ending::Failed { answer, error }),
            ".{0,20}".prop_map(|why| Ending::Released { why }),
            ".{0,20}".prop_map(|why| Ending::Unknown { why }),
        ]
    }

    fn earlier() -> impl Strategy<Value = Earlier> {
        prop_oneof![
            Just(Earlier::Nothing),
            (1..20u32).prop_map(|attempt| Earlier::Failed { attempt }),
            (1..20u32).prop_map(|attempt| Earlier::Allowed { attempt }),
            (1..20u32).prop_map(|attempt| Earlier::Unknown { attempt }),
        ]
    }

    proptest! {
        #[test]
        fn each_ending_is_written_as_what_it_is(
            ending in endings(), attempt in 1..20u32, earlier in earlier(), policy in policies()
        ) {
            let settlement = settle(ending.clone(), attempt, earlier, &policy);
            match ending {
                Ending::Completed { answer, result_ref } => prop_assert_eq!(
                    settlement, Settlement::Succeed { answer, result_ref, keep: policy.ttl }),
                Ending::Failed { .. } => {
                    prop_assert!(matches!(settlement, Settlement::Fail { .. }), "{:?}", settlement);
                }
                Ending::Unknown { .. } => {
                    let held = matches!(settlement, Settlement::Hold { retry_in, probe_in, .. }
                        if retry_in == policy.lease
                            && probe_in == policy.lease.min(policy.settle_after));
                    prop_assert!(held, "what may have happened is never free: {settlement:?}");
                }
                Ending::Released { .. } => match (earlier, settlement) {
                    (Earlier::Nothing, settlement) => {
                        prop_assert_eq!(settlement, Settlement::Release);
                    }
                    (Earlier::Failed { attempt: before }, Settlement::Undo { attempt, back }) => {
                        let again = Failure::ExecuteAgain { after: Duration::ZERO };
                        let failed = matches!(*back, Settlement::Fail { then, .. } if then == again);
                        prop_assert!(failed && attempt == before);
                    }
                    (Earlier::Allowed { attempt: before }, Settlement::Undo { attempt, back }) => {
                        let allowed =
                            matches!(*back, Settlement::Fail { then: Failure::Allowed, .. });
                        prop_assert!(allowed && attempt == before);
                    }
                    (Earlier::Unknown { attempt: before }, Settlement::Undo { attempt, back }) => {
                        let held = matches!(*back, Settlement::Hold { .. });
                        prop_assert!(held && attempt == before);
                    }
                    (_, settlement) => prop_assert!(false, "{settlement:?}"),
                },
            }
        }

        #[test]
        fn only_what_may_be_followed_by_an_attempt_can_be_gone_back_to(
            found in founds(), policy in policies()
        ) {
            let followed = Earlier::of(&found.record).is_some();
            let executes = decide(Some(&found), &Asked::default(), &policy)
                == Decision::Execute(Admission::TakeOver);
            prop_assert!(followed || !executes);
            let finished = matches!(found.record.state, State::Succeeded { .. } | State::Failed {
                then: AfterFailure::Replay { .. } | AfterFailure::Refuse, ..
            });
            prop_assert_eq!(followed, !finished);
        }

        #[test]
        fn a_failure_does_to_retries_what_policy_says(
            answer in proptest::option::of(snapshots()), attempt in 1..20u32, policy in policies()
        ) {
            let ending = Ending::Failed { answer: answer.clone(), error: "no".into() };
            let Settlement::Fail { then, .. } = settle(ending, attempt, Earlier::Nothing, &policy)
                else { panic!("a failure is a failure") };
            match (policy.when_failed, answer) {
                (WhenFailed::Retry, _) => {
                    let after = backoff(policy.retry_backoff, attempt);
                    prop_assert_eq!(then, Failure::ExecuteAgain { after });
                }
                (WhenFailed::Replay, Some(answer)) => {
                    prop_assert_eq!(then, Failure::Replay { answer });
                }
                (WhenFailed::Replay, None) | (WhenFailed::Reject, _) => {
                    prop_assert_eq!(then, Failure::Refuse);
                }
            }
        }

        #[test]
        fn only_a_silent_run_past_its_lease_is_anybody_elses_business(
            found in founds(), stuck in 0..100u64, more in 0..100u64
        ) {
            let (stuck, settle) = (Duration::from_millis(stuck), Duration::from_millis(stuck + more));
            let standing = standing(&found.record, found.now, stuck, settle);
            match found.record.state {
                State::Processing { lease_until } if lease_until <= found.now => {
                    let age = found.now.since(match found.record.origin {
                        Origin::Call => found.record.updated_at,
                        Origin::Decision => lease_until,
                    });
                    let expected = if age >= settle { Standing::Due }
                        else if age >= stuck { Standing::Stuck }
                        else { Standing::Abandoned };
                    prop_assert_eq!(standing, expected);
                }
                _ => prop_assert_eq!(standing, Standing::Fine),
            }
        }

        #[test]
        fn an_error_is_cut_at_4000_characters(error in "\\PC{0,10}", repeats in 0..900usize) {
            let error = error.repeat(repeats);
            let ending = Ending::Unknown { why: error.clone() };
            let Settlement::Hold { why, .. } =
                settle(ending, 1, Earlier::Nothing, &Policy::default()) else { panic!("held") };
            prop_assert_eq!(why.chars().count(), error.chars().count().min(ERROR_MAX_CHARACTERS));
            prop_assert!(error.starts_with(&why));
        }
    }

    #[test]
    fn a_verdict_is_the_ending_it_stands_for() {
        let answer = Snapshot::of_value(b"1".to_vec());
        let succeeded = conclude(Verdict::Succeeded { answer: answer.clone() });
        assert_eq!(succeeded, Ending::Completed { answer, result_ref: None });
        assert!(matches!(conclude(Verdict::Failed), Ending::Failed { answer: None, .. }));
        assert!(matches!(conclude(Verdict::Unknown), Ending::Unknown { .. }));
    }
}
