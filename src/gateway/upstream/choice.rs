//! Which address of an upstream is connected to next.
//!
//! In turn, and without those that failed: an address that cannot be reached is left out, longer
//! each time, so that a dead one costs a few requests some waiting and not all of them. Pure, with
//! the time passed in.

use std::time::{Duration, Instant};

const FIRST_PENALTY: Duration = Duration::from_secs(1);
const LONGEST_PENALTY: Duration = Duration::from_secs(30);

pub struct Choice {
    /// Whose turn it is.
    next: usize,
    standings: Box<[Standing]>,
}

#[derive(Clone, Default)]
struct Standing {
    /// In a row.
    failures: u32,
    /// The last one that counted.
    failed: Option<Instant>,
    out_until: Option<Instant>,
}

impl Choice {
    pub fn new(addresses: usize) -> Self {
        Self { next: 0, standings: vec![Standing::default(); addresses].into() }
    }

    /// The next address that was not tried yet; None when all were. Those that are left out come
    /// last, the soonest to be back first: better a poor chance than none.
    pub fn pick(&mut self, tried: &[usize], now: Instant) -> Option<usize> {
        let count = self.standings.len();
        let in_turn = (0..count).map(|step| (self.next + step) % count);
        let untried: Vec<usize> = in_turn.filter(|address| !tried.contains(address)).collect();
        let picked = match untried.iter().find(|address| !self.standings[**address].is_out(now)) {
            Some(address) => *address,
            None => {
                let back = |address: &&usize| self.standings[**address].out_until;
                return untried.iter().min_by_key(back).copied();
            }
        };
        self.next = picked + 1;
        let standing = &mut self.standings[picked];
        if standing.failures > 0 {
            // One finds out whether it is back; the others need not wait for that.
            standing.out_until = Some(now + FIRST_PENALTY);
        }
        Some(picked)
    }

    pub fn connected(&mut self, address: usize) {
        self.standings[address] = Standing::default();
    }

    /// An attempt that began at `began` has failed.
    pub fn failed(&mut self, address: usize, began: Instant, now: Instant) {
        let standing = &mut self.standings[address];
        // Attempts that ran side by side met the same trouble, which counts once.
        if standing.failed.is_some_and(|counted| began < counted) {
            return;
        }
        let penalty = FIRST_PENALTY * 2u32.pow(standing.failures.min(5));
        standing.failures = standing.failures.saturating_add(1);
        standing.failed = Some(now);
        standing.out_until = Some(now + penalty.min(LONGEST_PENALTY));
    }
}

impl Standing {
    fn is_out(&self, now: Instant) -> bool {
        self.out_until.is_some_and(|until| now < until)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::clock;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn addresses_take_turns() {
        let (mut choice, now) = (Choice::new(3), clock::now());
        let picked: Vec<_> = (0..7).map(|_| choice.pick(&[], now).unwrap()).collect();
        assert_eq!(picked, [0, 1, 2, 0, 1, 2, 0]);
    }

    #[test]
    fn one_that_fails_is_left_out_longer_each_time() {
        let (mut choice, mut now) = (Choice::new(2), clock::now());
        for seconds in [1, 2, 4, 8, 16, 30, 30] {
            choice.failed(0, now, now);
            let back = now + seconds * SECOND;
            for _ in 0..3 {
                assert_eq!(choice.pick(&[], back - SECOND / 100), Some(1));
            }
            let picked = [choice.pick(&[], back), choice.pick(&[], back)];
            assert!(picked.contains(&Some(0)), "it is back after {seconds} s");
            now = back;
        }
        choice.connected(0);
        choice.failed(0, now, now);
        assert_eq!(choice.pick(&[1], now + SECOND), Some(0), "success clears the penalty");
        assert!(choice.standings[0].failures == 1);
    }

    #[test]
    fn failures_side_by_side_count_once() {
        let (mut choice, now) = (Choice::new(1), clock::now());
        for _ in 0..50 {
            choice.failed(0, now, now + SECOND);
        }
        assert_eq!(choice.standings[0].out_until, Some(now + 2 * SECOND));
    }

    #[test]
    fn a_single_request_finds_out_whether_one_is_back() {
        let (mut choice, now) = (Choice::new(2), clock::now());
        choice.failed(0, now, now);
        let later = now + 2 * SECOND;
        let picked: Vec<_> = (0..6).map(|_| choice.pick(&[], later).unwrap()).collect();
        assert_eq!(picked.iter().filter(|address| **address == 0).count(), 1, "{picked:?}");
    }

    proptest! {
        #[test]
        fn every_address_is_tried_once_whatever_failed_before(
            count in 1usize..6,
            failures in prop::collection::vec((0usize..6, 0u64..90), 0..20),
            start in 0usize..6,
        ) {
            let (mut choice, now) = (Choice::new(count), clock::now());
            for (address, second) in failures {
                let at = now + Duration::from_secs(second);
                choice.failed(address % count, at, at);
            }
            for _ in 0..start {
                choice.pick(&[], now);
            }
            let mut tried = Vec::new();
            while let Some(address) = choice.pick(&tried, now + 45 * SECOND) {
                prop_assert!(!tried.contains(&address));
                tried.push(address);
            }
            prop_assert_eq!(tried.len(), count);
        }
    }
}
