//! HTTP/2 in the clear, with prior knowledge.

use std::sync::atomic::AtomicUsize;

use futures_util::future::{join_all, try_join_all};
use tokio::sync::{Barrier, mpsc};

use super::servers::{Server, read_to_end, says};
use super::*;

fn prior_knowledge() -> Connections {
    Connections { max: 64, http2: Http2::PriorKnowledge, ..connections() }
}

#[tokio::test]
async fn fifty_requests_at_once_share_a_connection() {
    let together = Arc::new(Barrier::new(50));
    let server = Server::http(move |request| {
        let together = together.clone();
        async move {
            together.wait().await;
            says(format!("{:?} {}", request.version(), request.uri()))
        }
    })
    .await;
    let upstream = upstream(prior_knowledge(), server.address);
    for _ in 0..2 {
        let sent = (0..50).map(|_| upstream.send(0, post("/a?b")));
        for response in within(try_join_all(sent)).await.unwrap() {
            assert_eq!(text(response).await, "HTTP/2.0 http://shop.example/a?b");
        }
    }
    assert_eq!(server.accepted(), 1);
    assert_eq!(upstream.connections(), (1, 0));
}

#[tokio::test]
async fn permits_limit_the_streams() {
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counted, highest) = (running.clone(), most.clone());
    let server = Server::http(move |_| {
        let (running, most) = (counted.clone(), highest.clone());
        async move {
            most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
            running.fetch_sub(1, Ordering::SeqCst);
            says("ok")
        }
    })
    .await;
    let upstream = upstream(Connections { max: 3, ..prior_knowledge() }, server.address);
    let sent = join_all((0..30).map(|_| async {
        text(upstream.send(0, post("/")).await.unwrap()).await;
    }));
    within(sent).await;
    assert_eq!(most.load(Ordering::SeqCst), 3);
    assert_eq!(server.accepted(), 1);
}

#[tokio::test]
async fn a_connection_that_the_server_ended_is_replaced() {
    let (ended, mut has_ended) = mpsc::unbounded_channel();
    let server = Server::follow(move |stream, _| {
        let ended = ended.clone();
        async move {
            let (answered, mut has_answered) = mpsc::unbounded_channel();
            let serving = super::servers::serve(stream, move |_| {
                let answered = answered.clone();
                async move {
                    answered.send(()).unwrap();
                    says("ok")
                }
            });
            // Long enough to send the answer, then the socket is dropped.
            let mut serving = std::pin::pin!(serving);
            tokio::select! {
                () = &mut serving => {}
                _ = has_answered.recv() => {
                    let _ = tokio::time::timeout(Duration::from_millis(20), &mut serving).await;
                }
            }
            ended.send(()).unwrap();
        }
    })
    .await;
    let upstream = upstream(prior_knowledge(), server.address);
    for sent in 1..=3 {
        assert_eq!(text(within(upstream.send(0, post("/"))).await.unwrap()).await, "ok");
        assert_eq!(server.accepted(), sent);
        within(has_ended.recv()).await.unwrap();
        until_open(&upstream, 0).await;
    }
}

#[tokio::test]
async fn a_server_that_goes_away_with_the_request_has_broken_off() {
    let executed = Arc::new(AtomicUsize::new(0));
    let counted = executed.clone();
    let server = Server::follow(move |stream, _| {
        let counted = counted.clone();
        async move {
            let (called, mut was_called) = mpsc::unbounded_channel();
            let serving = super::servers::serve(stream, move |_| {
                counted.fetch_add(1, Ordering::SeqCst);
                called.send(()).unwrap();
                std::future::pending()
            });
            tokio::select! {
                () = serving => {}
                _ = was_called.recv() => {}
            }
        }
    })
    .await;
    let upstream = upstream(prior_knowledge(), server.address);
    let error = within(upstream.send(0, post("/"))).await.map(drop).unwrap_err();
    assert!(matches!(error, SendError::BrokeOff(_)), "{error}");
    until_open(&upstream, 0).await;
    assert_eq!((executed.load(Ordering::SeqCst), server.accepted()), (1, 1));
}

#[tokio::test]
async fn an_idle_connection_is_closed_and_an_old_one_ends_with_its_last_stream() {
    let server = Server::http(|_| async { says("ok") }).await;
    let limit = Duration::from_millis(40);
    let idle = upstream(Connections { idle_timeout: limit, ..prior_knowledge() }, server.address);
    text(idle.send(0, post("/")).await.unwrap()).await;
    until_closed(&idle).await;

    let old = upstream(Connections { max_age: limit, ..prior_knowledge() }, server.address);
    let running = old.send(0, post("/")).await.unwrap();
    tokio::time::sleep(2 * limit).await;
    assert_eq!(old.open(), 1);
    text(old.send(0, post("/")).await.unwrap()).await;
    assert_eq!(server.accepted(), 3, "the old one takes no more streams");
    assert_eq!(text(running).await, "ok");
    until_closed(&old).await;
}

async fn until_closed(upstream: &Upstream) {
    within(async {
        while upstream.open() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn requests_that_nobody_waits_for_leave_nothing_behind() {
    let server = Server::follow(|stream, _| read_to_end(stream)).await;
    let upstream = upstream(prior_knowledge(), server.address);
    for polls in 0..30 {
        let mut sending = Box::pin(upstream.send(0, post("/")));
        for _ in 0..polls {
            let _ = futures_util::poll!(&mut sending);
            tokio::task::yield_now().await;
        }
    }
    let (_, in_use) = upstream.connections();
    assert_eq!(in_use, 0);
    upstream.retire();
    until_open(&upstream, 0).await;
}
