//! The open connections of one thread: looked over by one timer, told to end, waited for.
//!
//! ## Why not a timer in each connection
//! Ten thousand connections that are woken to look at themselves cost more than one task that looks
//! at ten thousand sets of numbers, and every request would poll its connection's timer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;
use std::time::Instant;

use tokio::sync::Notify;

use super::pulse::{Order, Pulse};
use super::watch::{Serving, Watch};
use crate::config::Limits;

#[derive(Default)]
pub(super) struct Roster {
    open: Mutex<Open>,
    emptied: Notify,
}

#[derive(Default)]
struct Open {
    next: u64,
    connections: HashMap<u64, Entry>,
}

struct Entry {
    pulse: Arc<Pulse>,
    watch: Watch,
    /// Not there before the connection's task has run for the first time.
    waker: Option<Waker>,
}

/// Being on the roster, until it is dropped.
pub(super) struct Place {
    roster: Arc<Roster>,
    number: u64,
}

impl Roster {
    pub(super) fn enter(self: &Arc<Self>, pulse: Arc<Pulse>, now: Instant) -> Place {
        let mut open = self.open();
        let number = open.next;
        open.next += 1;
        open.connections.insert(number, Entry { pulse, watch: Watch::new(now), waker: None });
        Place { roster: self.clone(), number }
    }

    pub(super) fn look(&self, limits: &Limits, serving: Serving, now: Instant) {
        for entry in self.open().connections.values_mut() {
            let order = entry.watch.look(&entry.pulse.read(), limits, serving, now);
            entry.give(order);
        }
    }

    pub(super) fn order_all(&self, order: Order) {
        self.open().connections.values().for_each(|entry| entry.give(order));
    }

    pub(super) async fn emptied(&self) {
        loop {
            let mut emptied = std::pin::pin!(self.emptied.notified());
            emptied.as_mut().enable();
            if self.open().connections.is_empty() {
                return;
            }
            emptied.await;
        }
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Entry {
    fn give(&self, order: Order) {
        if order > Order::GoOn {
            self.pulse.give(order);
            if let Some(waker) = &self.waker {
                waker.wake_by_ref();
            }
        }
    }
}

impl Place {
    /// Whom to wake when there is an order. One given before is seen by who comes from here.
    pub(super) fn wakes(&self, waker: &Waker) {
        if let Some(entry) = self.roster.open().connections.get_mut(&self.number) {
            entry.waker = Some(waker.clone());
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.roster.open();
        let left = open.connections.remove(&self.number);
        if open.connections.is_empty() {
            self.roster.emptied.notify_waiters();
        }
        drop(open);
        // Its waker may be the last holder of the task; nothing of that under the lock.
        drop(left);
    }
}
