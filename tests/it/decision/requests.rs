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
    let own = format!("http://{}", gateway.admin());
    assert_eq!(ask("text/plain", "{}".into()).header("Origin", &own).send().await.status, 415);
    assert_eq!(ask("application/json", "{".into()).send().await.status, 400);
    let long = json!({ "scope": "s", "result": "x".repeat(2 << 20) }).to_string();
    assert_eq!(ask("application/json", long).send().await.status, 413);
}

/// As curl and workflow engines send it when nobody told them otherwise.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_of_no_browser_is_json_whatever_its_content_type_says() {
    let site = Site::on(Database::Sqlite).expect("it needs no server");
    let gateway = site.gateway("").await;
    let key = Workflow::new().key;
    let body = json!({
        "scope": "s", "idempotency_key": key, "ttl_seconds": "", "final_status": "FAILED",
        "attempt_count": "", "error_message": { "code": 7, "text": "x".repeat(5000) },
    });
    let ask = |path: &str| Ask::new(gateway.admin(), "POST", path).body(body.to_string());
    let form = "application/x-www-form-urlencoded";
    let acquired = ask("/acquire").header("Content-Type", form).send().await;
    assert_eq!(acquired.status, 200, "{}", acquired.text());
    assert_eq!(acquired.json()["decision"], "PROCEED");
    let completed = ask("/complete").send().await;
    assert_eq!(completed.status, 200, "{}", completed.text());
    let record = format!("/api/record?scope=s&key={key}");
    let record = Ask::new(gateway.admin(), "GET", &record).send().await.json();
    let error = record["last_error"].as_str().expect("it is kept");
    assert!(error.starts_with(r#"{"code":7,"text":"xxx"#), "{error}");
    assert_eq!(error.len(), 4000);
}

#[tokio::test(flavor = "multi_thread")]
async fn completing_what_was_never_acquired_is_not_found() {
    let site = Site::on(Database::Sqlite).expect("it needs no server");
    let gateway = site.gateway("").await;
    let answer = Workflow::new().complete(&gateway, json!({ "final_status": "DONE" })).await;
    assert_eq!(answer.status, 404, "{}", answer.text());
    assert_eq!(answer.json()["code"], "not-found");
}
