//! Gateways that die in mid-call: what becomes of the record.

use serde_json::{Value, json};

use super::{QUICK, payments, seen};
use crate::bed::Database;
use crate::decision::{SOON, Site, fresh_key};
use crate::support::{Behaviour, End, FaultProxy, Gateway, Launch, Reply, Server, Upstream};
use crate::support::{eventually, shared};

/// A gateway killed while the upstream holds its call.
async fn killed_in_mid_call(site: &Site, upstream: &Upstream, key: &str) {
    upstream.on("/pay", Reply::new(201).held());
    let slow = "[reconciler]\ninterval = '1h'\n";
    let first = site.before(&upstream.url(), &(slow.to_owned() + &payments("1s"))).await;
    let call = first.posting("/pay/1", key, "{}");
    let call = tokio::spawn(call.try_send());
    eventually("the call arrives", SOON, async || upstream.count_of(key) == 1).await;
    first.kill();
    drop(call.await);
}

async fn status_of(gateway: &Gateway, key: &str) -> String {
    let answer = gateway.post("/pay/1", key, "{}").await;
    answer.header("Idempotency-Status").unwrap_or_default().to_owned()
}

async fn settled_through_the_probe(database: Database) {
    let Some(site) = Site::on(database) else { return };
    let (upstream, key) = (Upstream::start().await, fresh_key());
    let said = r#"{"outcome":"succeeded","response":{"status":201,"headers":{"X-Charge":"7"},"body":{"id":7}}}"#;
    upstream.on("/outcome", Reply::new(200).header("Content-Type", "application/json").body(said));
    killed_in_mid_call(&site, &upstream, &key).await;
    let toml = format!("{QUICK}probe_url = '{}/outcome'\n{}", upstream.url(), payments("1s"));
    let second = site.before(&upstream.url(), &toml).await;
    let third = site.before(&upstream.url(), &toml).await;
    eventually("it is settled", SOON, async || status_of(&second, &key).await == "replayed").await;
    for gateway in [&second, &third] {
        let answer = gateway.post("/pay/1", &key, "{}").await;
        assert_eq!((answer.status, answer.text().as_str()), (201, r#"{"id":7}"#), "{answer:?}");
        assert_eq!(answer.header("X-Charge"), Some("7"));
        assert_eq!(answer.header("Content-Type"), Some("application/json"));
    }
    let questions: Vec<_> =
        upstream.executions().into_iter().filter(|e| e.target == "/outcome").collect();
    assert_eq!(questions.len(), 1, "two gateways ask once");
    let question: Value = serde_json::from_slice(&questions[0].body).expect("it is JSON");
    assert_eq!(question["key"], json!(key));
    assert_eq!((&question["scope"], &question["attempt"]), (&json!("payment"), &json!(1)));
    assert_eq!(question["state"], "PROCESSING");
    assert_eq!(upstream.count_of(&key), 1, "it ran once");
    let mut settled = 0.0;
    for gateway in [&second, &third] {
        settled +=
            gateway.metrics().await.sum("oncegate_settled_total", &[("outcome", "succeeded")]);
    }
    assert_eq!(settled, 1.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_gateway_was_killed_is_settled_by_another_through_the_probe() {
    settled_through_the_probe(Database::MySql).await;
    settled_through_the_probe(Database::Postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_probe_it_is_held_and_a_probe_that_comes_later_settles_it() {
    let Some(site) = Site::on(Database::MySql) else { return };
    let (upstream, key) = (Upstream::start().await, fresh_key());
    killed_in_mid_call(&site, &upstream, &key).await;
    let second = site.before(&upstream.url(), &(QUICK.to_owned() + &payments("1s"))).await;
    eventually("it is marked as unknown", SOON, async || {
        second.metrics().await.sum("oncegate_settled_total", &[("outcome", "unknown")]) == 1.0
    })
    .await;
    assert_eq!(status_of(&second, &key).await, "outcome-unknown");
    eventually("the gauges tell", SOON, async || {
        let metrics = second.metrics().await;
        metrics.sum("oncegate_unknown_records", &[]) == 1.0
            && metrics.sum("oncegate_tier_up", &[]) == 2.0
    })
    .await;
    // The upstream does not know at first, then says that it failed: a retry may run.
    let replies = [r#"{"outcome":"unknown"}"#, "no JSON", r#"{"outcome":"failed"}"#];
    upstream.on("/outcome", Behaviour::each(replies.map(|said| Reply::new(200).body(said))));
    let toml = format!("{QUICK}probe_url = '{}/outcome'\n{}", upstream.url(), payments("1s"));
    let third = site.before(&upstream.url(), &toml).await;
    eventually("it is settled as failed", SOON, async || {
        third.metrics().await.sum("oncegate_settled_total", &[("outcome", "failed")]) == 1.0
    })
    .await;
    assert_eq!(upstream.count_of(&key), 1, "nothing ran meanwhile");
    upstream.on("/pay", Reply::new(201).body("second"));
    assert_eq!(status_of(&third, &key).await, "executed");
    assert_eq!(upstream.last().attempt(), Some(2), "probing is no attempt");
}

/// How often the upstream was asked what became of a call.
fn probes(upstream: &Upstream) -> usize {
    upstream.executions().iter().filter(|execution| execution.target == "/outcome").count()
}

/// A call that the upstream never answers, before a gateway that probes.
async fn never_answered(site: &Site, upstream: &Upstream, lease: &str, key: &str) -> Gateway {
    upstream.on("/pay", Reply::no_answer(End::Hang));
    let toml = format!(
        "{QUICK}probe_url = '{}/outcome'\n{}timeout = '300ms'\n",
        upstream.url(),
        payments(lease)
    );
    let gateway = site.before(&upstream.url(), &toml).await;
    assert_eq!(status_of(&gateway, key).await, "upstream-timeout");
    gateway
}

#[tokio::test(flavor = "multi_thread")]
async fn a_probe_that_knows_nothing_changes_nothing() {
    let Some(site) = Site::on(Database::MySql) else { return };
    let (upstream, key) = (Upstream::start().await, fresh_key());
    upstream.on("/outcome", Reply::new(200).body(r#"{"outcome":"unknown"}"#).held());
    let gateway = never_answered(&site, &upstream, "1s", &key).await;
    let before = seen(&gateway, "payment", &key).await;
    assert_eq!(before["state"], "UNKNOWN", "{before}");
    assert_eq!(before["last_error"], "the API did not answer within 300ms");
    eventually("it is asked about", SOON, async || probes(&upstream) == 1).await;
    assert_eq!(status_of(&gateway, &key).await, "outcome-unknown", "while it is asked about");
    assert_eq!(seen(&gateway, "payment", &key).await, before);
    upstream.let_go();
    eventually("it is asked about again", SOON, async || probes(&upstream) >= 3).await;
    assert_eq!(seen(&gateway, "payment", &key).await, before);
    upstream.on("/outcome", Reply::new(200).body(r#"{"outcome":"failed"}"#));
    eventually("it is settled", SOON, async || {
        seen(&gateway, "payment", &key).await["state"] == "FAILED"
    })
    .await;
    assert_eq!(upstream.count_of(&key), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_outcome_is_probed_no_later_than_a_silent_call_is_settled() {
    let Some(site) = Site::on(Database::Sqlite) else { return };
    let (upstream, key) = (Upstream::start().await, fresh_key());
    upstream.on("/outcome", Reply::new(200).body(r#"{"outcome":"succeeded"}"#));
    let gateway = never_answered(&site, &upstream, "1h", &key).await;
    eventually("it is settled", SOON, async || {
        seen(&gateway, "payment", &key).await["state"] == "SUCCEEDED"
    })
    .await;
}

/// One gateway alone loses the database, for longer than it takes the others to give up on its call.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_comes_after_others_gave_up_on_it_still_counts() {
    let Some(site) = Site::on(Database::MySql) else { return };
    let (upstream, key) = (Upstream::start().await, fresh_key());
    upstream.on("/pay", Reply::new(201).body("paid").held());
    upstream.on("/outcome", Reply::new(200).body(r#"{"outcome":"unknown"}"#));
    let proxy = FaultProxy::start(shared::mysql().addr()).await;
    let without_redis = |durable: &str, toml: String| {
        let launch = Launch::serve(crate::decision::PROGRAM).flag("--upstream", &upstream.url());
        launch.flag("--durable", durable).flag("--fast", "none").config(&toml).listening()
    };
    let alone = format!("[reconciler]\ninterval = '1h'\n{}", payments("1s"));
    let cut_off = without_redis(&proxy.reroute(&site.durable.url), alone).await;
    let quick = format!("{QUICK}probe_url = '{}/outcome'\n{}", upstream.url(), payments("1s"));
    let other = without_redis(&site.durable.url, quick).await;
    let call = tokio::spawn(cut_off.posting("/pay/1", &key, "{}").send());
    eventually("the call arrives", SOON, async || upstream.count_of(&key) == 1).await;
    proxy.cut();
    eventually("it is asked about in vain", SOON, async || probes(&upstream) >= 2).await;
    assert_eq!(status_of(&other, &key).await, "outcome-unknown");
    upstream.let_go();
    proxy.heal();
    let first = call.await.expect("no panic");
    assert_eq!((first.status, first.text().as_str()), (201, "paid"), "{first:?}");
    let retry = other.post("/pay/1", &key, "{}").await;
    assert_eq!(retry.header("Idempotency-Status"), Some("replayed"), "{retry:?}");
    assert_eq!((retry.text().as_str(), upstream.count_of(&key)), ("paid", 1));
}
