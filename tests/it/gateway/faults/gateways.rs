//! Gateways killed, stopped and told to end, in mid-call and under load.

use std::time::Duration;

use super::super::{
    Retry, SOON, Tiers, assert_executed, assert_problem, assert_replayed, fresh_key, payments,
};
use super::load::{Load, judge};
use crate::support::{Behaviour, Gateway, Reply, eventually};

const CLIENTS: usize = 16;

/// Asks until it is told that nobody knows; meanwhile it can only be in progress.
async fn becomes_unknown(gateway: &Gateway, key: &str) {
    eventually("the lease is over and it is held", SOON, async || {
        let retry = gateway.post("/pay", key, "{}").await;
        assert_eq!(retry.status, 409, "{retry:?}");
        retry.header("Idempotency-Status") == Some("outcome-unknown")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_a_killed_gateway_are_held_and_never_run_again() {
    let Some(site) = Tiers::MySqlRedis.site().await else { return };
    let route = payments("lease = '1s'");
    let [one, other] = [site.gateway(&route).await, site.gateway(&route).await];
    site.upstream.on("/pay", Reply::new(201).held());
    let keys: Vec<_> = (0..20).map(|_| fresh_key()).collect();
    let calls: Vec<_> =
        keys.iter().map(|key| tokio::spawn(one.posting("/pay", key, "{}").try_send())).collect();
    site.upstream.begun(keys.len()).await;
    one.kill();
    site.upstream.let_go();
    for call in calls {
        assert!(call.await.expect("no panic").is_err(), "nobody is left to answer");
    }
    for key in &keys {
        becomes_unknown(&other, key).await;
        assert_eq!(site.upstream.count_of(key), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_two_gateways_is_killed_under_load() {
    let Some(site) = Tiers::MySqlRedis.site().await else { return };
    let route = payments("lease = '1s'");
    let gateways = [site.gateway(&route).await, site.gateway(&route).await];
    site.upstream.on(
        "/pay",
        Behaviour::by(|execution| Reply::numbered(execution).slow(Duration::from_millis(30))),
    );
    let load = Load::begin(&gateways, CLIENTS);
    eventually("it is under load", SOON, async || load.done() >= 100).await;
    gateways[0].kill();
    let before = load.done();
    eventually("the other one carries on", SOON, async || load.done() >= before + 100).await;
    let calls = load.finish().await;
    let (answered, held) = judge(&calls, &site.upstream);
    assert!(answered >= 200, "{answered} answered, {held} held");
    assert!(held <= CLIENTS, "only what ran there is held: {held}");
    // What anybody was told stays true.
    for call in calls.iter().step_by(10) {
        let answer = call.answer.as_ref().expect("it ended");
        let retry = gateways[1].ask("POST", "/pay").key(&call.key).body(&call.key).send().await;
        match answer.status {
            201 => assert_replayed(&retry, answer),
            _ => assert_problem(&retry, 409, "outcome-unknown", Retry::Open),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_stopped_past_its_lease_executes_nothing_twice() {
    let Some(site) = Tiers::MySqlRedis.site().await else { return };
    let route = payments("lease = '1s'");
    let [stalled, other] = [site.gateway(&route).await, site.gateway(&route).await];
    site.upstream.on("/pay", Reply::new(201).body("paid").held());
    let key = fresh_key();
    let call = tokio::spawn(stalled.posting("/pay", &key, "{}").try_send());
    site.upstream.begun(1).await;
    stalled.freeze();
    becomes_unknown(&other, &key).await;
    site.upstream.let_go();
    stalled.thaw();
    let answer = call.await.expect("no panic").expect("it wakes up and answers");
    let retry = other.post("/pay", &key, "{}").await;
    // Held or not, both gateways say the same.
    match answer.status {
        201 => {
            assert_executed(&answer, 201);
            assert_replayed(&retry, &answer);
        }
        _ => assert_problem(&retry, 409, "outcome-unknown", Retry::Open),
    }
    assert_eq!(site.upstream.count_of(&key), 1);
}

/// The operator said that it may run again: the late answer counts for nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_was_taken_over_is_fenced() {
    let Some(site) = Tiers::MySqlRedis.site().await else { return };
    let route = payments("lease = '1s'\nwhen_unknown = 'retry'");
    let [stalled, other] = [site.gateway(&route).await, site.gateway(&route).await];
    let replies = [Reply::new(201).body("late").held(), Reply::new(201).body("in time")];
    site.upstream.on("/pay", Behaviour::each(replies));
    let key = fresh_key();
    let call = tokio::spawn(stalled.posting("/pay", &key, "{}").try_send());
    site.upstream.begun(1).await;
    stalled.freeze();
    let mut second = None;
    eventually("the lease is over and the other one takes it", SOON, async || {
        let retry = other.post("/pay", &key, "{}").await;
        let ran = retry.status == 201;
        second = ran.then_some(retry);
        ran
    })
    .await;
    let second = second.expect("it ran");
    assert_executed(&second, 201);
    assert_eq!(second.text(), "in time");
    site.upstream.let_go();
    stalled.thaw();
    let late = call.await.expect("no panic").expect("it wakes up and answers");
    assert_ne!(late.text(), "late", "an attempt that was taken over has no answer to give");
    for gateway in [&stalled, &other] {
        assert_replayed(&gateway.post("/pay", &key, "{}").await, &second);
    }
    let metrics = stalled.metrics().await;
    let fenced = metrics.sum("oncegate_fenced_writes_total", &[])
        + metrics.sum("oncegate_leases_lost_total", &[]);
    assert!(fenced >= 1.0, "it is counted: {metrics:?}");
    let attempts: Vec<_> =
        site.upstream.executions().iter().map(|execution| execution.attempt()).collect();
    assert_eq!(attempts, [Some(1), Some(2)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_told_to_end_under_load_loses_nothing() {
    let Some(site) = Tiers::MySqlRedis.site().await else { return };
    let route = payments("");
    let gateways = [site.gateway(&route).await, site.gateway(&route).await];
    site.upstream.on(
        "/pay",
        Behaviour::by(|execution| Reply::numbered(execution).slow(Duration::from_millis(30))),
    );
    let load = Load::begin(&gateways, CLIENTS);
    eventually("it is under load", SOON, async || load.done() >= 100).await;
    gateways[0].signal(libc::SIGTERM);
    assert_eq!(gateways[0].exit_code(SOON).await, Some(0), "{}", gateways[0].stderr());
    let before = load.done();
    eventually("the other one carries on", SOON, async || load.done() >= before + 100).await;
    let calls = load.finish().await;
    let (answered, held) = judge(&calls, &site.upstream);
    assert_eq!(held, 0, "every request that was accepted ended");
    assert_eq!((answered, site.upstream.count()), (calls.len(), calls.len()));
}
