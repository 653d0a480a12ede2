//! What all threads of a listener share: limits, the certificate, and room for connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use arc_swap::{ArcSwap, Guard};
use tokio::sync::Notify;

use super::Tls;
use crate::config::Limits;

pub struct Front {
    limits: ArcSwap<Limits>,
    tls: Option<Tls>,
    connections: AtomicU32,
    /// There may be room again.
    room: Notify,
}

/// Room for one connection, until it is dropped.
pub(super) struct Slot(Arc<Front>);

impl Front {
    pub fn new(limits: Limits, tls: Option<Tls>) -> Arc<Self> {
        let limits = ArcSwap::from_pointee(limits);
        Arc::new(Self { limits, tls, connections: AtomicU32::new(0), room: Notify::new() })
    }

    pub fn limits(&self) -> Guard<Arc<Limits>> {
        self.limits.load()
    }

    /// In force at once, except for the sizes of connections that are open already.
    pub fn set_limits(&self, limits: Limits) {
        self.limits.store(Arc::new(limits));
        self.room.notify_waiters();
    }

    pub fn tls(&self) -> Option<&Tls> {
        self.tls.as_ref()
    }

    /// How many are open, upgraded ones included.
    pub fn connections(&self) -> u32 {
        self.connections.load(Ordering::Relaxed)
    }

    pub(super) async fn slot(self: &Arc<Self>) -> Slot {
        loop {
            let mut room = std::pin::pin!(self.room.notified());
            // Before looking, or an end in between would be missed.
            room.as_mut().enable();
            let most = self.limits.load().max_connections;
            let one_more = |open| (open < most).then_some(open + 1);
            if self.connections.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok()
            {
                return Slot(self.clone());
            }
            room.await;
        }
    }

    /// Over the limit if need be.
    pub(super) fn slot_at_once(self: &Arc<Self>) -> Slot {
        self.connections.fetch_add(1, Ordering::Relaxed);
        Slot(self.clone())
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
        self.0.room.notify_one();
    }
}
