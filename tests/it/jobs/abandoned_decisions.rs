//! Decisions whose owners went silent: nobody waits for them for ever, and no alarm is false.

use serde_json::{Value, json};

use super::{QUICK, seen};
use crate::bed::Database;
use crate::decision::{SOON, Site, Workflow};
use crate::support::{Gateway, Reply, Upstream, eventually};

const SCOPE: &str = "order_process";

async fn is_given_up(gateway: &Gateway, workflow: &Workflow) {
    eventually("it is given up", SOON, async || {
        seen(gateway, SCOPE, &workflow.key).await["state"] == "UNKNOWN"
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_still_holds_is_neither_old_nor_stuck() {
    let Some(site) = Site::on(Database::MySql) else { return };
    let gateway = site.gateway(QUICK).await;
    Workflow::new().acquire(&gateway, json!({})).await;
    eventually("it is counted", SOON, async || {
        gateway.metrics().await.sum("oncegate_processing_records", &[]) == 1.0
    })
    .await;
    let metrics = gateway.metrics().await;
    assert_eq!(metrics.sum("oncegate_stuck_records", &[]), 0.0);
    assert_eq!(metrics.sum("oncegate_oldest_processing_age_seconds", &[]), 0.0);
}

async fn given_up(database: Database) {
    let Some(site) = Site::on(database) else { return };
    let gateway = site.gateway(QUICK).await;
    let (again, late) = (Workflow::new(), Workflow::new());
    let first = again.acquire(&gateway, json!({ "ttl_seconds": 1 })).await;
    let slow = late.acquire(&gateway, json!({ "ttl_seconds": 1 })).await;
    is_given_up(&gateway, &again).await;
    is_given_up(&gateway, &late).await;
    eventually("nothing is open", SOON, async || {
        let metrics = gateway.metrics().await;
        let open = ["processing", "stuck", "unknown"]
            .map(|what| metrics.sum(&format!("oncegate_{what}_records"), &[]));
        open == [0.0; 3]
    })
    .await;
    // The next one runs it, and the old owner is fenced.
    let next = again.acquire(&gateway, json!({})).await;
    assert_eq!((&next["decision"], &next["attempt_count"]), (&json!("PROCEED"), &json!(2)));
    let done = |token: &Value| json!({ "final_status": "DONE", "token": token, "result": 7 });
    assert_eq!(again.complete(&gateway, done(&first["token"])).await.status, 409);
    assert_eq!(again.complete(&gateway, done(&next["token"])).await.status, 200);
    // Where nobody took over, the owner is late and right.
    assert_eq!(late.complete(&gateway, done(&slow["token"])).await.status, 200);
    for workflow in [&again, &late] {
        let after = workflow.acquire(&gateway, json!({})).await;
        assert_eq!(after["decision"], "SKIP_ALREADY_DONE", "{after}");
        assert_eq!(after["result"], 7);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_that_is_given_up_may_be_run_again_or_completed_late() {
    given_up(Database::MySql).await;
    given_up(Database::Postgres).await;
    given_up(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_asks_for_again_is_deleted_like_a_finished_one() {
    let Some(site) = Site::on(Database::Postgres) else { return };
    let toml = format!("{QUICK}[decision]\nttl = '2s'\n[janitor]\ninterval = '100ms'\n");
    let gateway = site.gateway(&toml).await;
    let workflow = Workflow::new();
    workflow.acquire(&gateway, json!({ "ttl_seconds": 1 })).await;
    is_given_up(&gateway, &workflow).await;
    eventually("it is deleted", SOON, async || {
        seen(&gateway, SCOPE, &workflow.key).await.is_null()
    })
    .await;
    let next = workflow.acquire(&gateway, json!({})).await;
    assert_eq!((&next["decision"], &next["attempt_count"]), (&json!("PROCEED"), &json!(1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_probe_settles_decisions_too() {
    let Some(site) = Site::on(Database::MySql) else { return };
    let upstream = Upstream::start().await;
    let toml = format!("{QUICK}probe_url = '{}/outcome'\n", upstream.url());
    let gateway = site.gateway(&toml).await;
    let done = r#"{"outcome":"succeeded","response":{"status":200,"body":"{\"id\":7}"}}"#;
    upstream.on("/outcome", Reply::new(200).body(done));
    let workflow = Workflow::new();
    workflow.acquire(&gateway, json!({ "ttl_seconds": 1 })).await;
    eventually("it is settled", SOON, async || {
        seen(&gateway, SCOPE, &workflow.key).await["state"] == "SUCCEEDED"
    })
    .await;
    let after = workflow.acquire(&gateway, json!({})).await;
    assert_eq!(after["decision"], "SKIP_ALREADY_DONE");
    assert_eq!(after["result"], json!({ "id": 7 }));
    upstream.on("/outcome", Reply::new(200).body(r#"{"outcome":"failed"}"#));
    let workflow = Workflow::new();
    workflow.acquire(&gateway, json!({ "ttl_seconds": 1 })).await;
    eventually("it is settled", SOON, async || {
        seen(&gateway, SCOPE, &workflow.key).await["state"] == "FAILED"
    })
    .await;
    let next = workflow.acquire(&gateway, json!({})).await;
    assert_eq!((&next["decision"], &next["attempt_count"]), (&json!("PROCEED"), &json!(2)));
    assert_eq!(upstream.count(), 2, "each was asked about once");
}
