//! SIGTERM and SIGINT: no more is accepted, what is in flight ends, every lease is settled.

use std::time::Duration;

use super::super::{
    Retry, SOON, Site, assert_executed, assert_problem, assert_replayed, fresh_key, on_both_pairs,
    payments,
};
use crate::support::{Answer, Ask, Connection, End, Gateway, Http2, Reply, eventually};

on_both_pairs!(
    what_is_in_flight_ends_before_it_does,
    what_outlasts_the_grace_is_settled_as_unknown,
    a_second_signal_ends_it_at_once,
    idle_connections_do_not_keep_it,
    a_call_whose_client_has_left_ends_before_it_does,
    what_streams_ends_before_it_does,
    requests_over_http2_end_before_it_does,
    an_upgraded_connection_does_not_keep_it_beyond_its_grace,
);

async fn what_is_in_flight_ends_before_it_does(site: Site) {
    for signal in [libc::SIGTERM, libc::SIGINT] {
        site.upstream.hold();
        site.upstream.on("/", Reply::new(201).body("paid").held());
        let gateway = site.gateway(&payments("")).await;
        let (before, key) = (site.upstream.count(), fresh_key());
        let keyed = tokio::spawn(gateway.posting("/pay", &key, "{}").send());
        let untouched = tokio::spawn(gateway.ask("GET", "/other").send());
        site.upstream.begun(before + 2).await;
        gateway.signal(signal);
        accepts_no_more(&gateway).await;
        let ready = Ask::new(gateway.admin(), "GET", "/readyz").send().await;
        assert_ne!(ready.status, 200, "it is not ready while it drains");
        assert!(gateway.is_running());
        site.upstream.let_go();
        let first = keyed.await.expect("it is answered");
        assert_executed(&first, 201);
        assert_eq!(untouched.await.expect("it is answered").text(), "paid");
        assert_eq!(gateway.exit_code(SOON).await, Some(0), "{}", gateway.stderr());

        let next = site.gateway(&payments("")).await;
        assert_replayed(&next.post("/pay", &key, "{}").await, &first);
        assert_eq!(site.upstream.count_of(&key), 1);
    }
}

async fn what_outlasts_the_grace_is_settled_as_unknown(site: Site) {
    site.upstream.on("/pay", Reply::no_answer(End::Hang));
    // A lease that is not settled would be seen: it outlives the test.
    let route = payments("lease = '10m'\ntimeout = '10m'");
    let gateway = site.gateway(&format!("shutdown_grace = '1s'\n{route}")).await;
    let key = fresh_key();
    let call = tokio::spawn(gateway.posting("/pay", &key, "{}").try_send());
    site.upstream.begun(1).await;
    let asked = oncegate::clock::now();
    gateway.signal(libc::SIGTERM);
    assert_eq!(gateway.exit_code(SOON).await, Some(0), "{}", gateway.stderr());
    assert!(asked.elapsed() >= Duration::from_secs(1), "it has its grace: {:?}", asked.elapsed());
    // It may be told, or cut off.
    if let Ok(answer) = call.await.expect("no panic") {
        assert!(answer.status >= 500, "{answer:?}");
    }
    site.upstream.on("/pay", Reply::new(201));
    let next = site.gateway(&route).await;
    let retry = next.post("/pay", &key, "{}").await;
    assert_problem(&retry, 409, "outcome-unknown", Retry::Open);
    assert_eq!(site.upstream.count_of(&key), 1);
}

async fn a_second_signal_ends_it_at_once(site: Site) {
    site.upstream.on("/pay", Reply::no_answer(End::Hang));
    let gateway = site.gateway(&payments("lease = '1s'")).await;
    let key = fresh_key();
    let call = tokio::spawn(gateway.posting("/pay", &key, "{}").try_send());
    site.upstream.begun(1).await;
    gateway.signal(libc::SIGTERM);
    accepts_no_more(&gateway).await;
    assert!(gateway.is_running(), "it has 30 seconds");
    gateway.signal(libc::SIGTERM);
    gateway.exit_code(Duration::from_secs(5)).await;
    assert!(call.await.expect("no panic").is_err(), "nobody is left to answer");
    site.upstream.on("/pay", Reply::new(201));
    let next = site.gateway(&payments("lease = '1s'")).await;
    eventually("its lease is over", SOON, async || {
        let retry = next.post("/pay", &key, "{}").await;
        assert_eq!(retry.status, 409, "{retry:?}");
        retry.header("Idempotency-Status") == Some("outcome-unknown")
    })
    .await;
    assert_eq!(site.upstream.count_of(&key), 1);
}

async fn idle_connections_do_not_keep_it(site: Site) {
    let gateway = site.gateway(&payments("")).await;
    let mut used = gateway.connect().await;
    gateway.posting("/pay", &fresh_key(), "{}").send_on(&mut used).await.expect("an answer");
    let mut unused = gateway.connect().await;
    gateway.signal(libc::SIGTERM);
    assert_eq!(gateway.exit_code(Duration::from_secs(10)).await, Some(0));
    assert_eq!((used.rest().await, unused.rest().await), (vec![], vec![]));
}

async fn a_call_whose_client_has_left_ends_before_it_does(site: Site) {
    site.upstream.on("/pay", Reply::new(201).body("paid").held());
    let gateway = site.gateway(&payments("")).await;
    let key = fresh_key();
    let mut connection = gateway.connect().await;
    connection.send(gateway.posting("/pay", &key, "{}").bytes()).await.expect("it listens");
    site.upstream.begun(1).await;
    connection.reset();
    gateway.signal(libc::SIGTERM);
    accepts_no_more(&gateway).await;
    site.upstream.let_go();
    assert_eq!(gateway.exit_code(SOON).await, Some(0), "{}", gateway.stderr());
    let next = site.gateway(&payments("")).await;
    let first = Answer { status: 201, body: b"paid".to_vec(), ..Answer::default() };
    assert_replayed(&next.post("/pay", &key, "{}").await, &first);
    assert_eq!(site.upstream.count_of(&key), 1);
}

async fn what_streams_ends_before_it_does(site: Site) {
    site.upstream.on("/stream", Reply::new(200).on_demand(["one ", "two"]));
    let gateway = site.gateway(&payments("")).await;
    let call = tokio::spawn(gateway.ask("GET", "/stream").send());
    site.upstream.begun(1).await;
    site.upstream.send_piece();
    gateway.signal(libc::SIGTERM);
    accepts_no_more(&gateway).await;
    site.upstream.send_piece();
    assert_eq!(call.await.expect("it is answered").text(), "one two");
    assert_eq!(gateway.exit_code(SOON).await, Some(0), "{}", gateway.stderr());
}

async fn requests_over_http2_end_before_it_does(site: Site) {
    site.upstream.on("/pay", Reply::new(201).body("paid").held());
    let gateway = site.gateway(&payments("")).await;
    let client = Http2::connect(gateway.addr()).await;
    let key = fresh_key();
    let call = {
        let key = key.clone();
        let call = async move {
            client.send_body("POST", "/pay", &[("idempotency-key", &key)], "{}").await
        };
        tokio::spawn(call)
    };
    site.upstream.begun(1).await;
    gateway.signal(libc::SIGTERM);
    accepts_no_more(&gateway).await;
    site.upstream.let_go();
    assert_executed(&call.await.expect("it is answered"), 201);
    assert_eq!(gateway.exit_code(SOON).await, Some(0), "{}", gateway.stderr());
    assert_eq!(site.upstream.count_of(&key), 1);
}

async fn an_upgraded_connection_does_not_keep_it_beyond_its_grace(site: Site) {
    site.upstream.on("/socket", Reply::upgrade("echo"));
    let gateway = site.gateway(&format!("shutdown_grace = '1s'\n{}", payments(""))).await;
    let mut socket = gateway.connect().await;
    let ask = gateway.ask("GET", "/socket").header("Connection", "Upgrade");
    let answer = ask.header("Upgrade", "echo").send_on(&mut socket).await.expect("an answer");
    assert_eq!(answer.status, 101);
    gateway.signal(libc::SIGTERM);
    assert_eq!(gateway.exit_code(Duration::from_secs(15)).await, Some(0));
    assert_eq!(socket.rest().await, b"");
}

async fn accepts_no_more(gateway: &Gateway) {
    eventually("it accepts no more", SOON, async || {
        Connection::connect(gateway.addr()).await.is_err()
    })
    .await;
}
