//! The server on real sockets: what its tests share.

mod capacity;
mod protocols;
mod slow_clients;
mod stopping;
mod tls;

use std::future::pending;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::*;
use crate::config::Limits;
use crate::http::{BodyIdle, BoxError, IdleLimited};

/// Longer than anything here takes.
const SOON: Duration = Duration::from_secs(10);
const MIB: usize = 1 << 20;

fn limits() -> Limits {
    Limits {
        max_connections: 10_000,
        header_timeout: SOON,
        body_idle_timeout: SOON,
        idle_timeout: SOON,
        max_header_bytes: 16 << 10,
        max_in_flight: 1024,
    }
}

/// Answers by path.
#[derive(Clone)]
struct Script(Arc<Steps>);

struct Steps {
    /// One more for each request that has come to wait.
    entered: Semaphore,
    /// As many as may go on.
    released: Semaphore,
    body_idle_timeout: Duration,
}

impl Steps {
    async fn wait(&self) {
        self.entered.add_permits(1);
        self.released.acquire().await.unwrap().forget();
    }
}

fn chunks(count: usize) -> Body {
    let chunk = Bytes::from(vec![b'x'; 64 << 10]);
    let frames = (0..count).map(move |_| Ok::<_, BoxError>(Frame::data(chunk.clone())));
    Body::stream(StreamBody::new(stream::iter(frames)))
}

impl Handler for Script {
    async fn handle(&self, request: Request<Incoming>, peer: Peer) -> Response<Body> {
        let steps = self.0.clone();
        let body = match request.uri().path() {
            "/" => Body::from(Bytes::from_static(b"hello")),
            "/peer" => {
                Body::from(Bytes::from(format!("{} {}", peer.scheme.as_str(), peer.address)))
            }
            "/wait" => {
                steps.wait().await;
                Body::from(Bytes::from_static(b"waited"))
            }
            "/big" => chunks(16 * 64),
            "/endless" => chunks(usize::MAX),
            // Says one thing, is silent until it is released, and says another.
            "/events" => {
                let events = stream::unfold(0, move |said| {
                    let steps = steps.clone();
                    async move {
                        match said {
                            0 => {}
                            1 => steps.wait().await,
                            _ => return None,
                        }
                        Some((
                            Ok::<_, BoxError>(Frame::data(Bytes::from_static(b"event;"))),
                            said + 1,
                        ))
                    }
                });
                Body::stream(StreamBody::new(Box::pin(events)))
            }
            "/echo" => {
                let read = IdleLimited::new(request.into_body(), steps.body_idle_timeout).collect();
                match read.await {
                    Ok(body) => Body::from(body.to_bytes()),
                    Err(error) => {
                        assert!(BodyIdle::caused(&*error), "{error}");
                        let mut answer = Response::new(Body::empty());
                        *answer.status_mut() = StatusCode::REQUEST_TIMEOUT;
                        return answer;
                    }
                }
            }
            "/refuse" => {
                let mut answer = Response::new(Body::empty());
                *answer.status_mut() = StatusCode::PAYLOAD_TOO_LARGE;
                return answer;
            }
            "/panic" => panic!("as the test asked"),
            "/upgrade" => {
                tokio::spawn(async move {
                    let upgraded = hyper::upgrade::on(request).await.unwrap();
                    let (mut read, mut write) = tokio::io::split(TokioIo::new(upgraded));
                    let _ = tokio::io::copy(&mut read, &mut write).await;
                });
                let mut answer = Response::new(Body::empty());
                *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
                answer.headers_mut().insert("connection", "upgrade".parse().unwrap());
                answer.headers_mut().insert("upgrade", "echo".parse().unwrap());
                return answer;
            }
            "/never" => pending().await,
            path => panic!("no such path: {path}"),
        };
        Response::new(body)
    }
}

struct Running {
    address: SocketAddr,
    front: Arc<Front>,
    stop: Stop,
    steps: Arc<Steps>,
    serving: JoinHandle<()>,
}

impl Running {
    fn start(limits: Limits) -> Self {
        Self::start_with(limits, None)
    }

    fn start_with(limits: Limits, tls: Option<Tls>) -> Self {
        let steps = Arc::new(Steps {
            entered: Semaphore::new(0),
            released: Semaphore::new(0),
            body_idle_timeout: limits.body_idle_timeout,
        });
        let listener = listen("127.0.0.1:0".parse().unwrap(), 1).unwrap().remove(0);
        let address = listener.local_addr().unwrap();
        let listener = TcpListener::from_std(listener).unwrap();
        let (front, stop) = (Front::new(limits, tls), Stop::new());
        let script = Script(steps.clone());
        let serving = tokio::spawn(serve(listener, front.clone(), script, stop.clone()));
        Self { address, front, stop, steps, serving }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Until so many requests have come to wait.
    async fn entered(&self, count: u32) {
        let entered = timeout(SOON, self.steps.entered.acquire_many(count)).await;
        entered.expect("no request came").unwrap().forget();
    }

    fn release(&self, count: usize) {
        self.steps.released.add_permits(count);
    }

    async fn ended(self) {
        timeout(SOON, self.serving).await.expect("serve did not return").unwrap();
    }
}

/// A GET on an HTTP/1.1 connection.
async fn get(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), path: &str) -> String {
    send(stream, &format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n")).await;
    answer(stream).await
}

async fn send(stream: &mut (impl AsyncWrite + Unpin), text: &str) {
    stream.write_all(text.as_bytes()).await.unwrap();
}

/// One answer with a known length, head and body.
async fn answer(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut text = Vec::new();
    let read = async {
        loop {
            let head_end = text.windows(4).position(|four| four == b"\r\n\r\n");
            if let Some(head_end) = head_end {
                let head = String::from_utf8_lossy(&text[..head_end]).to_ascii_lowercase();
                let length = head.split("content-length: ").nth(1);
                let length = length.and_then(|rest| rest.lines().next()?.parse().ok());
                if text.len() == head_end + 4 + length.unwrap_or(0) {
                    return;
                }
            }
            let byte = stream.read_u8().await.expect("the connection ended within an answer");
            text.push(byte);
        }
    };
    timeout(SOON, read).await.expect("no answer");
    String::from_utf8(text).unwrap()
}

/// Everything until the server closes the connection, however it does.
async fn rest(stream: &mut (impl AsyncRead + Unpin)) -> Vec<u8> {
    let mut rest = Vec::new();
    let _ = timeout(SOON, stream.read_to_end(&mut rest)).await.expect("it was not closed");
    rest
}

type Http2 = hyper::client::conn::http2::SendRequest<Body>;

async fn http2(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Http2 {
    let io = TokioIo::new(stream);
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    sender
}

fn request(path: &str) -> Request<Body> {
    Request::builder().uri(format!("http://x{path}")).body(Body::empty()).unwrap()
}

async fn text(answer: Response<Incoming>) -> String {
    let body = timeout(SOON, answer.into_body().collect()).await.expect("the body did not end");
    String::from_utf8(body.unwrap().to_bytes().into()).unwrap()
}
