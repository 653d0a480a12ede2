//! The fast tier inside the process, for a single instance.
//!
//! Bounded by the bytes it holds. What is pushed out is only a hint: the durable tier still knows.

use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures_util::future::{self, BoxFuture};
use quick_cache::Weighter;
use quick_cache::unsync::Cache;
use tokio::sync::broadcast;

use super::listeners::Listeners;
use super::{FORGOTTEN_FOR, FastTier, Lock, Push, Replacement, Reserved, Vacancy, Value};
use crate::clock;
use crate::idempotency::{IdentityDigest, Token};
use crate::store::StoreError;

const MAX_BYTES: u64 = 64 << 20;
const SHARDS: usize = 16;
const EXPECTED_ENTRIES: usize = 1024;
const ENTRY_BYTES: usize = 160;
const PUSHES: usize = 1024;

type Shard = Cache<IdentityDigest, Entry, ByBytes>;

pub struct Memory {
    shards: [Mutex<Shard>; SHARDS],
    listeners: Listeners,
    pushes: broadcast::Sender<Push>,
}

struct Entry {
    value: Value,
    until: Instant,
}

#[derive(Clone)]
struct ByBytes;

impl Weighter<IdentityDigest, Entry> for ByBytes {
    fn weight(&self, _: &IdentityDigest, entry: &Entry) -> u64 {
        let answer = match &entry.value {
            Value::Finished(finished) => finished.answer.len(),
            Value::Rescued(rescued) => rescued.finished.answer.len(),
            Value::Locked(_) | Value::Forgotten => 0,
        };
        (ENTRY_BYTES + answer) as u64
    }
}

impl Default for Memory {
    fn default() -> Self {
        let shard = |_| {
            Mutex::new(Cache::with_weighter(EXPECTED_ENTRIES, MAX_BYTES / SHARDS as u64, ByBytes))
        };
        Self {
            shards: std::array::from_fn(shard),
            listeners: Listeners::default(),
            pushes: broadcast::channel(PUSHES).0,
        }
    }
}

impl Memory {
    fn shard(&self, identity: &IdentityDigest) -> MutexGuard<'_, Shard> {
        let shard = &self.shards[usize::from(identity[0]) % SHARDS];
        shard.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn push(&self, push: Push) {
        // Nobody listening is fine.
        let _ = self.pushes.send(push);
    }
}

fn current<'s>(shard: &'s Shard, identity: &IdentityDigest) -> Option<&'s Value> {
    shard.get(identity).filter(|entry| clock::now() < entry.until).map(|entry| &entry.value)
}

#[async_trait]
impl FastTier for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    async fn ping(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn reserve(
        &self,
        identity: &IdentityDigest,
        lock: Lock,
        ttl: Duration,
    ) -> Result<Reserved, StoreError> {
        let mut shard = self.shard(identity);
        match current(&shard, identity) {
            Some(Value::Locked(there)) if there.token == lock.token => return Ok(Reserved::Ours),
            Some(value) => return Ok(Reserved::Taken(value.clone())),
            None => {}
        }
        shard.insert(*identity, Entry { value: Value::Locked(lock), until: clock::now() + ttl });
        Ok(Reserved::Ours)
    }

    async fn look(&self, identity: &IdentityDigest) -> Result<Option<Value>, StoreError> {
        Ok(current(&self.shard(identity), identity).cloned())
    }

    async fn replace(
        &self,
        identity: &IdentityDigest,
        owner: Token,
        by: Replacement,
        vacancy: Vacancy,
    ) -> Result<(), StoreError> {
        {
            let mut shard = self.shard(identity);
            let free = match current(&shard, identity) {
                None => vacancy == Vacancy::Fill,
                Some(Value::Locked(lock)) => lock.token == owner,
                Some(Value::Finished(_) | Value::Rescued(_) | Value::Forgotten) => false,
            };
            match by {
                Replacement::Nothing if free => drop(shard.remove(identity)),
                Replacement::With(value, ttl) if free => {
                    shard.insert(*identity, Entry { value, until: clock::now() + ttl });
                }
                _ => {}
            }
        }
        if self.listeners.has(identity) {
            self.push(Push::Changed(*identity));
        }
        Ok(())
    }

    async fn renew(
        &self,
        locks: &[(IdentityDigest, Token)],
        ttl: Duration,
    ) -> Result<(), StoreError> {
        for (identity, owner) in locks {
            let mut shard = self.shard(identity);
            if let Some(mut entry) = shard.get_mut(identity)
                && clock::now() < entry.until
                && matches!(&entry.value, Value::Locked(lock) if lock.token == *owner)
            {
                entry.until = clock::now() + ttl;
            }
        }
        Ok(())
    }

    async fn forget(&self, identity: &IdentityDigest) -> Result<(), StoreError> {
        let forgotten = Entry { value: Value::Forgotten, until: clock::now() + FORGOTTEN_FOR };
        self.shard(identity).insert(*identity, forgotten);
        self.push(Push::Forgotten(*identity));
        Ok(())
    }

    fn listen<'a>(&'a self, identity: &'a IdentityDigest) -> BoxFuture<'a, Result<(), StoreError>> {
        self.listeners.add(identity);
        Box::pin(future::ready(Ok(())))
    }

    fn unlisten(&self, identity: &IdentityDigest) {
        self.listeners.remove(identity);
    }

    fn pushes(&self) -> broadcast::Receiver<Push> {
        self.pushes.subscribe()
    }
}
