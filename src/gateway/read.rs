//! Reading a request's body: whole, within limits, or only to get it out of the way.
//!
//! An answer that is given before the body was read leaves bytes on the connection. They are read
//! and thrown away, so that the client gets to see the answer; what is too much for that ends with
//! the connection. They are never taken for the next request.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt, stream};
use http::header::{CONTENT_LENGTH, EXPECT};
use http::request::Parts;
use http_body::Body as _;
use http_body_util::{BodyExt, BodyStream, StreamBody};
use hyper::body::Incoming;

use super::Visit;
use super::rejection::Rejection;
use crate::http::{Body, BodyFault, BoxError, IdleLimited, Unbroken};

const DISCARD_BYTES: usize = 256 << 10;
/// What is as good as sent once it has begun.
const SMALL: usize = 16 << 10;
const DISCARD_TIME: Duration = Duration::from_secs(1);
/// What is made room for before a byte of it has come.
const ROOM: usize = 64 << 10;

/// A body to be sent on. A small one is taken whole, because it then leaves together with its head;
/// any other streams, with backpressure.
pub async fn streamed(visit: &Visit, body: Incoming) -> Result<Body, Rejection> {
    if body.is_end_stream() {
        return Ok(Body::empty());
    }
    let mut body = watched(visit, body);
    let small = body.size_hint().exact().is_some_and(|length| length <= SMALL as u64);
    if small && !visit.head.headers.contains_key(EXPECT) {
        return match collect(&mut body, SMALL).await? {
            Collected::Whole(bytes) => Ok(bytes.into()),
            Collected::TooLong(read) => Ok(resumed(read, body)),
        };
    }
    Ok(Body::Stream(Box::pin(body)))
}

pub enum Collected {
    Whole(Bytes),
    /// More than allowed: what was read of it.
    TooLong(Bytes),
}

/// Reads a body that may have at most `max` bytes.
pub async fn collect<B>(body: &mut B, max: usize) -> Result<Collected, BodyFault>
where
    B: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Unpin,
{
    let mut first = Bytes::new();
    let mut all: Option<BytesMut> = None;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| BodyFault::of(&*error.into()))?;
        let Ok(data) = frame.into_data() else { continue };
        match &mut all {
            // Most bodies come in one piece, which is then not copied.
            None if first.is_empty() => first = data,
            None => {
                let expected = first.len().max(ROOM.min(expected(body))) + data.len();
                let mut buffer = BytesMut::with_capacity(expected);
                buffer.extend_from_slice(&first);
                buffer.extend_from_slice(&data);
                all = Some(buffer);
            }
            Some(buffer) => buffer.extend_from_slice(&data),
        }
        if all.as_ref().map_or(first.len(), BytesMut::len) > max {
            return Ok(Collected::TooLong(all.map_or(first, BytesMut::freeze)));
        }
    }
    Ok(Collected::Whole(all.map_or(first, BytesMut::freeze)))
}

fn expected(body: &impl http_body::Body) -> usize {
    usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX)
}

/// Whether the head already says that the body is too long.
pub fn is_announced_longer(head: &Parts, max: usize) -> bool {
    let length = head.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    length.and_then(|length| length.parse::<u64>().ok()).is_some_and(|length| length > max as u64)
}

/// Gets what is left of a body out of the way.
pub async fn discard<B>(head: &Parts, body: &mut B)
where
    B: http_body::Body<Data = Bytes> + Unpin,
{
    // Such a client sends its body only when it is asked to, and it is not.
    if body.is_end_stream() || head.headers.contains_key(EXPECT) {
        return;
    }
    let reading = async {
        let mut left = DISCARD_BYTES;
        while let Some(Ok(frame)) = body.frame().await {
            let read = frame.data_ref().map_or(0, Bytes::len);
            left = left.saturating_sub(read);
            if left == 0 {
                break;
            }
        }
    };
    // Not waited for longer: the server closes the connection.
    let _ = tokio::time::timeout(DISCARD_TIME, reading).await;
}

/// A body of which the first part was read already.
pub fn resumed<B>(read: Bytes, rest: B) -> Body
where
    B: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    let read = stream::once(async { Ok(http_body::Frame::data(read)) });
    let rest = BodyStream::new(rest).map(|frame| frame.map_err(Into::into));
    Body::stream(StreamBody::new(read.chain(rest)))
}

/// A body whose client may not dawdle, and has to end it.
pub fn watched(visit: &Visit, body: Incoming) -> IdleLimited<Unbroken> {
    IdleLimited::new(Unbroken::new(body, visit.head.version), visit.body_idle)
}
