//! The same key with another request, or from somebody else.

use super::super::{
    Retry, Site, assert_executed, assert_problem, assert_replayed, fresh_key, on_both_pairs,
    payments,
};
use crate::support::Reply;

on_both_pairs!(
    another_body_path_or_query_is_a_reused_key,
    a_reused_key_tells_nothing_of_what_is_stored,
    a_reused_key_is_told_while_the_first_request_runs,
    the_status_of_a_reused_key_can_be_422,
    an_answer_is_not_for_another_credential,
);

async fn another_body_path_or_query_is_a_reused_key(site: Site) {
    let gateway = site.gateway(&payments("")).await;
    let key = fresh_key();
    let first = gateway.post("/pay/1?a=1", &key, "{\"amount\":100}").await;
    assert_executed(&first, 201);
    let others = [
        gateway.posting("/pay/1?a=1", &key, "{\"amount\":999}"),
        gateway.posting("/pay/1?a=1", &key, "{\"amount\": 100}"),
        gateway.posting("/pay/1?a=1", &key, ""),
        gateway.posting("/pay/2?a=1", &key, "{\"amount\":100}"),
        gateway.posting("/pay/1?a=2", &key, "{\"amount\":100}"),
        gateway.posting("/pay/1", &key, "{\"amount\":100}"),
        gateway.ask("PATCH", "/pay/1?a=1").key(&key).body("{\"amount\":100}"),
    ];
    for other in others {
        let shown = format!("{other:?}");
        let refused = other.send().await;
        assert_eq!(refused.status, 409, "{shown}");
        assert_problem(&refused, 409, "key-reused", Retry::No);
    }
    let retry = gateway.post("/pay/1?a=1", &key, "{\"amount\":100}").await;
    assert_replayed(&retry, &first);
    assert_eq!(site.upstream.count_of(&key), 1);
    let metrics = gateway.metrics().await;
    assert_eq!(metrics.sum("oncegate_conflicts_total", &[("kind", "mismatch")]), 7.0);
    assert_eq!(metrics.requests("mismatch"), 7.0);
}

async fn a_reused_key_tells_nothing_of_what_is_stored(site: Site) {
    let gateway = site.gateway(&payments("")).await;
    let reply =
        Reply::new(201).header("X-Secret", "hidden-header").header("Location", "/hidden-place");
    site.upstream.on("/pay", reply.body("hidden-answer"));
    let key = fresh_key();
    let first = gateway.post("/pay/hidden-path", &key, "{\"card\":\"hidden-card\"}").await;
    assert_executed(&first, 201);
    let refused = gateway.post("/pay/other", &key, "{\"card\":\"another\"}").await;
    assert_problem(&refused, 409, "key-reused", Retry::No);
    let all = format!("{:?} {}", refused.headers, refused.text());
    assert!(!all.contains("hidden"), "{all}");
    assert!(!refused.text().contains("201"), "{all}");
    assert_eq!(site.upstream.count_of(&key), 1);
}

async fn a_reused_key_is_told_while_the_first_request_runs(site: Site) {
    let gateway = site.gateway(&payments("wait = '10s'")).await;
    site.upstream.on("/pay", Reply::new(201).held());
    let key = fresh_key();
    let call = tokio::spawn(gateway.posting("/pay", &key, "one").send());
    site.upstream.begun(1).await;
    let refused = gateway.post("/pay", &key, "other").await;
    assert_problem(&refused, 409, "key-reused", Retry::No);
    site.upstream.let_go();
    assert_executed(&call.await.expect("no panic"), 201);
    assert_eq!(site.upstream.count_of(&key), 1);
}

async fn the_status_of_a_reused_key_can_be_422(site: Site) {
    let gateway = site.gateway(&payments("mismatch_status = 422")).await;
    let key = fresh_key();
    assert_executed(&gateway.post("/pay", &key, "one").await, 201);
    assert_problem(&gateway.post("/pay", &key, "other").await, 422, "key-reused", Retry::No);
    assert_eq!(site.upstream.count_of(&key), 1);
}

async fn an_answer_is_not_for_another_credential(site: Site) {
    let gateway = site.gateway(&payments("tenant_from = 'none'")).await;
    site.upstream.on("/pay", Reply::new(201).body("hidden-answer"));
    let [key, open] = [fresh_key(), fresh_key()];
    let by = |key: &str, credential: &str| {
        gateway.posting("/pay", key, "{}").header("Authorization", credential)
    };
    let first = by(&key, "Bearer alice").send().await;
    assert_executed(&first, 201);
    let strangers = [by(&key, "Bearer mallory"), gateway.posting("/pay", &key, "{}")];
    for stranger in strangers {
        let refused = stranger.send().await;
        assert_problem(&refused, 409, "credential-mismatch", Retry::No);
        assert!(!refused.text().contains("hidden"), "{}", refused.text());
    }
    assert_replayed(&by(&key, "Bearer alice").send().await, &first);
    assert_eq!(site.upstream.count_of(&key), 1);

    let first = gateway.post("/pay", &open, "{}").await;
    assert_executed(&first, 201);
    let stranger = by(&open, "Bearer mallory").send().await;
    assert_problem(&stranger, 409, "credential-mismatch", Retry::No);
    assert_replayed(&gateway.post("/pay", &open, "{}").await, &first);
    assert_eq!(site.upstream.count_of(&open), 1);
}
