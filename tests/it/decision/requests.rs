//! What is sent wrongly is answered with what is wrong, and changes nothing.

use serde_json::json;

use super::{Site, Workflow, post};
use crate::bed::Database;
use crate::support::Ask;

#[tokio::test(flavor = "multi_thread")]
async fn mistakes_are_problems_that_name_the_member() {
    let site = Site::on(Database::Sqlite).expect("it needs no server");
    let gateway = site.gateway("").await;
    let key = Workflow::new().key;
    for (path, body, names) in [
        ("/acquire", json!({ "scope": "s" }), "idempotency_key"),
        (
            "/acquire",
            json!({ "scope": "s", "idempotency_key": key, "ttl_seconds": 0 }),
            "ttl_seconds",
        ),
        ("/acquire", json!({ "scope": "", "idempotency_key": key }), "scope"),
        ("/acquire", json!([1]), "object"),
        (
            "/complete",
            json!({ "scope": "s", "idempotency_key": key, "final_status": "done" }),
            "final_status",
        ),
        ("/heartbeat", json!({ "scope": "s", "idempotency_key": key }), "token"),
    ] {
        let answer = post(&gateway, path, &body).await;
        assert_eq!(answer.status, 400, "{}", answer.text());
        assert_eq!(answer.header("Content-Type"), Some("application/problem+json"));
        let detail = answer.json()["detail"].to_string();
        assert!(detail.contains(names), "{detail}");
    }
    let ask = |kind: &str, body: String| {
        Ask::new(gateway.admin(), "POST", "/acquire").header("Content-Type", kind).body(body)
    };
    assert_eq!(ask("text/plain", "{}".into()).send().await.status, 415);
    assert_eq!(ask("application/json", "{".into()).send().await.status, 400);
    let long = json!({ "scope": "s", "result": "x".repeat(2 << 20) }).to_string();
    assert_eq!(ask("application/json", long).send().await.status, 413);
}

#[tokio::test(flavor = "multi_thread")]
async fn completing_what_was_never_acquired_is_not_found() {
    let site = Site::on(Database::Sqlite).expect("it needs no server");
    let gateway = site.gateway("").await;
    let answer = Workflow::new().complete(&gateway, json!({ "final_status": "DONE" })).await;
    assert_eq!(answer.status, 404, "{}", answer.text());
    assert_eq!(answer.json()["code"], "not-found");
}
