//! What every fast tier promises, kept on each of them, and what only Redis or memory can break.
//!
//! The servers are shared, so every test has identities of its own.

mod answers;
mod bounds;
mod breaker;
mod commands;
mod groups;
mod locks;
mod outages;
mod pushes;
mod values;

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use oncegate::idempotency::{
    Body, Credential, Fingerprint, HeaderBlock, IdentityDigest, Snapshot, Token,
};
use oncegate::store::fast::{FastTier, Finished, Lock, Replacement, Reserved, Vacancy, Value};

use crate::bed::{self, Fast};
use crate::support::eventually;

/// What a promise is tried on: the tier as two instances have it.
type Instances = [Arc<dyn FastTier>; 2];

const PATIENCE: Duration = Duration::from_secs(20);
/// Longer than any test.
const LONG: Duration = Duration::from_secs(600);

macro_rules! on_every_backend {
    ($($theme:ident::$promise:ident),+ $(,)?) => {
        on_every_backend!(@ memory Memory $($theme::$promise)+);
        on_every_backend!(@ redis Redis $($theme::$promise)+);
        on_every_backend!(@ old_redis OldRedis $($theme::$promise)+);
        on_every_backend!(@ cluster Cluster $($theme::$promise)+);
        on_every_backend!(@ sentinel Sentinel $($theme::$promise)+);
    };
    (@ $module:ident $backend:ident $($theme:ident::$promise:ident)+) => {
        mod $module {
            use super::*;

            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $promise() {
                    if let Some(instances) = Fast::$backend.instances().await {
                        $theme::$promise(instances).await;
                    }
                }
            )+
        }
    };
}

on_every_backend! {
    locks::the_first_to_reserve_gets_the_lock_and_the_second_sees_whose_it_is,
    locks::of_a_hundred_at_once_exactly_one_gets_the_lock,
    locks::a_lock_is_free_after_its_time,
    locks::a_reservation_repeated_with_its_own_token_is_granted_again,
    locks::a_renewed_lock_outlives_one_that_is_not,
    locks::a_renewal_prolongs_neither_a_strangers_lock_nor_an_answer,
    locks::a_lock_that_ran_out_is_not_raised_by_a_renewal,
    answers::an_answer_comes_back_byte_for_byte,
    answers::an_answer_goes_after_its_time,
    answers::a_lock_replaced_by_nothing_is_free,
    answers::a_lock_can_be_handed_to_another_owner,
    answers::a_stranger_changes_nothing,
    answers::an_answer_stays_even_for_its_owner,
    answers::where_a_lock_has_vanished_a_late_answer_is_put_only_on_request,
    answers::what_was_forgotten_is_marked_whatever_was_there,
    answers::a_late_copy_of_a_forgotten_answer_stays_out,
    pushes::what_was_forgotten_is_told_to_every_instance,
    pushes::who_is_told_of_a_forgotten_one_finds_it_marked,
    pushes::a_burst_of_forgotten_ones_is_told_in_full,
    pushes::a_change_is_told_to_those_who_listen_to_it_and_only_then,
    pushes::nothing_is_told_after_the_last_has_stopped_listening,
    pushes::one_listener_less_leaves_the_others_listening,
    pushes::who_listens_hears_the_very_next_change_however_often_it_stopped_before,
}

fn fresh_identity() -> IdentityDigest {
    *bed::identity(&uuid::Uuid::new_v4().to_string()).digest()
}

fn fresh_lock() -> Lock {
    Lock { token: Token::fresh(), fingerprint: Some(Fingerprint::from_bytes(fresh_identity())) }
}

fn finished(body: impl Into<Bytes>) -> Finished {
    Finished {
        fingerprint: Some(Fingerprint::from_bytes([3; 32])),
        credential: Some(Credential::from_bytes([4; 32])),
        answer: Snapshot {
            status: 201,
            headers: HeaderBlock::from_pairs([(&b"location"[..], &b"/payments/1"[..])]),
            body: Body::Stored(body.into()),
        },
    }
}

fn with_answer(body: &'static str) -> Replacement {
    Replacement::With(Value::Finished(finished(body)), LONG)
}

/// What is there, as somebody else sees it. Reserves when it is nothing.
async fn look(tier: &dyn FastTier, identity: &IdentityDigest) -> Reserved {
    let looked = tier.reserve(identity, fresh_lock(), LONG).await;
    looked.expect("the tier answers")
}

async fn reserve(tier: &dyn FastTier, identity: &IdentityDigest, ttl: Duration) -> Lock {
    let lock = fresh_lock();
    let reserved = tier.reserve(identity, lock, ttl).await;
    assert_eq!(reserved, Ok(Reserved::Ours));
    lock
}

async fn replace(tier: &dyn FastTier, identity: &IdentityDigest, owner: Token, by: Replacement) {
    let replaced = tier.replace(identity, owner, by, Vacancy::Leave).await;
    replaced.expect("the tier answers");
}

/// Waits until nothing is there.
async fn vanishes(tier: &dyn FastTier, identity: &IdentityDigest) {
    eventually("it is free again", PATIENCE, async || look(tier, identity).await == Reserved::Ours)
        .await;
}

/// Where Redis keeps it.
fn redis_key(identity: &IdentityDigest) -> String {
    format!("oncegate:{}", URL_SAFE_NO_PAD.encode(identity))
}
