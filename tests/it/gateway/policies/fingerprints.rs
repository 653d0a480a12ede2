//! What makes two requests the same request.

use super::super::{
    Retry, Site, assert_executed, assert_problem, assert_replayed, fresh_key, on_both_pairs,
    payments,
};
use crate::support::Gateway;

on_both_pairs!(
    json_is_compared_by_what_it_says,
    a_body_that_should_be_json_and_is_not_is_refused,
    only_the_named_fields_count,
    ignored_fields_do_not_count,
    headers_count_where_they_are_named,
    a_query_counts_unless_the_route_says_otherwise,
);

/// One execution of the first; what is the same is replayed, what is not is refused.
async fn told_apart(site: &Site, gateway: &Gateway, first: &str, same: &[&str], other: &[&str]) {
    let key = fresh_key();
    let answer = gateway.post("/pay", &key, first).await;
    assert_executed(&answer, 201);
    for body in same {
        let retry = gateway.post("/pay", &key, body).await;
        assert_eq!(retry.status, 201, "{body}: {retry:?}");
        assert_replayed(&retry, &answer);
    }
    for body in other {
        let refused = gateway.post("/pay", &key, body).await;
        assert_eq!(refused.status, 409, "{body}: {refused:?}");
        assert_problem(&refused, 409, "key-reused", Retry::No);
    }
    assert_eq!(site.upstream.count_of(&key), 1);
}

async fn json_is_compared_by_what_it_says(site: Site) {
    let gateway = site.gateway(&payments("fingerprint = { body = 'json' }")).await;
    let first = r#"{"amount":100,"to":{"name":"é","tags":[1,2]}}"#;
    let same = [
        r#"{"to":{"tags":[1,2],"name":"é"},"amount":100}"#,
        "{ \"amount\" : 1e2,\n\t\"to\": {\"name\":\"\\u00e9\",\"tags\":[1.0, 2]} }",
    ];
    let other = [
        r#"{"amount":100,"to":{"name":"é","tags":[2,1]}}"#,
        r#"{"amount":"100","to":{"name":"é","tags":[1,2]}}"#,
        r#"{"amount":100,"to":{"name":"é","tags":[1,2]},"more":null}"#,
    ];
    told_apart(&site, &gateway, first, &same, &other).await;
}

async fn a_body_that_should_be_json_and_is_not_is_refused(site: Site) {
    let gateway = site.gateway(&payments("fingerprint = { body = 'json' }")).await;
    let key = fresh_key();
    for body in ["{", "no json", "{\"a\":1,\"a\":2}", "{\"amount\":9007199254740993}"] {
        let refused = gateway.post("/pay", &key, body).await;
        assert_problem(&refused, 400, "body-invalid", Retry::No);
    }
    assert_eq!(site.upstream.count(), 0);
    // The key is as good as new.
    assert_executed(&gateway.post("/pay", &key, "{\"a\":1}").await, 201);
}

async fn only_the_named_fields_count(site: Site) {
    let route = "fingerprint = { body = 'json', fields = ['/amount', '/to/name'] }";
    let gateway = site.gateway(&payments(route)).await;
    let first = r#"{"amount":1,"to":{"name":"a","at":5},"sent_at":1}"#;
    let same = [r#"{"sent_at":2,"amount":1,"to":{"at":6,"name":"a"}}"#];
    let other = [
        r#"{"amount":2,"to":{"name":"a","at":5},"sent_at":1}"#,
        r#"{"amount":1,"to":{"name":"b","at":5},"sent_at":1}"#,
        r#"{"to":{"name":"a","at":5},"sent_at":1}"#,
    ];
    told_apart(&site, &gateway, first, &same, &other).await;
}

async fn ignored_fields_do_not_count(site: Site) {
    let route = "fingerprint = { body = 'json', ignore = ['/sent_at', '/trace/id'] }";
    let gateway = site.gateway(&payments(route)).await;
    let first = r#"{"amount":1,"sent_at":1,"trace":{"id":1,"span":1}}"#;
    let same = [
        r#"{"amount":1,"sent_at":2,"trace":{"id":2,"span":1}}"#,
        r#"{"amount":1,"trace":{"span":1}}"#,
    ];
    let other = [
        r#"{"amount":2,"sent_at":1,"trace":{"id":1,"span":1}}"#,
        r#"{"amount":1,"sent_at":1,"trace":{"id":1,"span":2}}"#,
    ];
    told_apart(&site, &gateway, first, &same, &other).await;
}

async fn headers_count_where_they_are_named(site: Site) {
    let route = "fingerprint = { body = 'raw', headers = ['X-Currency'] }";
    let gateway = site.gateway(&payments(route)).await;
    let key = fresh_key();
    let ask = || gateway.posting("/pay", &key, "{}");
    let first = ask().header("X-Currency", "EUR").header("X-Trace", "1").send().await;
    assert_executed(&first, 201);
    let retry = ask().header("X-Currency", "EUR").header("X-Trace", "2").send().await;
    assert_replayed(&retry, &first);
    for other in [ask().header("X-Currency", "USD"), ask()] {
        assert_problem(&other.send().await, 409, "key-reused", Retry::No);
    }
    assert_eq!(site.upstream.count_of(&key), 1);
}

async fn a_query_counts_unless_the_route_says_otherwise(site: Site) {
    let gateway = site.gateway(&payments("fingerprint = { query = false }")).await;
    let key = fresh_key();
    let first = gateway.post("/pay?attempt=1", &key, "{}").await;
    assert_executed(&first, 201);
    assert_eq!(site.upstream.last().target, "/pay?attempt=1");
    assert_replayed(&gateway.post("/pay?attempt=2", &key, "{}").await, &first);
    assert_replayed(&gateway.post("/pay", &key, "{}").await, &first);
    assert_eq!(site.upstream.count_of(&key), 1);
}
