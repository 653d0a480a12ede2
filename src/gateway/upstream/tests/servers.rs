//! The servers that these tests talk to: one that speaks HTTP, one that follows a script.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Counts, and stops with the test.
pub struct Server {
    pub address: SocketAddr,
    accepted: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Server {
    pub fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    /// Each connection runs `script`, with its number from 0.
    pub async fn follow<F>(script: impl Fn(TcpStream, usize) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let accepted = Arc::new(AtomicUsize::new(0));
        let counted = accepted.clone();
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                stream.set_nodelay(true).unwrap();
                tokio::spawn(script(stream, counted.fetch_add(1, Ordering::SeqCst)));
            }
        });
        Self { address, accepted, task }
    }

    /// HTTP/1 or HTTP/2, whichever the client begins with.
    pub async fn http<F>(
        handle: impl Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Response<Full<Bytes>>> + Send + 'static,
    {
        Self::follow(move |stream, _| serve(stream, handle.clone())).await
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub async fn serve<F>(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    handle: impl Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
) where
    F: Future<Output = Response<Full<Bytes>>> + Send + 'static,
{
    let service = service_fn(move |request| {
        let answer = handle(request);
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let builder = auto::Builder::new(TokioExecutor::new());
    // Clients that go away are what is tested.
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}

pub fn says(text: impl Into<Bytes>) -> Response<Full<Bytes>> {
    Response::new(Full::new(text.into()))
}

/// The head of an HTTP/1 request and the body of `post()`; None at the end of the connection.
pub async fn read_request(stream: &mut TcpStream) -> Option<String> {
    read_until(stream, b"\r\n\r\norder").await
}

pub async fn read_until(stream: &mut TcpStream, end: &[u8]) -> Option<String> {
    let mut read = Vec::new();
    while !read.ends_with(end) {
        read.push(stream.read_u8().await.ok()?);
    }
    Some(String::from_utf8(read).unwrap())
}

pub async fn write(stream: &mut TcpStream, text: &str) {
    stream.write_all(text.as_bytes()).await.unwrap();
}

/// Returns when the client has closed its side.
pub async fn read_to_end(mut stream: TcpStream) {
    let _ = stream.read_to_end(&mut Vec::new()).await;
}

pub const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
