//! The upstream and the client against each other: a fault that does not happen, or an execution
//! that is not counted, would make every test that relies on it pass for nothing.

use std::io;

use super::*;
use crate::support::http1::Head;
use crate::support::{Answer, Ask, Connection, Http2, client};

fn post(upstream: &Upstream, path: &str) -> Ask {
    Ask::new(upstream.addr(), "POST", path)
}

async fn failure(ask: Ask) -> io::ErrorKind {
    ask.try_send().await.expect_err("there is no whole answer").kind()
}

#[tokio::test]
async fn executions_are_counted_and_kept_in_full() {
    let upstream = Upstream::start().await;
    let ask = post(&upstream, "/pay?x=1").key("one").header("X-Twice", "a").header("x-twice", "b");
    let answer = ask.body("hello").send().await;
    assert_eq!((answer.status, answer.text().as_str()), (201, "{\"execution\":1}"));
    post(&upstream, "/pay").key("two").chunked("x".repeat(1000)).send().await;
    post(&upstream, "/pay").key("two").send().await;
    assert_eq!((upstream.count(), upstream.count_of("one"), upstream.count_of("two")), (3, 1, 2));
    assert_eq!(upstream.most_of_one_key(), 2);
    let [first, second, _] = &upstream.executions()[..] else { panic!("three executions") };
    assert_eq!((first.method.as_str(), first.target.as_str()), ("POST", "/pay?x=1"));
    assert_eq!((first.text().as_str(), first.all("X-TWICE")), ("hello", vec!["a", "b"]));
    assert_eq!((second.body_bytes, second.body.len()), (1000, 1000));
    assert!(upstream.malformed().is_empty());
}

#[tokio::test]
async fn an_answer_comes_as_it_was_scripted() {
    let upstream = Upstream::start().await;
    let reply = Reply::new(404).header("X-Twice", "a").header("x-Twice", "b").body([0, 255, 10]);
    upstream.on("/a", reply);
    upstream.on("/a/b", Reply::new(204).without_body());
    upstream.on("/c", Reply::new(200).chunked(["one", "two"]).trailer("X-Sum", "6"));
    let expected = Answer {
        status: 404,
        headers: [("X-Twice", "a"), ("x-Twice", "b"), ("Content-Length", "3")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec(),
        body: vec![0, 255, 10],
        ..Answer::default()
    };
    assert_eq!(post(&upstream, "/a/c").send().await, expected);
    assert_eq!(post(&upstream, "/a/b").send().await.status, 204);
    let chunked = post(&upstream, "/c").send().await;
    assert_eq!((chunked.text().as_str(), chunked.header("content-length")), ("onetwo", None));
    assert_eq!(chunked.trailers, [("X-Sum".to_owned(), "6".to_owned())]);
    let head = Ask::new(upstream.addr(), "HEAD", "/a").send().await;
    assert_eq!((head.header("content-length"), head.body.len()), (Some("3"), 0));
}

#[tokio::test]
async fn replies_are_held_until_they_are_let_go() {
    let upstream = Upstream::start().await;
    upstream.on("/", Reply::new(200).held());
    let mut call = tokio::spawn(post(&upstream, "/").send());
    upstream.begun(1).await;
    let early = tokio::time::timeout(Duration::from_millis(50), &mut call).await;
    assert!(early.is_err(), "it is held");
    upstream.let_go();
    assert_eq!(call.await.expect("no panic").status, 200);
}

#[tokio::test]
async fn it_breaks_off_where_it_is_told_to() {
    let upstream = Upstream::start().await;
    let reply = Reply::new(200).body("0123456789");
    let head_bytes = reply.head_bytes().len();
    upstream.on("/silent", Reply::no_answer(End::Close));
    upstream.on("/reset", Reply::no_answer(End::Reset));
    upstream.on("/head", reply.clone().cut_after(10, End::Reset));
    upstream.on("/body", reply.clone().cut_after(head_bytes + 4, End::Close));
    upstream.on("/chunks", Reply::new(200).chunked(["a"]).cut_after(usize::MAX, End::Close));
    upstream.on("/filled", Reply::new(200).filled(1 << 20).cut_after(1000, End::Close));
    upstream.on("/hang", Reply::no_answer(End::Hang));
    let kinds = [
        ("/silent", io::ErrorKind::UnexpectedEof),
        ("/reset", io::ErrorKind::ConnectionReset),
        ("/head", io::ErrorKind::ConnectionReset),
        ("/body", io::ErrorKind::UnexpectedEof),
        ("/chunks", io::ErrorKind::UnexpectedEof),
        ("/filled", io::ErrorKind::UnexpectedEof),
    ];
    for (path, kind) in kinds {
        assert_eq!(failure(post(&upstream, path).body("x")).await, kind, "{path}");
    }
    let hang = tokio::time::timeout(Duration::from_millis(50), post(&upstream, "/hang").send());
    assert!(hang.await.is_err());
    assert_eq!(upstream.count(), kinds.len() + 1, "each of them was executed");
}

#[tokio::test]
async fn stopped_it_refuses_and_started_again_it_counts_on() {
    let upstream = Upstream::start().await;
    let mut idle = Connection::connect(upstream.addr()).await.expect("it accepts");
    post(&upstream, "/").send_on(&mut idle).await.expect("it answers");
    upstream.stop().await;
    assert_eq!(idle.rest().await, b"", "open connections end");
    assert_eq!(failure(post(&upstream, "/")).await, io::ErrorKind::ConnectionRefused);
    upstream.start_again().await;
    assert_eq!(post(&upstream, "/").send().await.text(), "{\"execution\":2}");
}

#[tokio::test]
async fn it_answers_before_the_body_and_then_closes() {
    let upstream = Upstream::start().await;
    upstream.on("/", Behaviour::before_the_body(Reply::new(200)));
    let mut connection = Connection::connect(upstream.addr()).await.expect("it accepts");
    let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n";
    connection.send(head).await.expect("it is there");
    let answer = client::answer(&mut connection, "POST").await.expect("an answer");
    assert_eq!((answer.status, upstream.count()), (200, 1));
    assert_eq!(connection.rest().await, b"");
}

#[tokio::test]
async fn filled_bodies_are_as_long_as_they_say() {
    let upstream = Upstream::start().await;
    upstream.on("/length", Reply::new(200).filled(200_000));
    upstream.on("/chunks", Reply::new(200).filled_chunked(200_000));
    for path in ["/length", "/chunks"] {
        let answer = post(&upstream, path).send().await;
        assert_eq!(answer.body, filling(0, 200_000), "{path}");
    }
}

#[tokio::test]
async fn pieces_interim_answers_and_upgrades_come_as_they_are_asked_for() {
    let upstream = Upstream::start().await;
    upstream.on("/events", Reply::new(200).on_demand(["data: 1\n\n", "data: 2\n\n"]));
    upstream.on("/hints", Reply::new(200).interim(103, "Link", "</a>"));
    upstream.on("/socket", Reply::upgrade("websocket"));
    let mut connection = Connection::connect(upstream.addr()).await.expect("it accepts");
    connection.send(post(&upstream, "/events").bytes()).await.expect("it is there");
    connection.head().await.expect("an answer");
    upstream.send_piece();
    assert_eq!(connection.some().await.expect("a piece"), b"9\r\ndata: 1\n\n\r\n");
    upstream.send_piece();
    let hints = post(&upstream, "/hints").send().await;
    let link = |head: &Head| (head.status().ok(), head.header("link").map(str::to_owned));
    assert_eq!(
        hints.interim.iter().map(link).collect::<Vec<_>>(),
        [(Some(103), Some("</a>".into()))]
    );
    let mut socket = Connection::connect(upstream.addr()).await.expect("it accepts");
    let upgraded = post(&upstream, "/socket").send_on(&mut socket).await.expect("an answer");
    assert_eq!(upgraded.status, 101);
    socket.send("ping").await.expect("it is there");
    assert_eq!(socket.some().await.expect("an echo"), b"ping");
}

#[tokio::test]
async fn requests_that_can_be_read_in_two_ways_are_noted() {
    let upstream = Upstream::start().await;
    let cases = [
        "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
        "Content-Length: +3\r\n\r\nabc",
        "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n0x3\r\nabc\r\n0\r\n\r\n",
        "X-Folded: a\r\n b\r\n\r\n",
        "X-Bare: a\nX-Line: b\r\n\r\n",
    ];
    for (index, case) in cases.iter().enumerate() {
        let mut connection = Connection::connect(upstream.addr()).await.expect("it accepts");
        let request = format!("POST / HTTP/1.1\r\nHost: a\r\n{case}");
        connection.send(request).await.expect("it is there");
        assert_eq!(connection.rest().await, b"", "{case:?}");
        assert_eq!(upstream.malformed().len(), index + 1, "{case:?}");
    }
    assert_eq!(upstream.count(), 0);
}

#[tokio::test]
async fn it_speaks_http2_by_prior_knowledge() {
    let upstream = Upstream::start().await;
    let client = Http2::connect(upstream.addr()).await;
    let answer = client.send_body("POST", "/a?b", &[("idempotency-key", "k")], "body").await;
    assert_eq!((answer.status, answer.text().as_str()), (201, "{\"execution\":1}"));
    let seen = upstream.last();
    assert_eq!(
        (seen.target.as_str(), seen.text().as_str(), seen.key()),
        ("/a?b", "body", Some("k"))
    );
}
