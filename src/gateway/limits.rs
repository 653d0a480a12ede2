//! How much is let in: requests in flight, and a caller's rate.
//!
//! Both refuse early instead of queueing. Memory is bounded: when more callers are seen than are
//! kept apart, they share a fixed number of allowances.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use governor::clock::{Clock, MonotonicClock};
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::DashMapStateStore;
use governor::{Quota, RateLimiter};

use crate::config::{Per, RateLimit};
use crate::idempotency::Tenant;

/// Callers with an allowance of their own, as long as there are not more of them.
const MAX_CALLERS: usize = 100_000;
const SHARED_ALLOWANCES: u64 = 65_536;
/// So many checks between two looks at how many callers there are.
const TIDY_EVERY: usize = 4096;

/// Requests that are being worked on, over all threads.
#[derive(Default)]
pub struct InFlight(AtomicUsize);

/// One of them; dropping it makes room.
pub struct Slot(Arc<InFlight>);

impl InFlight {
    /// None: there are as many as allowed.
    pub fn enter(self: &Arc<Self>, max: usize) -> Option<Slot> {
        let slot = Slot(self.clone());
        // Counted first: two that come at once must not both take the last place.
        (self.0.fetch_add(1, Ordering::Relaxed) < max).then_some(slot)
    }

    pub fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Caller {
    Tenant(Tenant),
    Client(IpAddr),
    Shared(u64),
}

type Limiter = RateLimiter<Caller, DashMapStateStore<Caller>, MonotonicClock, NoOpMiddleware>;

/// The rates of one route's callers.
pub struct Rates {
    per: Per,
    limiter: Limiter,
    checks: AtomicUsize,
    crowded: AtomicBool,
    hashes: RandomState,
}

impl Rates {
    pub fn new(limit: &RateLimit) -> Option<Self> {
        let each = limit.rate.period / limit.rate.count.get();
        let quota = Quota::with_period(each)?.allow_burst(limit.burst);
        Some(Self {
            per: limit.per,
            limiter: RateLimiter::dashmap_with_clock(quota, MonotonicClock),
            checks: AtomicUsize::new(0),
            crowded: AtomicBool::new(false),
            hashes: RandomState::new(),
        })
    }

    /// How long this caller is to wait, if it must.
    pub fn check(&self, tenant: &Tenant, client: IpAddr) -> Result<(), Duration> {
        if self.checks.fetch_add(1, Ordering::Relaxed) % TIDY_EVERY == TIDY_EVERY - 1 {
            self.tidy();
        }
        let caller = match self.per {
            Per::Tenant => Caller::Tenant(tenant.clone()),
            Per::ClientIp => Caller::Client(client.to_canonical()),
        };
        let caller = match self.crowded.load(Ordering::Relaxed) {
            true => Caller::Shared(self.hashes.hash_one(caller) % SHARED_ALLOWANCES),
            false => caller,
        };
        let checked = self.limiter.check_key(&caller);
        checked.map_err(|until| until.wait_time_from(MonotonicClock.now()))
    }

    /// A caller whose allowance is whole again need not be remembered.
    fn tidy(&self) {
        self.limiter.retain_recent();
        self.limiter.shrink_to_fit();
        self.crowded.store(self.limiter.len() > MAX_CALLERS, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::num::NonZeroU32;

    use super::*;
    use crate::config::Rate;

    const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn rates(per: Per) -> Rates {
        let rate = Rate { count: NonZeroU32::MIN, period: Duration::from_secs(3600) };
        Rates::new(&RateLimit { per, rate, burst: NonZeroU32::new(2).unwrap() }).unwrap()
    }

    #[test]
    fn a_caller_that_used_up_its_burst_is_told_when_to_come_back() {
        let rates = rates(Per::Tenant);
        let (one, other) = (Tenant::from_text("one"), Tenant::from_text("other"));
        assert_eq!(rates.check(&one, CLIENT), Ok(()));
        assert_eq!(rates.check(&one, CLIENT), Ok(()));
        let pause = rates.check(&one, CLIENT).unwrap_err();
        assert!(pause > Duration::from_secs(3000) && pause <= Duration::from_secs(3600));
        assert_eq!(rates.check(&other, CLIENT), Ok(()));
    }

    #[test]
    fn an_address_is_one_caller_in_both_of_its_spellings() {
        let rates = rates(Per::ClientIp);
        let mapped = IpAddr::V6(Ipv4Addr::LOCALHOST.to_ipv6_mapped());
        assert_eq!(rates.check(&Tenant::from_text("a"), CLIENT), Ok(()));
        assert_eq!(rates.check(&Tenant::from_text("b"), mapped), Ok(()));
        assert!(rates.check(&Tenant::from_text("c"), CLIENT).is_err());
    }

    #[test]
    fn a_crowd_shares_a_fixed_number_of_allowances() {
        let rates = rates(Per::Tenant);
        let mut least = usize::MAX;
        for caller in 0..4 * MAX_CALLERS {
            let _ = rates.check(&Tenant::from_text(&caller.to_string()), CLIENT);
            if rates.crowded.load(Ordering::Relaxed) {
                least = least.min(rates.limiter.len());
            }
        }
        assert!(least != usize::MAX, "it was never crowded");
        assert!(rates.limiter.len() <= MAX_CALLERS + TIDY_EVERY + SHARED_ALLOWANCES as usize);
    }

    #[test]
    fn a_place_in_flight_is_free_again_when_it_is_dropped() {
        let in_flight = Arc::new(InFlight::default());
        let first = in_flight.enter(1);
        assert!(first.is_some());
        assert!(in_flight.enter(1).is_none());
        assert_eq!(in_flight.count(), 1);
        drop(first);
        assert!(in_flight.enter(1).is_some());
    }
}
