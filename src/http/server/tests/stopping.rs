//! Soft stops finish what is in flight; hard stops finish nothing.

use super::*;

#[tokio::test]
async fn a_soft_stop_ends_idle_connections_and_finishes_requests_in_flight() {
    let server = Running::start(limits());
    let mut idle = server.connect().await;
    get(&mut idle, "/").await;
    let mut busy = server.connect().await;
    send(&mut busy, "GET /wait HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let mut sender = http2(server.connect().await).await;
    let streamed = tokio::spawn(sender.send_request(request("/wait")));
    server.entered(2).await;

    server.stop.softly();
    assert_eq!(rest(&mut idle).await, b"");
    assert!(!server.serving.is_finished());
    assert!(TcpStream::connect(server.address).await.is_err());
    server.release(2);
    let last = answer(&mut busy).await;
    assert!(last.contains("connection: close") && last.ends_with("waited"), "{last}");
    assert_eq!(text(streamed.await.unwrap().unwrap()).await, "waited");
    assert_eq!(rest(&mut busy).await, b"");
    server.ended().await;
}

#[tokio::test]
async fn whoever_connected_before_the_stop_is_still_served() {
    let server = Running::start(limits());
    // Nothing is awaited in between, so the server has not accepted them when it is stopped.
    let connect = || {
        let stream = std::net::TcpStream::connect(server.address).unwrap();
        stream.set_nonblocking(true).unwrap();
        stream
    };
    let mut queued: Vec<_> = (0..50).map(|_| connect()).collect();
    for stream in &mut queued {
        std::io::Write::write_all(stream, b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    }
    let late = connect();
    server.stop.softly();
    for stream in queued {
        let mut stream = TcpStream::from_std(stream).unwrap();
        assert!(answer(&mut stream).await.ends_with("hello"));
        assert_eq!(rest(&mut stream).await, b"");
    }
    let mut late = TcpStream::from_std(late).unwrap();
    assert!(get(&mut late, "/").await.ends_with("hello"));
    server.ended().await;
}

#[tokio::test]
async fn who_never_asks_anything_does_not_hold_up_a_stop() {
    let server = Running::start(limits());
    let mut silent = server.connect().await;
    let mut half = server.connect().await;
    send(&mut half, "PRI * ").await;
    server.stop.softly();
    assert_eq!(rest(&mut silent).await, b"");
    server.ended().await;
}

#[tokio::test]
async fn a_hard_stop_ends_everything_at_once() {
    let server = Running::start(limits());
    let mut busy = server.connect().await;
    send(&mut busy, "GET /wait HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let mut sender = http2(server.connect().await).await;
    let streamed = tokio::spawn(sender.send_request(request("/never")));
    let silent = server.connect().await;
    server.entered(1).await;
    server.stop.softly();
    server.stop.hard();
    server.ended().await;
    assert_eq!(rest(&mut busy).await, b"");
    assert!(streamed.await.unwrap().is_err());
    drop(silent);
}
