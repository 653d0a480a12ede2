//! One connection: its handshake, which protocol it speaks, and its requests until it ends.
//!
//! The protocol is told from the first bytes here, not by hyper-util's builder: that one drops a
//! connection which is to close before it has said anything, and such a client may have been let in
//! by the kernel just before a stop.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{Request, Version};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use super::answer::Answer;
use super::front::Slot;
use super::interim::Interim;
use super::pulse::{InFlight, Order, Pulse, Stage};
use super::roster::Place;
use super::socket::{Socket, Stream};
use super::{Front, Handler, Peer, Scheme};
use crate::config::Limits;

/// What every HTTP/2 connection begins with.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Parts of bodies that are read or written at once, however small heads have to be.
const BUFFER_BYTES: usize = 128 << 10;
/// What the kernel may hold back unsent. Without a bound a slow reader frees room so rarely that it
/// looks like one that has stopped.
#[cfg(target_os = "linux")]
const UNSENT_BYTES: u32 = 256 << 10;

const STREAMS: u32 = 256;
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 4 << 20;
const FRAME_BYTES: u32 = 64 << 10;
const PING_EVERY: Duration = Duration::from_secs(30);
const PONG_WITHIN: Duration = Duration::from_secs(20);

pub(super) struct Accepted {
    pub tcp: TcpStream,
    pub address: SocketAddr,
    pub slot: Slot,
    pub pulse: Arc<Pulse>,
    pub place: Place,
}

pub(super) async fn run<H: Handler>(accepted: Accepted, front: Arc<Front>, handler: H) {
    let Accepted { tcp, address, slot, pulse, place } = accepted;
    poll_fn(|cx| {
        place.wakes(cx.waker());
        pulse.interims.wakes(cx.waker());
        Poll::Ready(())
    })
    .await;
    let scheme = if front.tls().is_some() { Scheme::Https } else { Scheme::Http };
    // A client on IPv4 has an IPv4 address, however the listener sees it.
    let address = SocketAddr::new(address.ip().to_canonical(), address.port());
    let peer = Peer { address, scheme };

    let Some(Ok((stream, first))) = unless_cut(&pulse, start(tcp, &front)).await else { return };
    let is_http2 = first.as_ref() == PREFACE;
    pulse.something_read();
    pulse.enters(if is_http2 { Stage::Http2 } else { Stage::Http1 });

    let io = TokioIo::new(Socket::new(stream, first, pulse.clone(), slot));
    let counted = pulse.clone();
    let service = service_fn(move |mut request: Request<Incoming>| {
        let in_flight = InFlight::begin(&counted);
        let handler = handler.clone();
        // Older clients would take an interim answer for the final one.
        let interim = (request.version() == Version::HTTP_11).then(|| Interim::begin(&counted));
        if let Some(interim) = &interim {
            request.extensions_mut().insert(interim.clone());
        }
        async move {
            let answer = handler.handle(request, peer).await;
            if let Some(interim) = interim {
                interim.end();
            }
            Ok::<_, Infallible>(answer.map(|body| Answer::new(body, in_flight)))
        }
    });
    let limits = front.limits().clone();
    // What is large and rare is boxed: ten thousand idle connections are mostly HTTP/1.1.
    let ended = if is_http2 {
        let connection = http2(&limits).serve_connection(io, service);
        Box::pin(drive(connection, |connection| connection.graceful_shutdown(), &pulse)).await
    } else {
        let connection = http1(&limits).serve_connection(io, service).with_upgrades();
        drive(connection, |connection| connection.graceful_shutdown(), &pulse).await
    };
    if let Err(error) = ended {
        tracing::debug!(%error, peer = %peer.address, "a connection ended with an error");
    }
}

/// The handshake, if there is one, and as many bytes as tell the protocol.
async fn start(tcp: TcpStream, front: &Front) -> io::Result<(Stream, Bytes)> {
    // Without these it would only be slower.
    let _ = tcp.set_nodelay(true);
    #[cfg(target_os = "linux")]
    let _ = socket2::SockRef::from(&tcp).set_tcp_notsent_lowat(UNSENT_BYTES);
    let mut stream = match front.tls() {
        None => Stream::Plain(tcp),
        Some(tls) => Stream::Tls(Box::new(Box::pin(tls.acceptor().accept(tcp)).await?)),
    };
    let mut first = BytesMut::with_capacity(PREFACE.len());
    loop {
        let mut rest = [0; PREFACE.len()];
        let read = stream.read(&mut rest[first.len()..]).await?;
        if read == 0 && first.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let begin = first.len();
        first.extend_from_slice(&rest[begin..begin + read]);
        if read == 0 || first.len() == PREFACE.len() || !PREFACE.starts_with(&first) {
            return Ok((stream, first.freeze()));
        }
    }
}

fn http1(limits: &Limits) -> http1::Builder {
    let mut builder = http1::Builder::new();
    // More headers than the 100 it takes by itself would cost an allocation per request. It has no
    // timer: the watch keeps the time.
    builder
        .half_close(false)
        .pipeline_flush(false)
        .header_read_timeout(None)
        .max_header_size(limits.max_header_bytes)
        .max_buf_size(limits.max_header_bytes.max(BUFFER_BYTES));
    builder
}

fn http2(limits: &Limits) -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_frame_size(FRAME_BYTES)
        .max_header_list_size(u32::try_from(limits.max_header_bytes).unwrap_or(u32::MAX))
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PONG_WITHIN);
    builder
}

async fn unless_cut<T>(pulse: &Pulse, what: impl Future<Output = T>) -> Option<T> {
    let mut what = pin!(what);
    poll_fn(|cx| match pulse.order() {
        Order::Cut => Poll::Ready(None),
        _ => what.as_mut().poll(cx).map(Some),
    })
    .await
}

/// Until the connection has ended, by itself or as it is told.
async fn drive<C: Future<Output = Result<(), hyper::Error>>>(
    connection: C,
    close: impl Fn(Pin<&mut C>),
    pulse: &Pulse,
) -> Result<(), hyper::Error> {
    let mut connection = pin!(connection);
    let mut is_closing = false;
    poll_fn(|cx| {
        let order = pulse.order();
        if order == Order::Cut {
            return Poll::Ready(Ok(()));
        }
        // First, so that a request that has arrived is served even by one that is to close.
        if let Poll::Ready(ended) = connection.as_mut().poll(cx) {
            return Poll::Ready(ended);
        }
        if order == Order::Close && !is_closing {
            is_closing = true;
            close(connection.as_mut());
            return connection.as_mut().poll(cx);
        }
        Poll::Pending
    })
    .await
}
