//! Redis flushed, killed, frozen, cut off: a 409 or a slower answer, never a second execution.

use super::super::{Retry, SOON, assert_executed, assert_problem, assert_replayed, fresh_key};
use super::load::{Load, judge};
use super::{Own, own};
use crate::support::{Behaviour, Reply, Server, eventually};

/// Something happens to Redis while a call runs and others come and go.
async fn one_execution_whatever_happens(
    break_it: impl AsyncFnOnce(&Own),
    heal_it: impl AsyncFnOnce(&Own),
) {
    let Some(own) = own("").await else { return };
    let [one, other] = &own.gateways;
    own.upstream.on("/pay/held", Reply::new(201).body("paid").held());
    assert_executed(&one.post("/pay", &fresh_key(), "{}").await, 201);
    let key = fresh_key();
    let call = tokio::spawn(one.posting("/pay/held", &key, "{}").send());
    own.upstream.begun(2).await;
    let load = Load::begin(&own.gateways, 4);
    break_it(&own).await;
    for gateway in [one, other, one, other] {
        let duplicate = gateway.post("/pay/held", &key, "{}").await;
        assert_problem(&duplicate, 409, "in-progress", Retry::After);
    }
    assert_executed(&other.post("/pay", &fresh_key(), "{}").await, 201);
    own.upstream.let_go();
    let first = call.await.expect("no panic");
    assert_executed(&first, 201);
    for gateway in [one, other] {
        assert_replayed(&gateway.post("/pay/held", &key, "{}").await, &first);
    }
    heal_it(&own).await;
    eventually("the fast tier is used again", SOON, async || {
        one.post("/pay", &fresh_key(), "{}").await;
        own.redis.try_command(&["DBSIZE"]).is_ok_and(|size| size != "0")
    })
    .await;
    for gateway in [one, other] {
        assert_replayed(&gateway.post("/pay/held", &key, "{}").await, &first);
    }
    let (_, held) = judge(&load.finish().await, &own.upstream);
    assert_eq!((held, own.upstream.count_of(&key)), (0, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_is_flushed() {
    one_execution_whatever_happens(async |own| own.redis.flush(), async |_| {}).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_is_killed_and_comes_back_empty() {
    one_execution_whatever_happens(async |own| own.redis.kill(), async |own| own.redis.restart())
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_hangs() {
    one_execution_whatever_happens(async |own| own.redis.freeze(), async |own| own.redis.thaw())
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_is_cut_off() {
    one_execution_whatever_happens(
        async |own| own.redis_proxy.cut(),
        async |own| own.redis_proxy.heal(),
    )
    .await;
}

/// Under load, so that it happens between any two steps of a call.
#[tokio::test(flavor = "multi_thread")]
async fn redis_is_flushed_again_and_again() {
    let Some(own) = own("wait = '5s'").await else { return };
    own.upstream.on("/pay", Behaviour::by(Reply::numbered));
    let load = Load::begin(&own.gateways, 8);
    for round in 1..=20 {
        eventually("some more are done", SOON, async || load.done() >= round * 10).await;
        own.redis.flush();
    }
    let calls = load.finish().await;
    let (answered, held) = judge(&calls, &own.upstream);
    assert_eq!((answered, held), (calls.len(), 0));
}
