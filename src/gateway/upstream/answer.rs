//! An upstream's answer as it streams, and the connection it comes on.
//!
//! A connection goes back only after the answer's last byte. Whatever ends in another way closes
//! it: half an answer in its buffers would be read as the next one's beginning.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use deadpool::managed::Object;
use http::Version;
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use tokio::sync::OwnedSemaphorePermit;

use super::exclusive::Exclusives;
use super::shared::Multiplexed;
use crate::clock;
use crate::http::{BoxError, Unbroken};

/// The connection a request goes out on.
pub enum Line {
    Exclusive(Object<Exclusives>),
    Stream(Arc<Multiplexed>),
}

/// A request's permit, and its connection once it has one. Dropping it closes the connection, or
/// leaves the shared one to the others.
pub struct Held {
    line: Option<Line>,
    /// Dropped last: with a permit in hand there is a place for a connection.
    permit: Option<OwnedSemaphorePermit>,
}

/// The body of an answer, trailers included.
pub struct Answer {
    body: Unbroken,
    /// Until the body has ended.
    held: Option<Held>,
}

impl Held {
    pub fn new(permit: OwnedSemaphorePermit) -> Self {
        Self { line: None, permit: Some(permit) }
    }

    /// The connection before this one is closed.
    pub fn hold(&mut self, line: Line) -> &mut Line {
        self.discard();
        self.line.insert(line)
    }

    pub fn discard(&mut self) {
        match self.line.take() {
            // Out of its pool, and dropped here.
            Some(Line::Exclusive(connection)) => drop(Object::take(connection)),
            Some(Line::Stream(connection)) => connection.used(clock::now()),
            None => {}
        }
    }

    fn version(&self) -> Version {
        match self.line {
            Some(Line::Stream(_)) => Version::HTTP_2,
            Some(Line::Exclusive(_)) | None => Version::HTTP_11,
        }
    }

    fn give_back(mut self) {
        match self.line.take() {
            Some(Line::Exclusive(mut connection)) if !connection.sender.is_closed() => {
                connection.wear.idle_since = clock::now();
            }
            line => {
                self.line = line;
                self.discard();
            }
        }
    }

    /// The connection stops being HTTP; its permit stays with it.
    pub fn hand_over(mut self) {
        if let (Some(Line::Exclusive(connection)), Some(permit)) =
            (self.line.take(), self.permit.take())
        {
            Object::take(connection).hand_over(permit);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.discard();
    }
}

impl Answer {
    pub fn new(body: Incoming, held: Held) -> Self {
        let body = Unbroken::new(body, held.version());
        let mut answer = Self { body, held: Some(held) };
        answer.end_if_over();
        answer
    }

    /// The end of HTTP on this connection.
    pub fn upgraded(body: Incoming, held: Held) -> Self {
        held.hand_over();
        Self { body: Unbroken::new(body, Version::HTTP_11), held: None }
    }

    fn end_if_over(&mut self) {
        if http_body::Body::is_end_stream(&self.body)
            && let Some(held) = self.held.take()
        {
            held.give_back();
        }
    }
}

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        match &frame {
            Some(Ok(_)) => self.end_if_over(),
            Some(Err(_)) => self.held = None,
            None => {
                if let Some(held) = self.held.take() {
                    held.give_back();
                }
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
