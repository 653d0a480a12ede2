//! WebSockets and other upgrades: from the answer on, bytes pass in both directions.

use super::site;
use crate::support::{Ask, Connection, Gateway, Reply, client};

fn websocket(gateway: &Gateway, path: &str) -> Ask {
    gateway
        .ask("GET", path)
        .header("Connection", "Upgrade")
        .header("Upgrade", "websocket")
        .header("Sec-WebSocket-Version", "13")
        .header("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
}

async fn echoed(connection: &mut Connection, bytes: &[u8]) {
    connection.send(bytes).await.expect("it is open");
    let mut seen = Vec::new();
    while seen.len() < bytes.len() {
        let some = connection.some().await.expect("an echo");
        assert!(!some.is_empty(), "it ended after {} bytes", seen.len());
        seen.extend(some);
    }
    assert_eq!(seen, bytes);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_passes_bytes_in_both_directions() {
    let (site, gateway) = site().await;
    let reply =
        Reply::upgrade("websocket").header("Sec-WebSocket-Accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    site.upstream.on("/socket", reply);
    let mut connection = gateway.connect().await;
    let answer = websocket(&gateway, "/socket").send_on(&mut connection).await.expect("an answer");
    assert_eq!(answer.status, 101);
    assert_eq!(answer.header("Upgrade"), Some("websocket"));
    assert_eq!(answer.header("Sec-WebSocket-Accept"), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    let connection_header = answer.header("Connection").unwrap_or_default();
    assert!(connection_header.eq_ignore_ascii_case("upgrade"), "{connection_header}");
    let seen = site.upstream.last();
    assert_eq!(seen.header("Upgrade"), Some("websocket"));
    assert_eq!(seen.header("Sec-WebSocket-Key"), Some("dGhlIHNhbXBsZSBub25jZQ=="));

    let every_byte: Vec<u8> = (0..=255).collect();
    echoed(&mut connection, b"GET / HTTP/1.1\r\n\r\n").await;
    echoed(&mut connection, &every_byte).await;
    echoed(&mut connection, &vec![7; 100_000]).await;
    connection.finish().await.expect("it is open");
    assert_eq!(connection.rest().await, b"", "the end passes as well");
    assert_eq!(site.upstream.count(), 1);
}

/// The first bytes of the new protocol may come right behind the request.
#[tokio::test(flavor = "multi_thread")]
async fn bytes_sent_before_the_upgrade_is_answered_are_not_lost() {
    let (site, gateway) = site().await;
    site.upstream.on("/socket", Reply::upgrade("echo").held());
    let mut connection = gateway.connect().await;
    let mut bytes = websocket(&gateway, "/socket").bytes();
    bytes.extend(b"early");
    connection.send(bytes).await.expect("it listens");
    site.upstream.begun(1).await;
    site.upstream.let_go();
    let answer = client::answer(&mut connection, "GET").await.expect("an answer");
    assert_eq!(answer.status, 101);
    let mut seen = Vec::new();
    while seen.len() < 5 {
        let some = connection.some().await.expect("an echo");
        assert!(!some.is_empty(), "it ended after {seen:?}");
        seen.extend(some);
    }
    assert_eq!(seen, b"early");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_that_is_refused_is_an_ordinary_answer() {
    let (site, gateway) = site().await;
    site.upstream.on("/socket", Reply::new(403).body("no"));
    let mut connection = gateway.connect().await;
    for _ in 0..2 {
        let ask = websocket(&gateway, "/socket");
        let answer = ask.send_on(&mut connection).await.expect("an answer");
        assert_eq!((answer.status, answer.text().as_str()), (403, "no"));
    }
    assert_eq!(site.upstream.count(), 2);
}
