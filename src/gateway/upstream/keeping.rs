//! What happens to connections that nobody uses: they make room, they grow old, they are counted.

use std::sync::Weak;
use std::sync::atomic::Ordering;

use super::Upstream;
use super::wear::Idle;
use crate::clock;

/// One task sweeps; should its runtime end, the next connection starts another.
struct Sweeper(Weak<Upstream>);

impl Drop for Sweeper {
    fn drop(&mut self) {
        if let Some(upstream) = self.0.upgrade() {
            upstream.swept.store(false, Ordering::Relaxed);
        }
    }
}

impl Upstream {
    /// How many connections are open: idle, and in use.
    pub fn connections(&self) -> (usize, usize) {
        let idle = |front: &super::front::Front| front.retain_idle(|idle| !idle.closed);
        let idle: usize = self.fronts.iter().map(idle).sum();
        let open = self.open();
        (idle.min(open), open.saturating_sub(idle))
    }

    pub(super) fn open(&self) -> usize {
        self.max.saturating_sub(self.places.available_permits())
    }

    /// Closes one idle connection, another thread's if there is one: this one has just looked
    /// among its own.
    pub(super) fn evict(&self, thread: usize) {
        let mut evicted = false;
        let mut keep = |idle: &Idle| {
            if idle.closed {
                return false;
            }
            std::mem::replace(&mut evicted, true)
        };
        let (own, others) = (&self.fronts[..=thread], &self.fronts[thread + 1..]);
        for front in others.iter().chain(own) {
            front.retain_idle(&mut keep);
        }
    }

    /// Nobody names it any more: what is idle is closed, now and whenever the sweep comes by.
    pub(super) fn retire(&self) {
        self.retired.store(true, Ordering::Relaxed);
        self.sweep();
    }

    pub(super) fn sweep(&self) {
        let (now, retired) = (clock::now(), self.retired.load(Ordering::Relaxed));
        for front in &self.fronts {
            front
                .retain_idle(|idle| !retired && !idle.closed && self.limits.allow(&idle.wear, now));
        }
    }

    pub(super) fn keep_swept(&self) {
        if self.swept.swap(true, Ordering::Relaxed) {
            return;
        }
        let sweeper = Sweeper(self.me.clone());
        let pause = self.limits.sweep_every();
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(pause).await;
                match sweeper.0.upgrade() {
                    Some(upstream) => upstream.sweep(),
                    None => return,
                }
            }
        });
    }
}
