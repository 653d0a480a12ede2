//! A duplicate of a request that still runs: told so, or kept waiting for the answer.

use std::time::Duration;

use super::super::{
    A_MOMENT, Retry, SOON, Site, assert_executed, assert_problem, assert_replayed, fresh_key,
    on_both_pairs, payments,
};
use crate::support::{Answer, Ask, Gateway, Reply};

on_both_pairs!(
    a_duplicate_of_a_running_request_is_told_to_come_back,
    a_duplicate_waits_as_long_as_the_route_says,
    a_duplicate_that_waited_in_vain_is_told_to_come_back,
    a_client_may_ask_to_wait,
    a_client_may_ask_to_wait_less,
    a_client_cannot_wait_longer_than_allowed,
    many_duplicates_wait_for_one_execution,
);

/// A request that runs until the upstream lets it go.
struct Running {
    gateway: Gateway,
    key: String,
    first: tokio::task::JoinHandle<Answer>,
}

impl Running {
    async fn begin(site: &Site, route: &str) -> Self {
        let gateway = site.gateway(&payments(route)).await;
        site.upstream.on("/pay", Reply::new(201).body("paid").held());
        let key = fresh_key();
        let first = tokio::spawn(gateway.posting("/pay", &key, "{}").send());
        site.upstream.begun(1).await;
        Self { gateway, key, first }
    }

    fn duplicate(&self) -> Ask {
        self.gateway.posting("/pay", &self.key, "{}")
    }

    /// Lets the request end: it was executed once, and is replayed from now on.
    async fn end(self, site: &Site) {
        site.upstream.let_go();
        let first = self.first.await.expect("no panic");
        assert_executed(&first, 201);
        assert_replayed(&self.gateway.post("/pay", &self.key, "{}").await, &first);
        assert_eq!(site.upstream.count_of(&self.key), 1);
    }
}

async fn a_duplicate_of_a_running_request_is_told_to_come_back(site: Site) {
    let running = Running::begin(&site, "").await;
    for _ in 0..3 {
        let refused = running.duplicate().send().await;
        assert_problem(&refused, 409, "in-progress", Retry::After);
    }
    let metrics = running.gateway.metrics().await;
    assert_eq!(metrics.sum("oncegate_conflicts_total", &[("kind", "in_progress")]), 3.0);
    assert_eq!(metrics.requests("in_progress"), 3.0);
    running.end(&site).await;
}

async fn a_duplicate_waits_as_long_as_the_route_says(site: Site) {
    let running = Running::begin(&site, "wait = '30s'\nwait_max = '30s'").await;
    let mut duplicate = tokio::spawn(running.duplicate().send());
    let early = tokio::time::timeout(A_MOMENT, &mut duplicate).await;
    assert!(early.is_err(), "it waits: {early:?}");
    site.upstream.let_go();
    let first = Answer { status: 201, body: b"paid".to_vec(), ..Answer::default() };
    assert_replayed(&duplicate.await.expect("no panic"), &first);
    running.end(&site).await;
}

async fn a_duplicate_that_waited_in_vain_is_told_to_come_back(site: Site) {
    let running = Running::begin(&site, "wait = '700ms'").await;
    let began = oncegate::clock::now();
    let refused = running.duplicate().send().await;
    assert_problem(&refused, 409, "in-progress", Retry::After);
    let waited = began.elapsed();
    assert!(waited >= Duration::from_millis(700), "{waited:?}");
    running.end(&site).await;
}

async fn a_client_may_ask_to_wait(site: Site) {
    let running = Running::begin(&site, "wait_max = '30s'").await;
    for preference in ["wait=25", "respond-async, wait=25", "wait=25; foo=bar, handling=lenient"] {
        let asked = running.duplicate().header("Prefer", preference);
        let early = tokio::time::timeout(A_MOMENT, asked.send()).await;
        assert!(early.is_err(), "it waits: {preference} {early:?}");
    }
    let duplicate = tokio::spawn(running.duplicate().header("Prefer", "wait=25").send());
    site.upstream.let_go();
    let first = Answer { status: 201, body: b"paid".to_vec(), ..Answer::default() };
    assert_replayed(&duplicate.await.expect("no panic"), &first);
    running.end(&site).await;
}

async fn a_client_may_ask_to_wait_less(site: Site) {
    let running = Running::begin(&site, "wait = '30s'\nwait_max = '30s'").await;
    let asked = running.duplicate().header("Prefer", "wait=0");
    let refused = tokio::time::timeout(Duration::from_secs(10), asked.send()).await;
    let refused = refused.expect("it does not wait as long as others");
    assert_problem(&refused, 409, "in-progress", Retry::After);
    running.end(&site).await;
}

async fn a_client_cannot_wait_longer_than_allowed(site: Site) {
    let running = Running::begin(&site, "wait_max = '1s'").await;
    let began = oncegate::clock::now();
    let asked = running.duplicate().header("Prefer", "wait=3600");
    let refused = tokio::time::timeout(SOON, asked.send()).await.expect("it is capped");
    assert_problem(&refused, 409, "in-progress", Retry::After);
    assert!(began.elapsed() >= Duration::from_millis(950), "{:?}", began.elapsed());
    running.end(&site).await;
}

async fn many_duplicates_wait_for_one_execution(site: Site) {
    let running = Running::begin(&site, "wait = '30s'\nwait_max = '30s'").await;
    let duplicates: Vec<_> = (0..50).map(|_| tokio::spawn(running.duplicate().send())).collect();
    site.upstream.let_go();
    let first = Answer { status: 201, body: b"paid".to_vec(), ..Answer::default() };
    for duplicate in duplicates {
        assert_replayed(&duplicate.await.expect("no panic"), &first);
    }
    running.end(&site).await;
}
