//! What is none of the gateway's business is forwarded as it is, every time.

use super::super::{Site, lasting_headers, on_both_pairs, payments};
use crate::support::{Ask, Gateway, Reply};

on_both_pairs!(
    what_no_route_matches_is_forwarded_untouched,
    without_a_key_an_optional_route_forwards_untouched,
);

fn reply() -> Reply {
    let reply = Reply::new(206).header("Date", "Thu, 01 Jan 2015 00:00:00 GMT");
    reply.header("Set-Cookie", "a=1").header("X-Repeated", "a").header("X-Repeated", "b")
}

/// Twice the same request: two executions, and answers that the gateway has added nothing to.
async fn passes_twice(site: &Site, ask: impl Fn() -> Ask) {
    for _ in 0..2 {
        let before = site.upstream.count();
        let answer = ask().send().await;
        assert_eq!((answer.status, answer.text().as_str()), (206, "untouched"));
        let expected =
            [("date", "Thu, 01 Jan 2015 00:00:00 GMT"), ("x-repeated", "a"), ("x-repeated", "b")];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(lasting_headers(&answer), expected);
        assert_eq!(answer.header("Set-Cookie"), Some("a=1"));
        let added = answer
            .headers
            .iter()
            .find(|(name, _)| name.to_ascii_lowercase().starts_with("idempotency"));
        assert_eq!(added, None);
        assert_eq!(site.upstream.count(), before + 1);
        let seen = site.upstream.last();
        assert_eq!((seen.header("idempotency-scope"), seen.attempt()), (None, None));
    }
}

async fn gateway(site: &Site, routes: &str) -> Gateway {
    site.upstream.on("/", reply().body("untouched"));
    site.gateway(routes).await
}

async fn what_no_route_matches_is_forwarded_untouched(site: Site) {
    let gateway = gateway(&site, &payments("")).await;
    passes_twice(&site, || gateway.posting("/other", "a-key", "{}")).await;
    assert_eq!(site.upstream.last().key(), Some("a-key"), "the client's own header");
    passes_twice(&site, || gateway.posting("/payment", "a-key", "{}")).await;
    // The route lists other methods.
    passes_twice(&site, || gateway.ask("PUT", "/pay").key("a-key").body("{}")).await;
    passes_twice(&site, || gateway.ask("GET", "/pay")).await;
    assert_eq!(gateway.metrics().await.requests("untouched"), 8.0);
}

async fn without_a_key_an_optional_route_forwards_untouched(site: Site) {
    let gateway = gateway(&site, &payments("").replace("'required'", "'optional'")).await;
    passes_twice(&site, || gateway.ask("POST", "/pay").body("{}")).await;
    passes_twice(&site, || gateway.ask("POST", "/pay").chunked("{}")).await;
    assert_eq!(gateway.metrics().await.requests("untouched"), 4.0);
}
