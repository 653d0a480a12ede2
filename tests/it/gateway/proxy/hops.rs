//! Headers about one connection end at the gateway; others tell the upstream who asked.

use super::super::{assert_executed, fresh_key};
use super::site;
use crate::support::{Ask, Reply};

#[tokio::test(flavor = "multi_thread")]
async fn hop_by_hop_headers_of_a_request_end_at_the_gateway() {
    let (site, gateway) = site().await;
    let key = fresh_key();
    for ask in [gateway.posting("/pay", &key, "{}"), gateway.ask("POST", "/other").body("{}")] {
        let ask = ask
            .header("Connection", "keep-alive, X-Private")
            .header("connection", "x-also-private")
            .header("Keep-Alive", "timeout=5")
            .header("Proxy-Connection", "keep-alive")
            .header("Proxy-Authorization", "Basic c2VjcmV0")
            .header("X-Private", "1")
            .header("X-Also-Private", "2")
            .header("X-Public", "3");
        assert_eq!(ask.send().await.status, 201);
        let seen = site.upstream.last();
        for ended in
            ["Keep-Alive", "Proxy-Connection", "Proxy-Authorization", "X-Private", "X-Also-Private"]
        {
            assert_eq!(seen.header(ended), None, "{ended}: {seen:?}");
        }
        assert_eq!(seen.all("X-Public"), ["3"]);
        let connection = seen.all("Connection").join(",").to_ascii_lowercase();
        assert!(!connection.contains("private"), "{connection}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hop_by_hop_headers_of_an_answer_end_at_the_gateway() {
    let (site, gateway) = site().await;
    let reply = Reply::new(200)
        .header("Connection", "X-Private, keep-alive")
        .header("Keep-Alive", "timeout=5, max=100")
        .header("Proxy-Authenticate", "Basic")
        .header("X-Private", "1")
        .header("X-Public", "2");
    site.upstream.on("/", reply.body("ok"));
    let keyed = gateway.posting("/pay", &fresh_key(), "{}");
    for ask in [keyed.clone(), keyed, gateway.ask("GET", "/other")] {
        let answer = ask.send().await;
        assert_eq!((answer.status, answer.text().as_str()), (200, "ok"));
        for ended in ["Keep-Alive", "Proxy-Authenticate", "X-Private"] {
            assert_eq!(answer.header(ended), None, "{ended}: {answer:?}");
        }
        assert_eq!(answer.all("X-Public"), ["2"]);
        let connection = answer.all("Connection").join(",").to_ascii_lowercase();
        assert!(!connection.contains("private"), "{connection}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_upstream_learns_who_asked_and_for_whom() {
    let (site, gateway) = site().await;
    let asks = [gateway.posting("/pay", &fresh_key(), "{}"), gateway.ask("GET", "/other")];
    for ask in asks {
        assert_eq!(ask.host("api.example").send().await.status, 201);
        let seen = site.upstream.last();
        assert_eq!(seen.all("Host"), ["api.example"], "it is preserved");
        assert_eq!(seen.all("X-Forwarded-For"), ["127.0.0.1"]);
        assert_eq!(seen.all("X-Forwarded-Proto"), ["http"]);
        assert_eq!(seen.all("X-Forwarded-Host"), ["api.example"]);
        let forwarded = seen.all("Forwarded").join(", ").to_ascii_lowercase();
        for part in ["for=", "127.0.0.1", "proto=http", "host=", "api.example"] {
            assert!(forwarded.contains(part), "{part}: {forwarded}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gateway_is_added_to_the_proxies_before_it() {
    let (site, gateway) = site().await;
    let ask = gateway.posting("/pay", &fresh_key(), "{}");
    let ask = ask.header("X-Forwarded-For", "203.0.113.7").header("X-Forwarded-For", "10.0.0.1");
    assert_executed(&ask.send().await, 201);
    let hops = site.upstream.last().all("X-Forwarded-For").join(", ");
    assert_eq!(hops.replace(' ', ""), "203.0.113.7,10.0.0.1,127.0.0.1");
}

/// `Connection` names what ends here, but not what the gateway itself says.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_cannot_have_the_gateways_own_headers_removed() {
    let (site, gateway) = site().await;
    let named = "close, X-Forwarded-For, Forwarded, Idempotency-Scope, Idempotency-Attempt, Host";
    let ask = gateway.posting("/pay", &fresh_key(), "{}").host("api.example");
    assert_executed(&ask.header("Connection", named).send().await, 201);
    let seen = site.upstream.last();
    assert_eq!(
        (seen.header("X-Forwarded-For"), seen.header("Host")),
        (Some("127.0.0.1"), Some("api.example"))
    );
    assert_eq!((seen.header("Idempotency-Scope"), seen.attempt()), (Some("payment"), Some(1)));
    assert!(seen.header("Forwarded").is_some(), "{seen:?}");
}

/// RFC 9112, 3.2.2: the target's host counts, whatever `Host` says.
#[tokio::test(flavor = "multi_thread")]
async fn a_target_in_absolute_form_is_the_same_target() {
    let (site, gateway) = site().await;
    let key = fresh_key();
    let absolute = Ask::new(gateway.addr(), "POST", "http://api.example/pay/7?a=b");
    assert_executed(&absolute.key(&key).body("{}").send().await, 201);
    let seen = site.upstream.last();
    assert_eq!((seen.target.as_str(), seen.all("Host")), ("/pay/7?a=b", vec!["api.example"]));
    assert_eq!(seen.header("Idempotency-Scope"), Some("payment"), "its route is found");
    let retry = gateway.ask("POST", "/pay/7?a=b").key(&key).body("{}").send().await;
    assert_eq!(retry.header("Idempotency-Status"), Some("replayed"), "{retry:?}");
    assert_eq!(site.upstream.count(), 1);
}
