//! HTTP/2 by prior knowledge, in front and behind.

use super::super::{Retry, assert_executed, assert_problem, assert_replayed, fresh_key, payments};
use super::{site, with_routes};
use crate::support::{Connection, End, Http2, Reply, client, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn keys_work_over_http2() {
    let (site, gateway) = site().await;
    let client = Http2::connect(gateway.addr()).await;
    let key = fresh_key();
    let headers = [("idempotency-key", key.as_str())];
    let first = client.send_body("POST", "/pay?a=b", &headers, "{}").await;
    assert_executed(&first, 201);
    let retry = client.send_body("POST", "/pay?a=b", &headers, "{}").await;
    assert_replayed(&retry, &first);
    let other = client.send_body("POST", "/pay?a=b", &headers, "other").await;
    assert_problem(&other, 409, "key-reused", Retry::No);
    let missing = client.send("POST", "/pay", &[]).await;
    assert_problem(&missing, 400, "key-missing", Retry::No);
    // The same key over the other version.
    let retry = gateway.ask("POST", "/pay?a=b").key(&key).body("{}").send().await;
    assert_replayed(&retry, &first);
    let seen = site.upstream.last();
    assert_eq!((seen.target.as_str(), seen.text().as_str()), ("/pay?a=b", "{}"));
    assert_eq!(seen.all("Host"), [gateway.addr().to_string()]);
    assert_eq!((seen.all("X-Forwarded-For"), site.upstream.count()), (vec!["127.0.0.1"], 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_of_one_connection_are_requests_of_their_own() {
    let (site, gateway) = with_routes(&payments("wait = '30s'\nwait_max = '30s'")).await;
    site.upstream.on("/pay", Reply::new(201).body("paid").held());
    let client = Http2::connect(gateway.addr()).await;
    let key = fresh_key();
    let calls: Vec<_> = (0..30)
        .map(|_| {
            let (client, key) = (client.clone(), key.clone());
            let call = async move {
                client.send_body("POST", "/pay", &[("idempotency-key", &key)], "{}").await
            };
            tokio::spawn(call)
        })
        .collect();
    site.upstream.begun(1).await;
    // One that has nothing to do with them does not wait for them.
    assert_eq!(client.send("GET", "/other", &[]).await.status, 201);
    site.upstream.let_go();
    for call in calls {
        assert_eq!(call.await.expect("no panic").text(), "paid");
    }
    assert_eq!(site.upstream.count_of(&key), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_no_key_passes_untouched_over_http2() {
    let (site, gateway) = site().await;
    let reply = Reply::new(200).header("Connection", "keep-alive").header("Keep-Alive", "max=1");
    site.upstream.on("/", reply.header("X-Twice", "a").header("X-Twice", "b").chunked(["1", "2"]));
    let client = Http2::connect(gateway.addr()).await;
    for _ in 0..2 {
        let answer = client.send_body("PUT", "/other", &[("x-mine", "1")], "body").await;
        assert_eq!((answer.status, answer.text().as_str()), (200, "12"));
        assert_eq!(answer.all("X-Twice"), ["a", "b"]);
        for ended in ["connection", "keep-alive", "transfer-encoding", "idempotency-status"] {
            assert_eq!(answer.header(ended), None, "{ended}: {answer:?}");
        }
        let seen = site.upstream.last();
        assert_eq!((seen.text().as_str(), seen.header("x-mine")), ("body", Some("1")));
    }
    assert_eq!(site.upstream.count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_too_long_is_refused_over_http2() {
    let (site, gateway) = with_routes(&payments("request_max_bytes = '1KiB'")).await;
    let client = Http2::connect(gateway.addr()).await;
    let key = fresh_key();
    let body = "x".repeat(5000);
    let refused = client.send_body("POST", "/pay", &[("idempotency-key", &key)], &body).await;
    assert_problem(&refused, 413, "body-too-large", Retry::No);
    let first = client.send_body("POST", "/pay", &[("idempotency-key", &key)], "{}").await;
    assert_executed(&first, 201);
    assert_eq!(site.upstream.count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_may_speak_http2() {
    let toml = format!("[connections]\nhttp2 = 'prior-knowledge'\n{}", payments(""));
    let (site, gateway) = with_routes(&toml).await;
    let reply = Reply::new(201).header("X-Twice", "a").header("X-Twice", "b").body("paid");
    site.upstream.on("/", reply);
    let key = fresh_key();
    let first = gateway.post("/pay?a=b", &key, "{}").await;
    assert_executed(&first, 201);
    assert_eq!((first.text().as_str(), first.all("X-Twice")), ("paid", vec!["a", "b"]));
    let seen = site.upstream.last();
    assert_eq!((seen.target.as_str(), seen.key()), ("/pay?a=b", Some(key.as_str())));
    assert_eq!((seen.header("Idempotency-Scope"), seen.attempt()), (Some("payment"), Some(1)));
    assert_replayed(&gateway.post("/pay?a=b", &key, "{}").await, &first);
    let untouched = gateway.ask("PUT", "/other").body("body").send().await;
    assert_eq!((untouched.status, untouched.text().as_str()), (201, "paid"));
    assert_eq!((site.upstream.last().text().as_str(), site.upstream.count()), ("body", 2));
}

/// Half of an answer, and then a reset that calls itself no error.
fn half_an_answer() -> Reply {
    Reply::new(201).body("x".repeat(20_000)).cut_after(10_000, End::Reset)
}

#[tokio::test(flavor = "multi_thread")]
async fn half_an_answer_over_http2_is_not_stored_as_a_whole_one() {
    let toml = format!("[connections]\nhttp2 = 'prior-knowledge'\n{}", payments(""));
    let (site, gateway) = with_routes(&toml).await;
    site.upstream.on("/pay", half_an_answer());
    let key = fresh_key();
    let first = gateway.post("/pay", &key, "{}").await;
    assert_problem(&first, 502, "upstream-broke-off", Retry::Open);
    site.upstream.on("/pay", Reply::new(201).body("whole"));
    let retry = gateway.post("/pay", &key, "{}").await;
    assert_problem(&retry, 409, "outcome-unknown", Retry::Open);
    assert_eq!(site.upstream.count_of(&key), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn half_an_answer_over_http2_is_passed_on_as_a_broken_one() {
    let toml = format!("[connections]\nhttp2 = 'prior-knowledge'\n{}", payments(""));
    let (site, gateway) = with_routes(&toml).await;
    site.upstream.on("/other", half_an_answer());
    let mut connection = Connection::connect(gateway.addr()).await.expect("it accepts");
    connection.send(gateway.ask("GET", "/other").bytes()).await.expect("it listens");
    let answer = client::answer(&mut connection, "GET").await;
    assert!(answer.is_err(), "half of it looks whole: {} bytes", answer.unwrap().body.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn half_an_answer_over_http2_is_unknown_in_the_shadow_too() {
    let toml = format!("[connections]\nhttp2 = 'prior-knowledge'\n{}", payments("mode = 'shadow'"));
    let (site, gateway) = with_routes(&toml).await;
    site.upstream.on("/pay", half_an_answer());
    let key = fresh_key();
    assert!(gateway.posting("/pay", &key, "{}").try_send().await.is_err());
    eventually("it is counted", super::super::SOON, async || {
        gateway.metrics().await.sum("oncegate_requests_total", &[("outcome", "unknown")]) == 1.0
    })
    .await;
}
