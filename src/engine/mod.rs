//! Acquire, run, complete: shared by the gateway, the decision API and the library.
//!
//! [`Engine::acquire`] answers in one of three ways: run it (with a [`Claim`] that must be ended),
//! here is the stored answer, or no. [`Engine::execute`] does the whole walk around a closure.

mod cache;
mod claim;
mod detached;
mod execute;
mod flights;
mod follow;
pub mod inspect;
mod leases;
mod operator;
mod request;
mod settling;
mod silent;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::broadcast;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::Instrument;

pub use claim::{Claim, StillOurs};
pub use detached::{Extended, Finish, Finished, Proof};
pub use execute::{ExecuteError, Outcome};
pub use operator::{OperatorError, Resolution};
pub use request::Request;
pub use settling::Settled;
pub use silent::TakenFromFast;

use crate::clock;
use crate::idempotency::decide::differs;
use crate::idempotency::{IdentityDigest, Refusal, Snapshot};
use crate::store::fast::{FastTier, Push};
use crate::store::tiered::{Look, Step};
use crate::store::{StoreError, Tiered};
use crate::telemetry::metrics::{self, Tier};
use flights::{Entry, Flight, Flights, Phase};

/// What a client is told to wait before it asks again about a running call.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Between two looks at the durable tier while nobody pushes.
const FIRST_POLL: Duration = Duration::from_millis(50);
const LAST_POLL: Duration = Duration::from_millis(500);

/// Runs operations at most once per identity. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    shared: Arc<Shared>,
}

/// Lives as long as an engine, or a claim that came from one.
struct Shared {
    tiers: Arc<Tiered>,
    answers: Arc<cache::Answers>,
    flights: Flights,
    leases: Arc<leases::Leases>,
    closing: AtomicBool,
    /// Where runs are settled, whatever runtime they were dropped in.
    runtime: Handle,
    /// Stops the background tasks.
    _background: DropGuard,
}

pub enum Acquired {
    /// Run it now, then end the claim.
    Execute(Claim),
    Replay(Replay),
    Refuse(Refusal),
}

#[derive(Clone, Debug)]
pub struct Replay {
    pub answer: Snapshot,
    pub tier: Tier,
}

impl Engine {
    /// Starts the heartbeat and the followers, inside a runtime.
    pub fn new(tiers: Tiered) -> Self {
        let tiers = Arc::new(tiers);
        let stop = CancellationToken::new();
        let shared = Arc::new(Shared {
            answers: Arc::default(),
            flights: Flights::default(),
            leases: Arc::default(),
            closing: AtomicBool::new(false),
            runtime: Handle::current(),
            _background: stop.clone().drop_guard(),
            tiers: tiers.clone(),
        });
        let spawn = |task: futures_util::future::BoxFuture<'static, ()>| {
            tokio::spawn(stop.clone().run_until_cancelled_owned(task));
        };
        spawn(Box::pin(leases::keep_renewing(shared.leases.clone(), tiers.clone())));
        spawn(Box::pin(follow::audit_trail(shared.answers.clone(), tiers.clone())));
        if let Some(fast) = tiers.fast() {
            spawn(Box::pin(follow::pushes(shared.answers.clone(), fast.pushes())));
        }
        Self { shared }
    }

    pub fn tiers(&self) -> &Tiered {
        &self.shared.tiers
    }

    /// Decides about a request, waiting for a running duplicate as long as its policy says.
    /// An error means that nothing was admitted.
    pub async fn acquire(&self, request: &Request) -> Result<Acquired, StoreError> {
        if self.shared.closing.load(Ordering::Relaxed) {
            return Err(StoreError::busy("engine", "it is shutting down"));
        }
        let identity = request.identity.digest();
        let deadline = clock::after(request.policy.wait);
        let mut elsewhere = Elsewhere::new(self.shared.tiers.fast(), *identity);
        loop {
            if let Some(acquired) = self.known_answer(request) {
                return Ok(acquired);
            }
            match self.shared.flights.enter(identity) {
                Entry::Present(mut flight) => {
                    let phase = flight.borrow_and_update().clone();
                    match phase {
                        Phase::Asking => {
                            drop(flight.changed().await);
                            if let Phase::Failed(error) = &*flight.borrow() {
                                return Err(error.clone());
                            }
                        }
                        Phase::Running { fingerprint } => {
                            if differs(fingerprint, request.asked.fingerprint) {
                                return Ok(Acquired::Refuse(Refusal::KeyReused));
                            }
                            let over = flight.wait_for(|phase| *phase == Phase::Over);
                            if tokio::time::timeout_at(deadline.into(), over).await.is_err() {
                                return Ok(in_progress());
                            }
                        }
                        Phase::Failed(error) => return Err(error),
                        Phase::Over => {}
                    }
                }
                Entry::Entered(flight) => {
                    if let Some(acquired) = self.look(request, flight, elsewhere.look).await? {
                        return Ok(acquired);
                    }
                    if !elsewhere.wait(deadline).await {
                        return Ok(in_progress());
                    }
                }
            }
        }
    }

    fn known_answer(&self, request: &Request) -> Option<Acquired> {
        let held = self.shared.answers.get(request.identity.digest())?;
        let finished = &held.finished;
        Some(match finished.refusal(&request.asked, &request.policy) {
            Some(refusal) => Acquired::Refuse(refusal),
            None => replayed(finished.answer.clone(), Tier::Local),
        })
    }

    /// One look at the tiers, in a task of its own: whoever is admitted there and finds nobody
    /// waiting any more is released. None: it runs elsewhere.
    async fn look(
        &self,
        request: &Request,
        flight: Flight,
        look: Look,
    ) -> Result<Option<Acquired>, StoreError> {
        let (shared, request) = (self.shared.clone(), request.clone());
        let look = async move {
            let epoch = shared.answers.epoch();
            let Request { identity, asked, policy } = &request;
            let step = shared.tiers.step(identity, asked, policy, look).await;
            let step = step.inspect_err(|error| flight.fails(error))?;
            Ok(match step {
                Step::Admitted(admitted) => {
                    Some(Acquired::Execute(Claim::new(shared, admitted, request, flight)))
                }
                Step::Replay(held, tier) => {
                    shared.answers.insert(identity.digest(), &held, epoch);
                    Some(replayed(held.finished.answer, tier))
                }
                Step::Refuse(refusal) => Some(Acquired::Refuse(refusal)),
                Step::Busy => None,
            })
        };
        let task = self.shared.runtime.spawn(look.in_current_span());
        match task.await {
            Ok(Ok(Some(Acquired::Execute(claim)))) => Ok(Some(Acquired::Execute(claim.hand_out()))),
            Ok(done) => done,
            Err(error) => Err(StoreError::busy("engine", error)),
        }
    }

    /// Admits nothing more, waits until every attempt that runs here has ended, then closes the
    /// tiers. True: in time.
    pub async fn shutdown(&self, grace: Duration) -> bool {
        self.shared.closing.store(true, Ordering::Relaxed);
        let ended = tokio::time::timeout(grace, self.shared.leases.empty()).await.is_ok();
        self.shared.tiers.close().await;
        ended
    }
}

fn replayed(answer: Snapshot, tier: Tier) -> Acquired {
    metrics::replay(tier);
    Acquired::Replay(Replay { answer, tier })
}

fn in_progress() -> Acquired {
    Acquired::Refuse(Refusal::InProgress { retry_after: RETRY_AFTER })
}

/// Waiting for a call that runs in another process: a push wakes it, polling is the fallback.
struct Elsewhere<'a> {
    fast: Option<&'a Arc<dyn FastTier>>,
    identity: IdentityDigest,
    pushes: Option<broadcast::Receiver<Push>>,
    poll: Duration,
    /// How to look next time.
    look: Look,
}

impl<'a> Elsewhere<'a> {
    fn new(fast: Option<&'a Arc<dyn FastTier>>, identity: IdentityDigest) -> Self {
        Self { fast, identity, pushes: None, poll: FIRST_POLL, look: Look::FastFirst }
    }

    /// False: the time is up.
    async fn wait(&mut self, deadline: Instant) -> bool {
        if clock::now() >= deadline {
            return false;
        }
        if self.pushes.is_none()
            && let Some(fast) = self.fast
        {
            let pushes = fast.pushes();
            // Heard or not, the matching `unlisten` is owed from here on.
            self.pushes = Some(pushes);
            if fast.listen(&self.identity).await.is_ok() {
                // It may have ended before we listened: look again first.
                return true;
            }
        }
        let poll = (clock::now() + self.poll).min(deadline);
        let pushed = tokio::time::timeout_at(poll.into(), self.pushed()).await.is_ok();
        if pushed {
            self.look = Look::FastFirst;
        } else {
            self.look = Look::DurableOnly;
            self.poll = (self.poll * 2).min(LAST_POLL);
        }
        true
    }

    async fn pushed(&mut self) {
        let Some(pushes) = &mut self.pushes else {
            return std::future::pending().await;
        };
        loop {
            match pushes.recv().await {
                Ok(Push::Changed(identity)) if identity == self.identity => return,
                Ok(_) => {}
                Err(broadcast::error::RecvError::Lagged(_)) => return,
                Err(broadcast::error::RecvError::Closed) => return std::future::pending().await,
            }
        }
    }
}

impl Drop for Elsewhere<'_> {
    fn drop(&mut self) {
        if let (Some(fast), Some(_)) = (self.fast, &self.pushes) {
            fast.unlisten(&self.identity);
        }
    }
}
