//! HTTP/1.1, HTTP/1.0, HTTP/2 by prior knowledge, upgrades, and handlers that fail.

use super::*;

#[tokio::test]
async fn many_requests_share_a_connection() {
    let server = Running::start(limits());
    let mut stream = server.connect().await;
    for _ in 0..300 {
        assert!(get(&mut stream, "/").await.ends_with("\r\n\r\nhello"));
    }
    let peer = get(&mut stream, "/peer").await;
    assert!(peer.ends_with(&format!("\r\n\r\nhttp {}", stream.local_addr().unwrap())), "{peer}");
    assert_eq!(server.front.connections(), 1);
}

#[tokio::test]
async fn requests_that_come_at_once_are_answered_in_order() {
    let server = Running::start(limits());
    let mut stream = server.connect().await;
    let echo = |text| format!("POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n\r\n{text}");
    send(&mut stream, &[echo("a"), echo("b"), echo("c")].concat()).await;
    for text in ["a", "b", "c"] {
        assert!(answer(&mut stream).await.ends_with(&format!("\r\n\r\n{text}")));
    }
}

#[tokio::test]
async fn a_client_that_speaks_http_1_0_is_served() {
    let server = Running::start(limits());
    let mut stream = server.connect().await;
    send(&mut stream, "GET / HTTP/1.0\r\n\r\n").await;
    let all = String::from_utf8(rest(&mut stream).await).unwrap();
    assert!(all.starts_with("HTTP/1.0 200") && all.ends_with("\r\n\r\nhello"), "{all}");
}

#[tokio::test]
async fn a_request_may_arrive_byte_by_byte() {
    let server = Running::start(limits());
    let mut stream = server.connect().await;
    stream.set_nodelay(true).unwrap();
    // Its first letters are those of the HTTP/2 preface.
    for byte in "PROPFIND / HTTP/1.1\r\nhost: x\r\n\r\n".chars() {
        send(&mut stream, &byte.to_string()).await;
        tokio::task::yield_now().await;
    }
    assert!(answer(&mut stream).await.ends_with("hello"));
}

#[tokio::test]
async fn a_head_that_is_too_long_is_refused_and_a_hundred_headers_are_not() {
    let server = Running::start(limits());
    let mut stream = server.connect().await;
    let headers: String = (1..100).map(|n| format!("x-{n}: {n}\r\n")).collect();
    send(&mut stream, &format!("GET / HTTP/1.1\r\nhost: x\r\n{headers}\r\n")).await;
    assert!(answer(&mut stream).await.ends_with("hello"));

    let long = "y".repeat(limits().max_header_bytes);
    send(&mut stream, &format!("GET / HTTP/1.1\r\nhost: x\r\nx: {long}\r\n\r\n")).await;
    assert!(rest(&mut stream).await.starts_with(b"HTTP/1.1 431"));
}

#[tokio::test]
async fn http_2_by_prior_knowledge_runs_requests_side_by_side() {
    let server = Running::start(limits());
    let mut sender = http2(server.connect().await).await;
    let waiting: Vec<_> = (0..20).map(|_| sender.send_request(request("/wait"))).collect();
    let waiting = tokio::spawn(futures_util::future::join_all(waiting));
    server.entered(20).await;
    assert_eq!(text(sender.send_request(request("/")).await.unwrap()).await, "hello");
    server.release(20);
    for answer in waiting.await.unwrap() {
        let answer = answer.unwrap();
        assert_eq!(answer.version(), http::Version::HTTP_2);
        assert_eq!(text(answer).await, "waited");
    }
}

#[tokio::test]
async fn large_bodies_pass_in_both_directions() {
    let server = Running::start(limits());
    let large = vec![b'z'; 8 * MIB];
    let mut sender = http2(server.connect().await).await;
    let post = |uri: &str| {
        let body = Body::from(Bytes::from(large.clone()));
        Request::post(uri).header("host", "x").body(body).unwrap()
    };
    let echoed = sender.send_request(post("http://x/echo")).await.unwrap();
    assert_eq!(text(echoed).await.len(), large.len());

    let io = TokioIo::new(server.connect().await);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
    tokio::spawn(connection);
    let echoed = sender.send_request(post("/echo")).await.unwrap();
    assert_eq!(text(echoed).await.len(), large.len());
}

#[tokio::test]
async fn a_refusal_reaches_a_client_that_is_still_sending() {
    let server = Running::start(limits());
    let mut stream = server.connect().await;
    let length = 16 * MIB;
    send(
        &mut stream,
        &format!("POST /refuse HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n"),
    )
    .await;
    // All of it, though the answer has long been there.
    stream.write_all(&vec![b'x'; length]).await.unwrap();
    assert!(answer(&mut stream).await.starts_with("HTTP/1.1 413"));
    assert_eq!(rest(&mut stream).await, b"");
}

#[tokio::test]
async fn an_upgraded_connection_belongs_to_the_handler() {
    let server = Running::start(limits());
    let mut stream = server.connect().await;
    send(
        &mut stream,
        "GET /upgrade HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n",
    )
    .await;
    assert!(answer(&mut stream).await.starts_with("HTTP/1.1 101"));
    let mut echo = async |text: &str| {
        send(&mut stream, text).await;
        let mut back = vec![0; text.len()];
        stream.read_exact(&mut back).await.unwrap();
        assert_eq!(back, text.as_bytes());
    };
    echo("before").await;
    assert_eq!(server.front.connections(), 1, "it still takes its room");
    // It is not waited for, and it is not cut either.
    let (front, stop) = (server.front.clone(), server.stop.clone());
    stop.softly();
    server.ended().await;
    echo("after").await;
    drop(stream);
    while front.connections() > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_handler_that_panics_ends_its_connection_and_no_other() {
    let server = Running::start(limits());
    let (mut other, mut stream) = (server.connect().await, server.connect().await);
    get(&mut other, "/").await;
    send(&mut stream, "GET /panic HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert_eq!(rest(&mut stream).await, b"");
    assert!(get(&mut other, "/").await.ends_with("hello"));

    let mut sender = http2(server.connect().await).await;
    assert!(sender.send_request(request("/panic")).await.is_err());
    assert!(get(&mut server.connect().await, "/").await.ends_with("hello"));
    server.stop.softly();
    drop((other, sender));
    server.ended().await;
}
