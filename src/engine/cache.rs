//! Finished answers that this process has seen, bounded by their bytes.
//!
//! An answer never changes, so a copy is as good as the record until it expires or an operator
//! forgets it. A copy that was on its way in while something was forgotten stays out.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::clock;
use crate::idempotency::IdentityDigest;
use crate::store::tiered::Held;

const MAX_BYTES: u64 = 64 << 20;
const EXPECTED_ENTRIES: usize = 16_384;
const ENTRY_BYTES: usize = 192;

pub struct Answers {
    cache: Cache<IdentityDigest, Arc<Held>, ByBytes>,
    forgotten: AtomicU64,
}

/// How much had been forgotten when somebody went to fetch an answer.
#[derive(Clone, Copy)]
pub struct Epoch(u64);

#[derive(Clone)]
struct ByBytes;

impl Weighter<IdentityDigest, Arc<Held>> for ByBytes {
    fn weight(&self, _: &IdentityDigest, held: &Arc<Held>) -> u64 {
        (ENTRY_BYTES + held.finished.answer.len()) as u64
    }
}

impl Default for Answers {
    fn default() -> Self {
        Self {
            cache: Cache::with_weighter(EXPECTED_ENTRIES, MAX_BYTES, ByBytes),
            forgotten: AtomicU64::new(0),
        }
    }
}

impl Answers {
    pub fn epoch(&self) -> Epoch {
        Epoch(self.forgotten.load(Ordering::Acquire))
    }

    pub fn get(&self, identity: &IdentityDigest) -> Option<Arc<Held>> {
        let held = self.cache.get(identity)?;
        match held.until {
            Some(until) if clock::now() < until => Some(held),
            _ => {
                self.cache.remove(identity);
                None
            }
        }
    }

    /// Only an answer whose end is known is kept: a copy must not outlive its record.
    pub fn insert(&self, identity: &IdentityDigest, held: &Held, epoch: Epoch) {
        if held.until.is_none() {
            return;
        }
        self.cache.insert(*identity, Arc::new(held.clone()));
        if self.epoch().0 != epoch.0 {
            self.cache.remove(identity);
        }
    }

    pub fn forget(&self, identity: &IdentityDigest) {
        self.forgotten.fetch_add(1, Ordering::AcqRel);
        self.cache.remove(identity);
    }

    pub fn forget_all(&self) {
        self.forgotten.fetch_add(1, Ordering::AcqRel);
        self.cache.clear();
    }
}
