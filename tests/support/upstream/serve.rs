//! One connection to the upstream: requests are read, put on record, and answered by the script.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::TcpStream;

use super::executions::KEPT_BYTES;
use super::reply::{Body, filling};
use super::{End, Execution, Reply, Site, http2};
use crate::support::http1::{Connection, Framing, Head, Headers};

/// A gateway may keep its connections as long as it likes.
const PATIENCE: Duration = Duration::from_secs(3600);
const PIECE: usize = 64 * 1024;

pub async fn connection(stream: TcpStream, peer: SocketAddr, number: usize, site: Arc<Site>) {
    let mut first = [0; 3];
    // A client that ends it here has its reasons.
    let Ok(_) = stream.peek(&mut first).await else { return };
    if &first == b"PRI" {
        return http2::serve(stream, number, site).await;
    }
    let mut connection = Connection::new(stream, peer).with_patience(PATIENCE);
    loop {
        match exchange(&mut connection, number, &site).await {
            Ok(End::KeepAlive) => {}
            Ok(End::Reset) => return connection.reset(),
            Ok(End::Hang) => std::future::pending().await,
            Ok(End::Echo) => {
                while let Ok(bytes) = connection.some().await {
                    if bytes.is_empty() || connection.send(bytes).await.is_err() {
                        return;
                    }
                }
                return;
            }
            Ok(End::Close) => return,
            Err(error) => {
                if error.kind() == io::ErrorKind::InvalidData {
                    site.executions.note_malformed(error.to_string());
                }
                return;
            }
        }
    }
}

async fn exchange(connection: &mut Connection, number: usize, site: &Site) -> io::Result<End> {
    let Some(head) = connection.head().await? else {
        return Ok(End::Close);
    };
    let behaviour = site.behaviour(head.word(1));
    let framing = head.request_framing()?;
    let (mut body, mut body_bytes, mut trailers) = (Vec::new(), 0, Headers::new());
    if behaviour.reads_body {
        if head.header("expect").is_some() && framing != Framing::Length(0) {
            connection.send("HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        let keep = |piece: &[u8]| {
            body_bytes += piece.len() as u64;
            let room = KEPT_BYTES.saturating_sub(body.len());
            body.extend_from_slice(&piece[..piece.len().min(room)]);
        };
        trailers = connection.body(framing, keep).await?;
    }
    let execution = site.executions.begin(Execution {
        number: 0,
        method: head.word(0).to_owned(),
        target: head.word(1).to_owned(),
        body,
        body_bytes,
        trailers,
        at: Instant::now(),
        connection: number,
        headers: head.headers.clone(),
    });
    let reply = (behaviour.reply)(&execution);
    send(connection, &head, &reply, site).await?;
    let kept_alive = reply.end == End::KeepAlive;
    // What was not read would be taken for the next request.
    let unread = !behaviour.reads_body && framing != Framing::Length(0);
    let asked_to_close = head.header("connection").is_some_and(|c| c.contains("close"));
    Ok(if kept_alive && (unread || asked_to_close) { End::Close } else { reply.end })
}

async fn send(
    connection: &mut Connection,
    asked: &Head,
    reply: &Reply,
    site: &Site,
) -> io::Result<()> {
    for (status, headers) in &reply.interim {
        let interim = Reply { headers: headers.clone(), ..Reply::new(*status).without_body() };
        connection.send(interim.head_bytes()).await?;
    }
    if reply.held {
        site.held().await;
    }
    tokio::time::sleep(reply.pause).await;
    let mut bytes = reply.head_bytes();
    let without_body = asked.word(0) == "HEAD" || matches!(reply.status, 101 | 204 | 304);
    let mut rest = Vec::new();
    match &reply.body {
        _ if without_body => {}
        Body::None => {}
        Body::Whole(body) | Body::Raw(body) => bytes.extend(body),
        Body::Chunked(chunks) => {
            chunks.iter().for_each(|piece| bytes.extend(chunk(piece)));
            rest = last_chunk(&reply.trailers);
        }
        Body::OnDemand(pieces) => {
            connection.send(bytes.split_off(0)).await?;
            for piece in pieces {
                site.pieces.acquire().await.map_err(io::Error::other)?.forget();
                connection.send(chunk(piece)).await?;
            }
            rest = last_chunk(&reply.trailers);
        }
        Body::Filled(length) | Body::FilledChunked(length) => {
            let chunked = matches!(reply.body, Body::FilledChunked(_));
            let limit = reply.cut_after.map_or(u64::MAX, |bytes| bytes as u64).min(*length);
            connection.send(bytes.split_off(0)).await?;
            let mut sent = 0;
            while sent < limit {
                let size = PIECE.min(usize::try_from(limit - sent).unwrap_or(PIECE));
                let piece = filling(sent, size);
                connection.send(if chunked { chunk(&piece) } else { piece }).await?;
                sent += size as u64;
            }
            if chunked {
                rest = last_chunk(&reply.trailers);
            }
        }
    }
    match reply.cut_after {
        None => bytes.extend(rest),
        Some(length) => bytes.truncate(length),
    }
    connection.send(bytes).await
}

fn chunk(piece: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat()
}

fn last_chunk(trailers: &Headers) -> Vec<u8> {
    let trailers: String =
        trailers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!("0\r\n{trailers}\r\n").into_bytes()
}
