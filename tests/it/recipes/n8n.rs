//! n8n.toml: decisions for workflows, with retries, recovery and nothing kept in the workflow.

use serde_json::{Value, json};

use super::{Recipe, member, seconds};
use crate::decision::fresh_key;
use crate::gateway::{SOON, Site, on_both_pairs};
use crate::sql::Sql;
use crate::support::{Answer, Ask, Gateway, Upstream, eventually};

const TOKEN: &str = "Bearer change-this-token";

on_both_pairs!(
    the_four_decisions,
    one_of_many_proceeds,
    scopes_and_keys_have_their_lengths,
    the_payload_may_be_named_and_must_not_change,
    attempts_and_locks_have_defaults,
    a_lock_that_ran_out_is_given_to_the_next_one,
    attempts_end_at_their_maximum,
    pauses_double_up_to_an_hour,
    errors_are_kept_up_to_4000_characters,
    what_is_done_stays_done,
    due_records_are_called_back,
    without_a_callback_nothing_is_called,
    health_is_told_to_anybody,
    records_are_listed_and_deleted,
);

async fn ask(at: &Gateway, method: &str, path: &str, body: Option<Value>) -> Answer {
    let ask = Ask::new(at.admin(), method, path).header("Authorization", TOKEN);
    match body {
        Some(body) => {
            ask.header("Content-Type", "application/json").body(body.to_string()).send().await
        }
        None => ask.send().await,
    }
}

/// One business id of one workflow.
struct Order(String);

impl Order {
    fn new() -> Self {
        Self(format!("order-{}", fresh_key()))
    }

    fn body(&self, more: Value) -> Value {
        let mut body = json!({ "scope": "order_process", "idempotency_key": self.0 });
        body.as_object_mut().expect("members").extend(more.as_object().expect("members").clone());
        body
    }

    async fn acquire(&self, at: &Gateway, more: Value) -> Value {
        let answer = ask(at, "POST", "/acquire", Some(self.body(more))).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }

    async fn complete(&self, at: &Gateway, more: Value) -> Value {
        let answer = ask(at, "POST", "/complete", Some(self.body(more))).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }

    async fn record(&self, at: &Gateway) -> Value {
        let path = format!("/api/record?scope=order_process&key={}", self.0);
        member(&ask(at, "GET", &path, None).await.json(), "record")
    }
}

async fn service(site: &Site) -> Gateway {
    // Nobody listens where the recipe calls back.
    recipe("http://127.0.0.1:9/").gateway(site).await
}

fn recipe(callback: &str) -> Recipe {
    Recipe::read("n8n").with("http://n8n:5678/webhook/oncegate-due", callback)
}

async fn the_four_decisions(site: Site) {
    let gateway = service(&site).await;
    let order = Order::new();
    let first = order.acquire(&gateway, json!({})).await;
    assert_eq!((&first["decision"], &first["attempt_count"]), (&json!("PROCEED"), &json!(1)));
    assert!(first["lock_expires_at"].is_string(), "{first}");
    assert_eq!(order.acquire(&gateway, json!({})).await["decision"], "RETRY_LATER");
    let done = order.complete(&gateway, json!({ "final_status": "DONE" })).await;
    assert_eq!(done, json!({ "ok": true, "status": "DONE" }));
    assert_eq!(order.acquire(&gateway, json!({})).await["decision"], "SKIP_ALREADY_DONE");

    let failing = Order::new();
    failing.acquire(&gateway, json!({})).await;
    // As a workflow's template fills it in: numbers as text.
    let failed = json!({ "final_status": "FAILED", "error_message": "smtp", "attempt_count": "1" });
    assert_eq!(failing.complete(&gateway, failed).await, json!({ "ok": true, "status": "FAILED" }));
    assert_eq!(failing.acquire(&gateway, json!({})).await["decision"], "RETRY_LATER");

    let conflict = Order::new();
    conflict.acquire(&gateway, json!({})).await;
    let ended = conflict.complete(&gateway, json!({ "final_status": "CONFLICT" })).await;
    assert_eq!(ended, json!({ "ok": true, "status": "CONFLICT" }));
    assert_eq!(conflict.acquire(&gateway, json!({})).await["decision"], "CONFLICT");
}

async fn one_of_many_proceeds(site: Site) {
    let gateways = [service(&site).await, service(&site).await];
    let order = Order::new();
    let asks = gateways.iter().cycle().take(20).map(|gateway| order.acquire(gateway, json!({})));
    let answers = futures_util::future::join_all(asks).await;
    let count = |word| answers.iter().filter(|answer| answer["decision"] == word).count();
    assert_eq!((count("PROCEED"), count("RETRY_LATER")), (1, 19));
}

async fn scopes_and_keys_have_their_lengths(site: Site) {
    let gateway = service(&site).await;
    let acquire = async |scope: &str, key: &str| {
        let body = json!({ "scope": scope, "idempotency_key": key });
        ask(&gateway, "POST", "/acquire", Some(body)).await
    };
    let (scope, key) = ("s".repeat(128), format!("{}{}", fresh_key(), "k".repeat(219)));
    assert_eq!(key.len(), 255);
    assert_eq!(acquire(&scope, &key).await.json()["decision"], "PROCEED");
    // The same key in another scope is another business.
    assert_eq!(acquire("other", &key).await.json()["decision"], "PROCEED");
    assert_eq!(acquire("other", &key).await.json()["decision"], "RETRY_LATER");
    for (scope, key) in
        [(&*format!("{scope}s"), "k"), ("s", &*format!("{key}k")), ("", "k"), ("s", "")]
    {
        assert_eq!(acquire(scope, key).await.status, 400);
    }
}

async fn the_payload_may_be_named_and_must_not_change(site: Site) {
    let gateway = service(&site).await;
    let order = Order::new();
    let payload = |hash: &str| json!({ "payload_fingerprint": hash });
    assert_eq!(order.acquire(&gateway, payload("aa11")).await["decision"], "PROCEED");
    assert_eq!(order.acquire(&gateway, payload("bb22")).await["decision"], "CONFLICT");
    assert_eq!(order.acquire(&gateway, payload("aa11")).await["decision"], "RETRY_LATER");
    // None, or an empty one, compares nothing.
    assert_eq!(order.acquire(&gateway, payload("")).await["decision"], "RETRY_LATER");
    order.complete(&gateway, json!({ "final_status": "FAILED", "base_retry_seconds": 0 })).await;
    assert_eq!(order.acquire(&gateway, payload("bb22")).await["decision"], "CONFLICT");
    assert_eq!(order.acquire(&gateway, payload("aa11")).await["decision"], "PROCEED");
}

async fn attempts_and_locks_have_defaults(site: Site) {
    let gateway = service(&site).await;
    let order = Order::new();
    let first = order.acquire(&gateway, json!({})).await;
    let began = seconds(&order.record(&gateway).await["updated_at"]);
    assert_eq!((seconds(&first["lock_expires_at"]) - began).round(), 900.0);
    let again = json!({ "final_status": "FAILED", "base_retry_seconds": 0 });
    for attempt in 1..=10 {
        assert_eq!(order.complete(&gateway, again.clone()).await["ok"], true);
        let next = order.acquire(&gateway, json!({})).await;
        let expected = if attempt < 10 { "PROCEED" } else { "RETRY_LATER" };
        assert_eq!(next["decision"], expected, "after attempt {attempt}");
    }
}

async fn a_lock_that_ran_out_is_given_to_the_next_one(site: Site) {
    let gateway = service(&site).await;
    let order = Order::new();
    order.acquire(&gateway, json!({ "ttl_seconds": 1 })).await;
    let mut next = json!(null);
    eventually("the lock runs out", SOON, async || {
        next = order.acquire(&gateway, json!({})).await;
        next["decision"] == "PROCEED"
    })
    .await;
    assert_eq!(next["attempt_count"], 2);
}

async fn attempts_end_at_their_maximum(site: Site) {
    let gateway = service(&site).await;
    let order = Order::new();
    let three = json!({ "max_attempts": 3 });
    for attempt in 1..=3 {
        let next = order.acquire(&gateway, three.clone()).await;
        assert_eq!(
            (&next["decision"], &next["attempt_count"]),
            (&json!("PROCEED"), &json!(attempt))
        );
        let failed = json!({ "final_status": "FAILED", "base_retry_seconds": 0 });
        order.complete(&gateway, failed).await;
    }
    let over = order.acquire(&gateway, three).await;
    assert_eq!(
        (&over["decision"], &over["reason"]),
        (&json!("RETRY_LATER"), &json!("attempts-used-up"))
    );
}

async fn pauses_double_up_to_an_hour(site: Site) {
    let gateway = service(&site).await;
    let sql = Sql::connect(&site.durable.url).await;
    let order = Order::new();
    let mut pauses = Vec::new();
    for attempt in 1..=8 {
        let next = order.acquire(&gateway, json!({})).await;
        assert_eq!(
            (&next["decision"], &next["attempt_count"]),
            (&json!("PROCEED"), &json!(attempt))
        );
        order
            .complete(&gateway, json!({ "final_status": "FAILED", "base_retry_seconds": 60 }))
            .await;
        let failed = order.record(&gateway).await;
        let pause = seconds(&failed["next_retry_at"]) - seconds(&failed["last_error_at"]);
        pauses.push(pause.round());
        assert_eq!(order.acquire(&gateway, json!({})).await["decision"], "RETRY_LATER");
        // The pause passes.
        sql.execute("UPDATE oncegate_records SET due_at = 1 WHERE idem_key = ?", &order.0).await;
    }
    assert_eq!(pauses, [120.0, 240.0, 480.0, 960.0, 1920.0, 3600.0, 3600.0, 3600.0]);
}

async fn errors_are_kept_up_to_4000_characters(site: Site) {
    let gateway = service(&site).await;
    let order = Order::new();
    order.acquire(&gateway, json!({})).await;
    let error = "ü".repeat(4001);
    order.complete(&gateway, json!({ "final_status": "FAILED", "error_message": error })).await;
    let record = order.record(&gateway).await;
    assert_eq!(record["last_error"].as_str().map(|text| text.chars().count()), Some(4000));
    assert!(record["last_error_at"].is_string(), "{record}");
}

/// Neither a restart nor a year changes that.
async fn what_is_done_stays_done(site: Site) {
    let gateway = service(&site).await;
    let order = Order::new();
    order.acquire(&gateway, json!({})).await;
    order.complete(&gateway, json!({ "final_status": "DONE", "result": { "mail": 7 } })).await;
    let record = order.record(&gateway).await;
    let kept = seconds(&record["expires_at"]) - seconds(&record["updated_at"]);
    assert_eq!(kept.round(), 3650.0 * 86_400.0);
    gateway.kill();
    let restarted = service(&site).await;
    let again = order.acquire(&restarted, json!({})).await;
    assert_eq!(again["decision"], "SKIP_ALREADY_DONE");
    assert_eq!(again["result"], json!({ "mail": 7 }));
}

async fn due_records_are_called_back(site: Site) {
    let workflow = Upstream::start().await;
    let recipe = recipe(&format!("{}/webhook/oncegate-due", workflow.url()));
    let recipe = recipe.with("interval = \"5m\"", "interval = \"100ms\"");
    let gateways = [recipe.gateway(&site).await, recipe.gateway(&site).await];
    let (failed, stuck, done) = (Order::new(), Order::new(), Order::new());
    failed.acquire(&gateways[0], json!({})).await;
    let failure = json!({ "final_status": "FAILED", "base_retry_seconds": 0,
        "error_message": "smtp" });
    failed.complete(&gateways[0], failure).await;
    stuck.acquire(&gateways[0], json!({ "ttl_seconds": 1 })).await;
    done.acquire(&gateways[0], json!({})).await;
    done.complete(&gateways[0], json!({ "final_status": "DONE" })).await;
    let later = Order::new();
    later.acquire(&gateways[0], json!({})).await;
    later.complete(&gateways[0], json!({ "final_status": "FAILED" })).await;
    eventually("what is due is called", SOON, async || workflow.count() >= 2).await;
    let calls: Vec<Value> = workflow
        .executions()
        .iter()
        .map(|call| {
            assert_eq!((call.method.as_str(), &*call.target), ("POST", "/webhook/oncegate-due"));
            serde_json::from_slice(&call.body).expect("it is JSON")
        })
        .collect();
    let of = |order: &Order| calls.iter().find(|call| call["idempotency_key"] == json!(order.0));
    let call = of(&failed).expect("a failure whose time has come");
    assert_eq!((&call["scope"], &call["status"]), (&json!("order_process"), &json!("FAILED")));
    assert_eq!((&call["attempt_count"], &call["last_error"]), (&json!(1), &json!("smtp")));
    assert_eq!(of(&stuck).expect("a lock that ran out")["status"], "PROCESSING");
    assert!(of(&done).is_none() && of(&later).is_none() && calls.len() == 2, "{calls:?}");
    // Whoever is called acquires again, and may proceed.
    for order in [&failed, &stuck] {
        let next = order.acquire(&gateways[1], json!({})).await;
        assert_eq!((&next["decision"], &next["attempt_count"]), (&json!("PROCEED"), &json!(2)));
    }
}

async fn without_a_callback_nothing_is_called(site: Site) {
    let recipe = recipe("").with("interval = \"5m\"", "interval = \"50ms\"");
    let gateway = recipe.gateway(&site).await;
    let order = Order::new();
    order.acquire(&gateway, json!({ "ttl_seconds": 1 })).await;
    let other = Order::new();
    other.acquire(&gateway, json!({ "ttl_seconds": 1 })).await;
    eventually("the locks run out", SOON, async || {
        other.acquire(&gateway, json!({})).await["decision"] == "PROCEED"
    })
    .await;
    // It is on record as it was, for whoever asks next.
    let record = order.record(&gateway).await;
    assert_eq!((&record["state"], &record["attempt"]), (&json!("PROCESSING"), &json!(1)));
    assert_eq!(order.acquire(&gateway, json!({})).await["decision"], "PROCEED");
}

async fn health_is_told_to_anybody(site: Site) {
    let gateway = service(&site).await;
    let health = Ask::new(gateway.admin(), "GET", "/health").send().await;
    assert_eq!(health.status, 200);
    assert_eq!(health.json()["status"], "ok");
    assert_eq!(health.json()["db"], "connected");
    let body = Order::new().body(json!({})).to_string();
    let acquire = Ask::new(gateway.admin(), "POST", "/acquire").body(body);
    let refused = acquire.header("Content-Type", "application/json").send().await;
    assert_eq!(refused.status, 401, "decisions need the token");
}

async fn records_are_listed_and_deleted(site: Site) {
    let gateway = service(&site).await;
    let order = Order::new();
    order.acquire(&gateway, json!({})).await;
    order.complete(&gateway, json!({ "final_status": "DONE" })).await;
    let listed = ask(&gateway, "GET", "/api/records?scope=order_process&limit=20", None).await;
    let record = &listed.json()["records"][0];
    assert_eq!(record["key"], json!(order.0));
    for shown in ["scope", "state", "attempt", "created_at", "updated_at"] {
        assert!(!record[shown].is_null(), "{shown}: {record}");
    }
    let path = format!("/api/record?scope=order_process&key={}", order.0);
    assert_eq!(ask(&gateway, "DELETE", &path, None).await.status, 200);
    let again = order.acquire(&gateway, json!({})).await;
    assert_eq!((&again["decision"], &again["attempt_count"]), (&json!("PROCEED"), &json!(1)));
}
