//! The heartbeat: every running attempt's lease, renewed together.
//!
//! A run may take as long as it likes while this process lives. One task wakes a few times a second
//! and renews what is due with one statement for each length of lease.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::clock;
use crate::idempotency::{Fence, IdentityDigest, RecordId};
use crate::store::Tiered;
use crate::store::durable::NotRenewed;
use crate::telemetry::metrics;

const TICK: Duration = Duration::from_millis(100);

#[derive(Default)]
pub struct Leases {
    running: Mutex<HashMap<RecordId, Lease>>,
    changed: Notify,
}

struct Lease {
    fence: Fence,
    identity: IdentityDigest,
    length: Duration,
    renew_at: Instant,
    period: Duration,
}

impl Leases {
    fn running(&self) -> MutexGuard<'_, HashMap<RecordId, Lease>> {
        self.running.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// `since` is when the lease began at the latest, `period` how often it is to be renewed.
    pub fn add(
        &self,
        fence: Fence,
        identity: IdentityDigest,
        length: Duration,
        period: Duration,
        since: Instant,
    ) {
        let lease = Lease { fence, identity, length, renew_at: since + period, period };
        self.running().insert(fence.id, lease);
        self.changed.notify_waiters();
    }

    /// False: it was not running any more.
    pub fn remove(&self, fence: Fence) -> bool {
        let mut running = self.running();
        let there = running.get(&fence.id).is_some_and(|lease| lease.fence == fence);
        if there {
            running.remove(&fence.id);
        }
        drop(running);
        self.changed.notify_waiters();
        there
    }

    /// Resolves when nothing runs.
    pub async fn empty(&self) {
        loop {
            let changed = self.changed.notified();
            if self.running().is_empty() {
                return;
            }
            changed.await;
        }
    }

    async fn not_empty(&self) {
        loop {
            let changed = self.changed.notified();
            if !self.running().is_empty() {
                return;
            }
            changed.await;
        }
    }

    /// What is due, by length; it counts as renewed from now on.
    fn due(&self) -> HashMap<Duration, Vec<(Fence, IdentityDigest)>> {
        let now = clock::now();
        let mut due: HashMap<_, Vec<_>> = HashMap::new();
        for lease in self.running().values_mut().filter(|lease| lease.renew_at <= now) {
            lease.renew_at = now + lease.period;
            due.entry(lease.length).or_default().push((lease.fence, lease.identity));
        }
        due
    }

    /// Tries again at the next tick rather than a whole period later.
    fn soon(&self, leases: &[(Fence, IdentityDigest)]) {
        let mut running = self.running();
        for (fence, _) in leases {
            if let Some(lease) = running.get_mut(&fence.id) {
                lease.renew_at = clock::now();
            }
        }
    }
}

/// Renews until the engine is gone.
pub async fn keep_renewing(leases: Arc<Leases>, tiers: Arc<Tiered>) {
    loop {
        leases.not_empty().await;
        tokio::time::sleep(TICK).await;
        for (length, due) in leases.due() {
            match tiers.renew(&due, length).await {
                Ok(NotRenewed { lost, .. }) => {
                    // Those that are over have ended, or their answer still counts when it comes;
                    // and those that are not running here any more are not lost.
                    let lost = lost.into_iter().filter(|fence| leases.remove(*fence)).count();
                    if lost > 0 {
                        metrics::leases_lost(lost);
                        tracing::warn!(lost, "leases were lost: another attempt owns them");
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, count = due.len(), "leases could not be renewed yet");
                    leases.soon(&due);
                }
            }
        }
    }
}
