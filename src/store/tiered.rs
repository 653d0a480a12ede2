//! Both tiers as one: the only file that knows the two.
//!
//! The fast tier is asked first and believed only when it refuses or replays. Whoever it lets
//! through still has to be admitted by the durable tier; what is learnt there is put back into the
//! fast tier for the next one.
//!
//! A lock says that somebody is asking or running. Whoever holds it while the durable tier turns it
//! away gives it up at once, so the worst a stray lock does is a 409 that a retry cures.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::task::TaskTracker;
use tracing::Instrument;

use crate::clock::{self, Timestamp};
use crate::idempotency::decide::{Asked, differs};
use crate::idempotency::record::AfterFailure;
use crate::idempotency::settle::Earlier;
use crate::idempotency::{
    Admission, Decision, Ending, Fence, Found, Identity, IdentityDigest, Origin, Policy, Record,
    Settlement, State, Token, decide, settle,
};
use crate::store::durable::{
    Audit, AuditLine, Claimed, DurableTier, NewClaim, NotRenewed, Right, TakeOver, Taken, Written,
};
use crate::store::error::StoreError;
use crate::store::fast::{
    FastTier, Finished, Lock, Replacement, Rescued, Reserved, Vacancy, Value,
};
use crate::store::observed::observed;
pub use crate::store::step::{Admitted, Held, Look, Step};
use crate::telemetry::metrics::{Operation, Tier};
use crate::telemetry::traces::step;

/// A record may change between being read and being taken; each change is somebody's progress.
const RACES: usize = 8;
/// How long we speak for another owner's lock. If it lives it renews the lock; if its claim was
/// withdrawn nobody else would remove it.
const REFLECTED: Duration = Duration::from_secs(1);
const GIVE_BACK_TRIES: usize = 60;
const GIVE_BACK_PAUSE: Duration = Duration::from_secs(1);
/// What giving back may take when everything ends.
const GIVEN_BACK: Duration = Duration::from_secs(3);

#[derive(Clone, Debug)]
pub struct FastSettings {
    /// How long a lock stands without being renewed.
    pub lock_ttl: Duration,
    /// How long a finished answer stays.
    pub replay_ttl: Duration,
    pub replay_max_bytes: usize,
}

impl Default for FastSettings {
    fn default() -> Self {
        Self {
            lock_ttl: Duration::from_secs(20),
            replay_ttl: Duration::from_secs(600),
            replay_max_bytes: 64 << 10,
        }
    }
}

pub struct Tiered {
    durable: Arc<dyn DurableTier>,
    fast: Option<Arc<dyn FastTier>>,
    settings: FastSettings,
    giving_back: TaskTracker,
}

impl Tiered {
    pub fn new(
        durable: Arc<dyn DurableTier>,
        fast: Option<Arc<dyn FastTier>>,
        settings: FastSettings,
    ) -> Self {
        Self { durable, fast, settings, giving_back: TaskTracker::new() }
    }

    pub fn durable(&self) -> &Arc<dyn DurableTier> {
        &self.durable
    }

    pub fn fast(&self) -> Option<&Arc<dyn FastTier>> {
        self.fast.as_ref()
    }

    /// How often a lease has to be renewed so that neither tier's protection runs out.
    pub fn renewal_period(&self, lease: Duration) -> Duration {
        lease.min(self.settings.lock_ttl) / 3
    }

    pub async fn step(
        &self,
        identity: &Identity,
        asked: &Asked,
        policy: &Policy,
        look: Look,
    ) -> Result<Step, StoreError> {
        let token = Token::fresh();
        let mut locked = false;
        if look == Look::FastFirst {
            let lock = Lock { token, fingerprint: asked.fingerprint };
            match self.reserve(identity, lock, policy).await {
                Some(Reserved::Taken(Value::Finished(finished))) => {
                    return Ok(from_fast(finished, asked, policy));
                }
                Some(Reserved::Taken(Value::Rescued(rescued))) => {
                    return Ok(from_fast(rescued.finished, asked, policy));
                }
                // A lock of another request proves nothing about the record: the durable tier says
                // which of the two is the stranger.
                Some(Reserved::Taken(Value::Locked(lock)))
                    if !differs(lock.fingerprint, asked.fingerprint) =>
                {
                    return Ok(Step::Busy);
                }
                Some(Reserved::Ours) => locked = true,
                Some(Reserved::Taken(Value::Locked(_) | Value::Forgotten)) | None => {}
            }
        }
        let found = self.admit(identity, asked, policy, token).await;
        if locked {
            let by = match &found {
                Ok((Step::Admitted(_), _)) => return found.map(|(step, _)| step),
                Ok((_, Some(found))) => self.reflection(found, policy),
                Ok((_, None)) | Err(_) => Replacement::Nothing,
            };
            self.replace(identity.digest(), token, by, Vacancy::Leave).await;
        }
        found.map(|(step, _)| step)
    }

    async fn reserve(&self, identity: &Identity, lock: Lock, policy: &Policy) -> Option<Reserved> {
        let ttl = self.settings.lock_ttl.min(policy.lease);
        let reserved = self.fast.as_ref()?.reserve(identity.digest(), lock, ttl);
        // The fast tier is optional: its failures are counted, never passed on.
        observed(Operation::Reserve, reserved).instrument(step!("fast")).await.ok()
    }

    /// Asks the durable tier until it admits somebody: us, or whoever was first.
    async fn admit(
        &self,
        identity: &Identity,
        asked: &Asked,
        policy: &Policy,
        token: Token,
    ) -> Result<(Step, Option<Found>), StoreError> {
        let mut ours = Vec::new();
        for _ in 0..RACES {
            // A fresh id each time: one that may still be withdrawn is never used again.
            let mut claim = NewClaim::new(identity.clone(), *asked, policy.lease);
            claim.fence.token = token;
            claim.origin = policy.origin;
            let fence = claim.fence;
            let since = clock::now();
            let found = match observed(Operation::Claim, self.durable.claim(claim))
                .instrument(step!("durable"))
                .await?
            {
                Claimed::New => {
                    let earlier = Earlier::Nothing;
                    let admitted = Admitted { fence, attempt: 1, earlier, since, asked: *asked };
                    return Ok((Step::Admitted(admitted), None));
                }
                Claimed::Exists(found) => *found,
            };
            ours.push(fence.id);
            // It landed, and another took it over before we heard of it. It may be withdrawn at any
            // time by its id and our token, so we are not the ones to run it again.
            if ours.contains(&found.record.id) {
                return Ok((Step::Busy, Some(found)));
            }
            match decide(Some(&found), asked, policy) {
                Decision::Execute(Admission::TakeOver) => {
                    let take = TakeOver {
                        seen: found.record.fence(),
                        token,
                        lease: policy.lease,
                        asked: *asked,
                        right: match policy.origin {
                            Origin::Call => Right::Due,
                            Origin::Decision => Right::Decision,
                        },
                    };
                    if let Some(admitted) = self.take_over(take, &found.record, policy).await? {
                        return Ok((Step::Admitted(admitted), None));
                    }
                }
                Decision::Execute(Admission::Replace | Admission::New) => {
                    self.durable.remove_expired(identity).await?;
                }
                Decision::Wait { .. } => return Ok((Step::Busy, Some(found))),
                Decision::Refuse(refusal) => return Ok((Step::Refuse(refusal), Some(found))),
                Decision::Replay(_) => {
                    let step = match finished(&found.record) {
                        Some((answer, expires_at)) => Step::Replay(
                            Held {
                                finished: answer,
                                until: since.checked_add(expires_at.since(found.now)),
                            },
                            Tier::Durable,
                        ),
                        None => Step::Busy,
                    };
                    return Ok((step, Some(found)));
                }
            }
        }
        Ok((Step::Busy, None))
    }

    /// None: somebody else was faster. An attempt that may have been won without our learning of it
    /// is given back: nothing was sent for it.
    async fn take_over(
        &self,
        take: TakeOver,
        record: &Record,
        policy: &Policy,
    ) -> Result<Option<Admitted>, StoreError> {
        let since = clock::now();
        let fence = Fence { id: record.id, token: take.token };
        let Some(earlier) = Earlier::of(record) else { return Ok(None) };
        let asked = Asked {
            fingerprint: take.asked.fingerprint.or(record.fingerprint),
            credential: take.asked.credential.or(record.credential),
        };
        match observed(Operation::TakeOver, self.durable.take_over(take)).await {
            Ok(Taken::Won { attempt }) => {
                Ok(Some(Admitted { fence, attempt, earlier, since, asked }))
            }
            Ok(Taken::Lost) => Ok(None),
            Err(error) => {
                let ending = Ending::Released { why: "the database went away".into() };
                let as_it_was = settle(ending, record.attempt, earlier, policy);
                self.giving_back.spawn(give_back(self.durable.clone(), fence, as_it_was));
                Err(error)
            }
        }
    }

    /// What the fast tier should say of a record that somebody else owns.
    fn reflection(&self, found: &Found, policy: &Policy) -> Replacement {
        if let Some((answer, expires_at)) = finished(&found.record) {
            return self.publication(answer, expires_at.since(found.now));
        }
        match found.record.state {
            State::Processing { lease_until } if found.now < lease_until => {
                let lock =
                    Lock { token: found.record.token, fingerprint: found.record.fingerprint };
                let ttl = REFLECTED.min(policy.lease).min(lease_until.since(found.now));
                Replacement::With(Value::Locked(lock), ttl)
            }
            _ => Replacement::Nothing,
        }
    }

    fn publication(&self, finished: Finished, keep: Duration) -> Replacement {
        match finished.answer.len() <= self.settings.replay_max_bytes && !keep.is_zero() {
            true => {
                Replacement::With(Value::Finished(finished), keep.min(self.settings.replay_ttl))
            }
            false => Replacement::Nothing,
        }
    }

    /// Writes how an attempt ended.
    pub async fn settle(
        &self,
        fence: Fence,
        settlement: &Settlement,
    ) -> Result<Written, StoreError> {
        observed(Operation::Settle, self.durable.settle(fence, settlement.clone())).await
    }

    /// After an attempt was settled: what the fast tier shows from now on.
    pub async fn publish(&self, identity: &IdentityDigest, owner: Token, answer: Option<Held>) {
        let by = match answer {
            Some(held) => {
                let keep = self.remaining(&held);
                self.publication(held.finished, keep)
            }
            None => Replacement::Nothing,
        };
        self.replace(identity, owner, by, Vacancy::Leave).await;
    }

    /// Keeps an answer that the durable tier cannot take now where retries will find it, for as
    /// long as the record would hold it and however large it is. Should its owner not live to write
    /// it down, somebody else can.
    pub async fn rescue(
        &self,
        identity: &IdentityDigest,
        owner: Token,
        held: Held,
        settlement: &Settlement,
    ) {
        let keep = self.remaining(&held);
        if let Some(rescued) = Rescued::new(owner, held.finished, settlement) {
            let by = Replacement::With(Value::Rescued(Box::new(rescued)), keep);
            self.replace(identity, owner, by, Vacancy::Fill).await;
        }
    }

    /// The answer of just this attempt, if the fast tier has it and the durable one may not.
    pub async fn rescued(&self, record: &Record) -> Option<Rescued> {
        match self.fast.as_ref()?.look(record.identity.digest()).await {
            Ok(Some(Value::Rescued(rescued)))
                if rescued.owner == record.token
                    && rescued.finished.fingerprint == record.fingerprint =>
            {
                Some(*rescued)
            }
            _ => None,
        }
    }

    fn remaining(&self, held: &Held) -> Duration {
        held.until
            .map_or(self.settings.replay_ttl, |until| until.saturating_duration_since(clock::now()))
    }

    async fn replace(
        &self,
        identity: &IdentityDigest,
        owner: Token,
        by: Replacement,
        vacancy: Vacancy,
    ) {
        if let Some(fast) = &self.fast {
            let replaced = fast.replace(identity, owner, by, vacancy);
            let _ = observed(Operation::Replace, replaced).await;
        }
    }

    /// Renews leases and their locks; names the leases that could not be.
    pub async fn renew(
        &self,
        leases: &[(Fence, IdentityDigest)],
        lease: Duration,
    ) -> Result<NotRenewed, StoreError> {
        let fences = leases.iter().map(|(fence, _)| *fence).collect();
        let locks = async {
            if let Some(fast) = &self.fast {
                let locks: Vec<_> =
                    leases.iter().map(|(fence, identity)| (*identity, fence.token)).collect();
                let ttl = self.settings.lock_ttl.min(lease);
                let _ = observed(Operation::RenewLocks, fast.renew(&locks, ttl)).await;
            }
        };
        let leases = observed(Operation::RenewLeases, self.durable.renew(fences, lease));
        tokio::join!(leases, locks).0
    }

    /// Takes a run that has gone silent, to write down what became of it.
    pub async fn take_to_probe(
        &self,
        found: &Found,
        lease: Duration,
        policy: &Policy,
    ) -> Result<Option<Admitted>, StoreError> {
        let take = TakeOver {
            seen: found.record.fence(),
            token: Token::fresh(),
            lease,
            asked: Asked::default(),
            right: Right::Probe,
        };
        self.take_over(take, &found.record, policy).await
    }

    /// Removes a record that nobody runs. False: there was none.
    pub async fn forget(&self, identity: &Identity, audit: Audit) -> Result<bool, StoreError> {
        let removed = observed(Operation::Forget, self.durable.forget(identity, audit)).await?;
        self.forget_fast(identity.digest()).await;
        Ok(removed)
    }

    /// Ends a record that nobody runs, whoever had it before. False: there was none.
    pub async fn resolve(
        &self,
        identity: &Identity,
        settlement: Settlement,
        audit: Audit,
    ) -> Result<bool, StoreError> {
        let resolved = self.durable.resolve(identity, settlement, audit);
        let resolved = observed(Operation::Resolve, resolved).await?;
        if resolved {
            self.forget_fast(identity.digest()).await;
        }
        Ok(resolved)
    }

    /// False: the fast tier could not be reached, so a copy may still be there.
    pub async fn forget_fast(&self, identity: &IdentityDigest) -> bool {
        match &self.fast {
            Some(fast) => observed(Operation::ForgetFast, fast.forget(identity)).await.is_ok(),
            None => true,
        }
    }

    /// Closes the durable tier, with a moment for what is still to be given back: nobody else would.
    pub async fn close(&self) {
        self.giving_back.close();
        let _ = tokio::time::timeout(GIVEN_BACK, self.giving_back.wait()).await;
        self.durable.close().await;
    }

    pub async fn audit_after(&self, line: i64) -> Result<Vec<AuditLine>, StoreError> {
        self.durable.audit_after(line).await
    }
}

/// Until it is written or the lease, which nobody renews, tells the others. A takeover that has not
/// landed yet looks like one that was lost, so that is asked again, too.
async fn give_back(durable: Arc<dyn DurableTier>, fence: Fence, as_it_was: Settlement) {
    for _ in 0..GIVE_BACK_TRIES {
        if durable.settle(fence, as_it_was.clone()).await == Ok(Written::Applied) {
            return;
        }
        tokio::time::sleep(GIVE_BACK_PAUSE).await;
    }
}

fn from_fast(finished: Finished, asked: &Asked, policy: &Policy) -> Step {
    match finished.refusal(asked, policy) {
        Some(refusal) => Step::Refuse(refusal),
        None => Step::Replay(Held { finished, until: None }, Tier::Fast),
    }
}

/// The finished answer in a record, and when it expires.
fn finished(record: &Record) -> Option<(Finished, Timestamp)> {
    match &record.state {
        State::Succeeded { answer, expires_at }
        | State::Failed { then: AfterFailure::Replay { answer }, expires_at } => {
            let finished = Finished {
                fingerprint: record.fingerprint,
                credential: record.credential,
                answer: answer.clone(),
            };
            Some((finished, *expires_at))
        }
        _ => None,
    }
}
