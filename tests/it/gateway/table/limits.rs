//! Bodies that are too long, and callers that ask too often.

use super::super::{
    Retry, SOON, Site, assert_executed, assert_problem, fresh_key, on_both_pairs, payments,
};
use crate::support::{Reply, eventually};

on_both_pairs!(
    a_body_too_long_is_refused_and_goes_nowhere,
    a_body_as_long_as_allowed_passes,
    the_limit_is_for_requests_with_a_key,
    a_caller_that_asks_too_often_is_told_when_to_come_back,
    tenants_have_limits_of_their_own,
    more_at_a_time_than_allowed_are_told_that_it_is_busy,
    a_request_that_gets_no_connection_is_told_so_and_released,
    a_request_that_times_out_before_it_has_a_connection_was_not_sent,
);

async fn a_body_too_long_is_refused_and_goes_nowhere(site: Site) {
    let gateway = site.gateway(&payments("request_max_bytes = '1KiB'")).await;
    for body in ["x".repeat(1025), "x".repeat(200_000)] {
        let key = fresh_key();
        let with_length = gateway.ask("POST", "/pay").key(&key).body(&body).send().await;
        assert_problem(&with_length, 413, "body-too-large", Retry::No);
        let chunked = gateway.ask("POST", "/pay").key(&key).chunked(&body).send().await;
        assert_problem(&chunked, 413, "body-too-large", Retry::No);
        assert_eq!(site.upstream.count(), 0);
    }
    // The keys are as good as new.
    assert_executed(&gateway.post("/pay", &fresh_key(), "{}").await, 201);
    assert_eq!(gateway.metrics().await.requests("rejected"), 4.0);
}

async fn a_body_as_long_as_allowed_passes(site: Site) {
    let gateway = site.gateway(&payments("request_max_bytes = '1KiB'")).await;
    let body = "x".repeat(1024);
    for chunked in [false, true] {
        let key = fresh_key();
        let ask = gateway.ask("POST", "/pay").key(&key);
        let ask = if chunked { ask.chunked(&body) } else { ask.body(&body) };
        assert_executed(&ask.send().await, 201);
        let seen = site.upstream.last();
        assert_eq!((seen.key(), seen.text()), (Some(key.as_str()), body.clone()));
    }
    assert_eq!(site.upstream.count(), 2);
}

async fn the_limit_is_for_requests_with_a_key(site: Site) {
    let routes = payments("request_max_bytes = '1KiB'").replace("'required'", "'optional'");
    let gateway = site.gateway(&routes).await;
    let answer = gateway.ask("POST", "/pay").body("x".repeat(5000)).send().await;
    assert_eq!((answer.status, answer.header("Idempotency-Status")), (201, None));
    assert_eq!(site.upstream.last().body_bytes, 5000);
    assert_eq!(site.upstream.count(), 1);
}

async fn a_caller_that_asks_too_often_is_told_when_to_come_back(site: Site) {
    let limit = "rate_limit = { per = 'client_ip', rate = '1/m', burst = 2 }";
    let gateway = site.gateway(&payments(limit)).await;
    for _ in 0..2 {
        assert_executed(&gateway.post("/pay", &fresh_key(), "{}").await, 201);
    }
    let key = fresh_key();
    for _ in 0..2 {
        let refused = gateway.post("/pay", &key, "{}").await;
        assert_problem(&refused, 429, "rate-limited", Retry::After);
    }
    assert_eq!((site.upstream.count(), site.upstream.count_of(&key)), (2, 0));
    assert_eq!(gateway.metrics().await.sum("oncegate_rate_limited_total", &[]), 2.0);
}

async fn tenants_have_limits_of_their_own(site: Site) {
    let limit = "tenant_from = 'header:X-Tenant-Id'\n\
                 rate_limit = { per = 'tenant', rate = '1/m', burst = 1 }";
    let gateway = site.gateway(&payments(limit)).await;
    let by = |tenant: &str| {
        gateway.posting("/pay", &fresh_key(), "{}").header("X-Tenant-Id", tenant).send()
    };
    assert_executed(&by("one").await, 201);
    assert_problem(&by("one").await, 429, "rate-limited", Retry::After);
    assert_executed(&by("other").await, 201);
    assert_eq!(site.upstream.count(), 2);
}

async fn more_at_a_time_than_allowed_are_told_that_it_is_busy(site: Site) {
    let gateway = site.gateway(&format!("[limits]\nmax_in_flight = 1\n{}", payments(""))).await;
    site.upstream.on("/pay", Reply::new(201).body("paid").held());
    let call = tokio::spawn(gateway.posting("/pay", &fresh_key(), "{}").send());
    site.upstream.begun(1).await;
    let key = fresh_key();
    let refused = gateway.post("/pay", &key, "{}").await;
    assert_problem(&refused, 503, "overloaded", Retry::After);
    let unkeyed = gateway.get("/elsewhere").await;
    assert_eq!((unkeyed.status, unkeyed.header("Idempotency-Status")), (503, None));
    assert_eq!(unkeyed.json()["code"], "overloaded");
    let metrics = gateway.metrics().await;
    assert_eq!(metrics.sum("oncegate_in_flight_requests", &[]), 1.0);
    assert_eq!(metrics.sum("oncegate_upstream_connections", &[("state", "in_use")]), 1.0);
    site.upstream.let_go();
    assert_executed(&call.await.expect("no panic"), 201);
    eventually("nothing is in flight any more", SOON, async || {
        let metrics = gateway.metrics().await;
        let connections = |state| metrics.sum("oncegate_upstream_connections", &[("state", state)]);
        metrics.sum("oncegate_in_flight_requests", &[]) == 0.0
            && (connections("in_use"), connections("idle")) == (0.0, 1.0)
    })
    .await;
    assert_executed(&gateway.post("/pay", &key, "{}").await, 201);
    assert_eq!(site.upstream.count_of(&key), 1);
}

async fn a_request_that_gets_no_connection_is_told_so_and_released(site: Site) {
    let toml = format!("[connections]\nmax = 1\nacquire_timeout = '300ms'\n{}", payments(""));
    let gateway = site.gateway(&toml).await;
    site.upstream.on("/pay", Reply::new(201).body("paid").held());
    let call = tokio::spawn(gateway.posting("/pay", &fresh_key(), "{}").send());
    site.upstream.begun(1).await;
    let key = fresh_key();
    let refused = gateway.post("/pay", &key, "{}").await;
    assert_problem(&refused, 503, "upstream-busy", Retry::After);
    assert_eq!(site.upstream.count_of(&key), 0);
    site.upstream.let_go();
    assert_executed(&call.await.expect("no panic"), 201);
    assert_executed(&gateway.post("/pay", &key, "another body").await, 201);
    assert_eq!(site.upstream.count_of(&key), 1);
}

/// Its outcome is known: nothing was sent.
async fn a_request_that_times_out_before_it_has_a_connection_was_not_sent(site: Site) {
    let quick = "[[routes]]\npath = '/quick'\ntimeout = '300ms'\n";
    let toml = "[connections]\nmax = 1\nacquire_timeout = '20s'\n".to_owned();
    let gateway = site.gateway(&(toml + &payments("") + quick)).await;
    site.upstream.on("/pay", Reply::new(201).body("paid").held());
    let call = tokio::spawn(gateway.posting("/pay", &fresh_key(), "{}").send());
    site.upstream.begun(1).await;
    let key = fresh_key();
    let refused = gateway.post("/quick", &key, "{}").await;
    assert_problem(&refused, 503, "upstream-busy", Retry::After);
    site.upstream.let_go();
    assert_executed(&call.await.expect("no panic"), 201);
    let again = gateway.post("/quick", &key, "{}").await;
    assert_executed(&again, 201);
    assert_eq!(site.upstream.count_of(&key), 1);
}
