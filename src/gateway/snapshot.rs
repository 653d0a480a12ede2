//! An upstream's answer and its snapshot: what is stored, and how it becomes an answer again.

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, DATE, TRAILER};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};

use crate::clock;
use crate::config::Route;
use crate::http::{Body, headers};
use crate::idempotency::{self, HeaderBlock, Snapshot};

pub const IDEMPOTENCY_STATUS: HeaderName = HeaderName::from_static("idempotency-status");
pub const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// What an upstream's status says about the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// It has been executed.
    Done,
    /// A definite "it failed".
    Failed,
    /// The upstream did nothing.
    NothingDone,
    /// A hop behind us lost the answer.
    Unknown,
}

pub fn judge(status: StatusCode, route: &Route) -> Judgement {
    if route.transient_statuses.contains(&status) {
        Judgement::NothingDone
    } else if route.unknown_statuses.contains(&status) {
        Judgement::Unknown
    } else if status.is_server_error() {
        Judgement::Failed
    } else {
        Judgement::Done
    }
}

/// Removes what was about the upstream's connection, what only the gateway may say, the names of
/// trailers, for which there is no place, and the length, which is measured again from the body
/// that is sent.
pub fn clean(headers: &mut HeaderMap) {
    headers::end_hop(headers);
    for name in [CONTENT_LENGTH, TRAILER, IDEMPOTENCY_STATUS, IDEMPOTENCY_REPLAYED] {
        headers.remove(name);
    }
}

/// The server gives each answer without a date one of its own, and then no replay would be the
/// first answer again.
pub fn dated(headers: &mut HeaderMap) {
    if !headers.contains_key(DATE)
        && let Ok(date) = clock::wall().to_http_date().try_into()
    {
        headers.insert(DATE, date);
    }
}

/// `headers` were cleaned. No body: it was too long.
pub fn snapshot(
    status: StatusCode,
    headers: &HeaderMap,
    body: Option<&Bytes>,
    route: &Route,
) -> Snapshot {
    let kept = headers.iter().filter(|(name, _)| !route.snapshot_headers_drop.contains(name));
    let pairs = kept.map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()));
    Snapshot {
        status: status.as_u16(),
        headers: HeaderBlock::from_pairs(pairs),
        body: body
            .map_or(idempotency::Body::TooLong, |body| idempotency::Body::Stored(body.clone())),
    }
}

/// The stored answer, for a retry.
pub fn replayed(answer: &Snapshot) -> Response<Body> {
    let body = match &answer.body {
        idempotency::Body::Stored(bytes) => Body::from(bytes.clone()),
        idempotency::Body::TooLong => Body::empty(),
    };
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::OK);
    let block = answer.headers.as_bytes();
    let headers = response.headers_mut();
    for (name, value) in answer.headers.pairs() {
        let name = HeaderName::from_bytes(name);
        // Shared with the block, not copied.
        let value = HeaderValue::from_maybe_shared(block.slice_ref(value));
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    headers.insert(IDEMPOTENCY_STATUS, HeaderValue::from_static("replayed"));
    headers.insert(IDEMPOTENCY_REPLAYED, HeaderValue::from_static("true"));
    response
}
