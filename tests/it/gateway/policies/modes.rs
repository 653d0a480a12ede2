//! Routes that only look, and routes that are switched off.

use super::super::{SOON, Site, fresh_key, on_both_pairs, payments};
use crate::support::eventually;

on_both_pairs!(
    a_shadow_forwards_everything_and_counts_what_would_have_been,
    what_is_off_is_forwarded_untouched,
);

async fn a_shadow_forwards_everything_and_counts_what_would_have_been(site: Site) {
    let gateway = site.gateway(&payments("mode = 'shadow'")).await;
    let key = fresh_key();
    let first = gateway.posting("/pay", &key, "{}");
    let requests = [
        first.clone(),
        first.clone(),
        gateway.posting("/pay", &key, "another body"),
        gateway.ask("POST", "/pay").body("{}"),
        gateway.posting("/pay", "not a key", "{}"),
        first,
    ];
    for (index, request) in requests.into_iter().enumerate() {
        let answer = request.send().await;
        assert_eq!(answer.status, 201, "{answer:?}");
        assert_eq!(answer.json()["execution"], index + 1, "it is the upstream's own answer");
        assert_ne!(answer.header("Idempotency-Replayed"), Some("true"));
    }
    assert_eq!(site.upstream.count(), 6);
    // It is counted beside the requests, not before they are answered.
    eventually("every request is counted", SOON, async || {
        let metrics = gateway.metrics().await;
        ["executed", "replayed", "mismatch", "rejected"].map(|outcome| metrics.requests(outcome))
            == [1.0, 2.0, 1.0, 2.0]
    })
    .await;
}

async fn what_is_off_is_forwarded_untouched(site: Site) {
    let gateway = site.gateway(&payments("mode = 'off'")).await;
    let key = fresh_key();
    for execution in [1, 2] {
        let answer = gateway.post("/pay", &key, "{}").await;
        assert_eq!((answer.status, answer.header("Idempotency-Status")), (201, None));
        assert_eq!(answer.json()["execution"], execution);
    }
    let without = gateway.ask("POST", "/pay").body("{}").send().await;
    assert_eq!((without.status, without.header("Idempotency-Status")), (201, None));
    assert_eq!((site.upstream.count_of(&key), site.upstream.count()), (2, 3));
}
