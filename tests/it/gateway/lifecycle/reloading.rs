//! SIGHUP: routes and limits change under a running gateway, or stay as they are.

use super::super::{
    Retry, SOON, Site, assert_executed, assert_problem, assert_replayed, fresh_key, on_both_pairs,
    payments,
};
use crate::support::{Gateway, Reply, eventually};

on_both_pairs!(
    routes_are_read_again,
    limits_are_read_again,
    a_mistake_keeps_the_old_routes_and_is_named,
    a_running_request_is_not_disturbed,
);

/// Whether a POST without a key is refused on this path.
async fn asks_for_a_key(gateway: &Gateway, path: &str) -> bool {
    let answer = gateway.ask("POST", path).body("{}").send().await;
    match answer.status {
        201 => false,
        _ => {
            assert_problem(&answer, 400, "key-missing", Retry::No);
            true
        }
    }
}

async fn routes_are_read_again(site: Site) {
    let gateway = site.gateway(&payments("")).await;
    let key = fresh_key();
    let first = gateway.post("/pay", &key, "{}").await;
    assert_executed(&first, 201);
    assert!(asks_for_a_key(&gateway, "/pay").await);
    assert!(!asks_for_a_key(&gateway, "/new").await);

    let new = "[[routes]]\npath = '/new'\nkey = 'required'\n";
    let lenient = payments("mismatch_status = 422").replace("'required'", "'optional'");
    gateway.rewrite_config(&(lenient + new));
    gateway.signal(libc::SIGHUP);
    eventually("the new routes are in force", SOON, async || {
        asks_for_a_key(&gateway, "/new").await
    })
    .await;
    assert!(!asks_for_a_key(&gateway, "/pay").await);
    assert_problem(&gateway.post("/pay", &key, "other").await, 422, "key-reused", Retry::No);
    assert_replayed(&gateway.post("/pay", &key, "{}").await, &first);
    assert_eq!(site.upstream.count_of(&key), 1);
}

async fn limits_are_read_again(site: Site) {
    let limited = |max: u32| format!("[limits]\nmax_in_flight = {max}\n{}", payments(""));
    let gateway = site.gateway(&limited(1)).await;
    site.upstream.on("/pay/held", Reply::new(201).held());
    let call = tokio::spawn(gateway.posting("/pay/held", &fresh_key(), "{}").send());
    site.upstream.begun(1).await;
    let busy = async || match gateway.get("/elsewhere").await.status {
        503 => true,
        status => {
            assert_eq!(status, 201);
            false
        }
    };
    assert!(busy().await, "there is one already");
    gateway.rewrite_config(&limited(2));
    gateway.signal(libc::SIGHUP);
    eventually("there is room for one more", SOON, async || !busy().await).await;
    gateway.rewrite_config(&limited(1));
    gateway.signal(libc::SIGHUP);
    eventually("and then again not", SOON, busy).await;
    site.upstream.let_go();
    assert_executed(&call.await.expect("no panic"), 201);
}

async fn a_mistake_keeps_the_old_routes_and_is_named(site: Site) {
    let gateway = site.gateway(&payments("")).await;
    let mistakes = ["[[routes]]\npath = '/new'\nkee = 'required'\n", "nonsense", "[[routes]]\n"];
    for mistake in mistakes {
        let said = gateway.stderr().len();
        gateway.rewrite_config(mistake);
        gateway.signal(libc::SIGHUP);
        eventually("it says so", SOON, async || gateway.stderr()[said..].contains("oncegate.toml"))
            .await;
        assert!(asks_for_a_key(&gateway, "/pay").await, "the old routes stay: {mistake}");
        assert!(!asks_for_a_key(&gateway, "/new").await, "{mistake}");
    }
    // And a good file is still read.
    gateway.rewrite_config("[[routes]]\npath = '/new'\nkey = 'required'\n");
    gateway.signal(libc::SIGHUP);
    eventually("the new routes are in force", SOON, async || {
        asks_for_a_key(&gateway, "/new").await
    })
    .await;
}

async fn a_running_request_is_not_disturbed(site: Site) {
    let gateway = site.gateway(&payments("")).await;
    site.upstream.on("/pay", Reply::new(201).body("paid").held());
    let key = fresh_key();
    let call = tokio::spawn(gateway.posting("/pay", &key, "{}").send());
    site.upstream.begun(1).await;
    gateway.rewrite_config(&(payments("") + "[[routes]]\npath = '/new'\nkey = 'required'\n"));
    gateway.signal(libc::SIGHUP);
    eventually("the new routes are in force", SOON, async || {
        asks_for_a_key(&gateway, "/new").await
    })
    .await;
    assert_problem(&gateway.post("/pay", &key, "{}").await, 409, "in-progress", Retry::After);
    site.upstream.let_go();
    let first = call.await.expect("no panic");
    assert_executed(&first, 201);
    assert_replayed(&gateway.post("/pay", &key, "{}").await, &first);
    assert_eq!(site.upstream.count_of(&key), 1);
}
