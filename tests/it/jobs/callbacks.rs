//! Callbacks: each due time once, however many gateways look and whatever the receiver does.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::QUICK;
use crate::bed::Database;
use crate::decision::{SOON, Site, Workflow};
use crate::sql::Sql;
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

/// Ten thousand copies of a record that is due.
const COPIES: &str = "INSERT INTO oncegate_records \
    (id, tenant, scope, idem_key, state, attempt, token, due_at, expires_at, last_error, \
     last_error_at, decision, attend_at, created_at, updated_at) \
    WITH digits (d) AS (VALUES ROW(0), ROW(1), ROW(2), ROW(3), ROW(4), ROW(5), ROW(6), ROW(7), ROW(8), ROW(9)) \
    SELECT UNHEX(LEFT(SHA2(CONCAT(HEX(r.id), a.d, b.d, c.d, e.d), 256), 32)), r.tenant, r.scope, \
     CONCAT(r.idem_key, ':', a.d, b.d, c.d, e.d), r.state, r.attempt, \
     UNHEX(LEFT(SHA2(CONCAT(HEX(r.token), a.d, b.d, c.d, e.d), 256), 32)), r.due_at, r.expires_at, r.last_error, \
     r.last_error_at, r.decision, r.due_at, r.created_at, r.updated_at \
    FROM digits a, digits b, digits c, digits e, oncegate_records r WHERE r.idem_key = ?";
const STILL_DUE: &str =
    "UPDATE oncegate_records SET attempt = attempt WHERE attend_at IS NOT NULL AND scope = ?";

#[tokio::test(flavor = "multi_thread")]
async fn two_gateways_and_a_receiver_that_is_down_lose_and_repeat_nothing() {
    const RECORDS: usize = 10_001;
    let Some(site) = Site::on(Database::MySql) else { return };
    let receiver = Upstream::start().await;
    let toml = format!("{QUICK}callback_url = '{}/hook'\n", receiver.url());
    let (one, other) = (site.gateway(&toml).await, site.gateway(&toml).await);
    receiver.stop().await;
    let workflow = Workflow::new();
    workflow.acquire(&one, json!({})).await;
    let failed = json!({ "final_status": "FAILED", "base_retry_seconds": 0 });
    assert_eq!(workflow.complete(&other, failed).await.status, 200);
    let sql = Sql::connect(&site.durable.url).await;
    assert_eq!(sql.execute(COPIES, &workflow.key).await, 10_000);
    eventually("somebody was called in vain", SOON, async || {
        [&one, &other].iter().any(|gateway| gateway.stderr().contains("does not take them"))
    })
    .await;
    receiver.start_again().await;
    // Ten thousand take their time on a busy machine.
    eventually("each is called", 4 * SOON, async || receiver.count() >= RECORDS).await;
    eventually("nothing is due any more", SOON, async || {
        sql.execute(STILL_DUE, "order_process").await == 0
    })
    .await;
    let mut counts: HashMap<String, usize> = HashMap::new();
    for notice in notices(&receiver) {
        let key = notice["idempotency_key"].as_str().expect("a key").to_owned();
        *counts.entry(key).or_default() += 1;
    }
    counts.retain(|_, times| *times == 1);
    assert_eq!((counts.len(), receiver.count()), (RECORDS, RECORDS), "each once");
}
