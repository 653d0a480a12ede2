//! A client of the payment API that talks to the gateway instead.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::Failure;
use crate::http::Body;

pub struct Client(SocketAddr);

#[derive(Clone, Copy)]
pub struct Payment {
    pub key: &'static str,
    pub cents: u32,
}

pub struct Answer {
    pub status: StatusCode,
    /// What the gateway says that it did.
    pub idempotency: String,
    pub body: String,
}

impl Payment {
    pub fn body(&self) -> String {
        format!("{{\"amount\":{}}}", self.cents)
    }
}

impl Client {
    pub fn new(gateway: SocketAddr) -> Self {
        Self(gateway)
    }

    pub async fn pay(&self, payment: &Payment) -> Result<Answer, Failure> {
        let stream = TcpStream::connect(self.0).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let request = Request::post("/v1/payments")
            .header("host", self.0.to_string())
            .header("content-type", "application/json")
            .header("idempotency-key", payment.key)
            .body(Body::from(Bytes::from(payment.body())))?;
        let (head, body) = sender.send_request(request).await?.into_parts();
        let idempotency = head.headers.get("idempotency-status");
        let idempotency = idempotency.and_then(|value| value.to_str().ok()).unwrap_or("none");
        let body = body.collect().await?.to_bytes();
        Ok(Answer {
            status: head.status,
            idempotency: idempotency.to_owned(),
            body: String::from_utf8_lossy(&body).into_owned(),
        })
    }
}
