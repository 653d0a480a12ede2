//! The stream of one connection, with or without TLS, telling its pulse what goes through.
//!
//! ## Why a closed connection lingers
//! Closing a socket while the client is still sending resets it, and the reset may overtake the
//! answer: a client that sends a body which is too long would not learn that it is.
//!
//! ## Why the client's end comes a turn late
//! The HTTP library drops a request as soon as it sees that its client is gone, be it that it has
//! just read the last byte and the handler has not had it yet. A client that says everything and
//! leaves has still said it: first the handler has its turn, then it learns of the end.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::front::Slot;
use super::pulse::{Order, Pulse, Stage};

pub(super) enum Stream {
    Plain(TcpStream),
    /// Boxed: it is ten times the size.
    Tls(Box<TlsStream<TcpStream>>),
}

pub(super) struct Socket {
    stream: Stream,
    /// What was read to find out which protocol it is.
    first: Bytes,
    /// Interim answers that are to be written before anything else.
    interims: BytesMut,
    pulse: Arc<Pulse>,
    end: End,
    /// The client has ended, or is gone, and the library is about to learn of it.
    client_ended: bool,
    /// An upgraded connection takes its room along.
    _slot: Slot,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    NotYet,
    /// Nothing more is sent.
    Shut,
    /// And the client was still sending.
    Lingering,
}

/// Calls the same on whichever stream it is.
macro_rules! either {
    ($stream:expr, $one:ident => $call:expr) => {
        match $stream {
            Stream::Plain(tcp) => {
                let $one = Pin::new(tcp);
                $call
            }
            Stream::Tls(tls) => {
                let $one = Pin::new(&mut **tls);
                $call
            }
        }
    };
}

impl Socket {
    pub(super) fn new(stream: Stream, first: Bytes, pulse: Arc<Pulse>, slot: Slot) -> Self {
        let interims = BytesMut::new();
        let (end, client_ended) = (End::NotYet, false);
        Self { stream, first, interims, pulse, end, client_ended, _slot: slot }
    }

    fn wrote<T>(&self, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        match &result {
            Poll::Ready(_) => self.pulse.write_succeeded(),
            Poll::Pending => self.pulse.write_blocked(),
        }
        result
    }

    fn poll_interims(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(more) = self.pulse.interims.take() {
            self.interims.unsplit(more);
        }
        while !self.interims.is_empty() {
            let result = either!(&mut self.stream, stream => stream.poll_write(cx, &self.interims));
            match ready!(self.wrote(result))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.interims.advance(written),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Until the client has ended too, if it was sending at all; the watch sees to it that this
    /// does not last.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut thrown_away = [0; 8 << 10];
        loop {
            let mut buffer = ReadBuf::new(&mut thrown_away);
            match Pin::new(self.stream.tcp_mut()).poll_read(cx, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                    self.end = End::Lingering;
                    self.pulse.enters(Stage::Lingering);
                }
                Poll::Pending if self.end == End::Lingering => return Poll::Pending,
                _ => return Poll::Ready(()),
            }
        }
    }
}

impl Stream {
    fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(tcp) => tcp,
            Self::Tls(tls) => tls.get_ref().0,
        }
    }

    fn tcp_mut(&mut self) -> &mut TcpStream {
        match self {
            Self::Plain(tcp) => tcp,
            Self::Tls(tls) => tls.get_mut().0,
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // The kernel is not to go on offering what the client does not take.
        if self.pulse.order() == Order::Cut && self.pulse.is_write_blocked() {
            let _ = self.stream.tcp().set_zero_linger();
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        either!(self.get_mut(), stream => stream.poll_read(cx, buffer))
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.first.is_empty() {
            let some = this.first.len().min(buffer.remaining());
            buffer.put_slice(&this.first[..some]);
            this.first.advance(some);
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        let result = either!(&mut this.stream, stream => stream.poll_read(cx, buffer));
        if buffer.filled().len() > before {
            this.pulse.something_read();
        } else if result.is_ready() && !this.client_ended {
            this.client_ended = true;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        result
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_interims(cx))?;
        this.pulse.interims.something_written();
        let result = either!(&mut this.stream, stream => stream.poll_write(cx, bytes));
        this.wrote(result)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_interims(cx))?;
        this.pulse.interims.something_written();
        let result = either!(&mut this.stream, stream => stream.poll_write_vectored(cx, slices));
        this.wrote(result)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        // Asked for by the HTTP library when it has written all it had.
        this.pulse.interims.all_written();
        ready!(this.poll_interims(cx))?;
        match &mut this.stream {
            // Nothing is kept back in the clear.
            Stream::Plain(_) => Poll::Ready(Ok(())),
            Stream::Tls(tls) => {
                let result = Pin::new(&mut **tls).poll_flush(cx);
                this.wrote(result)
            }
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.end == End::NotYet {
            ready!(either!(&mut this.stream, stream => stream.poll_shutdown(cx)))?;
            this.end = End::Shut;
        }
        this.poll_linger(cx).map(Ok)
    }
}
