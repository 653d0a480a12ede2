//! Two gateways before the same tiers are one gateway.

use std::time::Duration;

use tokio::task::JoinHandle;

use super::{
    Retry, SOON, Site, Tiers, assert_executed, assert_problem, assert_replayed, fresh_key, payments,
};
use crate::support::{Answer, Gateway, Redis, Reply, Server, eventually};

async fn two(site: &Site, route: &str) -> [Gateway; 2] {
    [site.gateway(&payments(route)).await, site.gateway(&payments(route)).await]
}

/// The same request so many times at once, to both in turn.
fn burst(gateways: &[Gateway; 2], key: &str, count: usize) -> Vec<JoinHandle<Answer>> {
    let call = |n: usize| tokio::spawn(gateways[n % 2].posting("/pay", key, "{}").send());
    (0..count).map(call).collect()
}

/// Everybody got the one answer, and one of them was told that it was theirs.
async fn one_answer(calls: Vec<JoinHandle<Answer>>) {
    let mut executed = 0;
    for call in calls {
        let answer = call.await.expect("no panic");
        assert_eq!((answer.status, answer.text().as_str()), (201, "paid"), "{answer:?}");
        match answer.header("Idempotency-Status") {
            Some("executed") => executed += 1,
            Some("replayed") => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(executed, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_concurrent_duplicates_execute_once_and_get_one_answer() {
    let Some(site) = Tiers::MySqlRedis.site().await else { return };
    let gateways = two(&site, "wait = '30s'\nwait_max = '30s'").await;
    site.upstream.on("/pay", Reply::new(201).body("paid").held());
    let key = fresh_key();
    let calls = burst(&gateways, &key, 200);
    site.upstream.begun(1).await;
    site.upstream.let_go();
    one_answer(calls).await;
    assert_eq!(site.upstream.count_of(&key), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_at_the_other_gateway_is_replayed() {
    let Some(site) = Tiers::MySqlRedis.site().await else { return };
    let [one, other] = two(&site, "").await;
    let reply = Reply::new(201).header("Location", "/pay/7").header("Set-Cookie", "a=1");
    site.upstream.on("/pay", reply.body("paid"));
    let key = fresh_key();
    let first = one.post("/pay", &key, "{}").await;
    assert_executed(&first, 201);
    let retry = other.post("/pay", &key, "{}").await;
    assert_replayed(&retry, &first);
    assert_eq!((retry.header("Location"), retry.header("Set-Cookie")), (Some("/pay/7"), None));
    assert_problem(&other.post("/pay", &key, "other").await, 409, "key-reused", Retry::No);
    assert_eq!(site.upstream.count_of(&key), 1);
}

/// Which tier has answered how many retries.
async fn replays(gateway: &Gateway) -> [f64; 2] {
    let metrics = gateway.metrics().await;
    ["fast", "durable"].map(|tier| metrics.sum("oncegate_replays_total", &[("tier", tier)]))
}

/// At another gateway, since the one that ran it has a copy of its own.
#[tokio::test(flavor = "multi_thread")]
async fn long_answers_are_not_for_the_fast_tier() {
    let Some(site) = Tiers::MySqlRedis.site().await else { return };
    let [one, other] = two(&site, "[fast]\nreplay_max_bytes = '1KiB'").await;
    for (bytes, by) in [(500, [1.0, 0.0]), (2000, [1.0, 1.0])] {
        site.upstream.on("/pay", Reply::new(201).filled(bytes));
        let key = fresh_key();
        let first = one.post("/pay", &key, "{}").await;
        assert_executed(&first, 201);
        assert_replayed(&other.post("/pay", &key, "{}").await, &first);
        assert_eq!(replays(&other).await, by, "{bytes}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_stay_in_the_fast_tier_for_as_long_as_it_says() {
    let Some(mut site) = Tiers::MySqlRedis.site().await else { return };
    // Its own: whatever is in there is of this test.
    let redis = Redis::start();
    site.fast = redis.url();
    let [one, other] = two(&site, "[fast]\nreplay_ttl = '1s'").await;
    let key = fresh_key();
    let first = one.post("/pay", &key, "{}").await;
    assert_executed(&first, 201);
    eventually("Redis forgets it", SOON, async || {
        redis.try_command(&["DBSIZE"]).is_ok_and(|size| size == "0")
    })
    .await;
    assert_replayed(&other.post("/pay", &key, "{}").await, &first);
    assert_eq!(replays(&other).await, [0.0, 1.0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_duplicate_waits_for_a_call_that_runs_at_the_other_gateway() {
    let Some(site) = Tiers::MySqlRedis.site().await else { return };
    let [one, other] = two(&site, "wait_max = '30s'").await;
    site.upstream.on("/pay", Reply::new(201).body("paid").held());
    let key = fresh_key();
    let call = tokio::spawn(one.posting("/pay", &key, "{}").send());
    site.upstream.begun(1).await;
    assert_problem(&other.post("/pay", &key, "{}").await, 409, "in-progress", Retry::After);
    assert_problem(&other.post("/pay", &key, "other").await, 409, "key-reused", Retry::No);
    let mut waiting =
        tokio::spawn(other.posting("/pay", &key, "{}").header("Prefer", "wait=25").send());
    let early = tokio::time::timeout(super::A_MOMENT, &mut waiting).await;
    assert!(early.is_err(), "it waits: {early:?}");
    site.upstream.let_go();
    let first = call.await.expect("no panic");
    assert_executed(&first, 201);
    assert_replayed(&waiting.await.expect("no panic"), &first);
    assert_eq!(site.upstream.count_of(&key), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn flushing_redis_in_mid_burst_costs_no_second_execution() {
    let Some(mut site) = Tiers::MySqlRedis.site().await else { return };
    // Its own: the shared one is not ours to flush.
    let redis = Redis::start();
    site.fast = redis.url();
    let gateways = two(&site, "wait = '30s'\nwait_max = '30s'").await;
    site.upstream.on("/pay", Reply::new(201).body("paid").held());
    let key = fresh_key();
    let mut calls = burst(&gateways, &key, 20);
    site.upstream.begun(1).await;
    redis.flush();
    calls.extend(burst(&gateways, &key, 20));
    redis.flush();
    site.upstream.let_go();
    one_answer(calls).await;
    redis.flush();
    for gateway in &gateways {
        let retry = gateway.post("/pay", &key, "{}").await;
        assert_eq!(retry.header("Idempotency-Status"), Some("replayed"), "{retry:?}");
    }
    assert_eq!(site.upstream.count_of(&key), 1);
}

/// Where a call may be taken over after its lease, one that lives is not, however long it takes.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_call_keeps_its_lease() {
    let Some(site) = Tiers::MySqlRedis.site().await else { return };
    let [one, other] = two(&site, "when_unknown = 'retry'\nlease = '1s'").await;
    site.upstream.on("/pay", Reply::new(201).slow(Duration::from_secs(4)));
    let key = fresh_key();
    let call = tokio::spawn(one.posting("/pay", &key, "{}").send());
    site.upstream.begun(1).await;
    while !call.is_finished() {
        let duplicate = other.post("/pay", &key, "{}").await;
        // The last one may come just behind its end.
        if duplicate.status != 201 {
            assert_problem(&duplicate, 409, "in-progress", Retry::After);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_executed(&call.await.expect("no panic"), 201);
    assert_eq!(site.upstream.count_of(&key), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn gateways_with_databases_of_their_own_share_nothing_but_the_redis() {
    let Some(site) = Tiers::MySqlRedis.site().await else { return };
    let Some(another) = Tiers::MySqlRedis.site().await else { return };
    let (one, other) = (site.gateway(&payments("")).await, another.gateway(&payments("")).await);
    let key = fresh_key();
    for (site, gateway, body) in [(&site, &one, "one's"), (&another, &other, "the other's")] {
        site.upstream.on("/pay", Reply::new(201).body(body));
        let first = gateway.post("/pay", &key, "{}").await;
        assert_executed(&first, 201);
        assert_eq!((first.text().as_str(), site.upstream.count_of(&key)), (body, 1));
    }
    // Each finds its own again: in Redis, since its own memory is new.
    for (site, body) in [(&site, "one's"), (&another, "the other's")] {
        let gateway = site.gateway(&payments("")).await;
        let retry = gateway.post("/pay", &key, "{}").await;
        assert_eq!(retry.header("Idempotency-Status"), Some("replayed"), "{retry:?}");
        assert_eq!(retry.text(), body);
        let replays = gateway.metrics().await;
        assert_eq!(replays.sum("oncegate_replays_total", &[("tier", "fast")]), 1.0);
    }
}
