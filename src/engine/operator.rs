//! What an operator may do to a record: settle it by hand, or forget it.
//!
//! Settling takes the record over as one more attempt, so that whoever had it before is fenced, and
//! ends that attempt. A run under its lease is left alone.

use std::time::Duration;

use super::Engine;
use crate::idempotency::settle::{Earlier, Verdict, conclude};
use crate::idempotency::{Ending, Identity, Policy, Snapshot, WhenFailed, settle};
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
        let tiers = &self.shared.tiers;
        let admitted =
            tiers.take_for_operator(identity, LEASE).await?.ok_or(OperatorError::NotOpen)?;
        let (ending, earlier) = match resolution {
            Resolution::Succeeded(answer) => {
                (conclude(Verdict::Succeeded { answer }), Earlier::Nothing)
            }
            Resolution::Failed => (conclude(Verdict::Failed), Earlier::Nothing),
            Resolution::Retry => {
                (Ending::Released { why: format!("retry allowed: {note}") }, Earlier::Failed)
            }
        };
        let for_good = Policy { when_failed: WhenFailed::Reject, ..policy.clone() };
        let settlement = settle(ending, admitted.attempt, earlier, &for_good);
        match tiers.settle(admitted.fence, &settlement).await? {
            Written::Applied => {}
            Written::Fenced => return Err(OperatorError::Changed),
        }
        let audit = Audit { actor: actor.into(), action: "resolve", note: note.into() };
        tiers.audit(identity, audit).await?;
        self.shared.answers.forget(identity.digest());
        tiers.forget_fast(identity.digest()).await;
        Ok(())
    }

    /// The next request with this identity is a new one. False: there was nothing to forget.
    pub async fn forget(
        &self,
        identity: &Identity,
        actor: &str,
        note: &str,
    ) -> Result<bool, StoreError> {
        let audit = Audit { actor: actor.into(), action: "forget", note: note.into() };
        let removed = self.shared.tiers.forget(identity, audit).await?;
        self.shared.answers.forget(identity.digest());
        Ok(removed)
    }
}
