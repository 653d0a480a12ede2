//! What an operator may do to a record: settle it by hand, or forget it.
//!
//! Settling takes the record over as one more attempt, so that whoever had it before is fenced, and
//! ends that attempt. A run under its lease is left alone.

use std::sync::Arc;
use std::time::Duration;

use super::{Engine, Shared};
use crate::idempotency::settle::{Failure, Verdict, conclude};
use crate::idempotency::{Identity, Policy, Settlement, Snapshot, WhenFailed, settle};
use crate::store::StoreError;
use crate::store::durable::{Audit, Written};

const LEASE: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// It happened, and this is what retries get.
    Succeeded(Snapshot),
    /// It failed for good: retries are refused.
    Failed,
    /// A retry may execute it again.
    Retry,
}

#[derive(Debug, thiserror::Error)]
pub enum OperatorError {
    #[error("there is no such record, it has its answer already, or it is running under its lease")]
    NotOpen,
    #[error("the record changed meanwhile; look at it again")]
    Changed,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Engine {
    pub async fn resolve(
        &self,
        identity: &Identity,
        resolution: Resolution,
        policy: &Policy,
        actor: &str,
        note: &str,
    ) -> Result<(), OperatorError> {
        // Its column has room for 32 bytes.
        let action = match resolution {
            Resolution::Succeeded(_) => "resolved as succeeded",
            Resolution::Failed => "resolved as failed",
            Resolution::Retry => "resolved, retry allowed",
        };
        let work = Resolve {
            shared: self.shared.clone(),
            identity: identity.clone(),
            resolution,
            policy: policy.clone(),
            audit: Audit { actor: actor.into(), action, note: note.into() },
        };
        // Begun, it is carried through, whether or not the operator waits for it.
        let done = self.shared.runtime.spawn(work.run()).await;
        done.unwrap_or_else(|error| Err(StoreError::unavailable("engine", error).into()))
    }

    /// The next request with this identity is a new one. False: there was nothing to forget.
    pub async fn forget(
        &self,
        identity: &Identity,
        actor: &str,
        note: &str,
    ) -> Result<bool, StoreError> {
        let audit = Audit { actor: actor.into(), action: "forgotten", note: note.into() };
        let removed = self.shared.tiers.forget(identity, audit).await?;
        self.shared.answers.forget(identity.digest());
        Ok(removed)
    }
}

struct Resolve {
    shared: Arc<Shared>,
    identity: Identity,
    resolution: Resolution,
    policy: Policy,
    audit: Audit,
}

impl Resolve {
    async fn run(self) -> Result<(), OperatorError> {
        let Self { shared, identity, resolution, policy, audit } = self;
        let tiers = &shared.tiers;
        let for_good = Policy { when_failed: WhenFailed::Reject, lease: LEASE, ..policy };
        let taken = tiers.take_for_operator(&identity, &for_good).await?;
        let admitted = taken.ok_or(OperatorError::NotOpen)?;
        let settlement = match resolution {
            Resolution::Retry => Settlement::Fail {
                then: Failure::Allowed,
                error: format!("retry allowed: {}", audit.note),
                keep: for_good.ttl,
            },
            Resolution::Succeeded(answer) => {
                let ending = conclude(Verdict::Succeeded { answer });
                settle(ending, admitted.attempt, admitted.earlier, &for_good)
            }
            Resolution::Failed => {
                settle(conclude(Verdict::Failed), admitted.attempt, admitted.earlier, &for_good)
            }
        };
        // First the line that every instance follows: a copy must not outlive what it is a copy of.
        tiers.audit(&identity, audit).await?;
        match tiers.settle(admitted.fence, &settlement).await? {
            Written::Applied => {}
            Written::Fenced => return Err(OperatorError::Changed),
        }
        shared.answers.forget(identity.digest());
        tiers.forget_fast(identity.digest()).await;
        Ok(())
    }
}
