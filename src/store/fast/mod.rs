//! The fast tier: a hint that may reject or replay, and never admits.
//!
//! One value per identity: a lock while it runs, the finished answer for a while after, one that is
//! still to be written down while the durable tier is away, or a mark that the answer was forgotten. Losing all of them costs a round trip to the durable tier.

pub mod breaker;
mod listeners;
pub mod memory;
pub mod redis;
mod subscriptions;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use tokio::sync::broadcast;

use crate::idempotency::decide::{Asked, differs, replay};
use crate::idempotency::settle::Failure;
use crate::idempotency::{
    Credential, Decision, Fingerprint, IdentityDigest, Policy, Refusal, Settlement, Snapshot, Token,
};
use crate::store::StoreError;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Locked(Lock),
    Finished(Finished),
    /// Boxed: it is rare and large.
    Rescued(Box<Rescued>),
    /// An operator forgot the answer: late copies of it are to stay out for a while.
    Forgotten,
}

/// Somebody is at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lock {
    pub token: Token,
    pub fingerprint: Option<Fingerprint>,
}

/// A finished answer, and what is needed to know whom to give it to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    pub fingerprint: Option<Fingerprint>,
    pub credential: Option<Credential>,
    pub answer: Snapshot,
}

/// An answer that the durable tier could not take when there was one: all that it takes to write it
/// down there, for whoever finds its attempt abandoned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rescued {
    /// Whose answer it is: of this attempt and no other.
    pub owner: Token,
    pub finished: Finished,
    /// It is the answer of a failure.
    pub error: Option<String>,
    pub result_ref: Option<String>,
    /// How long the durable tier is to keep it.
    pub keep: Duration,
}

impl Rescued {
    /// None: this ending has no answer.
    pub fn new(owner: Token, finished: Finished, settlement: &Settlement) -> Option<Self> {
        let (error, result_ref, keep) = match settlement {
            Settlement::Succeed { result_ref, keep, .. } => (None, result_ref.clone(), *keep),
            Settlement::Fail { then: Failure::Replay { .. }, error, keep } => {
                (Some(error.clone()), None, *keep)
            }
            _ => return None,
        };
        Some(Self { owner, finished, error, result_ref, keep })
    }

    /// What its owner would have written.
    pub fn settlement(self) -> Settlement {
        let Self { finished: Finished { answer, .. }, error, result_ref, keep, .. } = self;
        match error {
            None => Settlement::Succeed { answer, result_ref, keep },
            Some(error) => Settlement::Fail { then: Failure::Replay { answer }, error, keep },
        }
    }
}

impl Finished {
    /// Why it does not go to this request; None: it does.
    pub fn refusal(&self, asked: &Asked, policy: &Policy) -> Option<Refusal> {
        if differs(self.fingerprint, asked.fingerprint) {
            return Some(Refusal::KeyReused);
        }
        match replay(self.credential, &self.answer, asked, policy) {
            Decision::Refuse(refusal) => Some(refusal),
            _ => None,
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub enum Reserved {
    /// The lock is ours: ask the durable tier.
    Ours,
    /// Somebody was there first.
    Taken(Value),
}

/// What takes the place of a lock that is ours.
#[derive(Clone, Debug)]
pub enum Replacement {
    Nothing,
    With(Value, Duration),
}

/// What to do where there is nothing to replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vacancy {
    /// A value that comes late may be out of date by now: the next look brings a fresh one.
    Leave,
    Fill,
}

/// What the tier tells without being asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Push {
    /// Something happened to an identity that is listened to.
    Changed(IdentityDigest),
    Forgotten(IdentityDigest),
}

/// How long a forgotten answer is kept out: longer than any publication can be on its way.
pub const FORGOTTEN_FOR: Duration = Duration::from_secs(10);

#[async_trait]
pub trait FastTier: Send + Sync {
    /// The word for logs: `redis`, `memory`.
    fn name(&self) -> &'static str;
    async fn ping(&self) -> Result<(), StoreError>;

    /// Takes the lock, or says what is there; one round trip.
    async fn reserve(
        &self,
        identity: &IdentityDigest,
        lock: Lock,
        ttl: Duration,
    ) -> Result<Reserved, StoreError>;
    /// What is there, if anything is.
    async fn look(&self, identity: &IdentityDigest) -> Result<Option<Value>, StoreError>;
    /// Replaces the lock of this owner and tells those who listen. Another owner's lock, an answer
    /// and a forgotten one stay.
    async fn replace(
        &self,
        identity: &IdentityDigest,
        owner: Token,
        by: Replacement,
        vacancy: Vacancy,
    ) -> Result<(), StoreError>;
    /// Prolongs the locks that are still their owners'.
    async fn renew(
        &self,
        locks: &[(IdentityDigest, Token)],
        ttl: Duration,
    ) -> Result<(), StoreError>;
    /// Marks the answer as forgotten and tells every instance.
    async fn forget(&self, identity: &IdentityDigest) -> Result<(), StoreError>;

    /// Asks for pushes about an identity. Each call is matched by one `unlisten`, whatever becomes
    /// of the future: that one only says when the pushes are certain to come.
    fn listen<'a>(&'a self, identity: &'a IdentityDigest) -> BoxFuture<'a, Result<(), StoreError>>;
    fn unlisten(&self, identity: &IdentityDigest);
    fn pushes(&self) -> broadcast::Receiver<Push>;
}

/// Opens the tier that the URL names, inside a runtime; None for `none`. The server need not be up.
/// For one deployment alone: see [`open_for`].
pub fn open(url: &str) -> Result<Option<Arc<dyn FastTier>>, StoreError> {
    open_for(url, "")
}

/// The same for a server that several deployments may share. Their databases know different keys, so
/// none may replay another's answers: each has the name that its durable tier tells.
pub fn open_for(url: &str, deployment: &str) -> Result<Option<Arc<dyn FastTier>>, StoreError> {
    let scheme = url.split(':').next().unwrap_or_default();
    match scheme {
        "redis" | "rediss" | "redis-cluster" | "rediss-cluster" | "redis-sentinel"
        | "rediss-sentinel" => {
            let redis = redis::Redis::open(url, deployment)?;
            Ok(Some(Arc::new(breaker::Guarded::new(Arc::new(redis)))))
        }
        "memory" => Ok(Some(Arc::new(memory::Memory::default()))),
        "none" => Ok(None),
        _ => Err(StoreError::Misconfigured(format!(
            "the fast tier's URL starts with {scheme:?}; use redis://, rediss://, \
             redis-cluster://, redis-sentinel://, memory: or none"
        ))),
    }
}
