//! A line for each request that somebody may ask about later, and the trace it belongs to.

use std::time::Duration;

use serde_json::Value;

use crate::bed::Database;
use crate::support::{Gateway, Launch, Upstream, eventually};

const PROGRAM: &str = env!("CARGO_BIN_EXE_oncegate");
const SOON: Duration = Duration::from_secs(30);
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const ROUTE: &str = "[[routes]]\npath = '/pay/{*rest}'\nmethods = ['POST']\nscope = 'payment'\n";

async fn gateway(upstream: &Upstream, logs: &str) -> Gateway {
    let durable = Database::Sqlite.fresh().expect("SQLite is always there");
    Launch::serve(PROGRAM)
        .flag("--upstream", &upstream.url())
        .flag("--durable", &durable.url)
        .config(&format!("{logs}\n{ROUTE}"))
        .listening()
        .await
}

fn lines(gateway: &Gateway) -> Vec<Value> {
    gateway.stderr().lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Once there are so many.
async fn logged(gateway: &Gateway, count: usize) -> Vec<Value> {
    eventually("the lines are written", SOON, async || lines(gateway).len() >= count).await;
    lines(gateway)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_call_a_retry_and_a_reused_key_are_told_without_the_key() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "[logs]\naccess = 'keyed'").await;
    let parent = format!("00-{TRACE}-00f067aa0ba902b7-01");
    let ask = || gateway.posting("/pay/7?card=secret", "order-7", "{}");
    let ask = || ask().header("traceparent", &parent).header("X-Request-Id", "r-1");
    assert_eq!(ask().send().await.status, 201);
    assert_eq!(ask().send().await.status, 201);
    assert_eq!(gateway.post("/pay/7?card=secret", "order-7", "other").await.status, 409);
    assert_eq!(gateway.get("/untouched").await.status, 201);
    let lines = logged(&gateway, 3).await;
    let [first, retry, reused] = &lines[..] else { panic!("{lines:#?}") };
    for line in [first, retry, reused] {
        assert_eq!((&line["method"], &line["path"]), (&"POST".into(), &"/pay/7".into()), "{line}");
        assert_eq!(
            (&line["route"], &line["client"]),
            (&"/pay/{*rest}".into(), &"127.0.0.1".into())
        );
        assert_eq!((&line["scope"], &line["key_hash"]), (&"payment".into(), &first["key_hash"]));
        assert!(line["duration_ms"].as_f64().is_some_and(|ms| ms > 0.0), "{line}");
        assert!(line["time"].as_str().is_some_and(|time| time.ends_with('Z')), "{line}");
    }
    assert_eq!(first["key_hash"].as_str().map(str::len), Some(12), "{first}");
    assert_eq!((&first["outcome"], &first["attempt"]), (&"executed".into(), &1.into()), "{first}");
    assert!(first["upstream_ms"].is_number(), "{first}");
    assert_eq!((&first["request_id"], &first["trace_id"]), (&"r-1".into(), &TRACE.into()));
    assert_eq!((&retry["outcome"], &retry["tier"]), (&"replayed".into(), &"local".into()));
    assert_eq!((&reused["status"], &reused["outcome"]), (&409.into(), &"mismatch".into()));
    assert_eq!(reused["idempotency_status"], "key-reused");
    let all = gateway.stderr();
    assert!(!all.contains("order-7") && !all.contains("secret"), "{all}");
}

#[tokio::test(flavor = "multi_thread")]
async fn by_default_only_problems_are_told_and_none_is_lost_at_the_end() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    assert_eq!(gateway.post("/pay", "a", "{}").await.status, 201);
    assert_eq!(gateway.post("/pay", "a", "{}").await.status, 201);
    assert_eq!(gateway.post("/pay", "a", "other").await.status, 409);
    gateway.signal(libc::SIGTERM);
    assert_eq!(gateway.exit_code(SOON).await, Some(0));
    let lines = lines(&gateway);
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert_eq!(lines[0]["idempotency_status"], "key-reused");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_asks_for_keys_and_everything_gets_them() {
    let upstream = Upstream::start().await;
    let logs = "[logs]\naccess = 'all'\nformat = 'human'\nkeys = 'clear'";
    let gateway = gateway(&upstream, logs).await;
    assert_eq!(gateway.post("/pay", "order-8", "{}").await.status, 201);
    assert_eq!(gateway.get("/untouched").await.status, 201);
    eventually("the lines are written", SOON, async || {
        gateway.stderr().contains("/untouched 201 untouched in ")
    })
    .await;
    let all = gateway.stderr();
    let line = all.lines().find(|line| line.contains("POST /pay 201 executed in")).expect(&all);
    assert!(line.contains("key order-8") && line.contains("attempt 1"), "{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn with_no_log_there_is_no_line() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "[logs]\naccess = 'off'").await;
    assert_eq!(gateway.post("/pay", "a", "{}").await.status, 201);
    assert_eq!(gateway.post("/pay", "a", "other").await.status, 409);
    gateway.signal(libc::SIGTERM);
    assert_eq!(gateway.exit_code(SOON).await, Some(0));
    assert_eq!(lines(&gateway), [Value::Null; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_execution_is_a_step_of_its_trace() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    let parent = format!("00-{TRACE}-00f067aa0ba902b7-01");
    gateway.posting("/pay", "a", "{}").header("traceparent", &parent).send().await;
    let seen = upstream.last();
    let [sent] = seen.all("traceparent")[..] else { panic!("{seen:?}") };
    assert!(sent.starts_with(&format!("00-{TRACE}-")) && sent.ends_with("-01"), "{sent}");
    assert_ne!(sent, parent, "the upstream's parent is this hop");
    // Where nobody has begun one, it begins here; nonsense is nobody's.
    for header in [None, Some("nonsense")] {
        let ask = gateway.posting("/pay", &uuid::Uuid::new_v4().to_string(), "{}");
        let ask = header.map_or(ask.clone(), |header| ask.header("traceparent", header));
        ask.send().await;
        let seen = upstream.last();
        let [sent] = seen.all("traceparent")[..] else { panic!("{seen:?}") };
        assert_eq!((sent.len(), sent.split('-').count()), (55, 4), "{sent}");
    }
    // What is none of the gateway's business keeps what it came with.
    gateway.ask("GET", "/untouched").header("traceparent", &parent).send().await;
    assert_eq!(upstream.last().all("traceparent"), [parent.as_str()]);
    gateway.get("/untouched").await;
    assert_eq!(upstream.last().all("traceparent"), [""; 0]);
}
