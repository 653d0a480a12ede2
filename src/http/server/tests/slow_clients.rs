//! Who is cut off, when, and who is not.

use super::*;
use crate::clock;

/// A limit that is to be reached.
const SHORT: Duration = Duration::from_millis(100);

#[tokio::test]
async fn a_head_that_does_not_end_is_cut() {
    let server = Running::start(Limits { header_timeout: SHORT, ..limits() });
    for begun in ["", "G", "GET / HTTP/1.1\r\nhost: x\r\n", "PRI * HTTP/2.0\r\n"] {
        let mut stream = server.connect().await;
        let start = clock::now();
        send(&mut stream, begun).await;
        assert_eq!(rest(&mut stream).await, b"", "{begun}");
        let took = clock::now() - start;
        assert!(took >= SHORT && took < 20 * SHORT, "{begun}: {took:?}");
    }
}

#[tokio::test]
async fn a_head_that_trickles_is_cut_though_it_moves() {
    let server = Running::start(Limits { header_timeout: SHORT, ..limits() });
    let mut stream = server.connect().await;
    // The second request of its connection.
    get(&mut stream, "/").await;
    send(&mut stream, "GET / HTTP/1.1\r\n").await;
    let start = clock::now();
    while stream.write_all(b"x: y\r\n").await.is_ok() {
        assert!(clock::now() - start < SOON, "it was not cut");
        tokio::time::sleep(SHORT / 10).await;
    }
}

#[tokio::test]
async fn an_idle_connection_is_closed_by_the_idle_timeout_and_not_by_the_headers() {
    let idle_timeout = 6 * SHORT;
    let server = Running::start(Limits { header_timeout: SHORT, idle_timeout, ..limits() });
    let mut stream = server.connect().await;
    let start = clock::now();
    get(&mut stream, "/").await;
    assert_eq!(rest(&mut stream).await, b"");
    let took = clock::now() - start;
    assert!(took >= idle_timeout && took < 5 * idle_timeout, "{took:?}");
}

#[tokio::test]
async fn an_idle_http_2_connection_is_told_to_go_away() {
    let limits = Limits { header_timeout: SHORT, idle_timeout: 6 * SHORT, ..limits() };
    let server = Running::start(limits);
    let start = clock::now();
    let mut sender = http2(server.connect().await).await;
    text(sender.send_request(request("/")).await.unwrap()).await;
    while !sender.is_closed() {
        assert!(clock::now() - start < SOON, "it was not closed");
        tokio::time::sleep(SHORT / 10).await;
    }
    assert!(clock::now() - start >= 6 * SHORT);
}

#[tokio::test]
async fn a_slow_handler_and_silent_events_are_not_cut() {
    let limits =
        Limits { header_timeout: SHORT, idle_timeout: SHORT, body_idle_timeout: SHORT, ..limits() };
    let server = Running::start(limits);
    let mut waiting = server.connect().await;
    send(&mut waiting, "GET /wait HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let mut events = server.connect().await;
    send(&mut events, "GET /events HTTP/1.0\r\n\r\n").await;
    let mut sender = http2(server.connect().await).await;
    let streamed = sender.send_request(request("/events")).await.unwrap();
    let streamed = tokio::spawn(text(streamed));
    server.entered(3).await;
    tokio::time::sleep(6 * SHORT).await;
    server.release(3);
    assert!(answer(&mut waiting).await.ends_with("waited"));
    assert!(rest(&mut events).await.ends_with(b"event;event;"));
    assert_eq!(streamed.await.unwrap(), "event;event;");
}

#[tokio::test]
async fn a_client_that_stops_reading_is_cut() {
    let server = Running::start(Limits { body_idle_timeout: 2 * SHORT, ..limits() });
    let mut stream = server.connect().await;
    send(&mut stream, "GET /endless HTTP/1.1\r\nhost: x\r\n\r\n").await;
    stream.read_u8().await.unwrap();
    gone(&server).await;
}

#[tokio::test]
async fn a_client_that_grants_no_window_on_http_2_is_cut() {
    let server = Running::start(Limits { body_idle_timeout: 2 * SHORT, ..limits() });
    let mut sender = http2(server.connect().await).await;
    let unread = sender.send_request(request("/endless")).await.unwrap();
    gone(&server).await;
    drop(unread);
}

async fn gone(server: &Running) {
    let start = clock::now();
    while server.front.connections() > 0 {
        assert!(clock::now() - start < SOON, "it was not cut");
        tokio::time::sleep(SHORT / 10).await;
    }
    assert!(clock::now() - start >= SHORT);
}

#[tokio::test]
async fn a_client_that_reads_slowly_gets_everything() {
    let server = Running::start(Limits { body_idle_timeout: 6 * SHORT, ..limits() });
    let mut stream = server.connect().await;
    send(&mut stream, "GET /big HTTP/1.0\r\n\r\n").await;
    let (mut total, mut buffer) = (0, vec![0; 4 * MIB]);
    loop {
        let read = stream.read(&mut buffer).await.unwrap();
        total += read;
        if read == 0 {
            break;
        }
        tokio::time::sleep(SHORT / 2).await;
    }
    assert!(total > 64 * MIB, "{total}");
}

#[tokio::test]
async fn a_body_that_stops_arriving_is_reported_to_the_handler() {
    let server = Running::start(Limits { body_idle_timeout: SHORT, ..limits() });
    let mut stream = server.connect().await;
    send(&mut stream, "POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nhalf").await;
    assert!(answer(&mut stream).await.starts_with("HTTP/1.1 408"));
}
