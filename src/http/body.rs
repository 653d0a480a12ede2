//! The one body type that goes out, to clients and upstreams alike.
//!
//! Most answers are whole and in memory, so they cost no allocation of their own; what streams is
//! boxed and keeps its backpressure.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Stream = Pin<Box<dyn http_body::Body<Data = Bytes, Error = BoxError> + Send>>;

pub enum Body {
    /// Empty once it was read.
    Whole(Bytes),
    Stream(Stream),
}

impl Body {
    pub const fn empty() -> Self {
        Self::Whole(Bytes::new())
    }

    pub fn stream<B>(body: B) -> Self
    where
        B: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        Self::Stream(Box::pin(http_body_util::BodyExt::map_err(body, Into::into)))
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self::Whole(bytes)
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut *self {
            Self::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Self::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Self::Stream(stream) => stream.as_mut().poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_empty(),
            Self::Stream(stream) => stream.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Stream(stream) => stream.size_hint(),
        }
    }
}
