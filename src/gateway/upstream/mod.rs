//! Connections to the APIs behind the gateway.
//!
//! ```text
//! Upstreams ── one Upstream for each list of addresses
//!   permits      at most `max` requests under way, over all front threads, in order of asking
//!   places       at most `max` sockets open, over all front threads
//!   fronts       for each front thread
//!     pool         HTTP/1 connections, one request at a time
//!     shared       an HTTP/2 connection for each address, many streams
//!   choice       which address is connected to next
//! ```
//! A request takes a permit, then a connection of its own thread, and holds both until its answer
//! has ended.

mod address;
mod answer;
mod choice;
mod connecting;
mod exclusive;
mod front;
mod keeping;
mod message;
mod sending;
mod shared;
mod socket;
#[cfg(test)]
mod tests;
mod trust;
mod wear;

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

pub use self::answer::Answer;
pub use self::sending::{SendError, Sent, Upstream};
use self::trust::Trust;
pub use self::trust::UpstreamsError;
use crate::config;

/// Every upstream of this gateway; routes with equal addresses share one. Survives reloads.
pub struct Upstreams {
    connections: config::Connections,
    trust: Trust,
    threads: usize,
    known: Mutex<HashMap<config::Upstream, Arc<Upstream>>>,
}

impl Upstreams {
    /// Reads the authorities to trust, once. `threads` is how many front threads will send.
    pub fn new(
        connections: config::Connections,
        tls: &config::UpstreamTls,
        threads: usize,
    ) -> Result<Self, UpstreamsError> {
        Ok(Self { connections, trust: Trust::read(tls)?, threads, known: Mutex::default() })
    }

    pub fn get(&self, upstream: &config::Upstream) -> Arc<Upstream> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.get(upstream) {
            found.retired.store(false, Ordering::Relaxed);
            return found.clone();
        }
        let new = Upstream::new(upstream, &self.connections, self.trust.clone(), self.threads);
        known.insert(upstream.clone(), new.clone());
        new
    }

    /// After a reload: the connections to all others are closed as soon as they are idle. An
    /// upstream that still has some stays known, so that naming it again cannot double its cap.
    pub fn keep_only(&self, wanted: &[config::Upstream]) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|addresses, upstream| {
            if wanted.contains(addresses) {
                return true;
            }
            upstream.retire();
            upstream.open() > 0 || Arc::strong_count(upstream) > 1
        });
    }

    /// How many connections are open to all upstreams: idle, and in use.
    pub fn connections(&self) -> (usize, usize) {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let counts = known.values().map(|upstream| upstream.connections());
        counts.fold((0, 0), |sum, (idle, in_use)| (sum.0 + idle, sum.1 + in_use))
    }
}
