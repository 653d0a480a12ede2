//! What the upstream learns from the gateway about a keyed request.

use super::super::{Site, assert_executed, fresh_key, on_both_pairs, payments};
use crate::support::Ask;

on_both_pairs!(
    the_upstream_gets_key_scope_and_attempt,
    a_client_cannot_speak_for_the_gateway,
    a_request_arrives_as_it_was_sent,
);

async fn the_upstream_gets_key_scope_and_attempt(site: Site) {
    let routes = payments("") + "[[routes]]\npath = '/other'\n";
    let gateway = site.gateway(&routes).await;
    for (path, scope) in [("/pay", "payment"), ("/other", "default")] {
        let key = fresh_key();
        assert_executed(&gateway.post(path, &key, "{}").await, 201);
        let seen = site.upstream.last();
        assert_eq!(seen.all("Idempotency-Key"), [key.as_str()]);
        assert_eq!(seen.all("Idempotency-Scope"), [scope]);
        assert_eq!(seen.all("Idempotency-Attempt"), ["1"]);
    }
}

async fn a_client_cannot_speak_for_the_gateway(site: Site) {
    let gateway = site.gateway(&payments("")).await;
    let lies = |ask: Ask| {
        let ask = ask.header("Idempotency-Scope", "forged").header("idempotency-attempt", "99");
        ask.header("Idempotency-Attempt", "98").send()
    };
    assert_executed(&lies(gateway.posting("/pay", &fresh_key(), "{}")).await, 201);
    let seen = site.upstream.last();
    assert_eq!(seen.all("Idempotency-Scope"), ["payment"]);
    assert_eq!(seen.all("Idempotency-Attempt"), ["1"]);
    // Nor where the gateway itself says nothing.
    lies(gateway.posting("/unknown", &fresh_key(), "{}")).await;
    let seen = site.upstream.last();
    assert_eq!(seen.target, "/unknown");
    assert_eq!((seen.all("Idempotency-Scope"), seen.all("Idempotency-Attempt")), (vec![], vec![]));
}

async fn a_request_arrives_as_it_was_sent(site: Site) {
    let gateway = site.gateway(&payments("")).await;
    let every_byte: Vec<u8> = (0..=255).collect();
    let target = "/pay/%7Ea/..%2Fb//c?x=%20&y=a+b&y=";
    let ask = gateway.ask("POST", target).key(&fresh_key());
    let ask = ask.header("X-Twice", "a").header("X-Twice", "b").header("Cookie", "c=1");
    assert_executed(&ask.body(&every_byte).send().await, 201);
    let seen = site.upstream.last();
    assert_eq!((seen.method.as_str(), seen.target.as_str()), ("POST", target));
    assert_eq!((seen.body, seen.trailers), (every_byte, vec![]));
    let seen = site.upstream.last();
    assert_eq!((seen.all("X-Twice"), seen.all("Cookie")), (vec!["a", "b"], vec!["c=1"]));
}
