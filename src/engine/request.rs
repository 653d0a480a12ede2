//! What somebody wants done once.

use std::sync::Arc;
use std::time::Duration;

use crate::idempotency::decide::Asked;
use crate::idempotency::{Credential, Fingerprint, Identity, Policy};

#[derive(Clone, Debug)]
pub struct Request {
    pub identity: Identity,
    pub asked: Asked,
    pub policy: Arc<Policy>,
}

impl Request {
    /// With the default policy: kept 24 h, leased 30 s, not waiting for a running duplicate.
    pub fn new(identity: Identity) -> Self {
        Self { identity, asked: Asked::default(), policy: Arc::default() }
    }

    /// What makes two requests the same request. Without it they all are.
    pub fn fingerprint(mut self, fingerprint: Fingerprint) -> Self {
        self.asked.fingerprint = Some(fingerprint);
        self
    }

    pub fn credential(mut self, credential: Credential) -> Self {
        self.asked.credential = Some(credential);
        self
    }

    /// How long the answer is kept, from completion.
    pub fn ttl(self, ttl: Duration) -> Self {
        self.with(|policy| policy.ttl = ttl)
    }

    /// How long a run is protected should this process vanish. It is renewed while the run goes on.
    pub fn lease(self, lease: Duration) -> Self {
        self.with(|policy| policy.lease = lease)
    }

    /// How long to wait for a duplicate that is running.
    pub fn wait(self, wait: Duration) -> Self {
        self.with(|policy| policy.wait = wait)
    }

    pub fn policy(mut self, policy: impl Into<Arc<Policy>>) -> Self {
        self.policy = policy.into();
        self
    }

    fn with(mut self, change: impl FnOnce(&mut Policy)) -> Self {
        change(Arc::make_mut(&mut self.policy));
        self
    }
}
