//! The upstream refuses, takes too long, or breaks off in mid-answer.

use std::time::Duration;

use super::super::{
    Retry, SOON, Site, assert_executed, assert_problem, assert_replayed, fresh_key, on_both_pairs,
    payments,
};
use crate::support::{End, Reply};

on_both_pairs!(
    an_upstream_that_refuses_has_done_nothing,
    an_upstream_that_hangs_is_given_up,
    an_answer_that_stalls_is_given_up,
    a_long_answer_that_stalls_does_not_last_for_ever,
    an_upstream_that_breaks_off_may_have_done_it,
    an_upstream_that_switches_protocols_unasked_is_no_answer,
);

async fn an_upstream_that_refuses_has_done_nothing(site: Site) {
    let gateway = site.gateway(&payments("")).await;
    let key = fresh_key();
    site.upstream.stop().await;
    for _ in 0..2 {
        let refused = gateway.post("/pay", &key, "{}").await;
        assert_problem(&refused, 502, "upstream-unreachable", Retry::Yes);
    }
    site.upstream.start_again().await;
    // Released: not even the fingerprint is remembered.
    let first = gateway.post("/pay", &key, "another body").await;
    assert_executed(&first, 201);
    assert_replayed(&gateway.post("/pay", &key, "another body").await, &first);
    assert_eq!(site.upstream.count_of(&key), 1);
}

async fn an_upstream_that_hangs_is_given_up(site: Site) {
    let gateway = site.gateway(&payments("timeout = '700ms'")).await;
    site.upstream.on("/pay", Reply::no_answer(End::Hang));
    let key = fresh_key();
    let began = oncegate::clock::now();
    let first = gateway.post("/pay", &key, "{}").await;
    assert_problem(&first, 504, "upstream-timeout", Retry::Open);
    let waited = began.elapsed();
    assert!(waited >= Duration::from_millis(700) && waited < SOON, "{waited:?}");
    let retry = gateway.post("/pay", &key, "{}").await;
    assert_problem(&retry, 409, "outcome-unknown", Retry::Open);
    assert_eq!(site.upstream.count_of(&key), 1);
}

async fn an_answer_that_stalls_is_given_up(site: Site) {
    let gateway = site.gateway(&payments("timeout = '700ms'")).await;
    let reply = Reply::new(201).body("0123456789");
    let cut = reply.head_bytes().len() + 5;
    site.upstream.on("/pay", reply.cut_after(cut, End::Hang));
    let key = fresh_key();
    let first = gateway.post("/pay", &key, "{}").await;
    assert_problem(&first, 504, "upstream-timeout", Retry::Open);
    let retry = gateway.post("/pay", &key, "{}").await;
    assert_problem(&retry, 409, "outcome-unknown", Retry::Open);
    assert_eq!(site.upstream.count_of(&key), 1);
}

async fn an_upstream_that_breaks_off_may_have_done_it(site: Site) {
    let gateway = site.gateway(&payments("")).await;
    let reply = Reply::new(201).body("0123456789");
    let head = reply.head_bytes().len();
    let breaks = [
        Reply::no_answer(End::Close),
        Reply::no_answer(End::Reset),
        reply.clone().cut_after(10, End::Close),
        reply.clone().cut_after(head - 2, End::Reset),
        reply.clone().cut_after(head, End::Close),
        reply.clone().cut_after(head + 4, End::Close),
        reply.cut_after(head + 4, End::Reset),
        Reply::new(201).chunked(["one", "two"]).cut_after(usize::MAX, End::Close),
    ];
    for (index, reply) in breaks.into_iter().enumerate() {
        let shown = format!("{reply:?}");
        site.upstream.on("/pay", reply);
        let key = fresh_key();
        let first = gateway.post("/pay", &key, "{}").await;
        assert_eq!(first.status, 502, "{shown}: {first:?}");
        assert_problem(&first, 502, "upstream-broke-off", Retry::Open);
        site.upstream.on("/pay", Reply::new(201));
        let retry = gateway.post("/pay", &key, "{}").await;
        assert_eq!(retry.status, 409, "{shown}: {retry:?}");
        assert_problem(&retry, 409, "outcome-unknown", Retry::Open);
        assert_eq!((site.upstream.count_of(&key), site.upstream.count()), (1, index + 1));
    }
}

/// The timeout is for the whole answer, also for one that is too long to be stored.
async fn a_long_answer_that_stalls_does_not_last_for_ever(site: Site) {
    let gateway = site.gateway(&payments("timeout = '1s'\nsnapshot_max_bytes = '1KiB'")).await;
    site.upstream.on("/pay", Reply::new(201).filled(1 << 20).cut_after(200_000, End::Hang));
    let key = fresh_key();
    let began = oncegate::clock::now();
    let first = gateway.posting("/pay", &key, "{}").try_send().await;
    assert!(first.is_err(), "half an answer is not taken for a whole one: {first:?}");
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    let retry = gateway.post("/pay", &key, "{}").await;
    assert_eq!(retry.status, 409, "{retry:?}");
    assert_eq!(site.upstream.count_of(&key), 1);
}

async fn an_upstream_that_switches_protocols_unasked_is_no_answer(site: Site) {
    let gateway = site.gateway(&payments("timeout = '2s'")).await;
    site.upstream.on("/pay", Reply::upgrade("surprise"));
    let key = fresh_key();
    let first = gateway.post("/pay", &key, "{}").await;
    assert!(first.status >= 500, "{first:?}");
    let retry = gateway.post("/pay", &key, "{}").await;
    assert_problem(&retry, 409, "outcome-unknown", Retry::Open);
    assert_eq!(site.upstream.count_of(&key), 1);
}
