//! The walk of a workflow: acquire, run, complete, and what the next ones are told.

use serde_json::{Value, json};

use super::{SOON, Site, Workflow, assert_fenced, on_three_pairs};
use crate::support::eventually;

on_three_pairs!(
    done_once_it_is_skipped_with_its_result,
    another_payload_is_a_conflict,
    a_failure_is_retried_when_its_time_has_come_until_attempts_are_used_up,
    of_200_concurrent_acquires_one_proceeds,
    a_conflict_stays_one,
);

async fn done_once_it_is_skipped_with_its_result(site: Site) {
    let gateway = site.gateway("").await;
    let workflow = Workflow::new();
    let first = workflow.acquire(&gateway, json!({})).await;
    assert_eq!(first["decision"], "PROCEED", "{first}");
    assert_eq!(first["attempt_count"], 1);
    assert!(first["lock_expires_at"].as_str().is_some_and(|time| time.ends_with('Z')), "{first}");
    assert!(first["token"].is_string());
    let during = workflow.acquire(&gateway, json!({})).await;
    assert_eq!(during["decision"], "RETRY_LATER", "{during}");
    assert_eq!(during["lock_expires_at"], first["lock_expires_at"]);
    assert_eq!(during["token"], Value::Null, "a token is its owner's");
    // As the first users did: no token, and a number that a template made text of.
    let done = json!({ "final_status": "DONE", "attempt_count": "1",
        "result": { "order": 7 }, "result_ref": "orders/7" });
    let answer = workflow.complete(&gateway, done.clone()).await;
    assert_eq!(answer.json(), json!({ "ok": true, "status": "DONE" }));
    let after = workflow.acquire(&gateway, json!({})).await;
    assert_eq!(after["decision"], "SKIP_ALREADY_DONE", "{after}");
    assert_eq!(after["result"], json!({ "order": 7 }));
    assert_eq!(after["result_ref"], "orders/7");
    assert_eq!(after["attempt_count"], 1);
    assert_eq!(workflow.complete(&gateway, done).await.status, 200, "saying it again is fine");
    assert_fenced(&workflow.complete(&gateway, json!({ "final_status": "FAILED" })).await);
}

async fn another_payload_is_a_conflict(site: Site) {
    let gateway = site.gateway("").await;
    let workflow = Workflow::new();
    let one = json!({ "payload_fingerprint": "aaa" });
    assert_eq!(workflow.acquire(&gateway, one.clone()).await["decision"], "PROCEED");
    let other = workflow.acquire(&gateway, json!({ "payload_fingerprint": "bbb" })).await;
    assert_eq!(other["decision"], "CONFLICT", "{other}");
    assert_eq!(workflow.acquire(&gateway, one).await["decision"], "RETRY_LATER");
    // Another tenant's key is another key.
    let other = json!({ "payload_fingerprint": "bbb", "tenant": "acme" });
    assert_eq!(workflow.acquire(&gateway, other).await["decision"], "PROCEED");
}

async fn a_failure_is_retried_when_its_time_has_come_until_attempts_are_used_up(site: Site) {
    let gateway = site.gateway("").await;
    let workflow = Workflow::new();
    let two = json!({ "max_attempts": 2 });
    assert_eq!(workflow.acquire(&gateway, two.clone()).await["decision"], "PROCEED");
    let failed = json!({ "final_status": "FAILED", "base_retry_seconds": 1, "attempt_count": 1,
        "error_message": "ä".repeat(5000) });
    assert_eq!(workflow.complete(&gateway, failed).await.status, 200);
    let early = workflow.acquire(&gateway, two.clone()).await;
    assert_eq!((&early["decision"], &early["reason"]), (&json!("RETRY_LATER"), &json!("not-due")));
    assert!(early["next_retry_at"].is_string(), "{early}");
    eventually("the retry is due", SOON, async || {
        let again = workflow.acquire(&gateway, two.clone()).await;
        assert!(again["decision"] == "PROCEED" || again["decision"] == "RETRY_LATER", "{again}");
        again["decision"] == "PROCEED" && again["attempt_count"] == 2
    })
    .await;
    assert_fenced(
        &workflow.complete(&gateway, json!({ "final_status": "DONE", "attempt_count": 1 })).await,
    );
    let failed = json!({ "final_status": "FAILED", "base_retry_seconds": 0 });
    assert_eq!(workflow.complete(&gateway, failed).await.status, 200);
    let last = workflow.acquire(&gateway, two).await;
    assert_eq!(last["decision"], "RETRY_LATER", "{last}");
    assert_eq!(last["reason"], "attempts-used-up");
    let more = workflow.acquire(&gateway, json!({ "max_attempts": 3 })).await;
    assert_eq!(more["decision"], "PROCEED", "{more}");
}

async fn of_200_concurrent_acquires_one_proceeds(site: Site) {
    let gateway = site.gateway("").await;
    let workflow = Workflow::new();
    let asking = (0..200).map(|_| workflow.acquire(&gateway, json!({})));
    let said = futures_util::future::join_all(asking).await;
    let count = |decision: &str| said.iter().filter(|said| said["decision"] == decision).count();
    assert_eq!((count("PROCEED"), count("RETRY_LATER")), (1, 199));
}

async fn a_conflict_stays_one(site: Site) {
    let gateway = site.gateway("").await;
    let workflow = Workflow::new();
    let token = workflow.acquire(&gateway, json!({})).await["token"].clone();
    let conflict = json!({ "final_status": "CONFLICT", "error_message": "two", "token": token });
    let answer = workflow.complete(&gateway, conflict).await;
    assert_eq!(answer.json(), json!({ "ok": true, "status": "CONFLICT" }));
    let after = workflow.acquire(&gateway, json!({})).await;
    assert_eq!(after["decision"], "CONFLICT", "{after}");
    assert_eq!(after["reason"], "completed-as-conflict");
}
