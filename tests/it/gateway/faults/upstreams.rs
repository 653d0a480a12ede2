//! Upstreams that refuse, reset, hang and answer too early, under load.

use std::time::Duration;

use super::super::{SOON, Site, fresh_key, on_both_pairs, payments};
use super::load::{Load, judge};
use crate::support::{Behaviour, End, Reply, eventually};

on_both_pairs!(
    an_upstream_that_breaks_at_every_byte_runs_nothing_twice,
    an_upstream_that_comes_and_goes_runs_nothing_twice,
    an_upstream_that_answers_before_the_body_runs_nothing_twice,
    a_connection_that_died_idle_runs_nothing_twice,
);

async fn an_upstream_that_breaks_at_every_byte_runs_nothing_twice(site: Site) {
    let gateway = site.gateway(&payments("timeout = '500ms'")).await;
    let whole = Reply::new(201).header("X-Some", "header").body("0123456789");
    let length = whole.head_bytes().len() + 10;
    for cut in (0..length).step_by(3) {
        let end = match cut % 4 {
            0 => End::Reset,
            1 => End::Hang,
            _ => End::Close,
        };
        site.upstream.on("/pay", whole.clone().cut_after(cut, end));
        let key = fresh_key();
        let first = gateway.post("/pay", &key, "{}").await;
        let expected = if end == End::Hang { 504 } else { 502 };
        assert_eq!(first.status, expected, "{end:?} after {cut} bytes: {first:?}");
        site.upstream.on("/pay", whole.clone());
        let retry = gateway.post("/pay", &key, "{}").await;
        assert_eq!(retry.header("Idempotency-Status"), Some("outcome-unknown"), "{cut} {end:?}");
        assert_eq!(site.upstream.count_of(&key), 1, "{end:?} after {cut} bytes");
    }
}

async fn an_upstream_that_comes_and_goes_runs_nothing_twice(site: Site) {
    let gateway = site.gateway(&payments("")).await;
    site.upstream.on(
        "/pay",
        Behaviour::by(|execution| match execution.number % 7 {
            3 => Reply::no_answer(End::Reset),
            5 => Reply::numbered(execution).cut_after(60, End::Close),
            _ => Reply::numbered(execution).slow(Duration::from_millis(5)),
        }),
    );
    let load = Load::begin(std::slice::from_ref(&gateway), 8);
    for _ in 0..10 {
        let before = load.done();
        eventually("some more are done", SOON, async || load.done() >= before + 10).await;
        site.upstream.stop().await;
        site.upstream.start_again().await;
    }
    let calls = load.finish().await;
    let (answered, held) = judge(&calls, &site.upstream);
    assert!(answered > 0 && held > 0, "{answered} answered, {held} held");
}

async fn an_upstream_that_answers_before_the_body_runs_nothing_twice(site: Site) {
    let gateway = site.gateway(&payments("")).await;
    site.upstream.on("/pay", Behaviour::before_the_body(Reply::new(201).body("early")));
    for length in [2, 10_000, 1_000_000] {
        let key = fresh_key();
        let body = "x".repeat(length);
        let ask = || gateway.posting("/pay", &key, &body).send();
        let first = ask().await;
        let retry = ask().await;
        match first.status {
            201 => {
                assert_eq!(first.text(), "early");
                assert_eq!((retry.status, retry.text()), (201, first.text()), "{retry:?}");
            }
            // So much was unsent that the answer was lost on its way.
            _ => {
                assert_eq!(first.header("Idempotency-Status"), Some("upstream-broke-off"));
                assert_eq!(retry.header("Idempotency-Status"), Some("outcome-unknown"));
            }
        }
        assert_eq!(site.upstream.count_of(&key), 1, "{length}");
    }
}

/// A pooled connection that the upstream has closed meanwhile: trying another one is fine as long
/// as nothing of the request can have been read.
async fn a_connection_that_died_idle_runs_nothing_twice(site: Site) {
    let gateway = site.gateway(&payments("")).await;
    for _ in 0..20 {
        let key = fresh_key();
        let first = gateway.post("/pay", &key, "{}").await;
        assert!([201, 502].contains(&first.status), "{first:?}");
        site.upstream.stop().await;
        site.upstream.start_again().await;
        let next = gateway.post("/pay", &fresh_key(), "{}").await;
        assert!([201, 502].contains(&next.status), "{next:?}");
        let retry = gateway.post("/pay", &key, "{}").await;
        let expected = match first.header("Idempotency-Status") {
            Some("executed") => "replayed",
            // It never left: the key is free.
            Some("upstream-unreachable") => "executed",
            _ => "outcome-unknown",
        };
        assert_eq!(retry.header("Idempotency-Status"), Some(expected), "{first:?} {retry:?}");
    }
    assert_eq!(site.upstream.most_of_one_key(), 1);
}
