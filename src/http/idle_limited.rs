//! A body whose sender may be slow but not silent.
//!
//! Most bodies arrive with their head and are read without ever waiting, so the timer comes into
//! being only once a read had to wait; after that it is used again.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::Sleep;

use super::BoxError;

pub struct IdleLimited<B> {
    body: B,
    limit: Duration,
    timer: Option<Pin<Box<Sleep>>>,
    /// Whether the timer runs for the frame that is awaited now.
    waiting: bool,
}

/// The sender of a body was silent for too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no part of the body arrived within {limit:?}")]
pub struct BodyIdle {
    pub limit: Duration,
}

impl BodyIdle {
    /// Whether this, however deeply wrapped, is why something failed.
    pub fn caused(error: &(dyn std::error::Error + 'static)) -> bool {
        std::iter::successors(Some(error), |error| error.source()).any(|error| error.is::<Self>())
    }
}

impl<B> IdleLimited<B> {
    pub fn new(body: B, limit: Duration) -> Self {
        Self { body, limit, timer: None, waiting: false }
    }
}

impl<B> Body for IdleLimited<B>
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(cx) {
            this.waiting = false;
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let limit = this.limit;
        let timer = this.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        if !this.waiting {
            timer.set(tokio::time::sleep(limit));
            this.waiting = true;
        }
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(Some(Err(BodyIdle { limit }.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt, StreamBody};
    use tokio::sync::mpsc;

    use super::*;

    const LIMIT: Duration = Duration::from_millis(400);

    /// A body of the parts that are sent.
    fn sent() -> (
        mpsc::UnboundedSender<&'static str>,
        IdleLimited<impl Body<Data = Bytes, Error = BoxError> + Unpin>,
    ) {
        let (sender, mut parts) = mpsc::unbounded_channel();
        let stream = futures_util::stream::poll_fn(move |cx| parts.poll_recv(cx));
        let frames = futures_util::StreamExt::map(stream, |part: &str| {
            Ok::<_, BoxError>(Frame::data(Bytes::from_static(part.as_bytes())))
        });
        (sender, IdleLimited::new(StreamBody::new(frames), LIMIT))
    }

    #[tokio::test]
    async fn a_sender_that_is_slow_but_not_silent_gets_through() {
        let (sender, body) = sent();
        let read = tokio::spawn(body.collect());
        for _ in 0..8 {
            tokio::time::sleep(LIMIT / 4).await;
            sender.send("x").unwrap();
        }
        drop(sender);
        assert_eq!(read.await.unwrap().unwrap().to_bytes(), "xxxxxxxx");
    }

    #[tokio::test]
    async fn a_silent_sender_is_named() {
        let (sender, mut body) = sent();
        sender.send("x").unwrap();
        assert!(body.frame().await.unwrap().is_ok());
        let error = body.frame().await.unwrap().unwrap_err();
        assert_eq!(error.downcast_ref(), Some(&BodyIdle { limit: LIMIT }));
        assert!(BodyIdle::caused(&*error));
    }
}
