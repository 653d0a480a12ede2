//! Records that nobody speaks for any more: what the jobs do about them.
//!
//! A silent run is marked as unknown before anybody is asked what became of it, and stays its
//! owner's: an answer that comes late still counts, for as long as no other end was written. What
//! must not come late is a beginning, so from the mark on its owner may not send it any more
//! ([`Claim::confirm`](super::Claim::confirm)): the upstream may just be saying that it never came.

use std::time::Duration;

use super::Engine;
use crate::clock::Timestamp;
use crate::idempotency::settle::{Verdict, WENT_SILENT, conclude};
use crate::idempotency::{Fence, Found, Origin, Policy, State, settle};
use crate::store::StoreError;
use crate::store::durable::{Hold, Written};

/// What writing down a verdict may take.
const LEASE: Duration = Duration::from_secs(10);

/// How a run ended whose answer was found in the fast tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakenFromFast {
    Succeeded,
    Failed,
    /// It was written down meanwhile, or somebody else owns it.
    TooLate,
}

impl Engine {
    /// What is past its lease for long enough: calls by the age of their attempt, decisions by the
    /// time since their lock ran out.
    pub async fn abandoned(
        &self,
        origin: Origin,
        age: Duration,
        limit: u32,
    ) -> Result<Vec<Found>, StoreError> {
        self.shared.tiers.durable().abandoned(origin, age, limit).await
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

    /// Moves the time of a job's attention. False: somebody else did, or there is another attempt.
    pub async fn attend(
        &self,
        fence: Fence,
        seen: Timestamp,
        next: Option<Timestamp>,
    ) -> Result<bool, StoreError> {
        self.shared.tiers.durable().attend(fence, seen, next).await
    }

    /// Marks an abandoned run as unknown. Of several who try, one does. False: it was somebody else,
    /// or its owner is back.
    pub async fn hold_silent(
        &self,
        found: &Found,
        attend_at: Option<Timestamp>,
        keep: Option<Duration>,
    ) -> Result<bool, StoreError> {
        let why = WENT_SILENT.into();
        let hold = Hold { why, attend_at, keep };
        self.shared.tiers.durable().hold(found.record.fence(), hold).await
    }

    /// Writes down the answer that the run's owner could put into the fast tier only, as its owner
    /// would have. None: there is none.
    pub async fn settle_rescued(&self, found: &Found) -> Result<Option<TakenFromFast>, StoreError> {
        let Some(rescued) = self.shared.tiers.rescued(&found.record).await else {
            return Ok(None);
        };
        let failed = rescued.error.is_some();
        let fence = found.record.fence();
        let written = self.shared.tiers.settle(fence, &rescued.settlement()).await?;
        Ok(Some(match (written, failed) {
            (Written::Fenced, _) => TakenFromFast::TooLate,
            (Written::Applied, false) => TakenFromFast::Succeeded,
            (Written::Applied, true) => TakenFromFast::Failed,
        }))
    }

    /// Writes down what was found out, as whoever had it before no longer can. False: it has an end,
    /// or another attempt, by now.
    pub async fn settle_silent(
        &self,
        found: &Found,
        verdict: Verdict,
        policy: &Policy,
    ) -> Result<bool, StoreError> {
        let tiers = &self.shared.tiers;
        let Some(admitted) = tiers.take_to_probe(found, LEASE, policy).await? else {
            return Ok(false);
        };
        let settlement = settle(conclude(verdict), admitted.attempt, admitted.earlier, policy);
        let written = tiers.settle(admitted.fence, &settlement).await?;
        // The next look brings the answer; what is there may be the lock of the one before.
        let identity = found.record.identity.digest();
        tiers.publish(identity, admitted.fence.token, None).await;
        Ok(written == Written::Applied)
    }

    /// Removes at most that many expired records.
    pub async fn purge(&self, batch: u32) -> Result<u64, StoreError> {
        self.shared.tiers.durable().purge(batch).await
    }
}
