//! HTTP/1.1 as bytes on a connection, for the client before the gateway and the upstream behind it.
//!
//! Nothing is repaired and nothing is guessed: what a lenient peer would accept is an error here,
//! so that a test sees what the gateway really sends. Every wait is bounded.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const PATIENCE: Duration = Duration::from_secs(30);
const LONGEST_HEAD: usize = 256 * 1024;

/// In the order they came, the names as they were written.
pub type Headers = Vec<(String, String)>;

/// The first line of a message and its headers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    pub start: String,
    pub headers: Headers,
}

/// How the end of a body is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    Length(u64),
    Chunked,
    UntilClose,
}

pub struct Connection {
    stream: TcpStream,
    buffer: BytesMut,
    patience: Duration,
    to: SocketAddr,
}

/// The first value of a header, whatever the case of its name.
pub fn header<'h>(headers: &'h Headers, name: &str) -> Option<&'h str> {
    all(headers, name).first().copied()
}

/// Every value of a header, in order.
pub fn all<'h>(headers: &'h Headers, name: &str) -> Vec<&'h str> {
    let named = headers.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
    named.map(|(_, value)| value.as_str()).collect()
}

impl Head {
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    /// A word of the first line, counted from zero.
    pub fn word(&self, index: usize) -> &str {
        self.start.split(' ').nth(index).unwrap_or_default()
    }

    /// The status of an answer.
    pub fn status(&self) -> io::Result<u16> {
        let version = self.word(0);
        let status = self.word(1).parse().ok().filter(|status| (100..600).contains(status));
        status.filter(|_| version.starts_with("HTTP/1.")).ok_or_else(|| bad(&self.start))
    }

    /// How the body of a request ends; one that could be read in two ways is an error.
    pub fn request_framing(&self) -> io::Result<Framing> {
        self.told_framing().map(|told| told.unwrap_or(Framing::Length(0)))
    }

    /// How the body of an answer to this method ends.
    pub fn answer_framing(&self, method: &str) -> io::Result<Framing> {
        let told = self.told_framing()?;
        Ok(match self.status()? {
            100..200 | 204 | 304 => Framing::Length(0),
            _ if method == "HEAD" => Framing::Length(0),
            _ => told.unwrap_or(Framing::UntilClose),
        })
    }

    fn told_framing(&self) -> io::Result<Option<Framing>> {
        let lengths = all(&self.headers, "content-length");
        let encodings = all(&self.headers, "transfer-encoding");
        match (&lengths[..], &encodings[..]) {
            ([], []) => Ok(None),
            ([length], []) if length.bytes().all(|byte| byte.is_ascii_digit()) => {
                length.parse().map(|length| Some(Framing::Length(length))).map_err(|_| bad(length))
            }
            ([], [encoding]) if encoding.eq_ignore_ascii_case("chunked") => {
                Ok(Some(Framing::Chunked))
            }
            _ => Err(bad(&format!("content-length {lengths:?}, transfer-encoding {encodings:?}"))),
        }
    }
}

impl Connection {
    pub fn new(stream: TcpStream, to: SocketAddr) -> Self {
        // It fails only for a connection that is gone already.
        let _ = stream.set_nodelay(true);
        Self { stream, buffer: BytesMut::new(), patience: PATIENCE, to }
    }

    pub async fn connect(to: SocketAddr) -> io::Result<Self> {
        in_time(PATIENCE, TcpStream::connect(to)).await.map(|stream| Self::new(stream, to))
    }

    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        in_time(self.patience, self.stream.write_all(bytes.as_ref())).await
    }

    /// Says that nothing more will be sent, while the answer can still be read.
    pub async fn finish(&mut self) -> io::Result<()> {
        self.stream.shutdown().await
    }

    /// Who is at the other end.
    pub fn peer(&self) -> SocketAddr {
        self.to
    }

    /// What has been read and does not belong to any message yet.
    pub fn leftover(&self) -> &[u8] {
        &self.buffer
    }

    /// The next head; None when the peer closed the connection instead.
    pub async fn head(&mut self) -> io::Result<Option<Head>> {
        loop {
            if let Some(end) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                let text = text(&self.buffer[..end]);
                self.buffer.advance(end + 4);
                return parse(&text).map(Some);
            }
            if self.buffer.len() > LONGEST_HEAD {
                return Err(bad("a head without end"));
            }
            match self.more().await? {
                0 if self.buffer.is_empty() => return Ok(None),
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                _ => {}
            }
        }
    }

    /// Reads a body piece by piece, and returns its trailers.
    pub async fn body(
        &mut self,
        framing: Framing,
        mut piece: impl FnMut(&[u8]),
    ) -> io::Result<Headers> {
        match framing {
            Framing::Length(length) => self.exactly(length, &mut piece).await?,
            Framing::UntilClose => loop {
                piece(&self.buffer);
                self.buffer.clear();
                if self.more().await? == 0 {
                    break;
                }
            },
            Framing::Chunked => loop {
                let line = self.line().await?;
                let size = line.split(';').next().unwrap_or_default();
                let digits = size.bytes().all(|byte| byte.is_ascii_hexdigit());
                let size = u64::from_str_radix(size, 16).ok().filter(|_| digits);
                let size = size.ok_or_else(|| bad(&format!("chunk size {line:?}")))?;
                if size == 0 {
                    return self.trailers().await;
                }
                self.exactly(size, &mut piece).await?;
                if !self.line().await?.is_empty() {
                    return Err(bad("a chunk longer than its size"));
                }
            },
        }
        Ok(Headers::new())
    }

    /// Everything until the peer closes or resets the connection.
    pub async fn rest(&mut self) -> Vec<u8> {
        while self.more().await.is_ok_and(|read| read > 0) {}
        self.buffer.split().to_vec()
    }

    /// The next bytes, at least one; empty when the peer closed.
    pub async fn some(&mut self) -> io::Result<Vec<u8>> {
        if self.buffer.is_empty() {
            self.more().await?;
        }
        Ok(self.buffer.split().to_vec())
    }

    /// Lets the peer see a reset instead of an orderly end.
    pub fn reset(self) {
        let _ = self.stream.set_zero_linger();
    }

    async fn trailers(&mut self) -> io::Result<Headers> {
        let mut trailers = Headers::new();
        loop {
            let line = self.line().await?;
            if line.is_empty() {
                return Ok(trailers);
            }
            trailers.push(parse_header(&line)?);
        }
    }

    async fn exactly(&mut self, mut length: u64, piece: &mut impl FnMut(&[u8])) -> io::Result<()> {
        while length > 0 {
            if self.buffer.is_empty() && self.more().await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let take = usize::try_from(length).unwrap_or(usize::MAX).min(self.buffer.len());
            piece(&self.buffer[..take]);
            self.buffer.advance(take);
            length -= take as u64;
        }
        Ok(())
    }

    async fn line(&mut self) -> io::Result<String> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|window| window == b"\r\n") {
                let line = text(&self.buffer[..end]);
                self.buffer.advance(end + 2);
                return Ok(line);
            }
            if self.more().await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    async fn more(&mut self) -> io::Result<usize> {
        self.buffer.reserve(64 * 1024);
        in_time(self.patience, self.stream.read_buf(&mut self.buffer)).await
    }
}

async fn in_time<T>(
    patience: Duration,
    step: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    let step = tokio::time::timeout(patience, step);
    step.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Any byte that a head may have is one character.
fn text(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

fn parse(text: &str) -> io::Result<Head> {
    let mut lines = text.split("\r\n");
    let start = lines.next().unwrap_or_default().to_owned();
    if start.is_empty() || text.replace("\r\n", "").contains(['\r', '\n', '\0']) {
        return Err(bad(text));
    }
    let headers: io::Result<Headers> = lines.map(parse_header).collect();
    Ok(Head { start, headers: headers? })
}

fn parse_header(line: &str) -> io::Result<(String, String)> {
    let (name, value) = line.split_once(':').ok_or_else(|| bad(line))?;
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if name.is_empty() || !name.chars().all(token) {
        return Err(bad(line));
    }
    Ok((name.to_owned(), value.trim_matches([' ', '\t']).to_owned()))
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("malformed: {what:?}"))
}
