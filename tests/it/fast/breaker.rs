//! A Redis that hangs or fails costs its time limit once, and is used again when it is back.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use oncegate::clock;
use oncegate::store::StoreError;
use oncegate::store::fast::{self, FastTier, Reserved, Value};

use super::pushes::{Ear, change, listen};
use super::{LONG, PATIENCE, fresh_identity, fresh_lock, look, reserve};
use crate::bed::{answers, open_fast};
use crate::support::servers::{Kind, require};
use crate::support::{FaultProxy, Redis, Server, eventually, ports::Port};

/// A third of a second, and some for a machine with other things to do.
const FIRST_ERROR_WITHIN: Duration = Duration::from_secs(1);

async fn fails(tier: &dyn FastTier) -> (StoreError, Duration) {
    let start: Instant = clock::now();
    let reserved = tier.reserve(&fresh_identity(), fresh_lock(), LONG).await;
    let error = reserved.expect_err("nobody answers");
    assert!(error.is_transient(), "{error}");
    (error, start.elapsed())
}

/// The first call pays the limit at most, a thousand further ones together less than that.
async fn only_the_first_call_waits(tier: &dyn FastTier) {
    let (_, first) = fails(tier).await;
    assert!(first < FIRST_ERROR_WITHIN, "it took {first:?}");
    // A refused connection is noticed sooner than the limit.
    let limit = first.max(Duration::from_millis(200));
    let start = clock::now();
    for number in 1..=1000 {
        fails(tier).await;
        let further = start.elapsed();
        assert!(further < limit, "{first:?}, then {number} in {further:?}");
    }
}

async fn serves_again(tier: &dyn FastTier) {
    answers(tier).await;
    let identity = fresh_identity();
    let lock = reserve(tier, &identity, LONG).await;
    let there = Reserved::Taken(Value::Locked(lock));
    assert_eq!(look(tier, &identity).await, there);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_cut_off_by_the_network_is_waited_for_once() {
    if !require(Kind::Redis) {
        return;
    }
    let server = Redis::start();
    let proxy = FaultProxy::start(server.addr()).await;
    let tier = open_fast(&proxy.reroute(&server.url())).await;
    for _ in 0..2 {
        proxy.blackhole();
        only_the_first_call_waits(&*tier).await;
        proxy.heal();
        serves_again(&*tier).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_server_is_waited_for_once() {
    if !require(Kind::Redis) {
        return;
    }
    let server = Redis::start();
    let tier = open_fast(&server.url()).await;
    server.freeze();
    only_the_first_call_waits(&*tier).await;
    server.thaw();
    serves_again(&*tier).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_meet_a_hanging_server_together_wait_together() {
    if !require(Kind::Redis) {
        return;
    }
    let server = Redis::start();
    let tier = open_fast(&server.url()).await;
    server.freeze();
    let start = clock::now();
    join_all((0..100).map(|_| fails(&*tier))).await;
    let all = start.elapsed();
    assert!(all < FIRST_ERROR_WITHIN, "it took {all:?}");
    server.thaw();
    serves_again(&*tier).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_fails_quickly_and_serves_after_its_restart() {
    if !require(Kind::Redis) {
        return;
    }
    let server = Redis::start();
    let tier = open_fast(&server.url()).await;
    server.kill();
    only_the_first_call_waits(&*tier).await;
    server.restart();
    serves_again(&*tier).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_down_at_first_is_used_once_it_is_up() {
    if !require(Kind::Redis) {
        return;
    }
    let server = Redis::start();
    server.kill();
    let tier = fast::open(&server.url()).expect("the URL is right");
    let tier = tier.expect("it is a tier");
    only_the_first_call_waits(&*tier).await;
    server.restart();
    serves_again(&*tier).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_asked_of_a_dead_server_is_not_done_when_it_is_back() {
    if !require(Kind::Redis) {
        return;
    }
    let server = Redis::start();
    let tier = open_fast(&server.url()).await;
    server.kill();
    join_all((0..100).map(|_| fails(&*tier))).await;
    server.restart();
    answers(&*tier).await;
    assert_eq!(server.command(&["DBSIZE"]), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reservation_whose_answer_was_lost_is_still_its_owners() {
    if !require(Kind::Redis) {
        return;
    }
    let server = Redis::start();
    let proxy = FaultProxy::start(server.addr()).await;
    let tier = open_fast(&proxy.reroute(&server.url())).await;
    let (identity, lock) = (fresh_identity(), fresh_lock());
    proxy.swallow_replies();
    let lost = tier.reserve(&identity, lock, LONG).await;
    assert!(lost.is_err_and(|error| error.is_transient()));
    let direct = open_fast(&server.url()).await;
    let there = Reserved::Taken(Value::Locked(lock));
    assert_eq!(look(&*direct, &identity).await, there);
    proxy.heal();
    answers(&*tier).await;
    assert_eq!(tier.reserve(&identity, lock, LONG).await, Ok(Reserved::Ours));
}

/// Whoever could not be heard while the tier was left out still says when it stops listening.
#[tokio::test(flavor = "multi_thread")]
async fn who_listened_in_vain_takes_nothing_from_who_listens() {
    if !require(Kind::Redis) {
        return;
    }
    let server = Redis::start();
    let proxy = FaultProxy::start(server.addr()).await;
    let tier = open_fast(&proxy.reroute(&server.url())).await;
    let direct = open_fast(&server.url()).await;
    let (identity, other) = (fresh_identity(), fresh_identity());
    let mut ear = Ear::of(&*tier);
    listen(&*tier, &identity).await;
    proxy.blackhole();
    fails(&*tier).await;
    for _ in 0..2 {
        let in_vain = tier.listen(&identity).await;
        assert!(in_vain.is_err());
        tier.unlisten(&identity);
    }
    proxy.heal();
    answers(&*tier).await;
    // One more round trip of subscriptions, behind whatever was sent about the first.
    eventually("the tier listens", PATIENCE, async || tier.listen(&other).await.is_ok()).await;
    change(&*direct, &identity).await;
    ear.hear(oncegate::store::fast::Push::Changed(identity)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_encrypted_connection_can_be_asked_for() {
    // Nobody is there; what matters is that the TLS configuration can be made.
    let port = Port::claim().number();
    for url in [
        format!("rediss://127.0.0.1:{port}"),
        format!("rediss-cluster://127.0.0.1:{port}"),
        format!("rediss-sentinel://127.0.0.1:{port}?sentinelServiceName=main"),
    ] {
        let tier = fast::open(&url).expect("the URL is right");
        let tier = tier.expect("it is a tier");
        fails(&*tier).await;
    }
}
