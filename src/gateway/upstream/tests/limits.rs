//! Connections that have been open or unused for too long.

use tokio::sync::mpsc;

use super::servers::{OK, Server, read_request, write};
use super::*;

/// Sends twice, and in between waits for the server to see the end of the first connection.
async fn closed_by_itself(limits: Connections) {
    let (ended, mut has_ended) = mpsc::unbounded_channel();
    let server = Server::follow(move |mut stream, _| {
        let ended = ended.clone();
        async move {
            while read_request(&mut stream).await.is_some() {
                write(&mut stream, OK).await;
            }
            ended.send(()).unwrap();
        }
    })
    .await;
    let upstream = upstream(limits, server.address);
    for sent in 1..=2 {
        text(upstream.send(0, post("/")).await.unwrap()).await;
        assert_eq!(server.accepted(), sent);
        within(has_ended.recv()).await.unwrap();
        until_open(&upstream, 0).await;
    }
}

#[tokio::test]
async fn an_idle_connection_is_closed_without_being_touched() {
    let idle_timeout = Duration::from_millis(40);
    closed_by_itself(Connections { idle_timeout, ..connections() }).await;
}

#[tokio::test]
async fn an_old_connection_is_closed_however_busy_it_was() {
    let max_age = Duration::from_millis(40);
    closed_by_itself(Connections { max_age, ..connections() }).await;
}

#[tokio::test]
async fn a_connection_that_may_not_be_idle_is_used_once() {
    let server = Server::http(|_| async { super::servers::says("ok") }).await;
    let limits = Connections { idle_timeout: Duration::ZERO, ..connections() };
    let upstream = upstream(limits, server.address);
    for sent in 1..=3 {
        text(upstream.send(0, post("/")).await.unwrap()).await;
        assert_eq!(server.accepted(), sent);
    }
}

#[test]
fn wear_is_judged_by_age_and_idle_time() {
    let (second, now) = (Duration::from_secs(1), crate::clock::now());
    let limits = wear::Limits::new(&Connections {
        idle_timeout: 2 * second,
        max_age: 10 * second,
        ..connections()
    });
    for (idle_since, asked, allowed) in
        [(0, 0, true), (0, 1, true), (0, 2, false), (8, 9, true), (9, 10, false)]
    {
        let mut wear = wear::Wear::new(now);
        wear.idle_since = now + idle_since * second;
        assert_eq!(limits.allow(&wear, now + asked * second), allowed, "{idle_since} {asked}");
    }
}
