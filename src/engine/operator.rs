//! What an operator may do to a record: settle it by hand, or forget it.
//!
//! Settling is one conditional write, with its line in the audit trail: it happens as a whole or not
//! at all, and whoever had the record before is fenced. A run under its lease is left alone.

use std::time::Duration;

use super::Engine;
use crate::idempotency::settle::{Failure, cut};
use crate::idempotency::{Identity, Policy, Settlement, Snapshot};
use crate::store::StoreError;
use crate::store::durable::Audit;

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
        let audit = Audit { actor: actor.into(), action, note: note.into() };
        let settlement = settlement(resolution, note, policy.ttl);
        let (shared, identity) = (self.shared.clone(), identity.clone());
        let work = async move {
            let resolved = shared.tiers.resolve(&identity, settlement, audit).await;
            shared.answers.forget(identity.digest());
            resolved
        };
        // Begun, it is carried through, whether or not the operator waits for it.
        let done = self.shared.runtime.spawn(work).await;
        match done.unwrap_or_else(|error| Err(StoreError::busy("engine", error)))? {
            true => Ok(()),
            false => Err(OperatorError::NotOpen),
        }
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

fn settlement(resolution: Resolution, note: &str, keep: Duration) -> Settlement {
    match resolution {
        Resolution::Succeeded(answer) => Settlement::Succeed { answer, result_ref: None, keep },
        Resolution::Failed => {
            let error = cut(format!("settled as failed: {note}"));
            Settlement::Fail { then: Failure::Refuse, error, keep }
        }
        Resolution::Retry => {
            let error = cut(format!("retry allowed: {note}"));
            Settlement::Fail { then: Failure::Allowed, error, keep }
        }
    }
}
