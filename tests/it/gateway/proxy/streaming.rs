//! What is long passes through piece by piece, and is never held in memory.

use super::site;
use crate::support::client::{self, chunks};
use crate::support::upstream::filling;
use crate::support::{Gateway, Reply};

const LONG: u64 = 256 << 20;
const PIECE: usize = 64 * 1024;
const ROOM: u64 = 64 << 20;

/// How much more memory the gateway has held at once than before.
async fn growth(gateway: &Gateway, work: impl Future<Output = ()>) -> u64 {
    let before = gateway.resident_bytes();
    work.await;
    gateway.peak_bytes().saturating_sub(before)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_download_passes_in_little_memory() {
    let (site, gateway) = site().await;
    site.upstream.on("/length", Reply::new(200).filled(LONG));
    site.upstream.on("/chunks", Reply::new(200).filled_chunked(LONG));
    gateway.get("/warm-up").await;
    for path in ["/length", "/chunks"] {
        let download = async {
            let mut connection = gateway.connect().await;
            connection.send(gateway.ask("GET", path).bytes()).await.expect("it listens");
            let head = connection.head().await.expect("an answer").expect("an answer");
            let framing = head.answer_framing("GET").expect("it says how long it is");
            let mut length = 0;
            let compare = |piece: &[u8]| {
                assert!(piece == filling(length, piece.len()), "{path}: at {length}");
                length += piece.len() as u64;
            };
            connection.body(framing, compare).await.expect("all of it");
            assert_eq!(length, LONG);
        };
        let grown = growth(&gateway, download).await;
        assert!(grown < ROOM, "{path}: {grown} bytes more");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_upload_passes_in_little_memory() {
    let (site, gateway) = site().await;
    gateway.get("/warm-up").await;
    for chunked in [false, true] {
        let upload = async {
            let mut connection = gateway.connect().await;
            let framing = match chunked {
                false => format!("Content-Length: {LONG}"),
                true => "Transfer-Encoding: chunked".to_owned(),
            };
            let head = format!("PUT /upload HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n");
            connection.send(head).await.expect("it listens");
            let piece = filling(0, PIECE);
            for _ in 0..LONG / PIECE as u64 {
                match chunked {
                    false => connection.send(&piece).await.expect("it takes more"),
                    true => {
                        connection.send(format!("{PIECE:x}\r\n")).await.expect("it takes more");
                        connection.send(&piece).await.expect("it takes more");
                        connection.send("\r\n").await.expect("it takes more");
                    }
                }
            }
            if chunked {
                connection.send(chunks(b"")).await.expect("it takes the end");
            }
            let answer = client::answer(&mut connection, "PUT").await.expect("an answer");
            assert_eq!(answer.status, 201);
            let seen = site.upstream.last();
            assert_eq!((seen.method.as_str(), seen.body_bytes), ("PUT", LONG));
        };
        let grown = growth(&gateway, upload).await;
        assert!(grown < ROOM, "chunked {chunked}: {grown} bytes more");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_arrive_one_by_one() {
    let (site, gateway) = site().await;
    let events = ["data: 1\n\n", "data: 2\n\n", "data: 3\n\n"];
    let reply = Reply::new(200).header("Content-Type", "text/event-stream");
    site.upstream.on("/events", reply.on_demand(events));
    let mut connection = gateway.connect().await;
    connection.send(gateway.ask("GET", "/events").bytes()).await.expect("it listens");
    let head = connection.head().await.expect("an answer").expect("an answer");
    assert_eq!(head.header("Content-Type"), Some("text/event-stream"));
    assert_eq!(head.header("Idempotency-Status"), None);
    for event in events {
        // The upstream sends it only now: it cannot have been waiting for the next one.
        site.upstream.send_piece();
        let mut seen = Vec::new();
        while !seen.windows(event.len()).any(|window| window == event.as_bytes()) {
            let some = connection.some().await.expect("the event");
            assert!(!some.is_empty(), "it ended before {event:?}");
            seen.extend(some);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_download_is_not_taken_for_a_whole_one() {
    let (site, gateway) = site().await;
    let [close, reset] = [crate::support::End::Close, crate::support::End::Reset];
    site.upstream.on("/length", Reply::new(200).filled(1 << 20).cut_after(200_000, close));
    site.upstream.on("/chunks", Reply::new(200).filled_chunked(1 << 20).cut_after(200_000, close));
    site.upstream.on("/reset", Reply::new(200).filled_chunked(1 << 20).cut_after(200_000, reset));
    for path in ["/length", "/chunks", "/reset"] {
        let answer = gateway.ask("GET", path).try_send().await;
        // A gateway may also say so, as long as nothing has been sent.
        assert!(answer.as_ref().map_or(true, |answer| answer.status == 502), "{path}: {answer:?}");
    }
}
