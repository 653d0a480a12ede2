//! Real servers on real sockets; what each test waits for is an event, not a time.

mod breaking;
mod capacity;
mod http2;
mod limits;
mod reuse;
mod servers;
mod tls;
mod upgrade;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;

use super::*;
use crate::config::{Connections, Flags, Http2, UpstreamTls};
use crate::http::Body;

/// Longer than anything takes, unless it hangs.
const PATIENCE: Duration = Duration::from_secs(10);

fn connections() -> Connections {
    Connections {
        max: 8,
        acquire_timeout: PATIENCE,
        connect_timeout: Duration::from_secs(2),
        idle_timeout: Duration::from_secs(60),
        max_age: Duration::from_secs(600),
        http2: Http2::Auto,
    }
}

fn configured(urls: &[String]) -> config::Upstream {
    let flags = Flags { upstream: Some(urls.join(",")), ..Flags::default() };
    let environment = [("", ""); 0].into_iter().collect();
    let read_file = &|_: &std::path::Path| Ok(String::new());
    let sources = config::Sources { flags: &flags, environment: &environment, read_file };
    config::Config::read(&sources).map_err(|_| ()).unwrap().upstream
}

fn upstreams(connections: Connections, threads: usize) -> Upstreams {
    Upstreams::new(connections, &UpstreamTls { ca: None }, threads).unwrap()
}

/// For one front thread, in the clear.
fn upstream(connections: Connections, address: SocketAddr) -> Arc<Upstream> {
    upstreams(connections, 1).get(&configured(&[format!("http://{address}")]))
}

fn post(path: &str) -> Request<Body> {
    let mut request = Request::post(path).header("host", "shop.example");
    request.headers_mut().unwrap().insert("x-order", "7".parse().unwrap());
    request.body(Body::from(Bytes::from_static(b"order"))).unwrap()
}

async fn text(response: Response<Answer>) -> String {
    let bytes = within(response.into_body().collect()).await.unwrap().to_bytes();
    String::from_utf8(bytes.into()).unwrap()
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it hangs")
}

/// Sockets go when their tasks are dropped, which is soon.
async fn until_open(upstream: &Upstream, count: usize) {
    within(async {
        while upstream.open() != count {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn sending_can_be_a_task_of_its_own() {
    let server = servers::Server::http(|_| async { servers::says("ok") }).await;
    let upstream = upstream(connections(), server.address);
    let task = tokio::spawn(async move { text(upstream.send(0, post("/")).await.unwrap()).await });
    assert_eq!(task.await.unwrap(), "ok");
}
