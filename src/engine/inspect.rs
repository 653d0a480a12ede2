//! What an operator may look at: lists of records, one record with its history, how the tiers are.

use std::time::Duration;

use super::Engine;
use crate::idempotency::{Found, Identity};
use crate::store::StoreError;
pub use crate::store::durable::{AuditLine, Counts, Kind, Listing, Page, Position};

/// A record that has not expired, and what operators did to it.
pub struct Inspected {
    pub found: Option<Found>,
    pub audit: Vec<AuditLine>,
}

impl Engine {
    pub async fn records(&self, asked: Listing) -> Result<Page, StoreError> {
        self.tiers().durable().list(asked).await
    }

    /// The durable tier's word; the fast one and the local copies only repeat it.
    pub async fn record(&self, identity: &Identity) -> Result<Option<Found>, StoreError> {
        let found = self.tiers().durable().find(identity).await?;
        Ok(found.filter(|found| !found.record.is_expired(found.now)))
    }

    pub async fn inspect(&self, identity: &Identity) -> Result<Inspected, StoreError> {
        let durable = self.tiers().durable();
        let (found, audit) = tokio::join!(self.record(identity), durable.audit_of(identity));
        Ok(Inspected { found: found?, audit: audit? })
    }

    /// Read from the indexes of open records.
    pub async fn counts(&self, stuck_after: Duration) -> Result<Counts, StoreError> {
        self.tiers().durable().counts(stuck_after).await
    }
}
