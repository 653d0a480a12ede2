//! Records that nobody speaks for any more: what the jobs do about them.
//!
//! A silent call is taken away from whoever had it before anybody is asked what became of it: its
//! old owner, should it wake up, must not send it after the upstream has said that it never came.

use std::time::Duration;

use super::Engine;
use crate::clock::Timestamp;
use crate::idempotency::settle::{Verdict, WENT_SILENT, conclude};
use crate::idempotency::{Fence, Found, Identity, Origin, Policy, Settlement, State, settle};
use crate::store::StoreError;
use crate::store::durable::Written;
use crate::store::tiered::Admitted;

/// A silent call that is ours to settle.
pub struct Silent {
    identity: Identity,
    admitted: Admitted,
}

impl Engine {
    /// Calls past their lease whose attempt is at least that old.
    pub async fn abandoned(&self, age: Duration, limit: u32) -> Result<Vec<Found>, StoreError> {
        self.shared.tiers.durable().abandoned(age, limit).await
    }

    /// Calls of unknown outcome that are due to be probed.
    pub async fn unsettled(&self, limit: u32) -> Result<Vec<Found>, StoreError> {
        let found = self.shared.tiers.durable().attending(Origin::Call, limit).await?;
        let unknown = |found: &Found| matches!(found.record.state, State::Unknown { .. });
        Ok(found.into_iter().filter(unknown).collect())
    }

    /// Decisions whose owners are due to be called back.
    pub async fn callbacks(&self, limit: u32) -> Result<Vec<Found>, StoreError> {
        self.shared.tiers.durable().attending(Origin::Decision, limit).await
    }

    /// Moves the time of a callback. False: somebody else did, or there is another attempt.
    pub async fn attend(
        &self,
        fence: Fence,
        seen: Timestamp,
        next: Option<Timestamp>,
    ) -> Result<bool, StoreError> {
        self.shared.tiers.durable().attend(fence, seen, next).await
    }

    /// None: somebody else was faster, or its owner is back.
    pub async fn take_silent(
        &self,
        found: &Found,
        lease: Duration,
        policy: &Policy,
    ) -> Result<Option<Silent>, StoreError> {
        let taken = self.shared.tiers.take_to_probe(found, lease, policy).await?;
        let identity = found.record.identity.clone();
        Ok(taken.map(|admitted| Silent { identity, admitted }))
    }

    /// Writes down what was found out. False: another attempt owns it by now.
    pub async fn settle_silent(
        &self,
        silent: Silent,
        verdict: Verdict,
        policy: &Policy,
        probe_in: Duration,
    ) -> Result<bool, StoreError> {
        let Silent { identity, admitted } = silent;
        let ending = conclude(verdict);
        let settlement =
            at_once(settle(ending, admitted.attempt, admitted.earlier, policy), probe_in);
        let written = self.shared.tiers.settle(admitted.fence, &settlement).await?;
        // The next look brings the answer; what is there may be the lock of the one before.
        self.shared.tiers.publish(identity.digest(), admitted.fence.token, None).await;
        Ok(written == Written::Applied)
    }

    /// Marks an abandoned call as unknown and leaves it its owner's: should it only have been
    /// slow, its answer still counts. False: its owner is back, or it has ended meanwhile.
    pub async fn hold_silent(&self, found: &Found, probe_in: Duration) -> Result<bool, StoreError> {
        self.shared.tiers.hold(found.record.fence(), WENT_SILENT, probe_in).await
    }

    /// Removes at most that many expired records.
    pub async fn purge(&self, batch: u32) -> Result<u64, StoreError> {
        self.shared.tiers.durable().purge(batch).await
    }
}

/// Its lease has been over for long: where policy allows a retry, it is allowed now.
fn at_once(settlement: Settlement, probe_in: Duration) -> Settlement {
    match settlement {
        Settlement::Hold { why, .. } => {
            Settlement::Hold { why, retry_in: Duration::ZERO, probe_in }
        }
        other => other,
    }
}
