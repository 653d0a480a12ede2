//! MySQL killed, frozen, cut off: nothing runs unrecorded, no answer is lost.

use std::time::Duration;

use super::super::{
    Retry, SOON, assert_executed, assert_problem, assert_replayed, fresh_key, launch, payments,
};
use super::load::{Load, judge};
use super::{Own, own};
use crate::support::{Behaviour, Reply, Server, eventually};

/// The database goes away while a call runs and comes back after the upstream has answered.
async fn an_answer_survives(away: impl AsyncFnOnce(&Own), back: impl AsyncFnOnce(&Own)) {
    let Some(own) = own("").await else { return };
    let [one, other] = &own.gateways;
    own.upstream.on("/pay/held", Reply::new(201).body("paid").held());
    let key = fresh_key();
    let call = tokio::spawn(one.posting("/pay/held", &key, "{}").send());
    own.upstream.begun(1).await;
    away(&own).await;
    let unrecorded = fresh_key();
    for gateway in [one, other] {
        let refused = gateway.post("/pay", &unrecorded, "{}").await;
        assert_problem(&refused, 503, "store-unavailable", Retry::After);
    }
    assert_eq!(own.upstream.count(), 1, "nothing runs that is not recorded");
    own.upstream.let_go();
    tokio::time::sleep(super::super::A_MOMENT).await;
    assert!(!call.is_finished(), "the client gets it when it is stored");
    back(&own).await;
    let first = tokio::time::timeout(SOON, call).await.expect("it is stored once it can be");
    let first = first.expect("no panic");
    assert_executed(&first, 201);
    eventually("new calls run again", SOON, async || {
        other.post("/pay", &unrecorded, "{}").await.status == 201
    })
    .await;
    for gateway in [one, other] {
        assert_replayed(&gateway.post("/pay/held", &key, "{}").await, &first);
    }
    assert_eq!((own.upstream.count_of(&key), own.upstream.count_of(&unrecorded)), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn mysql_is_killed_and_comes_back() {
    an_answer_survives(async |own| own.mysql.kill(), async |own| own.mysql.restart()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mysql_hangs() {
    an_answer_survives(async |own| own.mysql.freeze(), async |own| own.mysql.thaw()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mysql_is_cut_off() {
    an_answer_survives(async |own| own.mysql_proxy.cut(), async |own| own.mysql_proxy.heal()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mysql_is_killed_again_and_again_under_load() {
    let Some(own) = own("lease = '20s'").await else { return };
    own.upstream.on("/pay", Behaviour::by(Reply::numbered));
    let load = Load::begin(&own.gateways, 8);
    for _ in 0..3 {
        let before = load.done();
        eventually("some more are done", SOON, async || load.done() >= before + 20).await;
        own.mysql.kill();
        own.mysql.restart();
    }
    let before = load.done();
    eventually("it has recovered", SOON, async || load.done() >= before + 20).await;
    let calls = load.finish().await;
    let (answered, held) = judge(&calls, &own.upstream);
    assert!(answered >= 80, "{answered} answered, {held} held");
}

/// The database wrote a claim and its gateway never learned of it: nothing was sent, so once the
/// two can talk again the key is free, long before its lease and its lock would have run out.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_reached_nobody_does_not_hold_its_key() {
    let Some(own) = own("lease = '60s'").await else { return };
    let cut_off = &own.gateways[0];
    let direct = launch(&own.upstream, &own.mysql.url(), &own.redis.url());
    let direct = direct.config(&payments("lease = '60s'")).listening().await;
    assert_executed(&cut_off.post("/pay", &fresh_key(), "{}").await, 201);
    let mut key = fresh_key();
    eventually("a claim was written and nobody was told", 4 * SOON, async || {
        key = fresh_key();
        let lost = own.mysql_proxy.swallowed_bytes();
        own.mysql_proxy.swallow_replies();
        let call = tokio::spawn(cut_off.posting("/pay", &key, "{}").send());
        eventually("a reply is lost", SOON, async || own.mysql_proxy.swallowed_bytes() > lost)
            .await;
        own.mysql_proxy.blackhole();
        assert_problem(&call.await.expect("no panic"), 503, "store-unavailable", Retry::After);
        // So that the database is asked. It may have been another reply that was lost.
        own.redis.flush();
        let written = direct.post("/pay", &key, "{}").await.status == 409;
        if !written {
            own.mysql_proxy.heal();
        }
        written
    })
    .await;
    let meanwhile = direct.post("/pay", &key, "{}").await;
    assert_problem(&meanwhile, 409, "in-progress", Retry::After);
    own.mysql_proxy.heal();
    eventually("the claim is taken back", Duration::from_secs(10), async || {
        direct.post("/pay", &key, "{}").await.status == 201
    })
    .await;
    assert_eq!(own.upstream.count_of(&key), 1);
}

/// The gateway that has the answer can only put it into Redis, and dies; the database comes back
/// when it is gone.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_outlived_its_gateway_is_written_down_by_another() {
    let Some(own) = own("lease = '1s'").await else { return };
    let [one, other] = &own.gateways;
    own.upstream.on("/pay", Reply::new(201).header("X-Charge", "7").body("paid").held());
    let key = fresh_key();
    let call = tokio::spawn(one.posting("/pay", &key, "{}").try_send());
    own.upstream.begun(1).await;
    own.mysql_proxy.cut();
    own.upstream.let_go();
    eventually("Redis has the answer", SOON, async || {
        other.post("/pay", &key, "{}").await.status == 201
    })
    .await;
    one.kill();
    drop(call.await);
    own.mysql_proxy.heal();
    let quick = "[reconciler]\ninterval = '100ms'\nstuck_after = '0s'\nsettle_after = '0s'\n";
    let third = launch(&own.upstream, &own.mysql.url(), &own.redis.url());
    let third = third.config(&(quick.to_owned() + &payments("lease = '1s'"))).listening().await;
    eventually("it is settled", SOON, async || {
        third.metrics().await.sum("oncegate_settled_total", &[]) == 1.0
    })
    .await;
    let settled = third.metrics().await.sum("oncegate_settled_total", &[("outcome", "succeeded")]);
    assert_eq!(settled, 1.0, "by what Redis has");
    own.redis.flush();
    let retry = third.post("/pay", &key, "{}").await;
    assert_eq!(retry.header("Idempotency-Status"), Some("replayed"), "{retry:?}");
    assert_eq!((retry.status, retry.text().as_str()), (201, "paid"));
    assert_eq!((retry.header("X-Charge"), own.upstream.count_of(&key)), (Some("7"), 1));
}
