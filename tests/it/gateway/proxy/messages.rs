//! HEAD, 1xx, `Expect`, trailers and old clients, as RFC 9110 and 9112 ask.

use super::super::{Retry, assert_executed, assert_problem, fresh_key, payments};
use super::{site, with_routes};
use crate::support::client::Answer;
use crate::support::http1::Head;
use crate::support::{Reply, client};

#[tokio::test(flavor = "multi_thread")]
async fn head_is_answered_without_a_body_and_with_its_length() {
    let (site, gateway) = site().await;
    site.upstream.on("/a", Reply::new(200).header("ETag", "\"1\"").body("0123456789"));
    let mut connection = gateway.connect().await;
    for _ in 0..2 {
        let head = gateway.ask("HEAD", "/a").send_on(&mut connection).await.expect("an answer");
        assert_eq!((head.status, head.body.len()), (200, 0));
        assert_eq!(
            (head.header("Content-Length"), head.header("ETag")),
            (Some("10"), Some("\"1\""))
        );
        let get = gateway.ask("GET", "/a").send_on(&mut connection).await.expect("an answer");
        assert_eq!(get.text(), "0123456789", "the connection is still in step");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_serves_one_request_after_the_other() {
    let (site, gateway) = site().await;
    let mut connection = gateway.connect().await;
    let key = fresh_key();
    for (ask, status) in [
        (gateway.posting("/pay", &key, "{}"), Some("executed")),
        (gateway.posting("/pay", &key, "{}"), Some("replayed")),
        (gateway.ask("GET", "/other"), None),
        (gateway.posting("/pay", &key, "{}"), Some("replayed")),
    ] {
        let answer = ask.send_on(&mut connection).await.expect("an answer");
        assert_eq!((answer.status, answer.header("Idempotency-Status")), (201, status));
        assert_eq!(connection.leftover(), b"");
    }
    assert_eq!((site.upstream.count_of(&key), site.upstream.count()), (1, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_expects_it_is_told_to_continue() {
    let (site, gateway) = site().await;
    let key = fresh_key();
    for path in ["/pay", "/other"] {
        let mut connection = gateway.connect().await;
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: a\r\nIdempotency-Key: {key}\r\n\
             Expect: 100-continue\r\nContent-Length: 5\r\n\r\n"
        );
        connection.send(head).await.expect("it listens");
        let interim = connection.head().await.expect("an answer").expect("an answer");
        assert_eq!(interim.status().ok(), Some(100), "{path}: {interim:?}");
        connection.send("hello").await.expect("it listens");
        let answer = client::answer(&mut connection, "POST").await.expect("an answer");
        assert_eq!(answer.status, 201, "{path}");
        assert_eq!(site.upstream.last().text(), "hello");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_will_be_refused_is_not_asked_for() {
    let (site, gateway) = with_routes(&payments("request_max_bytes = '1KiB'")).await;
    let mut connection = gateway.connect().await;
    let head = format!(
        "POST /pay HTTP/1.1\r\nHost: a\r\nIdempotency-Key: {}\r\n\
         Expect: 100-continue\r\nContent-Length: 2000\r\n\r\n",
        fresh_key()
    );
    connection.send(head).await.expect("it listens");
    let answer = client::answer(&mut connection, "POST").await.expect("an answer");
    assert_eq!(answer.interim, [], "there is nothing to continue with");
    assert_problem(&answer, 413, "body-too-large", Retry::No);
    assert_eq!(site.upstream.count(), 0);
}

fn with_hints() -> Reply {
    let reply = Reply::new(200).interim(103, "Link", "</a.css>; rel=preload");
    reply.interim(102, "X-Progress", "half").body("done")
}

/// The interim answers that a client got, in order.
fn hints(answer: &Answer) -> Vec<(u16, Option<&str>)> {
    fn hint(head: &Head) -> (u16, Option<&str>) {
        let said = head.header("Link").or_else(|| head.header("X-Progress"));
        (head.status().expect("a status"), said)
    }
    answer.interim.iter().map(hint).collect()
}

const HINTS: [(u16, Option<&str>); 2] = [(103, Some("</a.css>; rel=preload")), (102, Some("half"))];

#[tokio::test(flavor = "multi_thread")]
async fn interim_answers_come_before_the_final_one_and_are_not_stored() {
    let (site, gateway) = site().await;
    site.upstream.on("/", with_hints());
    let key = fresh_key();
    let keyed = gateway.post("/pay", &key, "{}").await;
    assert_executed(&keyed, 200);
    assert_eq!((keyed.text().as_str(), hints(&keyed)), ("done", HINTS.to_vec()));
    let retry = gateway.post("/pay", &key, "{}").await;
    assert_eq!((retry.status, retry.text().as_str(), retry.interim.len()), (200, "done", 0));
    let untouched = gateway.get("/other").await;
    assert_eq!((untouched.status, untouched.text().as_str()), (200, "done"));
    assert_eq!(hints(&untouched), HINTS);
    assert_eq!(site.upstream.count(), 2);
}

/// What comes early is worth something only if it is passed on early.
#[tokio::test(flavor = "multi_thread")]
async fn an_interim_answer_does_not_wait_for_the_final_one() {
    let (site, gateway) = site().await;
    site.upstream.on("/", with_hints().held());
    let mut connection = gateway.connect().await;
    connection.send("GET /other HTTP/1.1\r\nHost: a\r\n\r\n").await.expect("it listens");
    let hint = connection.head().await.expect("a hint").expect("a hint");
    assert_eq!(hint.status().ok(), Some(103));
    site.upstream.let_go();
    let answer = client::answer(&mut connection, "GET").await.expect("an answer");
    assert_eq!((answer.status, answer.interim.len()), (200, 1));
}

/// Requests of one connection that are sent at once get answers that can be told apart, and a client
/// of HTTP/1.0 gets none that it would not understand.
#[tokio::test(flavor = "multi_thread")]
async fn interim_answers_never_get_between_others() {
    let (site, gateway) = site().await;
    site.upstream.on("/", with_hints());
    let mut connection = gateway.connect().await;
    let many = "GET /other HTTP/1.1\r\nHost: a\r\n\r\n".repeat(20);
    connection.send(many).await.expect("it listens");
    for _ in 0..20 {
        let answer = client::answer(&mut connection, "GET").await.expect("an answer");
        assert_eq!((answer.status, answer.text().as_str()), (200, "done"), "{answer:?}");
    }
    let mut old = gateway.connect().await;
    old.send("GET /other HTTP/1.0\r\nHost: a\r\n\r\n").await.expect("it listens");
    let answer = client::answer(&mut old, "GET").await.expect("an answer");
    assert_eq!((answer.status, answer.interim.len()), (200, 0), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn trailers_pass_in_both_directions() {
    let (site, gateway) = site().await;
    let reply = Reply::new(200).header("Trailer", "X-Sum").chunked(["one", "two"]);
    site.upstream.on("/sum", reply.trailer("X-Sum", "6"));
    let mut connection = gateway.connect().await;
    let request = "PUT /sum HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nTrailer: X-Check\r\n\
                   Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Check: 3\r\n\r\n";
    connection.send(request).await.expect("it listens");
    let answer = client::answer(&mut connection, "PUT").await.expect("an answer");
    assert_eq!((answer.status, answer.text().as_str()), (200, "onetwo"));
    let named = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
    let lower = |trailers: &[(String, String)]| -> Vec<_> {
        trailers.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.clone())).collect()
    };
    assert_eq!(lower(&answer.trailers), named("x-sum", "6"));
    let seen = site.upstream.last();
    assert_eq!((seen.text().as_str(), lower(&seen.trailers)), ("abc", named("x-check", "3")));
}

/// An answer in chunks is beyond an HTTP/1.0 client.
#[tokio::test(flavor = "multi_thread")]
async fn an_old_client_gets_what_it_understands() {
    let (site, gateway) = site().await;
    site.upstream.on("/", Reply::new(200).chunked(["one", "two"]));
    let key = fresh_key();
    let requests = [
        "GET /other HTTP/1.0\r\n\r\n".to_owned(),
        format!("POST /pay HTTP/1.0\r\nIdempotency-Key: {key}\r\nContent-Length: 2\r\n\r\n{{}}"),
        format!("POST /pay HTTP/1.0\r\nIdempotency-Key: {key}\r\nContent-Length: 2\r\n\r\n{{}}"),
    ];
    for request in requests {
        let mut connection = gateway.connect().await;
        connection.send(&request).await.expect("it listens");
        let answer = client::answer(&mut connection, "GET").await.expect("an answer");
        assert_eq!((answer.status, answer.text().as_str()), (200, "onetwo"), "{request}");
        assert_eq!(answer.header("Transfer-Encoding"), None);
    }
    assert_eq!(site.upstream.count_of(&key), 1);
}
