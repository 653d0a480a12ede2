//! Retries of a request that failed, or of which nobody knows how it ended.

use std::time::Duration;

use super::super::{
    Retry, SOON, Site, assert_executed, assert_problem, assert_replayed, fresh_key, on_both_pairs,
    payments, retry_after,
};
use crate::support::{Behaviour, End, Reply, eventually};

on_both_pairs!(
    a_retry_of_an_unknown_outcome_is_held,
    a_retry_of_a_failure_is_rejected_where_the_route_says_so,
    a_failure_is_not_repeated_before_its_pause_is_over,
    attempts_are_used_up,
);

async fn a_retry_of_an_unknown_outcome_is_held(site: Site) {
    let gateway = site.gateway(&payments("lease = '1s'")).await;
    site.upstream.on("/pay", Reply::no_answer(End::Close));
    let key = fresh_key();
    let first = gateway.post("/pay", &key, "{}").await;
    assert_problem(&first, 502, "upstream-broke-off", Retry::Open);
    site.upstream.on("/pay", Reply::new(201));
    // However long it has been: the lease is over between the first and the last of them.
    for _ in 0..4 {
        let retry = gateway.post("/pay", &key, "{}").await;
        assert_problem(&retry, 409, "outcome-unknown", Retry::Open);
        tokio::time::sleep(Duration::from_millis(400)).await;
    }
    let other = gateway.post("/pay", &key, "something else").await;
    assert_problem(&other, 409, "key-reused", Retry::No);
    assert_eq!(site.upstream.count_of(&key), 1);
}

async fn a_retry_of_a_failure_is_rejected_where_the_route_says_so(site: Site) {
    let gateway = site.gateway(&payments("when_failed = 'reject'")).await;
    site.upstream.on("/pay", Reply::new(500).body("no"));
    let key = fresh_key();
    let first = gateway.post("/pay", &key, "{}").await;
    assert_eq!((first.status, first.text().as_str()), (500, "no"), "{first:?}");
    for _ in 0..2 {
        let retry = gateway.post("/pay", &key, "{}").await;
        assert_problem(&retry, 409, "attempt-failed", Retry::No);
    }
    assert_eq!(site.upstream.count_of(&key), 1);
}

async fn a_failure_is_not_repeated_before_its_pause_is_over(site: Site) {
    let gateway = site.gateway(&payments("retry_backoff = '1s'")).await;
    site.upstream.on("/pay", Behaviour::each([Reply::new(500), Reply::new(201).body("paid")]));
    let key = fresh_key();
    assert_eq!(gateway.post("/pay", &key, "{}").await.status, 500);
    let retry = gateway.post("/pay", &key, "{}").await;
    assert_problem(&retry, 409, "attempt-failed", Retry::After);
    // min(base × 2^min(attempt, 6), 1h) after the first attempt.
    assert!(retry_after(&retry) <= 2, "{retry:?}");
    let mut answer = retry;
    eventually("the pause is over", SOON, async || {
        answer = gateway.post("/pay", &key, "{}").await;
        answer.status != 409
    })
    .await;
    assert_executed(&answer, 201);
    let [one, two] = &site.upstream.executions()[..] else { panic!("two executions") };
    let pause = two.at - one.at;
    assert!(pause >= Duration::from_secs(2), "{pause:?}");
    assert_eq!((one.attempt(), two.attempt()), (Some(1), Some(2)));
    assert_replayed(&gateway.post("/pay", &key, "{}").await, &answer);
    assert_eq!(site.upstream.count_of(&key), 2);
}

async fn attempts_are_used_up(site: Site) {
    let gateway = site.gateway(&payments("max_attempts = 2")).await;
    site.upstream.on("/pay", Reply::new(500).body("no"));
    let key = fresh_key();
    for attempt in [1, 2] {
        let failed = gateway.post("/pay", &key, "{}").await;
        assert_eq!((failed.status, failed.text().as_str()), (500, "no"));
        assert_eq!(site.upstream.last().attempt(), Some(attempt));
    }
    for _ in 0..2 {
        let retry = gateway.post("/pay", &key, "{}").await;
        assert_problem(&retry, 409, "attempt-failed", Retry::No);
    }
    assert_eq!(site.upstream.count_of(&key), 2);
}
