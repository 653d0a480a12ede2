//! A client that speaks HTTP/2 without being asked to, as gRPC clients and meshes do.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

use super::client::Answer;
use super::http1::Headers;

/// One connection; any number of requests at a time.
#[derive(Clone)]
pub struct Http2 {
    to: SocketAddr,
    sender: SendRequest<Full<Bytes>>,
}

impl Http2 {
    pub async fn connect(to: SocketAddr) -> Self {
        let stream = TcpStream::connect(to).await.expect("the gateway accepts");
        let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .expect("the gateway speaks HTTP/2");
        tokio::spawn(connection);
        Self { to, sender }
    }

    pub async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.send_body(method, path, headers, "").await
    }

    /// # Panics
    /// When there is no answer.
    pub async fn send_body(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let mut request =
            Request::builder().method(method).uri(format!("http://{}{path}", self.to));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::from(body.to_owned())).expect("a request");
        let answer = self.sender.clone().send_request(request).await.expect("an answer");
        let (parts, body) = answer.into_parts();
        let body = body.collect().await.expect("the whole answer");
        let trailers = body.trailers().map(pairs).unwrap_or_default();
        Answer {
            status: parts.status.as_u16(),
            headers: pairs(&parts.headers),
            body: body.to_bytes().to_vec(),
            trailers,
            interim: Vec::new(),
        }
    }
}

/// Headers as the tests compare them.
pub fn pairs(headers: &HeaderMap) -> Headers {
    let text = |bytes: &[u8]| bytes.iter().map(|byte| char::from(*byte)).collect();
    headers.iter().map(|(name, value)| (name.to_string(), text(value.as_bytes()))).collect()
}
