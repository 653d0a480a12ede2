//! Which answers give their connection back, and which end it.

use http::Method;
use tokio::sync::mpsc;

use super::servers::{OK, Server, read_request, read_to_end, read_until, says, write};
use super::*;

#[tokio::test]
async fn answers_that_were_read_to_their_end_share_a_connection() {
    let server = Server::http(|request| async move {
        let mut response = says(request.uri().path().to_owned());
        if request.uri().path() == "/nothing" {
            *response.status_mut() = http::StatusCode::NO_CONTENT;
            *response.body_mut() = Default::default();
        }
        response
    })
    .await;
    let upstream = upstream(connections(), server.address);
    for _ in 0..3 {
        let response = upstream.send(0, post("/a")).await.unwrap();
        assert_eq!(upstream.connections(), (0, 1));
        assert_eq!(text(response).await, "/a");
        assert_eq!(upstream.connections(), (1, 0));
        // These have ended with their head; nobody needs to look at their bodies.
        drop(upstream.send(0, post("/nothing")).await.unwrap());
        let mut head = post("/");
        *head.method_mut() = Method::HEAD;
        drop(upstream.send(0, head).await.unwrap());
    }
    assert_eq!(server.accepted(), 1);
}

#[tokio::test]
async fn trailers_come_through_and_then_the_connection_goes_back() {
    let server = Server::follow(|mut stream, _| async move {
        while read_request(&mut stream).await.is_some() {
            let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-sum\r\n\r\n";
            write(&mut stream, head).await;
            write(&mut stream, "2\r\nok\r\n0\r\nx-sum: 42\r\n\r\n").await;
        }
    })
    .await;
    let upstream = upstream(connections(), server.address);
    for _ in 0..3 {
        let response = upstream.send(0, post("/")).await.unwrap();
        let whole = response.into_body().collect().await.unwrap();
        assert_eq!(whole.trailers().unwrap()["x-sum"], "42");
        assert_eq!(whole.to_bytes(), "ok");
    }
    assert_eq!(server.accepted(), 1);
}

#[tokio::test]
async fn an_answer_that_is_dropped_early_ends_its_connection() {
    let (ended, mut has_ended) = mpsc::unbounded_channel();
    let server = Server::follow(move |mut stream, _| {
        let ended = ended.clone();
        async move {
            read_request(&mut stream).await.unwrap();
            write(&mut stream, "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf").await;
            read_to_end(stream).await;
            ended.send(()).unwrap();
        }
    })
    .await;
    let upstream = upstream(connections(), server.address);
    for sent in 1..=3 {
        let mut response = upstream.send(0, post("/")).await.unwrap();
        let frame = response.body_mut().frame().await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), "half");
        drop(response);
        assert_eq!(upstream.fronts[0].retain_idle(|_| true), 0, "half an answer is in it");
        within(has_ended.recv()).await.unwrap();
        until_open(&upstream, 0).await;
        assert_eq!(server.accepted(), sent);
    }
}

#[tokio::test]
async fn a_connection_that_is_still_busy_with_its_request_is_replaced() {
    let server = Server::follow(|mut stream, _| async move {
        // Answered before its body has come.
        read_until(&mut stream, b"\r\n\r\n").await.unwrap();
        write(&mut stream, OK).await;
        read_to_end(stream).await;
    })
    .await;
    let upstream = upstream(connections(), server.address);
    for sent in 1..=3 {
        let endless = futures_util::stream::pending::<Result<_, std::io::Error>>();
        let body = Body::stream(http_body_util::StreamBody::new(endless));
        let request = post("/").map(|_| body);
        assert_eq!(text(within(upstream.send(0, request)).await.unwrap()).await, "ok");
        assert_eq!(server.accepted(), sent);
        until_open(&upstream, 1).await;
    }
}

#[tokio::test]
async fn the_upstream_sees_the_request_as_it_was_given() {
    let server = Server::http(|request| async move {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        says(format!("{parts:?} {body:?}"))
    })
    .await;
    let upstream = upstream(connections(), server.address);
    let mut request = post("/a//b?c=%2F&d");
    // As it came in, over HTTP/2.
    *request.version_mut() = http::Version::HTTP_2;
    let seen = text(upstream.send(0, request).await.unwrap()).await;
    for part in ["POST", "/a//b?c=%2F&d", "HTTP/1.1", "shop.example", "\"x-order\": \"7\"", "order"]
    {
        assert!(seen.contains(part), "{part} is missing in {seen}");
    }
}

#[tokio::test]
async fn routes_with_equal_addresses_share_connections_and_others_are_closed_after_a_reload() {
    let server = Server::http(|_| async { says("ok") }).await;
    let (one, other) = (configured(&[format!("http://{}", server.address)]), "http://[::1]:1");
    let upstreams = upstreams(connections(), 1);
    let upstream = upstreams.get(&one);
    assert!(Arc::ptr_eq(&upstream, &upstreams.get(&configured(&[one.to_string()]))));
    let running = upstream.send(0, post("/")).await.unwrap();
    text(upstream.send(0, post("/")).await.unwrap()).await;
    assert_eq!(upstreams.connections(), (1, 1));
    upstreams.keep_only(&[configured(&[other.into()])]);
    until_open(&upstream, 1).await;
    assert_eq!(text(running).await, "ok", "a running request is not touched");
    // The sweep finds it.
    within(async {
        while upstream.open() > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    assert!(Arc::ptr_eq(&upstream, &upstreams.get(&one)), "as long as somebody may send to it");
    upstreams.keep_only(&[]);
    drop(upstream);
    upstreams.keep_only(&[]);
    assert!(upstreams.known.lock().unwrap().is_empty());
}
