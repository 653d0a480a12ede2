//! Writing down how an attempt ended, however long that takes.
//!
//! When the durable tier is away the answer is kept in the fast tier, the lease goes on being
//! renewed, and the write is tried again until it is taken or somebody else owns the record. An
//! answer is never given up while this process lives.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::Shared;
use super::cache::Epoch;
use super::flights::Flight;
use super::request::Request;
use crate::clock;
use crate::idempotency::settle::Failure;
use crate::idempotency::{Ending, Settlement, Snapshot, settle};
use crate::store::durable::Written;
use crate::store::fast::Finished;
use crate::store::tiered::{Admitted, Held};
use crate::telemetry::metrics;

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    Stored,
    /// Another attempt owns the record: nothing was changed.
    Fenced,
    /// The durable tier will not take it. The record stays as it is and becomes UNKNOWN.
    NotStored,
}

pub struct Settling {
    pub shared: Arc<Shared>,
    pub admitted: Admitted,
    pub request: Request,
    pub flight: Flight,
    pub ending: Ending,
}

impl Settling {
    /// Tells `stored` once it is durable and the other tiers know.
    pub async fn run(self, stored: oneshot::Sender<Settled>) {
        let Self { shared, admitted, request, flight, ending } = self;
        let settlement = settle(ending, admitted.attempt, admitted.earlier, &request.policy);
        let began = clock::now();
        let writer = Writer { shared: &shared, admitted, request: &request, settlement, began };
        let epoch = shared.answers.epoch();
        let (settled, rescued) = writer.write(epoch).await;
        let identity = request.identity.digest();
        let held = writer.held().filter(|_| settled == Settled::Stored);
        if let Some(held) = &held {
            shared.answers.insert(identity, held, epoch);
        }
        if settled == Settled::Fenced {
            metrics::fenced_writes(1);
            tracing::warn!(identity = ?request.identity, attempt = admitted.attempt,
                "an attempt ended after another had taken over: nothing was changed");
        }
        if rescued && settled != Settled::Stored {
            shared.answers.forget(identity);
            shared.tiers.forget_fast(identity).await;
        }
        // Before anybody hears of it: a client that retries elsewhere must not meet our lock.
        shared.tiers.publish(identity, admitted.fence.token, held).await;
        shared.leases.remove(admitted.fence);
        drop(flight);
        // Nobody waiting is fine: it is stored.
        let _ = stored.send(settled);
    }
}

struct Writer<'a> {
    shared: &'a Shared,
    admitted: Admitted,
    request: &'a Request,
    settlement: Settlement,
    /// Before the first write: no copy is kept longer than counted from here.
    began: Instant,
}

impl Writer<'_> {
    /// Also says whether the answer was put into the fast tier ahead of the durable one.
    async fn write(&self, epoch: Epoch) -> (Settled, bool) {
        let mut rescued = false;
        let mut pause = FIRST_PAUSE;
        loop {
            match self.shared.tiers.settle(self.admitted.fence, &self.settlement).await {
                Ok(Written::Applied) => return (Settled::Stored, rescued),
                Ok(Written::Fenced) => return (Settled::Fenced, rescued),
                Err(error) if error.is_transient() => {
                    if pause == FIRST_PAUSE {
                        tracing::warn!(%error, identity = ?self.request.identity,
                            attempt = self.admitted.attempt,
                            "the outcome cannot be stored yet: trying until it can");
                    }
                    if !rescued && let Some(held) = self.held() {
                        rescued = true;
                        let identity = self.request.identity.digest();
                        self.shared.answers.insert(identity, &held, epoch);
                        let token = self.admitted.fence.token;
                        let settlement = &self.settlement;
                        let rescue = self.shared.tiers.rescue(identity, token, held, settlement);
                        Box::pin(rescue).await;
                    }
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                Err(error) => {
                    tracing::error!(%error, identity = ?self.request.identity,
                        attempt = self.admitted.attempt, "the outcome cannot be stored");
                    return (Settled::NotStored, rescued);
                }
            }
        }
    }

    /// The answer that retries will get, if this ending has one.
    fn held(&self) -> Option<Held> {
        let finished = |answer: &Snapshot| Finished {
            fingerprint: self.admitted.asked.fingerprint,
            credential: self.admitted.asked.credential,
            answer: answer.clone(),
        };
        match &self.settlement {
            Settlement::Succeed { answer, keep, .. }
            | Settlement::Fail { then: Failure::Replay { answer }, keep, .. } => {
                Some(Held::since(self.began, *keep, finished(answer)))
            }
            _ => None,
        }
    }
}
