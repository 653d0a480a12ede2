//! Who is admitted, and what everybody else is shown.

use std::collections::HashMap;
use std::time::Duration;

use oncegate::idempotency::decide::Asked;
use oncegate::idempotency::{RecordId, State};
use oncegate::store::StoreError;
use oncegate::store::durable::{Claimed, DurableOptions, NewClaim, Writes, Written};

use super::raw::Raw;
use super::{IN_TIME, LONG, Tier, apply, claim_of, look, record, running, success};
use crate::bed::{Fresh, identity};
use crate::support::eventually;

pub async fn a_first_claim_is_admitted_and_later_ones_are_shown_its_record(fresh: Fresh) {
    let (one, other) = (fresh.open().await, fresh.open().await);
    let first = claim_of(&identity("k"), LONG);
    let claimed = one.claim(first.clone()).await.expect("answered");
    assert!(matches!(claimed, Claimed::New));
    for tier in [&one, &other] {
        let later = NewClaim::new(identity("k"), Asked::default(), LONG);
        let Ok(Claimed::Exists(found)) = tier.claim(later).await else {
            panic!("admitted twice");
        };
        let shown = &found.record;
        assert_eq!(shown.id, first.fence.id);
        assert_eq!(shown.token, first.fence.token);
        assert_eq!(shown.identity, first.identity);
        assert_eq!(shown.fingerprint, first.asked.fingerprint);
        assert_eq!(shown.credential, first.asked.credential);
        assert_eq!(shown.attempt, 1);
        let lease_until = shown.created_at + LONG;
        assert_eq!(shown.state, State::Processing { lease_until });
        assert_eq!(shown.updated_at, shown.created_at);
        assert_eq!((&shown.result_ref, &shown.last_error), (&None, &None));
        assert!(found.now >= shown.created_at);
        assert!(found.now.since(shown.created_at) < IN_TIME);
        let looked_up = record(tier, "k").await;
        assert_eq!(looked_up, found.record);
    }
    assert!(look(&one, "another").await.is_none());
}

pub async fn a_claim_that_says_nothing_about_its_request_is_found_that_way(fresh: Fresh) {
    let tier = fresh.open().await;
    let claim = NewClaim::new(identity("k"), Asked::default(), LONG);
    assert!(matches!(tier.claim(claim).await, Ok(Claimed::New)));
    let record = record(&tier, "k").await;
    assert_eq!((record.fingerprint, record.credential), (None, None));
}

pub async fn of_64_claims_through_two_instances_one_is_admitted(fresh: Fresh) {
    let tiers = [fresh.open().await, fresh.open().await];
    crowd(&tiers, &[64]).await;
}

pub async fn in_a_crowd_of_mixed_claims_each_identity_is_admitted_once(fresh: Fresh) {
    let tiers = [fresh.open().await];
    let mut claims_per_key = vec![1; 80];
    claims_per_key.extend([2; 20]);
    claims_per_key.extend([10; 5]);
    claims_per_key.push(30);
    crowd(&tiers, &claims_per_key).await;
    // Once more, now that the first batches have warmed everything up and all keys are taken.
    let again: Vec<_> = (0..200)
        .map(|n| tiers[0].claim(claim_of(&identity(&format!("key {}", n % 106)), LONG)))
        .collect();
    for claimed in futures_util::future::join_all(again).await {
        assert!(matches!(claimed, Ok(Claimed::Exists(_))));
    }
}

pub async fn writing_every_claim_on_its_own_admits_each_identity_once_too(fresh: Fresh) {
    let options = DurableOptions {
        patience: Duration::from_secs(20),
        writes: Writes::Single,
        max_connections: 8,
    };
    crowd(&[fresh.open_with(options).await], &[1, 1, 1, 5, 5, 20]).await;
}

/// Claims each key that many times, all at once and through all the tiers.
async fn crowd(tiers: &[Tier], claims_per_key: &[usize]) {
    let mut claims = Vec::new();
    for round in 0..*claims_per_key.iter().max().expect("there are keys") {
        for (key, _) in claims_per_key.iter().enumerate().filter(|(_, n)| **n > round) {
            let tier = tiers[claims.len() % tiers.len()].clone();
            let claim = claim_of(&identity(&format!("key {key}")), LONG);
            claims.push(tokio::spawn(async move {
                let claimed = tier.claim(claim.clone()).await.expect("answered");
                (key, claim.fence.id, claimed)
            }));
        }
    }
    let mut winners: HashMap<usize, RecordId> = HashMap::new();
    let mut shown = Vec::new();
    for claim in claims {
        match claim.await.expect("no claim panics") {
            (key, id, Claimed::New) => {
                assert_eq!(winners.insert(key, id), None, "key {key} was admitted twice");
            }
            (key, _, Claimed::Exists(found)) => shown.push((key, found.record.id)),
        }
    }
    assert_eq!(winners.len(), claims_per_key.len(), "a key has no winner");
    for (key, id) in shown {
        assert_eq!(winners[&key], id, "key {key} was shown as somebody else's");
    }
    for (key, id) in winners {
        assert_eq!(record(&tiers[0], &format!("key {key}")).await.id, id);
    }
}

pub async fn a_claim_whose_caller_went_away_leaves_the_key_free(fresh: Fresh) {
    let tier = fresh.open().await;
    for round in 0..40_u64 {
        let claims: Vec<_> = (0..10)
            .map(|n| {
                let tier = tier.clone();
                let claim = claim_of(&identity(&format!("{round} {n}")), LONG);
                tokio::spawn(async move { tier.claim(claim).await.map(drop) })
            })
            .collect();
        // From "not yet sent" to "answered, but not yet looked at".
        tokio::time::sleep(Duration::from_micros(round * 100)).await;
        claims.iter().for_each(|claim| claim.abort());
        // Claims are written in turn: with this one everything before it has landed.
        running(&tier, &format!("{round} last"), LONG).await;
        for (n, claim) in claims.into_iter().enumerate() {
            let key = format!("{round} {n}");
            match claim.await {
                // It was told before it was aborted: the key is its own.
                Ok(told) => assert_eq!(told, Ok(())),
                Err(_) => {
                    eventually("a key nobody holds", IN_TIME, async || {
                        look(&tier, &key).await.is_none()
                    })
                    .await;
                    running(&tier, &key, LONG).await;
                }
            }
        }
    }
}

pub async fn a_damaged_record_is_reported_without_failing_its_neighbours(fresh: Fresh) {
    let tier = fresh.open().await;
    let fence = running(&tier, "damaged", LONG).await;
    assert_eq!(apply(&tier, fence, success("done")).await, Written::Applied);
    let mut raw = Raw::connect(&fresh).await;
    raw.execute("UPDATE oncegate_records SET response_status = NULL").await;
    let claims = (0..64).map(|n| {
        let key = if n == 20 { "damaged".into() } else { format!("{n}") };
        tier.claim(claim_of(&identity(&key), LONG))
    });
    let claims = futures_util::future::join_all(claims).await;
    for (n, claimed) in claims.into_iter().enumerate() {
        match (n, claimed) {
            (20, Err(StoreError::Misconfigured(why))) => assert!(why.contains("no answer")),
            (20, other) => panic!("a damaged record was taken for {other:?}"),
            (_, claimed) => assert!(matches!(claimed, Ok(Claimed::New)), "{n}: {claimed:?}"),
        }
    }
}

pub async fn closing_the_tier_finishes_what_it_has_taken(fresh: Fresh) {
    let tier = fresh.open().await;
    let mut fences = Vec::new();
    for n in 0..20 {
        fences.push(running(&tier, &n.to_string(), LONG).await);
    }
    let endings = fences.iter().map(|fence| tier.settle(*fence, success("done")));
    // The endings are handed over first, for they are polled first.
    let endings = futures_util::future::join_all(endings);
    let (written, ()) = tokio::join!(biased; endings, tier.close());
    assert!(written.iter().all(|w| *w == Ok(Written::Applied)), "{written:?}");
    let other = fresh.open().await;
    for n in 0..20 {
        let state = record(&other, &n.to_string()).await.state;
        assert!(matches!(state, State::Succeeded { .. }), "{state:?}");
    }
}
