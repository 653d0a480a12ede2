//! A body that ends only where its sender has ended it.
//!
//! The HTTP library takes a stream of HTTP/2 that is reset with NO_ERROR for one that has ended,
//! and proxies send just that when what is behind them breaks off in the middle. Half a body would
//! look whole, be stored, and be passed on as if nothing had happened. Here it is an error.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::Version;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::BoxError;

pub struct Unbroken {
    body: Incoming,
    /// On HTTP/2 a body says for itself whether it was ended.
    version: Version,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the body stopped before its end")]
pub struct Stopped;

impl Unbroken {
    pub fn new(body: Incoming, version: Version) -> Self {
        Self { body, version }
    }

    /// Asked when there is nothing more of it.
    fn was_ended(&self) -> bool {
        match self.version {
            Version::HTTP_2 => self.body.is_end_stream(),
            // What was announced and has not come. Without a length the library has looked.
            _ => self.body.size_hint().exact().is_none_or(|left| left == 0),
        }
    }
}

impl Body for Unbroken {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Poll::Ready(match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
            Some(frame) => Some(frame.map_err(Into::into)),
            None if self.was_ended() => None,
            None => Some(Err(Stopped.into())),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
