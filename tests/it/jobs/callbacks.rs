//! Callbacks: each due time once, however many gateways look and whatever the receiver does.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::QUICK;
use crate::bed::Database;
use crate::decision::{SOON, Site, Workflow};
use crate::support::{Upstream, eventually};

fn notices(receiver: &Upstream) -> Vec<Value> {
    let all = receiver.executions();
    all.iter().map(|e| serde_json::from_slice(&e.body).expect("it is JSON")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_and_abandoned_locks_are_called_back_once_per_due_time() {
    let Some(site) = Site::on(Database::Postgres) else { return };
    let receiver = Upstream::start().await;
    let toml = format!("{QUICK}callback_url = '{}/hook'\n", receiver.url());
    let gateway = site.gateway(&toml).await;
    let (failed, silent) = (Workflow::new(), Workflow::new());
    failed.acquire(&gateway, json!({ "tenant": "acme" })).await;
    let ending = json!({ "final_status": "FAILED", "base_retry_seconds": 0, "tenant": "acme",
        "error_message": "no stock" });
    assert_eq!(failed.complete(&gateway, ending).await.status, 200);
    silent.acquire(&gateway, json!({ "ttl_seconds": 1 })).await;
    eventually("both are called back", SOON, async || receiver.count() == 2).await;
    let notices = notices(&receiver);
    let of = |workflow: &Workflow| {
        let mine = |notice: &&Value| notice["idempotency_key"] == json!(workflow.key);
        notices.iter().find(mine).expect("it was called back").clone()
    };
    let notice = of(&failed);
    assert_eq!((&notice["status"], &notice["last_error"]), (&json!("FAILED"), &json!("no stock")));
    assert_eq!((&notice["tenant"], &notice["attempt_count"]), (&json!("acme"), &json!(1)));
    assert!(notice["next_retry_at"].is_string(), "{notice}");
    let notice = of(&silent);
    assert_eq!(notice["status"], "PROCESSING");
    assert!(notice["lock_expires_at"].is_string(), "{notice}");
    // The next attempt has a due time of its own.
    let again = silent.acquire(&gateway, json!({ "ttl_seconds": 1 })).await;
    assert_eq!((&again["decision"], &again["attempt_count"]), (&json!("PROCEED"), &json!(2)));
    eventually("the second time is due", SOON, async || receiver.count() == 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_gateways_and_a_receiver_that_is_down_lose_and_repeat_nothing() {
    const RECORDS: usize = 400;
    let Some(site) = Site::on(Database::MySql) else { return };
    let receiver = Upstream::start().await;
    let toml = format!("{QUICK}callback_url = '{}/hook'\n", receiver.url());
    let (one, other) = (site.gateway(&toml).await, site.gateway(&toml).await);
    receiver.stop().await;
    let mut keys = Vec::new();
    for part in 0..RECORDS / 100 {
        let workflows: Vec<_> = (0..100).map(|_| Workflow::new()).collect();
        let gateway = if part % 2 == 0 { &one } else { &other };
        let fail = workflows.iter().map(async |workflow| {
            workflow.acquire(gateway, json!({})).await;
            let failed = json!({ "final_status": "FAILED", "base_retry_seconds": 0 });
            assert_eq!(workflow.complete(gateway, failed).await.status, 200);
        });
        futures_util::future::join_all(fail).await;
        keys.extend(workflows.into_iter().map(|workflow| workflow.key));
    }
    receiver.start_again().await;
    eventually("every one is called back", SOON * 3, async || receiver.count() >= RECORDS).await;
    let mut counts: HashMap<String, usize> = HashMap::new();
    for notice in notices(&receiver) {
        let key = notice["idempotency_key"].as_str().expect("a key").to_owned();
        *counts.entry(key).or_default() += 1;
    }
    assert!(keys.iter().all(|key| counts.get(key) == Some(&1)), "each once: {counts:?}");
    assert_eq!(counts.len(), RECORDS);
}
