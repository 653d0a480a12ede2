//! What the upstream answers, down to the byte where it breaks off.

use std::sync::LazyLock;
use std::time::Duration;

use super::Execution;
use crate::support::http1::Headers;

#[derive(Clone, Debug)]
pub struct Reply {
    pub(super) status: u16,
    pub(super) headers: Headers,
    pub(super) body: Body,
    pub(super) trailers: Headers,
    /// 1xx answers before it.
    pub(super) interim: Vec<(u16, Headers)>,
    /// Not before it is let go.
    pub(super) held: bool,
    pub(super) pause: Duration,
    /// How much of the answer is sent before the end; all of it if not set.
    pub(super) cut_after: Option<usize>,
    pub(super) end: End,
}

#[derive(Clone, Debug)]
pub(super) enum Body {
    /// Not even a length.
    None,
    /// As it is, whatever the headers say.
    Raw(Vec<u8>),
    Whole(Vec<u8>),
    Chunked(Vec<Vec<u8>>),
    /// Chunked, each piece when the test asks for it.
    OnDemand(Vec<Vec<u8>>),
    /// So many bytes, made while they are sent.
    Filled(u64),
    FilledChunked(u64),
}

/// What becomes of the connection after the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    KeepAlive,
    Close,
    Reset,
    /// Open, and silent for ever.
    Hang,
    /// Every byte that comes is sent back.
    Echo,
}

impl Reply {
    pub fn new(status: u16) -> Self {
        Self {
            status,
            headers: Headers::new(),
            body: Body::Whole(Vec::new()),
            trailers: Headers::new(),
            interim: Vec::new(),
            held: false,
            pause: Duration::ZERO,
            cut_after: None,
            end: End::KeepAlive,
        }
    }

    /// 201 with the number of the execution: a second execution cannot pass for a replay.
    pub fn numbered(execution: &Execution) -> Self {
        let body = format!("{{\"execution\":{}}}", execution.number);
        Self::new(201).header("Content-Type", "application/json").body(body)
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn body(self, body: impl AsRef<[u8]>) -> Self {
        Self { body: Body::Whole(body.as_ref().to_vec()), ..self }
    }

    /// As 204 and 304 are, and what ends with the connection.
    pub fn without_body(self) -> Self {
        Self { body: Body::None, ..self }
    }

    /// These bytes behind the head, and no word about their length.
    pub fn raw_body(self, bytes: impl AsRef<[u8]>) -> Self {
        Self { body: Body::Raw(bytes.as_ref().to_vec()), ..self }
    }

    pub fn chunked<const N: usize>(self, chunks: [&str; N]) -> Self {
        Self { body: Body::Chunked(pieces(chunks)), ..self }
    }

    /// Each chunk waits for `send_piece`.
    pub fn on_demand<const N: usize>(self, chunks: [&str; N]) -> Self {
        Self { body: Body::OnDemand(pieces(chunks)), ..self }
    }

    /// So many bytes, streamed, with their length told before.
    pub fn filled(self, bytes: u64) -> Self {
        Self { body: Body::Filled(bytes), ..self }
    }

    /// So many bytes, streamed in chunks.
    pub fn filled_chunked(self, bytes: u64) -> Self {
        Self { body: Body::FilledChunked(bytes), ..self }
    }

    /// Only for chunked bodies.
    pub fn trailer(mut self, name: &str, value: &str) -> Self {
        self.trailers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn interim(mut self, status: u16, name: &str, value: &str) -> Self {
        self.interim.push((status, vec![(name.to_owned(), value.to_owned())]));
        self
    }

    pub fn held(self) -> Self {
        Self { held: true, ..self }
    }

    pub fn slow(self, pause: Duration) -> Self {
        Self { pause, ..self }
    }

    pub fn end(self, end: End) -> Self {
        Self { end, ..self }
    }

    /// Ends like this after so many bytes of the answer: the head's included, unless it is filled
    /// or the answer goes over HTTP/2, where it is a reset of the stream that says NO_ERROR.
    pub fn cut_after(self, bytes: usize, end: End) -> Self {
        Self { cut_after: Some(bytes), end, ..self }
    }

    /// Reads the request and says nothing at all.
    pub fn no_answer(end: End) -> Self {
        Self::new(200).cut_after(0, end)
    }

    /// An upgrade that echoes.
    pub fn upgrade(protocol: &str) -> Self {
        let reply = Self::new(101).header("Connection", "Upgrade").header("Upgrade", protocol);
        reply.without_body().end(End::Echo)
    }

    /// The bytes of the first line and the headers.
    pub fn head_bytes(&self) -> Vec<u8> {
        let mut head = format!("HTTP/1.1 {} Scripted\r\n", self.status);
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        head += &match &self.body {
            Body::None | Body::Raw(_) => String::new(),
            Body::Whole(_) | Body::Filled(_) if matches!(self.status, 204 | 304) => String::new(),
            Body::Whole(body) => format!("Content-Length: {}\r\n", body.len()),
            Body::Filled(bytes) => format!("Content-Length: {bytes}\r\n"),
            _ => "Transfer-Encoding: chunked\r\n".to_owned(),
        };
        head += "\r\n";
        head.chars().map(|c| u8::try_from(c).expect("a character of one byte")).collect()
    }
}

fn pieces<const N: usize>(chunks: [&str; N]) -> Vec<Vec<u8>> {
    chunks.iter().map(|chunk| chunk.as_bytes().to_vec()).collect()
}

/// What a filled body holds from this position on. It repeats after a prime number of bytes, so
/// that no two neighbouring pieces are alike.
pub fn filling(from: u64, length: usize) -> Vec<u8> {
    const PERIOD: usize = 65_521;
    static BYTES: LazyLock<Vec<u8>> =
        LazyLock::new(|| (0..PERIOD as u32).map(|n| (n ^ (n >> 8)) as u8).collect());
    let mut bytes = Vec::with_capacity(length);
    let mut start = (from % PERIOD as u64) as usize;
    while bytes.len() < length {
        let end = (start + length - bytes.len()).min(PERIOD);
        bytes.extend_from_slice(&BYTES[start..end]);
        start = 0;
    }
    bytes
}
