//! Connections that stop being HTTP.

use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::servers::{Server, read_until, write};
use super::*;

#[tokio::test]
async fn an_upgraded_connection_carries_bytes_and_keeps_its_place_to_the_end() {
    let server = Server::follow(|mut stream, _| async move {
        let request = read_until(&mut stream, b"\r\n\r\n").await.unwrap();
        assert!(request.contains("connection: upgrade"), "{request}");
        let head = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: echo\r\n";
        // The first bytes may come with the answer.
        write(&mut stream, &format!("{head}\r\nhello")).await;
        let (mut read, mut written) = stream.split();
        let _ = tokio::io::copy(&mut read, &mut written).await;
    })
    .await;
    let limits = Connections { max: 1, acquire_timeout: Duration::ZERO, ..connections() };
    let upstream = upstream(limits, server.address);
    let upgrade = || {
        let request = Request::get("/").header("connection", "upgrade").header("upgrade", "echo");
        request.body(Body::empty()).unwrap()
    };
    for sent in 1..=3 {
        let mut response = upstream.send(0, upgrade()).await.unwrap();
        assert_eq!(response.status(), 101);
        let upgraded = hyper::upgrade::on(&mut response);
        // Nobody needs the body of a 101.
        drop(response);
        let mut stream = TokioIo::new(within(upgraded).await.unwrap());
        stream.write_all(b", echo").await.unwrap();
        let mut read = [0; 11];
        within(stream.read_exact(&mut read)).await.unwrap();
        assert_eq!(&read, b"hello, echo");

        assert_eq!(upstream.connections(), (0, 1));
        assert_eq!(upstream.permits.available_permits(), 0);
        assert_eq!(upstream.send(0, upgrade()).await.map(drop), Err(SendError::Busy));
        drop(stream);
        assert_eq!(upstream.connections(), (0, 0));
        assert_eq!(server.accepted(), sent, "it never returns to the pool");
    }
}
