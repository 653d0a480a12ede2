//! The first request gets the upstream's answer, every retry the same one.

use super::super::{
    Retry, SOON, Site, assert_executed, assert_problem, assert_replayed, fresh_key,
    lasting_headers, on_both_pairs, payments,
};
use crate::support::{Reply, eventually};

on_both_pairs!(
    a_retry_gets_the_answer_byte_for_byte,
    cookies_are_for_the_first_caller_only,
    definite_answers_of_every_kind_are_stored,
    an_empty_answer_is_an_answer,
    a_chunked_answer_is_replayed_with_its_length,
    an_answer_too_long_to_store_goes_through_and_is_remembered_as_done,
    answers_outlive_the_gateway,
    a_dropped_header_is_never_replayed,
    an_answer_without_a_date_gets_one_that_its_replays_keep,
    trailers_are_neither_stored_nor_announced,
);

const DATE: &str = "Thu, 01 Jan 2015 00:00:00 GMT";

async fn a_retry_gets_the_answer_byte_for_byte(site: Site) {
    let gateway = site.gateway(&payments("")).await;
    let every_byte: Vec<u8> = (0..=255).collect();
    let reply = Reply::new(201)
        .header("Content-Type", "application/octet-stream")
        .header("Location", "/pay/7")
        .header("X-Repeated", "second to none")
        .header("Date", DATE)
        .header("X-Repeated", "a, b")
        .header("ETag", "\"v1\"")
        .header("X-Bytes", "caf\u{e9}");
    site.upstream.on("/pay", reply.body(&every_byte));
    let key = fresh_key();
    let first = gateway.post("/pay/7", &key, "{}").await;
    assert_executed(&first, 201);
    assert_eq!(first.body, every_byte);
    assert_eq!(first.all("X-Repeated"), ["second to none", "a, b"]);
    assert_eq!(first.all("Location"), ["/pay/7"]);
    for _ in 0..3 {
        let retry = gateway.post("/pay/7", &key, "{}").await;
        assert_replayed(&retry, &first);
        assert_eq!(lasting_headers(&retry), lasting_headers(&first));
        assert_eq!(retry.all("Content-Length"), ["256"]);
        assert_eq!(retry.header("Transfer-Encoding"), None);
        assert_eq!(retry.header("Date"), Some(DATE));
    }
    assert_eq!(site.upstream.count_of(&key), 1);
}

async fn cookies_are_for_the_first_caller_only(site: Site) {
    let gateway = site.gateway(&payments("")).await;
    let reply = Reply::new(200).header("Set-Cookie", "a=1").header("Set-Cookie", "b=2; Secure");
    site.upstream.on("/pay", reply.body("paid"));
    let key = fresh_key();
    let first = gateway.post("/pay", &key, "{}").await;
    assert_executed(&first, 200);
    assert_eq!(first.all("Set-Cookie"), ["a=1", "b=2; Secure"]);
    let retry = gateway.post("/pay", &key, "{}").await;
    assert_replayed(&retry, &first);
    assert_eq!(retry.header("Set-Cookie"), None);
    assert_eq!(site.upstream.count_of(&key), 1);
}

async fn definite_answers_of_every_kind_are_stored(site: Site) {
    let gateway = site.gateway(&payments("")).await;
    for status in [200, 201, 202, 204, 303, 400, 404, 409, 410, 422, 451] {
        let reply = Reply::new(status).header("Location", "/there").header("Date", DATE);
        let body = if status == 204 { "" } else { "the answer" };
        site.upstream.on("/pay", reply.body(body));
        let key = fresh_key();
        let first = gateway.post("/pay", &key, "{}").await;
        assert_executed(&first, status);
        assert_eq!(first.text(), body);
        // Whatever the upstream would say now.
        site.upstream.on("/pay", Reply::new(500));
        let retry = gateway.post("/pay", &key, "{}").await;
        assert_replayed(&retry, &first);
        assert_eq!(lasting_headers(&retry), lasting_headers(&first));
        if status == 204 {
            assert_eq!(retry.header("Content-Length"), None, "it has no body at all");
        }
        assert_eq!(site.upstream.count_of(&key), 1, "{status}");
    }
}

async fn an_empty_answer_is_an_answer(site: Site) {
    let gateway = site.gateway(&payments("")).await;
    site.upstream.on("/pay", Reply::new(200));
    let key = fresh_key();
    let first = gateway.post("/pay", &key, "").await;
    assert_executed(&first, 200);
    let retry = gateway.post("/pay", &key, "").await;
    assert_replayed(&retry, &first);
    assert_eq!(retry.all("Content-Length"), ["0"]);
    assert_eq!(site.upstream.count_of(&key), 1);
}

async fn a_chunked_answer_is_replayed_with_its_length(site: Site) {
    let gateway = site.gateway(&payments("")).await;
    site.upstream.on("/pay", Reply::new(200).chunked(["one ", "two ", "three"]));
    let key = fresh_key();
    let first = gateway.post("/pay", &key, "{}").await;
    assert_executed(&first, 200);
    assert_eq!(first.text(), "one two three");
    let retry = gateway.post("/pay", &key, "{}").await;
    assert_replayed(&retry, &first);
    assert_eq!(retry.all("Content-Length"), ["13"]);
    assert_eq!(retry.header("Transfer-Encoding"), None);
    assert_eq!(site.upstream.count_of(&key), 1);
}

async fn an_answer_too_long_to_store_goes_through_and_is_remembered_as_done(site: Site) {
    let gateway = site.gateway(&payments("snapshot_max_bytes = '1KiB'")).await;
    site.upstream.on("/pay/length", Reply::new(201).filled(300_000));
    site.upstream.on("/pay/chunks", Reply::new(201).filled_chunked(300_000));
    site.upstream.on("/pay/fits", Reply::new(201).filled(1024));
    for path in ["/pay/length", "/pay/chunks"] {
        let key = fresh_key();
        let first = gateway.post(path, &key, "{}").await;
        assert_executed(&first, 201);
        assert_eq!(first.body.len(), 300_000, "it is streamed whole to the first caller");
        for _ in 0..2 {
            let retry = gateway.post(path, &key, "{}").await;
            assert_problem(&retry, 409, "response-not-stored", Retry::No);
            assert_eq!(retry.json()["original_status"], 201);
        }
        assert_eq!(site.upstream.count_of(&key), 1);
    }
    let key = fresh_key();
    let first = gateway.post("/pay/fits", &key, "{}").await;
    assert_replayed(&gateway.post("/pay/fits", &key, "{}").await, &first);
    assert_eq!(site.upstream.count_of(&key), 1);
}

async fn answers_outlive_the_gateway(site: Site) {
    let gateway = site.gateway(&payments("")).await;
    let key = fresh_key();
    let first = gateway.post("/pay", &key, "{}").await;
    assert_executed(&first, 201);
    gateway.kill();
    let gateway = site.gateway(&payments("")).await;
    assert_replayed(&gateway.post("/pay", &key, "{}").await, &first);
    assert_eq!(site.upstream.count_of(&key), 1);
}

async fn a_dropped_header_is_never_replayed(site: Site) {
    let gateway = site.gateway(&payments("snapshot_headers_drop = ['X-Session']")).await;
    let reply = Reply::new(200).header("X-Session", "secret").header("X-Kept", "kept");
    // Hop-by-hop, whether or not it is listed.
    site.upstream.on("/pay", reply.header("Keep-Alive", "timeout=5").body("paid"));
    let key = fresh_key();
    let first = gateway.post("/pay", &key, "{}").await;
    assert_executed(&first, 200);
    assert_eq!(first.header("X-Session"), Some("secret"));
    let retry = gateway.post("/pay", &key, "{}").await;
    assert_replayed(&retry, &first);
    assert_eq!((retry.header("X-Session"), retry.header("X-Kept")), (None, Some("kept")));
    assert_eq!(retry.header("Keep-Alive"), None);
    assert_eq!(site.upstream.count_of(&key), 1);
}

async fn an_answer_without_a_date_gets_one_that_its_replays_keep(site: Site) {
    let gateway = site.gateway(&payments("")).await;
    site.upstream.on("/pay", Reply::new(201).body("paid"));
    let key = fresh_key();
    let first = gateway.post("/pay", &key, "{}").await;
    assert_executed(&first, 201);
    assert_eq!(first.all("Date").len(), 1, "{first:?}");
    // The server itself would say another one by then.
    eventually("another second", SOON, async || {
        gateway.get("/elsewhere").await.header("Date") != first.header("Date")
    })
    .await;
    let retry = gateway.post("/pay", &key, "{}").await;
    assert_replayed(&retry, &first);
    assert_eq!(lasting_headers(&retry), lasting_headers(&first));
    assert_eq!(site.upstream.count_of(&key), 1);
}

async fn trailers_are_neither_stored_nor_announced(site: Site) {
    let gateway = site.gateway(&payments("")).await;
    let reply = Reply::new(200).header("Trailer", "X-Sum").chunked(["one", "two"]);
    site.upstream.on("/pay", reply.trailer("X-Sum", "6"));
    let key = fresh_key();
    let first = gateway.post("/pay", &key, "{}").await;
    assert_executed(&first, 200);
    assert_eq!((first.text().as_str(), first.trailers.len()), ("onetwo", 0));
    assert_eq!(first.header("Trailer"), None);
    let retry = gateway.post("/pay", &key, "{}").await;
    assert_replayed(&retry, &first);
    assert_eq!(retry.header("Trailer"), None);
}
