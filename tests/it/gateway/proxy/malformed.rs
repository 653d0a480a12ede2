//! Requests that two readers would end at different places: refused, or passed on so that there is
//! only one way to read them. Never two upstream requests from one.

use super::super::{A_MOMENT, SOON, Site, fresh_key};
use super::site;
use crate::support::Gateway;

/// A second request, for whoever takes the first one to be over.
const HIDDEN: &str = "GET /smuggled HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

/// Headers and the body behind them; `N` is the length of the hidden request.
const AMBIGUOUS: &[(&str, &str)] = &[
    // Both kinds of framing: RFC 9112, 6.1 has the connection closed behind such a request.
    ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\nHIDDEN"),
    ("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "0\r\n\r\nHIDDEN"),
    ("Content-Length: N\r\nTransfer-Encoding: chunked\r\n", "HIDDEN"),
    ("Transfer-Encoding: chunked\r\nContent-Length: 0\r\n", "0\r\n\r\nHIDDEN"),
    ("X: a\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n", "0\r\n\r\nHIDDEN"),
    // Codings that are not chunked at the end.
    ("Transfer-Encoding: xchunked\r\n", "0\r\n\r\nHIDDEN"),
    ("Transfer-Encoding: identity\r\n", "HIDDEN"),
    ("Transfer-Encoding: chunked, identity\r\n", "0\r\n\r\nHIDDEN"),
    ("Transfer-Encoding: gzip\r\nContent-Length: 0\r\n", "HIDDEN"),
    ("Transfer-Encoding: \"chunked\"\r\nContent-Length: 0\r\n", "0\r\n\r\nHIDDEN"),
    ("Transfer-Encoding: \u{b}chunked\r\nContent-Length: 0\r\n", "0\r\n\r\nHIDDEN"),
    ("Transfer-Encoding:\r\nContent-Length: 0\r\n", "HIDDEN"),
    // Lengths that differ, or are none.
    ("Content-Length: 0\r\nContent-Length: N\r\n", "HIDDEN"),
    ("Content-Length: N\r\nContent-Length: 0\r\n", "HIDDEN"),
    ("Content-Length: 0, N\r\n", "HIDDEN"),
    ("Content-Length: N N\r\n", "HIDDEN"),
    ("Content-Length: +0\r\n", "HIDDEN"),
    ("Content-Length: -1\r\n", "HIDDEN"),
    ("Content-Length: 0x0\r\n", "HIDDEN"),
    ("Content-Length: 0.0\r\n", "HIDDEN"),
    ("Content-Length: 0;\r\n", "HIDDEN"),
    ("Content-Length: 18446744073709551616\r\n", "HIDDEN"),
    ("Content-Length:\r\n", "HIDDEN"),
    // Names and lines that only some readers take for headers.
    ("Transfer-Encoding : chunked\r\nContent-Length: N\r\n", "HIDDEN"),
    ("Content-Length : 0\r\nContent-Length: N\r\n", "HIDDEN"),
    ("Content-Length\t: 0\r\n", "HIDDEN"),
    (" Transfer-Encoding: chunked\r\nContent-Length: N\r\n", "HIDDEN"),
    ("Transfer-Encoding:\r\n chunked\r\nContent-Length: N\r\n", "HIDDEN"),
    ("X-Folded: a\r\n Content-Length: 0\r\nContent-Length: N\r\n", "HIDDEN"),
    ("X-Folded: a\r\n\tTransfer-Encoding: chunked\r\nContent-Length: N\r\n", "HIDDEN"),
    ("X: a\rTransfer-Encoding: chunked\r\nContent-Length: N\r\n", "HIDDEN"),
    ("X: a\0\r\nContent-Length: N\r\n", "HIDDEN"),
    ("\0X: a\r\nContent-Length: N\r\n", "HIDDEN"),
    ("\u{1}Transfer-Encoding: chunked\r\nContent-Length: N\r\n", "HIDDEN"),
    ("Content-Length=0\r\nContent-Length: N\r\n", "HIDDEN"),
    (": a\r\nContent-Length: N\r\n", "HIDDEN"),
    // Framing that `Connection` would have removed.
    ("Connection: Content-Length\r\nContent-Length: N\r\n", "HIDDEN"),
    (
        "Connection: Transfer-Encoding\r\nTransfer-Encoding: chunked\r\nContent-Length: N\r\n",
        "HIDDEN",
    ),
];

/// Bodies in chunks that are none.
const CHUNKS: &[&str] = &[
    "0x0\r\n\r\nHIDDEN",
    "-1\r\n\r\nHIDDEN",
    "+0\r\n\r\nHIDDEN",
    "\r\n0\r\n\r\nHIDDEN",
    ";\r\n\r\nHIDDEN",
    "g\r\n\r\nHIDDEN",
    "fffffffffffffffff\r\nHIDDEN",
    "10000000000000000\r\n\r\nHIDDEN",
    "3\r\nabcdef\r\n0\r\n\r\nHIDDEN",
    "3\r\nabc0\r\n\r\nHIDDEN",
    "3\r\nab\r\n0\r\n\r\nHIDDEN",
    "3\nabc\n0\n\nHIDDEN",
    "3\r\nabc\r\n0\n\nHIDDEN",
    "2;\nxx\r\n4c\r\n0\r\n\r\nHIDDEN",
    "1 2\r\na\r\n0\r\n\r\nHIDDEN",
];

fn fill_in(text: &str) -> String {
    text.replace("HIDDEN", HIDDEN).replace(" N", &format!(" {}", HIDDEN.len()))
}

/// Sends it on a connection of its own and waits until that is closed: what the upstream then got,
/// and what the client was told.
async fn sent(site: &Site, gateway: &Gateway, request: &str) -> (Vec<String>, String) {
    let before = site.upstream.count();
    let mut connection = gateway.connect().await.with_patience(A_MOMENT);
    let bytes: Vec<u8> = request.chars().map(|c| c as u8).collect();
    // It may be refused before all of it was sent.
    let _ = connection.send(bytes).await;
    // The end of what we send would be the end of the connection: first it has a moment to answer.
    let mut said = connection.rest().await;
    let _ = connection.finish().await;
    said.extend(connection.with_patience(SOON).rest().await);
    let said = String::from_utf8_lossy(&said).into_owned();
    let seen = site.upstream.executions().split_off(before);
    (seen.into_iter().map(|seen| seen.target).collect(), said)
}

fn post(path: &str, rest: &str) -> String {
    let key = fresh_key();
    format!("POST {path} HTTP/1.1\r\nHost: a\r\nIdempotency-Key: {key}\r\n{rest}")
}

/// To a route with keys, and to none.
async fn never_two(requests: impl Iterator<Item = String>) {
    let (site, gateway) = site().await;
    for path in ["/pay", "/other"] {
        let two = fill_in("Content-Length: 0\r\n\r\nHIDDEN");
        let (targets, said) = sent(&site, &gateway, &post(path, &two)).await;
        assert_eq!(targets, [path, "/smuggled"], "what is two requests is seen: {said}");
    }
    for rest in requests {
        for path in ["/pay", "/other"] {
            let (targets, said) = sent(&site, &gateway, &post(path, &rest)).await;
            assert!(
                targets.is_empty() || targets == [path],
                "{path} {rest:?} became {targets:?}; the answer was {said:?}"
            );
            let malformed = site.upstream.malformed();
            assert!(malformed.is_empty(), "{path} {rest:?} was passed on as {malformed:?}");
        }
    }
    // It has survived all of it.
    assert_eq!(gateway.post("/pay", &fresh_key(), "{}").await.status, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn ambiguous_framing_never_makes_two_requests() {
    let requests = AMBIGUOUS
        .iter()
        .map(|(headers, body)| format!("{}\r\n{}", fill_in(headers), fill_in(body)));
    never_two(requests).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_chunks_never_make_two_requests() {
    let requests =
        CHUNKS.iter().map(|body| format!("Transfer-Encoding: chunked\r\n\r\n{}", fill_in(body)));
    never_two(requests).await;
}

/// Whoever sent it made the mistake, not the API behind.
#[tokio::test(flavor = "multi_thread")]
async fn bad_chunks_are_the_senders_fault() {
    let (site, gateway) = site().await;
    for path in ["/pay", "/other"] {
        let request = post(path, "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nx\r\n\r\n");
        let (targets, said) = sent(&site, &gateway, &request).await;
        assert!(said.starts_with("HTTP/1.1 400 "), "{path}: {said}");
        assert_eq!(targets, Vec::<String>::new(), "{path}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_first_lines_are_refused() {
    let (site, gateway) = site().await;
    let lines = [
        "GET /a /smuggled HTTP/1.1",
        "GET  /smuggled HTTP/1.1",
        "GET /smuggled",
        "GET /smuggled HTTP/1.1 HTTP/1.1",
        "GET /smuggled HTTP/3.1",
        // Only CONNECT names an authority.
        "GET smuggled HTTP/1.1",
        "POST smuggled:80 HTTP/1.1",
        "G\u{1}T /smuggled HTTP/1.1",
        " GET /smuggled HTTP/1.1",
    ];
    for line in lines {
        let request = format!("{line}\r\nHost: a\r\nConnection: close\r\n\r\n");
        let (targets, said) = sent(&site, &gateway, &request).await;
        assert_eq!(targets, Vec::<String>::new(), "{line:?}: {said}");
        assert!(said.is_empty() || said.starts_with("HTTP/1.1 4"), "{line:?}: {said}");
    }
}
