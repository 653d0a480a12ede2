//! The API behind the gateway in load tests: every POST is an execution, counted by its key.
//! `GET /counted` tells how many there were; `?ms=50` makes an execution take that long.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::{Method, Request, Response, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

#[derive(Default)]
struct Counted {
    executions: u64,
    by_key: HashMap<String, u64>,
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    // For the script that started this.
    println!("http://{}", listener.local_addr()?);
    std::io::stdout().flush()?;
    let counted = Arc::<Mutex<Counted>>::default();
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let counted = counted.clone();
        tokio::spawn(async move {
            let service = service_fn(|request| answer(request, &counted));
            let connection = hyper::server::conn::http1::Builder::new();
            // A connection that breaks is the client's business.
            let _ = connection.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    counted: &Mutex<Counted>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let counted = || counted.lock().unwrap_or_else(PoisonError::into_inner);
    if request.method() == Method::GET {
        let Counted { executions, by_key } = &*counted();
        let most = by_key.values().max().copied().unwrap_or(0);
        return Ok(json(format!(
            r#"{{"executions":{executions},"keys":{},"most":{most}}}"#,
            by_key.len()
        )));
    }
    let (head, body) = request.into_parts();
    let key = head.headers.get("idempotency-key").and_then(|key| key.to_str().ok());
    let number = {
        let mut counted = counted();
        counted.executions += 1;
        *counted.by_key.entry(key.unwrap_or_default().to_owned()).or_default() += 1;
        counted.executions
    };
    // Counted first: a body that breaks off was begun all the same.
    let _ = body.collect().await;
    let takes = head.uri.query().and_then(|query| query.strip_prefix("ms=")?.parse().ok());
    if let Some(milliseconds) = takes {
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
    }
    Ok(json(format!(r#"{{"execution":{number},"status":"captured","amount":4200}}"#)))
}

fn json(text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(text));
    response
        .headers_mut()
        .insert("content-type", http::HeaderValue::from_static("application/json"));
    response
}
