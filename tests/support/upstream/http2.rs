//! The upstream over HTTP/2: ordinary answers, held or not.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::{HeaderName, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

use super::reply::Body;
use super::{Execution, Site};
use crate::support::http2::pairs;

pub async fn serve(stream: TcpStream, number: usize, site: Arc<Site>) {
    let answer = move |request| {
        let site = site.clone();
        async move { Ok::<_, Infallible>(answer(request, number, &site).await) }
    };
    let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    let service = hyper::service::service_fn(answer);
    // How a connection ends is up to the gateway.
    let _ = server.serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(request: Request<Incoming>, number: usize, site: &Site) -> Response<Full<Bytes>> {
    let (parts, body) = request.into_parts();
    let mut headers = pairs(&parts.headers);
    if let Some(authority) = parts.uri.authority() {
        headers.insert(0, ("host".to_owned(), authority.to_string()));
    }
    let target = parts.uri.path_and_query().map_or("/", |target| target.as_str()).to_owned();
    let behaviour = site.behaviour(&target);
    let Ok(body) = body.collect().await else {
        return Response::new(Full::default());
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
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = reply.status.try_into().expect("a status");
    for (name, value) in &reply.headers {
        let name: HeaderName = name.parse().expect("the name of a header");
        response.headers_mut().append(name, value.parse().expect("the value of a header"));
    }
    response
}
