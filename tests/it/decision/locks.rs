//! Locks: they run out, are taken over, extended, and ended at any instance.

use serde_json::json;

use super::{SOON, Site, Workflow, assert_fenced, on_three_pairs};
use crate::bed::Database;
use crate::support::eventually;

on_three_pairs!(
    a_lock_that_ran_out_is_taken_over_and_its_old_owner_fenced,
    a_heartbeat_keeps_the_lock,
);

async fn a_lock_that_ran_out_is_taken_over_and_its_old_owner_fenced(site: Site) {
    let gateway = site.gateway("").await;
    let workflow = Workflow::new();
    let first = workflow.acquire(&gateway, json!({ "ttl_seconds": 1 })).await;
    let mut second = json!(null);
    eventually("the lock runs out", SOON, async || {
        second = workflow.acquire(&gateway, json!({})).await;
        second["decision"] == "PROCEED"
    })
    .await;
    assert_eq!(second["attempt_count"], 2);
    for old in [json!({ "token": first["token"] }), json!({ "attempt_count": 1 })] {
        let mut done = json!({ "final_status": "DONE", "result": "stale" });
        done.as_object_mut().expect("members").extend(old.as_object().expect("members").clone());
        assert_fenced(&workflow.complete(&gateway, done).await);
    }
    assert_fenced(&workflow.heartbeat(&gateway, json!({ "token": first["token"] })).await);
    let done = json!({ "final_status": "DONE", "token": second["token"], "result": "fresh" });
    assert_eq!(workflow.complete(&gateway, done).await.status, 200);
    let after = workflow.acquire(&gateway, json!({})).await;
    assert_eq!(after["result"], "fresh");
    assert_eq!(after["attempt_count"], 2);
    assert!(gateway.metrics().await.sum("oncegate_fenced_writes_total", &[]) >= 2.0);
}

async fn a_heartbeat_keeps_the_lock(site: Site) {
    let gateway = site.gateway("").await;
    let workflow = Workflow::new();
    let first = workflow.acquire(&gateway, json!({ "ttl_seconds": 2 })).await;
    let beat = json!({ "token": first["token"], "ttl_seconds": 600 });
    let answer = workflow.heartbeat(&gateway, beat).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let until = answer.json()["lock_expires_at"].as_str().map(str::to_owned);
    assert!(until.as_deref() > first["lock_expires_at"].as_str(), "{until:?}");
    // Another lock of the first length, begun later, has run out: so would this one have.
    let other = Workflow::new();
    other.acquire(&gateway, json!({ "ttl_seconds": 2 })).await;
    eventually("the other lock runs out", SOON, async || {
        other.acquire(&gateway, json!({})).await["decision"] == "PROCEED"
    })
    .await;
    assert_eq!(workflow.acquire(&gateway, json!({})).await["decision"], "RETRY_LATER");
    let missing = Workflow::new().heartbeat(&gateway, json!({ "token": first["token"] })).await;
    assert_eq!(missing.status, 404);
}

async fn completed_elsewhere(database: Database) {
    let Some(site) = Site::on(database) else { return };
    let (one, other) = (site.gateway("").await, site.gateway("").await);
    let workflow = Workflow::new();
    let first = workflow.acquire(&one, json!({})).await;
    assert_eq!(workflow.acquire(&other, json!({})).await["decision"], "RETRY_LATER");
    let done = json!({ "final_status": "DONE", "token": first["token"], "result": [1, 2] });
    assert_eq!(workflow.complete(&other, done).await.status, 200);
    for gateway in [&one, &other] {
        let after = workflow.acquire(gateway, json!({})).await;
        assert_eq!(
            (&after["decision"], &after["result"]),
            (&json!("SKIP_ALREADY_DONE"), &json!([1, 2]))
        );
    }
    // A failure elsewhere frees it everywhere.
    let workflow = Workflow::new();
    workflow.acquire(&one, json!({})).await;
    let failed = json!({ "final_status": "FAILED", "base_retry_seconds": 0 });
    assert_eq!(workflow.complete(&other, failed).await.status, 200);
    assert_eq!(workflow.acquire(&one, json!({})).await["decision"], "PROCEED");
}

/// Inserts of records wait for this gate, which is shut, when they have written their row.
async fn shut_a_gate(
    pool: &sqlx::MySqlPool,
    gate: &str,
) -> sqlx::pool::PoolConnection<sqlx::MySql> {
    let mut keeper = pool.acquire().await.expect("it connects");
    let shut = format!("DO GET_LOCK('{gate}', 0)");
    let trigger = format!(
        "CREATE TRIGGER held_back AFTER INSERT ON oncegate_records FOR EACH ROW \
         DO GET_LOCK('{gate}', 30), RELEASE_LOCK('{gate}')"
    );
    for statement in [shut, trigger] {
        let statement = sqlx::raw_sql(sqlx::AssertSqlSafe(statement));
        statement.execute(&mut *keeper).await.expect("the statement runs");
    }
    keeper
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_was_stopped_hands_out_no_attempt_of_another() {
    let Some(site) = Site::on(Database::MySql) else { return };
    let (stopped, other) = (site.gateway("").await, site.gateway("").await);
    let workflow = Workflow::new();
    let pool = sqlx::MySqlPool::connect(&site.durable.url).await.expect("it connects");
    let gate = format!("gate of {}", uuid::Uuid::new_v4().simple());
    let mut keeper = shut_a_gate(&pool, &gate).await;
    let first = Workflow { key: workflow.key.clone() };
    let (answer, ()) = tokio::join!(first.acquire(&stopped, json!({ "ttl_seconds": 1 })), async {
        let waiting = "SELECT COUNT(*) FROM information_schema.processlist \
             WHERE state = 'User lock' AND db = DATABASE()";
        eventually("its row is being written", SOON, async || {
            sqlx::query_scalar::<_, i64>(waiting).fetch_one(&pool).await.expect("answered") == 1
        })
        .await;
        stopped.freeze();
        let open = format!("DO RELEASE_LOCK('{gate}')");
        let open = sqlx::raw_sql(sqlx::AssertSqlSafe(open)).execute(&mut *keeper).await;
        open.expect("the gate opens");
        let mut second = json!(null);
        eventually("the lock runs out", SOON, async || {
            second = workflow.acquire(&other, json!({})).await;
            second["decision"] == "PROCEED"
        })
        .await;
        assert_eq!(second["attempt_count"], 2);
        let done = json!({ "final_status": "DONE", "token": second["token"], "result": "theirs" });
        assert_eq!(workflow.complete(&other, done).await.status, 200);
        stopped.thaw();
    });
    assert_eq!(answer["decision"], "SKIP_ALREADY_DONE", "{answer}");
    assert_eq!((&answer["result"], &answer["token"]), (&json!("theirs"), &json!(null)));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acquired_at_one_gateway_is_completed_at_another() {
    completed_elsewhere(Database::MySql).await;
    completed_elsewhere(Database::Postgres).await;
}
