//! The upstream over HTTP/2: ordinary answers, held or not, and those whose stream is reset.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{HeaderName, Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::reply::Body;
use super::{End, Execution, Site};
use crate::support::http2::pairs;

type Answer = UnsyncBoxBody<Bytes, h2::Error>;

pub async fn serve(stream: TcpStream, number: usize, site: Arc<Site>) {
    let written = watch::Sender::new(0);
    let counted = Counted { stream, written: written.clone() };
    let answer = move |request| {
        let (site, written) = (site.clone(), written.clone());
        async move { Ok::<_, Infallible>(answer(request, number, &site, written).await) }
    };
    let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    let service = hyper::service::service_fn(answer);
    // How a connection ends is up to the gateway.
    let _ = server.serve_connection(TokioIo::new(counted), service).await;
}

async fn answer(
    request: Request<Incoming>,
    number: usize,
    site: &Site,
    written: watch::Sender<usize>,
) -> Response<Answer> {
    let (parts, body) = request.into_parts();
    let mut headers = pairs(&parts.headers);
    if let Some(authority) = parts.uri.authority() {
        headers.insert(0, ("host".to_owned(), authority.to_string()));
    }
    let target = parts.uri.path_and_query().map_or("/", |target| target.as_str()).to_owned();
    let behaviour = site.behaviour(&target);
    let Ok(body) = body.collect().await else {
        return Response::new(whole(Vec::new()));
    };
    let trailers = body.trailers().map(pairs).unwrap_or_default();
    let body = body.to_bytes().to_vec();
    let execution = site.executions.begin(Execution {
        number: 0,
        method: parts.method.to_string(),
        target,
        headers,
        body_bytes: body.len() as u64,
        body,
        trailers,
        at: Instant::now(),
        connection: number,
    });
    let reply = (behaviour.reply)(&execution);
    if reply.held {
        site.held().await;
    }
    tokio::time::sleep(reply.pause).await;
    let body = match &reply.body {
        Body::None => Vec::new(),
        Body::Whole(body) => body.clone(),
        Body::Chunked(chunks) => chunks.concat(),
        other => panic!("not over HTTP/2: {other:?}"),
    };
    let body = match (reply.cut_after, reply.end) {
        (None, _) => whole(body),
        (Some(bytes), End::Reset) => reset_after(body[..bytes].to_vec(), written),
        (_, other) => panic!("not over HTTP/2: {other:?}"),
    };
    let mut response = Response::new(body);
    *response.status_mut() = reply.status.try_into().expect("a status");
    for (name, value) in &reply.headers {
        let name: HeaderName = name.parse().expect("the name of a header");
        response.headers_mut().append(name, value.parse().expect("the value of a header"));
    }
    response
}

fn whole(body: Vec<u8>) -> Answer {
    Full::from(body).map_err(|never| match never {}).boxed_unsync()
}

/// The stream is reset with NO_ERROR behind these bytes, as some proxies do when what is behind
/// them breaks off. A reset overtakes what is still to be written, so it waits for that.
fn reset_after(bytes: Vec<u8>, written: watch::Sender<usize>) -> Answer {
    let enough = *written.borrow() + bytes.len();
    let frame = stream::once(async { Ok(Frame::data(Bytes::from(bytes))) });
    let reset = stream::once(async move {
        let _ = written.subscribe().wait_for(|written| *written >= enough).await;
        Err(h2::Error::from(h2::Reason::NO_ERROR))
    });
    StreamBody::new(frame.chain(reset)).boxed_unsync()
}

/// A connection that tells how many bytes were written to it.
struct Counted {
    stream: TcpStream,
    written: watch::Sender<usize>,
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(cx, bytes);
        if let Poll::Ready(Ok(more)) = result {
            self.written.send_modify(|written| *written += more);
        }
        result
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
