//! What fails, and that nothing is ever sent twice.

use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;

use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::servers::{OK, Server, read_request, read_to_end, write};
use super::*;

#[tokio::test]
async fn a_connection_that_the_server_has_closed_is_replaced_unnoticed() {
    let (closed, mut was_closed) = mpsc::unbounded_channel();
    let executed = Arc::new(AtomicUsize::new(0));
    let counted = executed.clone();
    let server = Server::follow(move |mut stream, _| {
        let (closed, counted) = (closed.clone(), counted.clone());
        async move {
            read_request(&mut stream).await.unwrap();
            counted.fetch_add(1, Ordering::SeqCst);
            write(&mut stream, OK).await;
            drop(stream);
            closed.send(()).unwrap();
        }
    })
    .await;
    let upstream = upstream(connections(), server.address);
    for sent in 1..=20 {
        assert_eq!(text(upstream.send(0, post("/")).await.unwrap()).await, "ok");
        assert_eq!(executed.load(Ordering::SeqCst), sent);
        within(was_closed.recv()).await.unwrap();
    }
    assert_eq!(server.accepted(), 20);
}

#[tokio::test]
async fn many_stale_connections_are_got_over_in_one_request() {
    let restart = Arc::new(tokio::sync::Semaphore::new(0));
    let restarts = restart.clone();
    let server = Server::follow(move |mut stream, number| {
        let restarts = restarts.clone();
        async move {
            while read_request(&mut stream).await.is_some() {
                write(&mut stream, OK).await;
                if number < 6 {
                    restarts.acquire().await.unwrap().forget();
                    return;
                }
            }
        }
    })
    .await;
    let upstream = upstream(connections(), server.address);
    let first = (0..6).map(|_| upstream.send(0, post("/")));
    let first = futures_util::future::try_join_all(first).await.unwrap();
    for response in first {
        text(response).await;
    }
    restart.add_permits(6);
    tokio::task::yield_now().await;
    assert_eq!(text(upstream.send(0, post("/")).await.unwrap()).await, "ok");
}

/// What a server does after it has read a request, and how that is told.
async fn broken_off(answer: &'static str) -> SendError {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = seen.clone();
    let server = Server::follow(move |mut stream, _| {
        let noted = noted.clone();
        async move {
            while let Some(request) = read_request(&mut stream).await {
                let warm_up = request.starts_with("POST /warm-up");
                noted.lock().unwrap().push(request);
                write(&mut stream, if warm_up { OK } else { answer }).await;
                if !warm_up {
                    return;
                }
            }
        }
    })
    .await;
    let upstream = upstream(connections(), server.address);
    text(upstream.send(0, post("/warm-up")).await.unwrap()).await;
    let error = within(upstream.send(0, post("/pay"))).await.map(drop).unwrap_err();
    // Another request goes through, and shows that no second /pay came before it.
    text(upstream.send(0, post("/warm-up")).await.unwrap()).await;
    let seen = seen.lock().unwrap();
    let paid = seen.iter().filter(|request| request.starts_with("POST /pay")).count();
    assert_eq!((paid, seen.len()), (1, 3));
    error
}

#[tokio::test]
async fn a_server_that_reads_and_closes_has_broken_off() {
    assert!(matches!(broken_off("").await, SendError::BrokeOff(_)));
}

#[tokio::test]
async fn a_server_that_closes_within_the_headers_has_broken_off() {
    let error = broken_off("HTTP/1.1 200 OK\r\nContent-").await;
    assert!(matches!(error, SendError::BrokeOff(_)), "{error}");
}

#[tokio::test]
async fn an_answer_that_is_no_http_has_broken_off() {
    assert!(matches!(broken_off("SSH-2.0-server\r\n\r\n").await, SendError::BrokeOff(_)));
}

#[tokio::test]
async fn a_body_that_breaks_off_is_an_error_and_ends_the_connection() {
    let server = Server::follow(|mut stream, _| async move {
        read_request(&mut stream).await.unwrap();
        write(&mut stream, "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf").await;
    })
    .await;
    let upstream = upstream(connections(), server.address);
    let response = upstream.send(0, post("/")).await.unwrap();
    assert!(response.into_body().collect().await.is_err());
    until_open(&upstream, 0).await;
    assert_eq!(upstream.connections(), (0, 0));
}

async fn refusing() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

#[tokio::test]
async fn a_refused_connection_is_unreachable() {
    let upstream = upstream(connections(), refusing().await);
    let error = upstream.send(0, post("/")).await.map(drop).unwrap_err();
    assert!(matches!(&error, SendError::Unreachable(why) if why.contains("refused")), "{error}");
    assert_eq!(upstream.open(), 0);
}

#[tokio::test]
async fn an_address_that_fails_is_left_out_and_the_other_is_tried_at_once() {
    for http2 in [Http2::Auto, Http2::PriorKnowledge] {
        let server = Server::http(|_| async { super::servers::says("ok") }).await;
        let urls = [format!("http://{}", refusing().await), format!("http://{}", server.address)];
        let upstreams = upstreams(Connections { http2, ..connections() }, 1);
        let upstream = upstreams.get(&configured(&urls));
        for _ in 0..3 {
            assert_eq!(text(upstream.send(0, post("/")).await.unwrap()).await, "ok");
        }
        assert_eq!([upstream.pick(&[]), upstream.pick(&[])], [Some(1), Some(1)]);
    }
}

#[tokio::test]
async fn a_silent_server_is_given_up_while_connecting() {
    // Accepted by the kernel, and no handshake after that.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let urls = [format!("https://{}", silent.local_addr().unwrap())];
    let connect_timeout = Duration::from_millis(200);
    let upstreams = upstreams(Connections { connect_timeout, ..connections() }, 1);
    let upstream = upstreams.get(&configured(&urls));
    // One waits for the handshake, the others for the one.
    let sent = (0..8).map(|_| upstream.send(0, post("/")));
    let began = crate::clock::now();
    for result in within(futures_util::future::join_all(sent)).await {
        assert!(matches!(result, Err(SendError::Unreachable(_))));
    }
    assert!(crate::clock::now() - began < 4 * connect_timeout, "failures were not shared");
    assert_eq!(upstream.open(), 0);
}

#[tokio::test]
async fn a_request_that_nobody_waits_for_leaves_nothing_behind() {
    let (ended, mut has_ended) = mpsc::unbounded_channel();
    let (began, mut has_begun) = mpsc::unbounded_channel();
    let server = Server::follow(move |mut stream, _| {
        let (began, ended) = (began.clone(), ended.clone());
        async move {
            read_request(&mut stream).await.unwrap();
            began.send(()).unwrap();
            read_to_end(stream).await;
            ended.send(()).unwrap();
        }
    })
    .await;
    let upstream = upstream(Connections { max: 1, ..connections() }, server.address);
    for _ in 0..3 {
        tokio::select! {
            _ = upstream.send(0, post("/")) => panic!("there is no answer"),
            _ = has_begun.recv() => {}
        }
        within(has_ended.recv()).await.unwrap();
        until_open(&upstream, 0).await;
    }
    // Dropped at every point on the way there, too.
    for polls in 0..40 {
        let mut sending = Box::pin(upstream.send(0, post("/")));
        for _ in 0..polls {
            let _ = futures_util::poll!(&mut sending);
            tokio::task::yield_now().await;
        }
    }
    until_open(&upstream, 0).await;
    assert_eq!(upstream.connections(), (0, 0));
}
