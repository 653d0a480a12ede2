//! A payment API as there are many: it takes a moment, and pays as often as it is asked.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Incoming;
use serde::Deserialize;
use serde_json::json;

use crate::config::Limits;
use crate::http::server::{self, Front, Handler, Peer, Stop};
use crate::http::{Body, BoxError, json as answers};

/// For this amount it pays, and then loses the connection.
pub const BREAKS_OFF: u32 = 1313;
const TAKES: Duration = Duration::from_millis(150);

#[derive(Clone)]
pub struct Bank {
    runs: Arc<AtomicU32>,
    address: SocketAddr,
}

#[derive(Deserialize)]
struct Payment {
    amount: u32,
}

impl Bank {
    pub async fn open() -> io::Result<Self> {
        let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let bank = Self { runs: Arc::default(), address: listener.local_addr()? };
        let front = Front::new(Limits::default(), None);
        tokio::spawn(server::serve(listener, front, bank.clone(), Stop::new()));
        Ok(bank)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How often it really paid.
    pub fn runs(&self) -> u32 {
        self.runs.load(Ordering::SeqCst)
    }
}

impl Handler for Bank {
    async fn handle(&self, request: Request<Incoming>, _: Peer) -> Response<Body> {
        let body = match request.into_body().collect().await {
            Ok(body) => body.to_bytes(),
            Err(_) => Bytes::new(),
        };
        let Ok(Payment { amount }) = serde_json::from_slice(&body) else {
            let hint = json!({ "error": "send a JSON body such as {\"amount\":700}" });
            return answers::answer(StatusCode::BAD_REQUEST, &hint);
        };
        tokio::time::sleep(TAKES).await;
        let run = self.runs.fetch_add(1, Ordering::SeqCst) + 1;
        if amount == BREAKS_OFF {
            let lost: Result<http_body::Frame<Bytes>, BoxError> = Err("the line went dead".into());
            return Response::new(Body::stream(StreamBody::new(stream::iter([lost]))));
        }
        let paid = json!({ "id": format!("pay_{run}"), "amount": amount, "status": "paid" });
        answers::answer(StatusCode::CREATED, &paid)
    }
}
