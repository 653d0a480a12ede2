//! Renewing: what keeps a slow run from being taken over.

use std::time::Duration;

use oncegate::idempotency::decide::Asked;
use oncegate::idempotency::{Fence, State, Token};
use oncegate::store::durable::{Hold, NotRenewed, Right, TakeOver, Taken, Written};

use super::{LONG, SHORT, Tier, apply, passed, record, running, success};
use crate::bed::Fresh;

async fn take(tier: &Tier, seen: Fence) -> Taken {
    let token = Token::fresh();
    let take = TakeOver { seen, token, lease: LONG, asked: Asked::default(), right: Right::Due };
    tier.take_over(take).await.expect("a takeover is answered")
}

pub async fn renewing_300_leases_at_once_keeps_them_all(fresh: Fresh) {
    let (tier, other) = (fresh.open().await, fresh.open().await);
    let keys: Vec<_> = (0..300).map(|n| n.to_string()).collect();
    let lease = Duration::from_secs(3);
    let fences = keys.iter().map(|key| running(&tier, key, lease));
    let fences = futures_util::future::join_all(fences).await;
    let left_alone = running(&tier, "left alone", lease).await;
    let began = record(&tier, "0").await;
    let lost = tier.renew(fences.clone(), LONG).await.expect("answered");
    assert!(lost.is_empty(), "{lost:?}");
    passed(&tier, "left alone", lease).await;
    let taken = fences.iter().map(|fence| take(&other, *fence));
    let taken = futures_util::future::join_all(taken).await;
    assert!(taken.iter().all(|taken| *taken == Taken::Lost));
    assert_eq!(take(&other, left_alone).await, Taken::Won { attempt: 2 });
    let renewed = record(&tier, "0").await;
    let State::Processing { lease_until } = renewed.state else {
        panic!("a renewal is no ending");
    };
    assert!(lease_until >= began.created_at + LONG);
    // How long it has been running is not changed by a renewal.
    assert_eq!(renewed.updated_at, began.updated_at);
}

pub async fn leases_that_are_lost_are_named(fresh: Fresh) {
    let tier = fresh.open().await;
    let kept = running(&tier, "kept", LONG).await;
    let done = running(&tier, "done", LONG).await;
    assert_eq!(apply(&tier, done, success("done")).await, Written::Applied);
    let before = record(&tier, "done").await;
    let taken = running(&tier, "taken", Duration::ZERO).await;
    assert_eq!(take(&tier, taken).await, Taken::Won { attempt: 2 });
    let removed = running(&tier, "removed", LONG).await;
    let release = oncegate::idempotency::Settlement::Release;
    assert_eq!(apply(&tier, removed, release).await, Written::Applied);
    let held = running(&tier, "held", Duration::ZERO).await;
    passed(&tier, "held", Duration::from_millis(1)).await;
    assert_eq!(tier.hold(held, silence()).await, Ok(true));
    let silent = record(&tier, "held").await;
    let not_renewed = tier.renew(vec![kept, taken, done, held, removed], LONG * 2).await;
    let NotRenewed { lost, over } = not_renewed.expect("answered");
    assert_eq!((lost, over), (vec![taken, removed], vec![done, held]));
    // A record whose own attempt has finished, or was given up, is left as it is.
    assert_eq!(record(&tier, "done").await, before);
    assert_eq!(record(&tier, "held").await, silent);
    let renewed = record(&tier, "kept").await;
    assert!(
        matches!(renewed.state, State::Processing { lease_until } if lease_until >= renewed.created_at + LONG * 2)
    );
    assert_eq!(tier.renew(Vec::new(), LONG).await, Ok(NotRenewed::default()));
}

pub async fn a_lease_that_ran_out_is_renewed_as_long_as_nobody_took_it(fresh: Fresh) {
    let tier = fresh.open().await;
    let owner = running(&tier, "k", SHORT).await;
    passed(&tier, "k", SHORT).await;
    assert_eq!(tier.renew(vec![owner], LONG).await, Ok(NotRenewed::default()));
    assert_eq!(take(&tier, owner).await, Taken::Lost);
    assert_eq!(apply(&tier, owner, success("done")).await, Written::Applied);
}

pub async fn only_a_lease_that_is_over_is_held(fresh: Fresh) {
    let tier = fresh.open().await;
    let owner = running(&tier, "k", SHORT).await;
    assert_eq!(tier.hold(owner, silence()).await, Ok(false), "it runs");
    passed(&tier, "k", SHORT).await;
    // What was silent when it was listed is back.
    assert_eq!(tier.renew(vec![owner], LONG).await, Ok(NotRenewed::default()));
    assert_eq!(tier.hold(owner, silence()).await, Ok(false), "it was renewed");
    assert_eq!(tier.renew(vec![owner], Duration::ZERO).await, Ok(NotRenewed::default()));
    let stranger = Fence { token: Token::fresh(), ..owner };
    assert_eq!(tier.hold(stranger, silence()).await, Ok(false), "it is another's");
    assert_eq!(tier.hold(owner, silence()).await, Ok(true));
    let held = record(&tier, "k").await;
    assert!(matches!(held.state, State::Unknown { retry_at } if retry_at <= held.updated_at));
    assert_eq!(held.fence(), owner);
    assert_eq!(held.last_error.map(|error| error.message).as_deref(), Some("silence"));
    assert_eq!(tier.hold(owner, silence()).await, Ok(false), "it is held already");
    // Should its owner only have been slow, its answer counts.
    assert_eq!(apply(&tier, owner, success("done")).await, Written::Applied);
}

fn silence() -> Hold {
    Hold { why: "silence".into(), attend_at: None, keep: None }
}
