//! What one front thread has open to an upstream.

use std::sync::Weak;

use deadpool::managed::Pool;

use super::Upstream;
use super::exclusive::Exclusives;
use super::shared::Shared;
use super::wear::{Idle, Limits};

pub struct Front {
    pub pool: Pool<Exclusives>,
    /// One for each address.
    pub shared: Box<[Shared]>,
}

impl Front {
    pub fn new(
        upstream: Weak<Upstream>,
        thread: usize,
        addresses: usize,
        max: usize,
        limits: Limits,
    ) -> Self {
        let pool = Exclusives::pool(upstream, thread, max, limits);
        Self { pool, shared: (0..addresses).map(|_| Shared::default()).collect() }
    }

    /// Closes the idle connections that are not to be kept, the longest idle first; returns how
    /// many idle ones there still are. Any thread may call it.
    pub fn retain_idle(&self, mut keep: impl FnMut(&Idle) -> bool) -> usize {
        let pooled = self.pool.retain(|connection, _| {
            keep(&Idle { wear: connection.wear, closed: connection.sender.is_closed() })
        });
        let shared = self.shared.iter().filter(|shared| shared.retain_idle(&mut keep)).count();
        pooled.retained + shared
    }
}
