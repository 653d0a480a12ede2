//! A client that sends exactly what a test says, and shows exactly what came back.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use super::http1::{Connection, Framing, Head, Headers, all, header};

/// One answer, whole.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub headers: Headers,
    pub body: Vec<u8>,
    pub trailers: Headers,
    /// The 1xx answers that came before.
    pub interim: Vec<Head>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    pub fn all(&self, name: &str) -> Vec<&str> {
        all(&self.headers, name)
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// # Panics
    /// When the body is something else.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }
}

/// As text, for whoever reads why a test failed.
impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut body = self.text();
        body.truncate(body.floor_char_boundary(2000));
        write!(f, "{} {:?} {body:?}", self.status, self.headers)?;
        if !self.trailers.is_empty() {
            write!(f, ", trailers {:?}", self.trailers)?;
        }
        if !self.interim.is_empty() {
            write!(f, ", after {:?}", self.interim)?;
        }
        Ok(())
    }
}

/// A request in the making: headers go out in the order in which they are named here.
#[derive(Clone, Debug)]
pub struct Ask {
    to: SocketAddr,
    method: String,
    target: String,
    headers: Headers,
    body: Body,
}

#[derive(Clone, Debug)]
enum Body {
    None,
    Length(Vec<u8>),
    Chunked(Vec<u8>),
}

impl Ask {
    pub fn new(to: SocketAddr, method: &str, target: &str) -> Self {
        let headers = vec![("Host".to_owned(), to.to_string())];
        Self { to, method: method.into(), target: target.into(), headers, body: Body::None }
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn key(self, key: &str) -> Self {
        self.header("Idempotency-Key", key)
    }

    pub fn host(mut self, host: &str) -> Self {
        self.headers[0].1 = host.to_owned();
        self
    }

    pub fn body(mut self, body: impl AsRef<[u8]>) -> Self {
        self.body = Body::Length(body.as_ref().to_vec());
        self
    }

    /// In chunks of a few hundred bytes.
    pub fn chunked(mut self, body: impl AsRef<[u8]>) -> Self {
        self.body = Body::Chunked(body.as_ref().to_vec());
        self
    }

    /// The bytes of the whole request.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = latin1(&format!("{} {} HTTP/1.1\r\n", self.method, self.target));
        for (name, value) in &self.headers {
            bytes.extend(latin1(&format!("{name}: {value}\r\n")));
        }
        match &self.body {
            Body::None => bytes.extend(b"\r\n"),
            Body::Length(body) => {
                bytes.extend(format!("Content-Length: {}\r\n\r\n", body.len()).bytes());
                bytes.extend(body);
            }
            Body::Chunked(body) => {
                bytes.extend(b"Transfer-Encoding: chunked\r\n\r\n");
                bytes.extend(chunks(body));
            }
        }
        bytes
    }

    /// # Panics
    /// When there is no answer.
    pub async fn send(self) -> Answer {
        let shown = format!("{} {}", self.method, self.target);
        self.try_send().await.unwrap_or_else(|e| panic!("no answer to {shown}: {e}"))
    }

    /// On a connection of its own.
    pub async fn try_send(self) -> io::Result<Answer> {
        let mut connection = Connection::connect(self.to).await?;
        self.send_on(&mut connection).await
    }

    pub async fn send_on(self, connection: &mut Connection) -> io::Result<Answer> {
        // An early answer may come although not all could be sent.
        let sent = connection.send(self.bytes()).await;
        match answer(connection, &self.method).await {
            Err(error) => Err(sent.err().unwrap_or(error)),
            answer => answer,
        }
    }
}

/// Reads one final answer to a request with this method.
pub async fn answer(connection: &mut Connection, method: &str) -> io::Result<Answer> {
    let mut interim = Vec::new();
    loop {
        let head = connection.head().await?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let status = head.status()?;
        if (100..200).contains(&status) && status != 101 {
            interim.push(head);
            continue;
        }
        let mut body = Vec::new();
        let framing = match status {
            // What follows is no body.
            101 => Framing::Length(0),
            _ => head.answer_framing(method)?,
        };
        let trailers = connection.body(framing, |piece| body.extend_from_slice(piece)).await?;
        return Ok(Answer { status, headers: head.headers, body, trailers, interim });
    }
}

/// A body in chunked framing.
pub fn chunks(body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for chunk in body.chunks(300) {
        bytes.extend(format!("{:x}\r\n", chunk.len()).bytes());
        bytes.extend(chunk);
        bytes.extend(b"\r\n");
    }
    bytes.extend(b"0\r\n\r\n");
    bytes
}

/// The inverse of how heads are read: a test writes `\u{e9}` for the byte 0xe9.
fn latin1(text: &str) -> Vec<u8> {
    text.chars().map(|c| u8::try_from(c).expect("a character of one byte")).collect()
}
