//! Which identities somebody in this process listens to, and how many do.

use std::collections::HashMap;
use std::sync::Mutex;

use crate::idempotency::IdentityDigest;

#[derive(Default)]
pub struct Listeners(Mutex<HashMap<IdentityDigest, usize>>);

impl Listeners {
    pub fn add(&self, identity: &IdentityDigest) {
        let mut all = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        *all.entry(*identity).or_default() += 1;
    }

    /// True for the last one.
    pub fn remove(&self, identity: &IdentityDigest) -> bool {
        let mut all = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let Some(count) = all.get_mut(identity) else {
            return false;
        };
        *count -= 1;
        let last = *count == 0;
        if last {
            all.remove(identity);
        }
        last
    }

    pub fn has(&self, identity: &IdentityDigest) -> bool {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).contains_key(identity)
    }

    pub fn all(&self) -> Vec<IdentityDigest> {
        let all = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        all.keys().copied().collect()
    }
}
