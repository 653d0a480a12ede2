//! What the upstream's statuses mean, and what becomes of a retry then.

use std::time::Duration;

use super::super::{
    Retry, SOON, Site, assert_executed, assert_problem, assert_replayed, fresh_key, on_both_pairs,
    payments,
};
use crate::support::{Behaviour, End, Reply, eventually};

on_both_pairs!(
    a_transient_answer_is_passed_on_and_forgotten,
    a_status_that_says_nobody_knows_is_held,
    a_failure_is_executed_again,
    an_attempt_that_did_nothing_is_not_counted,
    a_failure_is_replayed_where_the_route_says_so,
    what_a_status_means_is_up_to_the_route,
    an_unknown_outcome_is_executed_again_after_the_lease_where_the_route_says_so,
    an_expired_key_is_a_new_request,
);

async fn a_transient_answer_is_passed_on_and_forgotten(site: Site) {
    let gateway = site.gateway(&payments("")).await;
    for status in [401, 403, 408, 425, 429, 503] {
        let transient = Reply::new(status).header("Retry-After", "7").body("not now");
        let paid = Reply::new(201).body("paid");
        site.upstream.on("/pay", Behaviour::each([transient.clone(), transient, paid]));
        let key = fresh_key();
        for _ in 0..2 {
            let passed_on = gateway.post("/pay", &key, "{}").await;
            assert_executed(&passed_on, status);
            assert_eq!(passed_on.text(), "not now");
            assert_eq!(passed_on.all("Retry-After"), ["7"]);
        }
        // Not even the request is remembered.
        let paid = gateway.post("/pay", &key, "another body").await;
        assert_executed(&paid, 201);
        assert_replayed(&gateway.post("/pay", &key, "another body").await, &paid);
        assert_eq!(site.upstream.count_of(&key), 3, "{status}");
    }
}

async fn a_status_that_says_nobody_knows_is_held(site: Site) {
    let gateway = site.gateway(&payments("")).await;
    for status in [502, 504] {
        let lost = Reply::new(status).body("lost");
        site.upstream.on("/pay", Behaviour::each([lost, Reply::new(201)]));
        let key = fresh_key();
        let first = gateway.post("/pay", &key, "{}").await;
        assert_eq!((first.status, first.text().as_str()), (status, "lost"), "it is passed on");
        assert_eq!(first.all("Idempotency-Status"), ["outcome-unknown"], "{first:?}");
        for _ in 0..2 {
            let retry = gateway.post("/pay", &key, "{}").await;
            assert_problem(&retry, 409, "outcome-unknown", Retry::Open);
        }
        assert_eq!(site.upstream.count_of(&key), 1, "{status}");
    }
}

async fn a_failure_is_executed_again(site: Site) {
    let gateway = site.gateway(&payments("")).await;
    let no = Reply::new(500).body("no");
    let replies = [no.clone(), Reply::new(507).body("full"), no, Reply::new(201).body("paid")];
    site.upstream.on("/pay", Behaviour::each(replies));
    let key = fresh_key();
    for (status, body) in [(500, "no"), (507, "full"), (500, "no")] {
        let failed = gateway.post("/pay", &key, "{}").await;
        assert_eq!((failed.status, failed.text().as_str()), (status, body));
    }
    // A failed attempt has used the key for this request.
    let other = gateway.post("/pay", &key, "another body").await;
    assert_problem(&other, 409, "key-reused", Retry::No);
    let paid = gateway.post("/pay", &key, "{}").await;
    assert_executed(&paid, 201);
    assert_replayed(&gateway.post("/pay", &key, "{}").await, &paid);
    let attempts: Vec<_> =
        site.upstream.executions().iter().map(|execution| execution.attempt()).collect();
    assert_eq!(attempts, [Some(1), Some(2), Some(3), Some(4)]);
}

async fn an_attempt_that_did_nothing_is_not_counted(site: Site) {
    let gateway = site.gateway(&payments("max_attempts = 2")).await;
    let replies = [500, 503, 429, 503, 500].map(Reply::new);
    site.upstream.on("/pay", Behaviour::each(replies));
    let key = fresh_key();
    for status in [500, 503, 429, 503, 500] {
        assert_eq!(gateway.post("/pay", &key, "{}").await.status, status);
    }
    let refused = gateway.post("/pay", &key, "{}").await;
    assert_problem(&refused, 409, "attempt-failed", Retry::No);
    let attempts: Vec<_> =
        site.upstream.executions().iter().map(|execution| execution.attempt()).collect();
    assert_eq!(attempts, [Some(1), Some(2), Some(2), Some(2), Some(2)]);
}

async fn a_failure_is_replayed_where_the_route_says_so(site: Site) {
    let gateway = site.gateway(&payments("when_failed = 'replay'")).await;
    site.upstream.on("/pay", Reply::new(500).header("X-Why", "no money").body("no"));
    let key = fresh_key();
    let first = gateway.post("/pay", &key, "{}").await;
    assert_executed(&first, 500);
    site.upstream.on("/pay", Reply::new(201));
    let retry = gateway.post("/pay", &key, "{}").await;
    assert_replayed(&retry, &first);
    assert_eq!(retry.header("X-Why"), Some("no money"));
    assert_eq!(site.upstream.count_of(&key), 1);
}

async fn what_a_status_means_is_up_to_the_route(site: Site) {
    let route = "transient_statuses = [418]\nunknown_statuses = [500]\nwhen_failed = 'replay'";
    let gateway = site.gateway(&payments(route)).await;
    let [transient, unknown, failed] = [fresh_key(), fresh_key(), fresh_key()];
    site.upstream.on("/pay", Reply::new(418));
    gateway.post("/pay", &transient, "{}").await;
    gateway.post("/pay", &transient, "{}").await;
    assert_eq!(site.upstream.count_of(&transient), 2);
    site.upstream.on("/pay", Reply::new(500));
    gateway.post("/pay", &unknown, "{}").await;
    let retry = gateway.post("/pay", &unknown, "{}").await;
    assert_problem(&retry, 409, "outcome-unknown", Retry::Open);
    assert_eq!(site.upstream.count_of(&unknown), 1);
    for status in [503, 502, 429] {
        let key = format!("{failed}-{status}");
        site.upstream.on("/pay", Reply::new(status).body("no"));
        let first = gateway.post("/pay", &key, "{}").await;
        assert_executed(&first, status);
        assert_replayed(&gateway.post("/pay", &key, "{}").await, &first);
        assert_eq!(site.upstream.count_of(&key), 1);
    }
}

async fn an_unknown_outcome_is_executed_again_after_the_lease_where_the_route_says_so(site: Site) {
    let gateway = site.gateway(&payments("when_unknown = 'retry'\nlease = '2s'")).await;
    let replies = [Reply::no_answer(End::Close), Reply::new(201).body("paid")];
    site.upstream.on("/pay", Behaviour::each(replies));
    let key = fresh_key();
    let first = gateway.post("/pay", &key, "{}").await;
    assert_problem(&first, 502, "upstream-broke-off", Retry::Open);
    let early = gateway.post("/pay", &key, "{}").await;
    assert_eq!((early.status, site.upstream.count_of(&key)), (409, 1), "{early:?}");
    let mut answer = early;
    eventually("the lease is over", SOON, async || {
        answer = gateway.post("/pay", &key, "{}").await;
        answer.status != 409
    })
    .await;
    assert_executed(&answer, 201);
    let [one, two] = &site.upstream.executions()[..] else { panic!("two executions") };
    assert!(two.at - one.at >= Duration::from_secs(2), "{:?}", two.at - one.at);
    assert_eq!((one.attempt(), two.attempt()), (Some(1), Some(2)));
    assert_replayed(&gateway.post("/pay", &key, "{}").await, &answer);
    assert_eq!(site.upstream.count_of(&key), 2);
}

async fn an_expired_key_is_a_new_request(site: Site) {
    let gateway = site.gateway(&payments("ttl = '3s'")).await;
    let key = fresh_key();
    let first = gateway.post("/pay", &key, "{}").await;
    assert_executed(&first, 201);
    assert_replayed(&gateway.post("/pay", &key, "{}").await, &first);
    let mut answer = first.clone();
    eventually("the key expires", SOON, async || {
        answer = gateway.post("/pay", &key, "{}").await;
        answer.header("Idempotency-Status") == Some("executed")
    })
    .await;
    assert_eq!(answer.json()["execution"], 2);
    let [one, two] = &site.upstream.executions()[..] else { panic!("two executions") };
    assert!(two.at - one.at >= Duration::from_secs(3), "{:?}", two.at - one.at);
    assert_replayed(&gateway.post("/pay", &key, "{}").await, &answer);
    assert_eq!((two.attempt(), site.upstream.count_of(&key)), (Some(1), 2));
}
