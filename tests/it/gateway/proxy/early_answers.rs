//! Answers that the gateway gives by itself: what the client sent as a body is never taken for the
//! next request, whether or not it was read.

use std::io::ErrorKind;

use super::super::{Site, fresh_key, payments};
use super::with_routes;
use crate::support::client::chunks;
use crate::support::{Connection, Gateway, Reply, client};

/// What a body must never become.
const SMUGGLED: &str = "POST /smuggled HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";

async fn gateway() -> (Site, Gateway) {
    let routes = payments("request_max_bytes = '1KiB'")
        + "[[routes]]\npath = '/seldom'\n\
           rate_limit = { per = 'client_ip', rate = '1/h', burst = 1 }\n";
    with_routes(&routes).await
}

/// Sends it in one piece with an innocent request behind it. The first answer has this status; the
/// innocent one is answered, or the connection is closed.
async fn stays_one_request(site: &Site, connection: &mut Connection, head: &str, status: u16) {
    let bodies =
        [SMUGGLED.to_owned(), format!("{}{SMUGGLED}", "x".repeat(1500)), SMUGGLED.repeat(4000)];
    for body in bodies {
        for chunked in [false, true] {
            let framed = match chunked {
                false => format!("Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes(),
                true => {
                    [b"Transfer-Encoding: chunked\r\n\r\n", &chunks(body.as_bytes())[..]].concat()
                }
            };
            let innocent = b"GET /innocent HTTP/1.1\r\nHost: a\r\n\r\n";
            let bytes = [head.as_bytes(), &framed, innocent].concat();
            let shown = format!("{head:?}, {} bytes, chunked {chunked}", body.len());
            // It may be answered and closed before all of it was sent.
            let sent = connection.send(bytes).await;
            let answer = client::answer(connection, "POST").await;
            let answer = answer.unwrap_or_else(|e| panic!("{shown}: {e}, {sent:?}"));
            let too_long = body.len() > 1024 && answer.status == 413;
            assert!(answer.status == status || too_long, "{shown}: {answer:?}");
            match client::answer(connection, "GET").await {
                Ok(innocent) => assert_eq!(innocent.status, 201, "{shown}: {innocent:?}"),
                Err(error) => {
                    assert_ne!(error.kind(), ErrorKind::TimedOut, "{shown}: it is still open");
                    let addr = connection.peer();
                    *connection = Connection::connect(addr).await.expect("it listens");
                }
            }
            let targets: Vec<_> =
                site.upstream.executions().into_iter().map(|seen| seen.target).collect();
            assert!(!targets.iter().any(|target| target.contains("smuggled")), "{shown}");
            assert_eq!(site.upstream.malformed(), Vec::<String>::new(), "{shown}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_without_its_key_stays_one_request() {
    let (site, gateway) = gateway().await;
    let mut connection = gateway.connect().await;
    stays_one_request(&site, &mut connection, "POST /pay HTTP/1.1\r\nHost: a\r\n", 400).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_with_a_bad_key_stays_one_request() {
    let (site, gateway) = gateway().await;
    let mut connection = gateway.connect().await;
    let head = "POST /pay HTTP/1.1\r\nHost: a\r\nIdempotency-Key: a b\r\n";
    stays_one_request(&site, &mut connection, head, 400).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reused_key_and_a_running_one_stay_one_request() {
    let (site, gateway) = gateway().await;
    let key = fresh_key();
    site.upstream.on("/pay", Reply::new(201).held());
    let call = tokio::spawn(gateway.posting("/pay", &key, "{}").send());
    site.upstream.begun(1).await;
    let mut connection = gateway.connect().await;
    let head = format!("POST /pay HTTP/1.1\r\nHost: a\r\nIdempotency-Key: {key}\r\n");
    stays_one_request(&site, &mut connection, &head, 409).await;
    site.upstream.let_go();
    assert_eq!(call.await.expect("no panic").status, 201);
    stays_one_request(&site, &mut connection, &head, 409).await;
    assert_eq!(site.upstream.count_of(&key), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_comes_too_often_stays_one_request() {
    let (site, gateway) = gateway().await;
    let mut connection = gateway.connect().await;
    assert_eq!(gateway.post("/seldom", &fresh_key(), "{}").await.status, 201);
    let head = format!("POST /seldom HTTP/1.1\r\nHost: a\r\nIdempotency-Key: {}\r\n", fresh_key());
    stays_one_request(&site, &mut connection, &head, 429).await;
}

/// Also when the upstream is the one that answers early.
#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_that_answers_before_the_body_makes_no_second_request() {
    let (site, gateway) = gateway().await;
    let early = crate::support::Behaviour::before_the_body(Reply::new(200).body("early"));
    site.upstream.on("/early", early);
    for _ in 0..10 {
        let body = SMUGGLED.repeat(4000);
        let answer = gateway.ask("PUT", "/early").body(&body).try_send().await;
        // With so much unsent the upstream's answer may be lost on its way.
        if let Ok(answer) = answer {
            assert!([200, 502].contains(&answer.status), "{answer:?}");
        }
        // The upstream may be closing that connection just now.
        let innocent = gateway.get("/innocent").await;
        assert!([201, 502].contains(&innocent.status), "{innocent:?}");
    }
    assert!(site.upstream.executions().iter().all(|seen| !seen.target.contains("smuggled")));
    assert_eq!(site.upstream.malformed(), Vec::<String>::new());
}

/// Bytes behind an answer that nobody asked for are nobody's answer.
#[tokio::test(flavor = "multi_thread")]
async fn bytes_behind_an_upstreams_answer_are_not_the_next_answer() {
    let (site, gateway) = gateway().await;
    let evil = "okHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil";
    site.upstream.on("/lies", Reply::new(200).header("Content-Length", "2").raw_body(evil));
    for _ in 0..20 {
        let lies = gateway.get("/lies").await;
        assert!(lies.text() == "ok" || lies.status == 502, "{lies:?}");
        let key = fresh_key();
        for answer in [gateway.get("/other").await, gateway.post("/pay", &key, "{}").await] {
            assert_ne!(answer.text(), "evil");
            assert!([201, 502].contains(&answer.status), "{answer:?}");
        }
    }
}
