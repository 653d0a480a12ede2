//! Which route a request is about, seen from the scope that the upstream is told.

use super::super::Retry;
use super::super::{
    Site, assert_executed, assert_problem, assert_replayed, fresh_key, on_both_pairs, payments,
};
use crate::support::{Gateway, Upstream};

on_both_pairs!(
    the_most_specific_path_wins_whatever_the_order,
    a_rest_may_be_empty,
    without_routes_every_post_and_patch_may_have_a_key,
    what_holds_for_all_routes_is_said_once,
    a_detour_leads_to_the_route_and_is_forwarded_as_it_was_sent,
    a_route_may_have_an_upstream_of_its_own,
);

fn route(path: &str, scope: &str, more: &str) -> String {
    format!("[[routes]]\npath = '{path}'\nscope = '{scope}'\n{more}\n")
}

/// The scope that the upstream is told; none for what is forwarded untouched.
async fn scope_of(site: &Site, gateway: &Gateway, method: &str, path: &str) -> Option<String> {
    let before = site.upstream.count();
    gateway.ask(method, path).key(&fresh_key()).body("{}").send().await;
    assert_eq!(site.upstream.count(), before + 1, "{method} {path}");
    site.upstream.last().header("Idempotency-Scope").map(str::to_owned)
}

async fn the_most_specific_path_wins_whatever_the_order(site: Site) {
    let routes = [
        route("/{*rest}", "everything", ""),
        route("/v1/payments/{*rest}", "payments", ""),
        route("/v1/payments/{id}", "one", ""),
        route("/v1/payments/special", "special", "methods = ['PATCH']"),
        route("/v1/payments/{id}/refunds", "refunds", ""),
    ];
    let reversed: String = routes.iter().rev().map(String::as_str).collect();
    for file in [routes.concat(), reversed] {
        let gateway = site.gateway(&file).await;
        for (method, path, scope) in [
            ("POST", "/", "everything"),
            ("POST", "/v1/other", "everything"),
            ("POST", "/v1/payments", "payments"),
            ("POST", "/v1/payments/7", "one"),
            ("POST", "/v1/payments/7/other", "payments"),
            ("POST", "/v1/payments/7/refunds", "refunds"),
            ("PATCH", "/v1/payments/special", "special"),
            // The most specific one that lists the method.
            ("POST", "/v1/payments/special", "one"),
        ] {
            let found = scope_of(&site, &gateway, method, path).await;
            assert_eq!(found.as_deref(), Some(scope), "{method} {path}");
        }
        assert_eq!(scope_of(&site, &gateway, "PUT", "/v1/payments/7").await, None);
    }
}

async fn a_rest_may_be_empty(site: Site) {
    let gateway = site.gateway(&route("/v1/payments/{*rest}", "payments", "")).await;
    for path in ["/v1/payments", "/v1/payments/", "/v1/payments/7/refunds", "/v1/payments?a=b"] {
        let found = scope_of(&site, &gateway, "POST", path).await;
        assert_eq!(found.as_deref(), Some("payments"), "{path}");
    }
    for path in ["/v1", "/v1/payment", "/v1/paymentss", "/V1/payments"] {
        assert_eq!(scope_of(&site, &gateway, "POST", path).await, None, "{path}");
    }
}

async fn without_routes_every_post_and_patch_may_have_a_key(site: Site) {
    let gateway = site.gateway("").await;
    for (method, path) in [("POST", "/"), ("POST", "/any/thing"), ("PATCH", "/any")] {
        let found = scope_of(&site, &gateway, method, path).await;
        assert_eq!(found.as_deref(), Some("default"), "{method} {path}");
        let without = gateway.ask(method, path).body("{}").send().await;
        assert_eq!((without.status, without.header("Idempotency-Status")), (201, None));
    }
    for method in ["PUT", "DELETE"] {
        assert_eq!(scope_of(&site, &gateway, method, "/any").await, None, "{method}");
    }
    let key = fresh_key();
    let first = gateway.post("/any", &key, "{}").await;
    assert_replayed(&gateway.post("/any", &key, "{}").await, &first);
    assert_eq!(site.upstream.count_of(&key), 1);
}

async fn a_detour_leads_to_the_route_and_is_forwarded_as_it_was_sent(site: Site) {
    let gateway = site.gateway(&payments("")).await;
    for path in ["//pay/1", "/pay//1", "/./pay/1", "/x/../pay/1", "/x/%2E./pay/1"] {
        let unkeyed = gateway.ask("POST", path).body("{}").send().await;
        assert_problem(&unkeyed, 400, "key-missing", Retry::No);
        let key = fresh_key();
        let first = gateway.post(path, &key, "{}").await;
        assert_executed(&first, 201);
        assert_eq!(site.upstream.last().target, path);
        assert_replayed(&gateway.post(path, &key, "{}").await, &first);
        // Another spelling is another request: it is not told to be the same.
        let straight = gateway.post("/pay/1", &key, "{}").await;
        assert_problem(&straight, 409, "key-reused", Retry::No);
        assert_eq!(site.upstream.count_of(&key), 1, "{path}");
    }
}

async fn what_holds_for_all_routes_is_said_once(site: Site) {
    let defaults = "[defaults]\nkey = 'required'\nscope = 'all'\nmismatch_status = 422\n";
    let lenient = "[[routes]]\npath = '/lenient'\nkey = 'optional'\n";
    let gateway = site.gateway(&format!("{defaults}[[routes]]\npath = '/a'\n{lenient}")).await;
    let missing = gateway.ask("POST", "/a").body("{}").send().await;
    assert_problem(&missing, 400, "key-missing", Retry::No);
    assert_eq!(gateway.ask("POST", "/lenient").body("{}").send().await.status, 201);
    assert_eq!(scope_of(&site, &gateway, "POST", "/lenient").await.as_deref(), Some("all"));
    let key = fresh_key();
    assert_executed(&gateway.post("/a", &key, "one").await, 201);
    assert_problem(&gateway.post("/a", &key, "other").await, 422, "key-reused", Retry::No);
    assert_eq!(site.upstream.count_of(&key), 1);
}

async fn a_route_may_have_an_upstream_of_its_own(site: Site) {
    let special = Upstream::start().await;
    let routes =
        payments("") + &route("/special", "special", &format!("upstream = '{}'", special.url()));
    let gateway = site.gateway(&routes).await;
    let key = fresh_key();
    assert_executed(&gateway.post("/special", &key, "{}").await, 201);
    assert_eq!((special.count_of(&key), site.upstream.count()), (1, 0));
    assert_executed(&gateway.post("/pay", &key, "{}").await, 201);
    assert_eq!((special.count(), site.upstream.count_of(&key)), (1, 1));
    // Also for what has no key.
    gateway.ask("POST", "/special").body("{}").send().await;
    assert_eq!((special.count(), site.upstream.count()), (2, 1));
}
