//! A small client for the few calls that oncegate makes on its own behalf: probes, callbacks, and
//! what the command line asks the admin listener.
//!
//! One connection per call, HTTP/1.1, whole answers, and a limit for everything. What clients send
//! never goes this way: upstreams have their own connections, with caps and rules of their own.

use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use url::{Position, Url};

use super::BoxError;

/// Where to, and how long and how much is waited for. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Target {
    url: Arc<Url>,
    limit: Duration,
    max_bytes: usize,
}

/// Shows neither the URL nor what was sent: both may hold secrets.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    #[error("{0}")]
    Failed(BoxError),
}

pub struct Answer {
    pub status: StatusCode,
    pub body: Bytes,
}

impl Target {
    /// `http` or `https`; a user and password are sent as basic authentication.
    pub fn new(url: &str, limit: Duration, max_bytes: usize) -> Result<Self, url::ParseError> {
        Ok(Self { url: Arc::new(Url::parse(url)?), limit, max_bytes })
    }

    /// Another path and query below the same URL.
    pub fn below(&self, path: &str, query: &[(&str, &str)]) -> Self {
        let mut url = Url::clone(&self.url);
        let whole = format!("{}{path}", url.path().trim_end_matches('/'));
        url.set_path(&whole);
        url.set_query(None);
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        Self { url: Arc::new(url), ..self.clone() }
    }

    pub async fn post_json(&self, json: Vec<u8>) -> Result<Answer, CallError> {
        self.send(Method::POST, HeaderMap::new(), json).await
    }

    /// A body is JSON; an empty one is none.
    pub async fn send(
        &self,
        method: Method,
        headers: HeaderMap,
        json: Vec<u8>,
    ) -> Result<Answer, CallError> {
        match tokio::time::timeout(self.limit, self.call(method, headers, json)).await {
            Ok(answer) => answer.map_err(CallError::Failed),
            Err(_) => Err(CallError::TimedOut(self.limit)),
        }
    }

    async fn call(
        &self,
        method: Method,
        headers: HeaderMap,
        json: Vec<u8>,
    ) -> Result<Answer, BoxError> {
        let request = self.request(method, headers, json)?;
        let host = self.url.host_str().ok_or("the URL has no host")?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let port = self.url.port_or_known_default().ok_or("the URL has no port")?;
        let stream = TcpStream::connect((host, port)).await?;
        stream.set_nodelay(true)?;
        match self.url.scheme() {
            "https" => {
                let name = ServerName::try_from(host.to_owned())?;
                let connector = tokio_rustls::TlsConnector::from(trust()?);
                self.exchange(connector.connect(name, stream).await?, request).await
            }
            _ => self.exchange(stream, request).await,
        }
    }

    /// What is about this connection is set here; of the rest the caller's headers come first.
    fn request(
        &self,
        method: Method,
        mut headers: HeaderMap,
        json: Vec<u8>,
    ) -> Result<Request<Full<Bytes>>, BoxError> {
        let url = &self.url;
        let host = &url[Position::BeforeHost..Position::AfterPort];
        headers.insert(HOST, HeaderValue::try_from(host)?);
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        let agent = concat!("oncegate/", env!("CARGO_PKG_VERSION"));
        headers.insert(USER_AGENT, HeaderValue::from_static(agent));
        if !json.is_empty() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        let has_user = !url.username().is_empty() || url.password().is_some();
        if has_user && !headers.contains_key(AUTHORIZATION) {
            let pair =
                format!("{}:{}", decoded(url.username()), decoded(url.password().unwrap_or("")));
            let mut value = HeaderValue::try_from(format!("Basic {}", STANDARD.encode(pair)))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let mut request = Request::new(Full::from(json));
        *request.method_mut() = method;
        *request.uri_mut() = url[Position::BeforePath..Position::AfterQuery].parse()?;
        *request.headers_mut() = headers;
        Ok(request)
    }

    async fn exchange<S>(
        &self,
        stream: S,
        request: Request<Full<Bytes>>,
    ) -> Result<Answer, BoxError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        // Driven here, so that whoever gives up takes the connection along.
        let mut connection = std::pin::pin!(connection);
        let exchange = async {
            let response = sender.send_request(request).await?;
            let status = response.status();
            let body = Limited::new(response.into_body(), self.max_bytes).collect().await?;
            Ok::<_, BoxError>(Answer { status, body: body.to_bytes() })
        };
        let mut exchange = std::pin::pin!(exchange);
        tokio::select! {
            answer = &mut exchange => answer,
            ended = &mut connection => {
                ended?;
                exchange.await
            }
        }
    }
}

/// The system's authorities, read once and only when something is `https`.
fn trust() -> io::Result<Arc<ClientConfig>> {
    static TRUST: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    if let Some(trust) = TRUST.get() {
        return Ok(trust.clone());
    }
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TRUST.get_or_init(|| Arc::new(config)).clone())
}

/// A part of a URL with its `%40` and the like undone.
fn decoded(part: &str) -> String {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.as_bytes();
    while let [first, after @ ..] = rest {
        let code = after.get(..2).and_then(|code| str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                rest = &after[2..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
