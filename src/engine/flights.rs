//! Which identities this process is busy with, so that its own duplicates need no tier at all.
//!
//! One request asks the tiers for an identity at a time; the others wait for what it learns. While
//! one runs here, duplicates are told so from memory and woken when it is over.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::sync::watch;

use crate::idempotency::{Fingerprint, IdentityDigest};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The tiers are being asked.
    Asking,
    /// Admitted, and running here.
    Running {
        fingerprint: Option<Fingerprint>,
    },
    Over,
}

#[derive(Clone, Default)]
pub struct Flights(Arc<Mutex<HashMap<IdentityDigest, watch::Sender<Phase>>>>);

pub enum Entry {
    Entered(Flight),
    Present(watch::Receiver<Phase>),
}

/// Being the one. Dropping it lets the next one in.
pub struct Flight {
    flights: Flights,
    identity: IdentityDigest,
}

impl Flights {
    pub fn enter(&self, identity: &IdentityDigest) -> Entry {
        let mut flights = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(phase) = flights.get(identity) {
            return Entry::Present(phase.subscribe());
        }
        flights.insert(*identity, watch::Sender::new(Phase::Asking));
        Entry::Entered(Flight { flights: self.clone(), identity: *identity })
    }
}

impl Flight {
    pub fn runs(&self, fingerprint: Option<Fingerprint>) {
        let flights = self.flights.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(phase) = flights.get(&self.identity) {
            phase.send_replace(Phase::Running { fingerprint });
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let mut flights = self.flights.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(phase) = flights.remove(&self.identity) {
            phase.send_replace(Phase::Over);
        }
    }
}
