//! Gateways that die in mid-call: what becomes of the record.

use serde_json::{Value, json};

use super::{QUICK, payments};
use crate::bed::Database;
use crate::decision::{SOON, Site, fresh_key};
use crate::support::{Behaviour, Gateway, Reply, Upstream, eventually};

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
