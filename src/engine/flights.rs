//! Which identities this process is busy with, so that its own duplicates need no tier at all.
//!
//! One request asks the tiers for an identity at a time; the others wait, and mostly find the answer
//! or a running call in memory then. While
//! one runs here, duplicates are told so from memory and woken when it is over.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::sync::watch;

use crate::idempotency::{Fingerprint, IdentityDigest};
use crate::store::StoreError;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The tiers are being asked.
    Asking,
    /// Admitted, and running here.
    Running {
        fingerprint: Option<Fingerprint>,
    },
    /// The tiers did not answer, and asking them again right now would not help.
    Failed(StoreError),
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
        self.enters(Phase::Running { fingerprint });
    }

    /// Those who wait are told the same.
    pub fn fails(&self, error: &StoreError) {
        self.enters(Phase::Failed(error.clone()));
    }

    fn enters(&self, next: Phase) {
        let flights = self.flights.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(phase) = flights.get(&self.identity) {
            phase.send_replace(next);
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let mut flights = self.flights.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(phase) = flights.remove(&self.identity) {
            // A failure is the last word: those who wake up late are to read it.
            phase.send_if_modified(|phase| match phase {
                Phase::Failed(_) => false,
                _ => {
                    *phase = Phase::Over;
                    true
                }
            });
        }
    }
}
