//! A breaker around a fast tier: one that fails or hangs is left out until it answers again.
//!
//! A hint is not worth waiting for. The first calls that meet a hanging server pay the time limit
//! together, once; after that nobody does, and a single probe asks whether it is back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use tokio::sync::broadcast;

use super::{FastTier, Lock, Push, Replacement, Reserved, Vacancy, Value};
use crate::idempotency::{IdentityDigest, Token};
use crate::store::StoreError;

/// What a call may take before the tier counts as hanging.
const LIMIT: Duration = Duration::from_millis(250);
/// Between one probe's end and the next.
const PROBE_EVERY: Duration = Duration::from_millis(200);

pub struct Guarded {
    inner: Arc<Inner>,
}

struct Inner {
    tier: Arc<dyn FastTier>,
    open: AtomicBool,
}

impl Guarded {
    pub fn new(tier: Arc<dyn FastTier>) -> Self {
        Self { inner: Arc::new(Inner { tier, open: AtomicBool::new(false) }) }
    }

    async fn call<T>(
        &self,
        operation: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let name = self.inner.tier.name();
        if self.inner.open.load(Ordering::Relaxed) {
            return Err(StoreError::unavailable(name, "left out until it answers again"));
        }
        let result = match tokio::time::timeout(LIMIT, operation).await {
            Ok(result) => result,
            Err(_) => {
                Err(StoreError::unavailable(name, format_args!("no answer within {LIMIT:?}")))
            }
        };
        if let Err(error) = &result
            && error.is_transient()
        {
            self.inner.clone().leave_out(error);
        }
        result
    }
}

impl Inner {
    fn leave_out(self: Arc<Self>, error: &StoreError) {
        if self.open.swap(true, Ordering::Relaxed) {
            return;
        }
        tracing::warn!(%error, "the fast tier is left out; the durable tier carries on alone");
        let gateway = Arc::downgrade(&self);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(PROBE_EVERY).await;
                let Some(inner) = gateway.upgrade() else {
                    return;
                };
                if let Ok(Ok(())) = tokio::time::timeout(LIMIT, inner.tier.ping()).await {
                    inner.open.store(false, Ordering::Relaxed);
                    tracing::info!(tier = inner.tier.name(), "the fast tier answers again");
                    return;
                }
            }
        });
    }
}

#[async_trait]
impl FastTier for Guarded {
    fn name(&self) -> &'static str {
        self.inner.tier.name()
    }

    async fn ping(&self) -> Result<(), StoreError> {
        self.call(self.inner.tier.ping()).await
    }

    async fn reserve(
        &self,
        identity: &IdentityDigest,
        lock: Lock,
        ttl: Duration,
    ) -> Result<Reserved, StoreError> {
        self.call(self.inner.tier.reserve(identity, lock, ttl)).await
    }

    async fn look(&self, identity: &IdentityDigest) -> Result<Option<Value>, StoreError> {
        self.call(self.inner.tier.look(identity)).await
    }

    async fn replace(
        &self,
        identity: &IdentityDigest,
        owner: Token,
        by: Replacement,
        vacancy: Vacancy,
    ) -> Result<(), StoreError> {
        self.call(self.inner.tier.replace(identity, owner, by, vacancy)).await
    }

    async fn renew(
        &self,
        locks: &[(IdentityDigest, Token)],
        ttl: Duration,
    ) -> Result<(), StoreError> {
        self.call(self.inner.tier.renew(locks, ttl)).await
    }

    async fn forget(&self, identity: &IdentityDigest) -> Result<(), StoreError> {
        self.call(self.inner.tier.forget(identity)).await
    }

    fn listen<'a>(&'a self, identity: &'a IdentityDigest) -> BoxFuture<'a, Result<(), StoreError>> {
        // Counted also while the tier is left out, for it will be told of the end.
        Box::pin(self.call(self.inner.tier.listen(identity)))
    }

    fn unlisten(&self, identity: &IdentityDigest) {
        self.inner.tier.unlisten(identity);
    }

    fn pushes(&self) -> broadcast::Receiver<Push> {
        self.inner.tier.pushes()
    }
}
