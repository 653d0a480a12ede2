//! The right to run one attempt, which ends in exactly one named way.
//!
//! Dropping a claim that was handed out means *unknown*, never free: it may have been sent. Only one
//! that reached nobody is released.

use std::sync::Arc;

use tokio::sync::oneshot;
use tracing::Instrument;

use super::Shared;
use super::flights::Flight;
use super::request::Request;
use super::settling::{Settled, Settling};
use crate::clock;
use crate::idempotency::{Ending, Snapshot, State};
use crate::store::StoreError;
use crate::store::tiered::Admitted;
use crate::telemetry::traces::step;

#[must_use = "a claim that is dropped leaves its record UNKNOWN"]
pub struct Claim {
    /// None once it has ended.
    open: Option<Open>,
    handed_out: bool,
}

struct Open {
    shared: Arc<Shared>,
    admitted: Admitted,
    request: Request,
    flight: Flight,
}

impl Claim {
    pub(super) fn new(
        shared: Arc<Shared>,
        admitted: Admitted,
        request: Request,
        flight: Flight,
    ) -> Self {
        flight.runs(request.asked.fingerprint);
        let lease = request.policy.lease;
        shared.leases.add(
            admitted.fence,
            *request.identity.digest(),
            lease,
            shared.tiers.renewal_period(lease),
            admitted.since,
        );
        Self { open: Some(Open { shared, admitted, request, flight }), handed_out: false }
    }

    /// From here on dropping it means unknown.
    pub(super) fn hand_out(mut self) -> Self {
        self.handed_out = true;
        self
    }

    /// 1, 2, 3 …; also what an upstream can fence by.
    pub fn attempt(&self) -> u32 {
        self.open.as_ref().map_or(0, |open| open.admitted.attempt)
    }

    /// To be called right before the first byte is sent. A process that was stopped since it was
    /// admitted may have lost its attempt to another; it learns so here, while nothing has happened.
    pub async fn confirm(&self) -> Result<StillOurs, StoreError> {
        let Some(open) = &self.open else {
            return Ok(StillOurs::No);
        };
        let lease = open.request.policy.lease;
        if clock::now().saturating_duration_since(open.admitted.since) < lease / 2 {
            return Ok(StillOurs::Yes);
        }
        let one = [(open.admitted.fence, *open.request.identity.digest())];
        // Boxed, as it is rare and large.
        if !Box::pin(open.shared.tiers.renew(&one, lease)).await?.is_empty() {
            return Ok(StillOurs::No);
        }
        // One that was held meanwhile still shows our token, for an answer that comes late. Nothing
        // may begin any more: somebody may be asking the upstream whether it has.
        let found = open.shared.tiers.durable().find(&open.request.identity).await?;
        let runs = found.is_some_and(|found| {
            found.record.token == open.admitted.fence.token
                && matches!(found.record.state, State::Processing { .. })
        });
        Ok(if runs { StillOurs::Yes } else { StillOurs::No })
    }

    /// Lets the attempt go on elsewhere: nothing here renews or ends it any more. It lives until
    /// its lease is over, or whoever has its token ends it.
    pub fn detach(mut self) {
        if let Some(open) = self.open.take() {
            open.shared.leases.remove(open.admitted.fence);
        }
    }

    /// Gives it back without waiting for the tiers.
    pub fn release_later(mut self, why: impl Into<String>) {
        if let Some(open) = self.open.take() {
            let settling = open.settling(Ending::Released { why: why.into() });
            settling.shared.runtime.clone().spawn(settling.run(oneshot::channel().0));
        }
    }

    pub async fn complete(self, answer: Snapshot, result_ref: Option<String>) -> Settled {
        self.end(Ending::Completed { answer, result_ref }).await
    }

    /// It definitely failed.
    pub async fn fail(self, answer: Option<Snapshot>, error: impl Into<String>) -> Settled {
        self.end(Ending::Failed { answer, error: error.into() }).await
    }

    /// It definitely did not happen.
    pub async fn release(self, why: impl Into<String>) -> Settled {
        self.end(Ending::Released { why: why.into() }).await
    }

    /// It may have happened.
    pub async fn unknown(self, why: impl Into<String>) -> Settled {
        self.end(Ending::Unknown { why: why.into() }).await
    }

    /// Waits until it is stored. Whoever stops waiting changes nothing: it goes on by itself.
    pub async fn end(mut self, ending: Ending) -> Settled {
        let Some(open) = self.open.take() else {
            return Settled::Fenced;
        };
        let (stored, answer) = oneshot::channel();
        let runtime = open.shared.runtime.clone();
        runtime.spawn(open.settling(ending).run(stored).instrument(step!("store")));
        answer.await.unwrap_or(Settled::NotStored)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StillOurs {
    Yes,
    No,
}

impl Open {
    fn settling(self, ending: Ending) -> Settling {
        Settling {
            shared: self.shared,
            admitted: self.admitted,
            request: self.request,
            flight: self.flight,
            ending,
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let Some(open) = self.open.take() else { return };
        let ending = match self.handed_out {
            true => {
                Ending::Unknown { why: "the run was dropped before it said how it ended".into() }
            }
            false => Ending::Released { why: "nobody was left to run it".into() },
        };
        open.shared.runtime.clone().spawn(open.settling(ending).run(oneshot::channel().0));
    }
}
