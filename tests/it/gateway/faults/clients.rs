//! Clients that hang up. It changes nothing.

use super::super::{
    SOON, Site, assert_executed, assert_replayed, fresh_key, on_both_pairs, payments,
};
use crate::support::{Answer, Http2, Reply};

on_both_pairs!(
    a_client_that_hangs_up_in_mid_call_changes_nothing,
    a_client_that_hangs_up_in_mid_request_has_asked_for_nothing,
    a_client_that_hangs_up_while_waiting_changes_nothing,
    a_client_that_cancels_over_http2_changes_nothing,
    a_client_that_says_everything_and_leaves_at_once_has_asked,
);

async fn a_client_that_hangs_up_in_mid_call_changes_nothing(site: Site) {
    let gateway = site.gateway(&payments("wait = '30s'\nwait_max = '30s'")).await;
    site.upstream.on("/pay", Reply::new(201).body("paid").held());
    for (round, resets) in [(1, false), (2, true)] {
        site.upstream.hold();
        let key = fresh_key();
        let mut connection = gateway.connect().await;
        let ask = gateway.posting("/pay", &key, "{}");
        connection.send(ask.bytes()).await.expect("it listens");
        site.upstream.begun(round).await;
        if resets {
            connection.reset();
        } else {
            drop(connection);
        }
        site.upstream.let_go();
        let first = Answer { status: 201, body: b"paid".to_vec(), ..Answer::default() };
        assert_replayed(&gateway.post("/pay", &key, "{}").await, &first);
        assert_eq!(site.upstream.count_of(&key), 1);
    }
}

async fn a_client_that_hangs_up_in_mid_request_has_asked_for_nothing(site: Site) {
    let gateway = site.gateway(&payments("")).await;
    let key = fresh_key();
    let whole = gateway.posting("/pay", &key, "a body of some length").bytes();
    for cut in [10, whole.len() - 30, whole.len() - 1] {
        let mut connection = gateway.connect().await;
        connection.send(&whole[..cut]).await.expect("it listens");
        connection.reset();
    }
    // The key is as good as new, whatever comes with it.
    let first = gateway.post("/pay", &key, "another body").await;
    assert_executed(&first, 201);
    assert_replayed(&gateway.post("/pay", &key, "another body").await, &first);
    assert_eq!((site.upstream.count_of(&key), site.upstream.count()), (1, 1));
}

async fn a_client_that_hangs_up_while_waiting_changes_nothing(site: Site) {
    let gateway = site.gateway(&payments("wait = '30s'\nwait_max = '30s'")).await;
    site.upstream.on("/pay", Reply::new(201).body("paid").held());
    let key = fresh_key();
    let call = tokio::spawn(gateway.posting("/pay", &key, "{}").send());
    site.upstream.begun(1).await;
    for _ in 0..20 {
        let mut connection = gateway.connect().await;
        connection.send(gateway.posting("/pay", &key, "{}").bytes()).await.expect("it listens");
        connection.reset();
    }
    site.upstream.let_go();
    let first = call.await.expect("no panic");
    assert_executed(&first, 201);
    assert_replayed(&gateway.post("/pay", &key, "{}").await, &first);
    assert_eq!(site.upstream.count_of(&key), 1);
}

async fn a_client_that_cancels_over_http2_changes_nothing(site: Site) {
    let gateway = site.gateway(&payments("wait = '30s'\nwait_max = '30s'")).await;
    site.upstream.on("/pay", Reply::new(201).body("paid").held());
    let client = Http2::connect(gateway.addr()).await;
    let key = fresh_key();
    let call = {
        let (client, key) = (client.clone(), key.clone());
        let call = async move {
            client.send_body("POST", "/pay", &[("idempotency-key", &key)], "{}").await
        };
        tokio::spawn(call)
    };
    site.upstream.begun(1).await;
    call.abort();
    assert!(call.await.is_err(), "the stream is reset");
    // Behind the reset on the same connection: the gateway has seen it.
    assert_eq!(client.send("GET", "/other", &[]).await.status, 201);
    site.upstream.let_go();
    let first = Answer { status: 201, body: b"paid".to_vec(), ..Answer::default() };
    let retry = client.send_body("POST", "/pay", &[("idempotency-key", &key)], "{}").await;
    assert_replayed(&retry, &first);
    assert_eq!(site.upstream.count_of(&key), 1);
}

async fn a_client_that_says_everything_and_leaves_at_once_has_asked(site: Site) {
    let gateway = site.gateway(&payments("")).await;
    let small = "{}".to_owned();
    let large = "x".repeat(300_000);
    for body in [&small, &large] {
        for resets in [false, true] {
            let before = site.upstream.count();
            let keys: Vec<_> = (0..20).map(|_| fresh_key()).collect();
            for key in &keys {
                let mut connection = gateway.connect().await;
                let ask = gateway.posting("/pay", key, body);
                // With a length and in chunks.
                let ask = if key.as_bytes()[0] % 2 == 0 { ask } else { ask.chunked(body) };
                connection.send(ask.bytes()).await.expect("it listens");
                if resets && body == &small {
                    connection.reset();
                } else {
                    drop(connection);
                }
            }
            site.upstream.begun(before + keys.len()).await;
            for key in &keys {
                assert_eq!(site.upstream.count_of(key), 1);
            }
        }
    }
    // What was asked in the last moment is run although the gateway is asked to stop.
    let key = fresh_key();
    site.upstream.on("/pay", Reply::new(201).held());
    let mut connection = gateway.connect().await;
    connection.send(gateway.posting("/pay", &key, "{}").bytes()).await.expect("it listens");
    drop(connection);
    gateway.signal(libc::SIGTERM);
    site.upstream.let_go();
    assert_eq!(gateway.exit_code(SOON).await, Some(0));
    let next = site.gateway(&payments("")).await;
    let first = Answer { status: 201, ..Answer::default() };
    assert_replayed(&next.post("/pay", &key, "{}").await, &first);
    assert_eq!(site.upstream.count_of(&key), 1);
}
