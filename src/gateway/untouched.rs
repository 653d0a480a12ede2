//! Requests that are none of the engine's business: streamed both ways, with backpressure.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{CONNECTION, UPGRADE};
use http::{Extensions, HeaderValue, Request, Response, StatusCode, Version};
use http_body::{Frame, SizeHint};
use hyper::upgrade::OnUpgrade;
use pin_project_lite::pin_project;

use super::forward::{Upgrade, outgoing};
use super::interim;
use super::limits::Slot;
use super::rejection::Rejection;
use super::reply::Reply;
use super::rules::Destination;
use super::tunnel;
use super::upstream::{Answer, SendError};
use super::{Front, Visit};
use crate::http::{Body, BodyFault, headers};
use crate::telemetry::metrics::Outcome;

impl Front {
    pub(super) async fn untouched(&self, to: &Destination, visit: Visit, body: Body) -> Reply {
        match self.pass(to, visit, body).await {
            Ok(response) => Reply::new(response, Outcome::Untouched),
            Err(rejection) => Reply::unmarked(rejection),
        }
    }

    /// The upstream's answer, streaming.
    pub(super) async fn pass(
        &self,
        to: &Destination,
        visit: Visit,
        body: Body,
    ) -> Result<Response<Body>, Rejection> {
        let Visit { mut head, peer, slot, .. } = visit;
        let upgrade = outgoing(&mut head, peer, &to.own_host)?;
        let client = head.extensions.remove::<OnUpgrade>();
        let way_back = interim::way_back(&mut head.extensions);
        head.extensions = Extensions::new();
        let mut request = Request::from_parts(head, body);
        interim::pass_on(&mut request, way_back);
        let mut response = to.upstream.send(self.thread, request).await?;
        if let (StatusCode::SWITCHING_PROTOCOLS, Upgrade::To(_), Some(client)) =
            (response.status(), &upgrade, client)
        {
            return Ok(switched(client, &mut response, slot));
        }
        if response.status().is_informational() {
            // It left HTTP behind without being asked: what follows is no answer.
            return Err(Rejection::UpstreamBrokeOff);
        }
        let (mut head, answer) = response.into_parts();
        headers::end_hop(&mut head.headers);
        head.version = Version::HTTP_11;
        let body = match http_body::Body::is_end_stream(&answer) {
            true => Body::empty(),
            false => Body::Stream(Box::pin(Counted::new(answer, slot))),
        };
        Ok(Response::from_parts(head, body))
    }
}

fn switched(client: OnUpgrade, response: &mut Response<Answer>, slot: Slot) -> Response<Body> {
    tunnel::start(client, hyper::upgrade::on(&mut *response), slot);
    let mut switched = Response::new(Body::empty());
    *switched.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let mut headers = std::mem::take(response.headers_mut());
    let protocol = headers.remove(UPGRADE);
    headers::end_hop(&mut headers);
    if let Some(protocol) = protocol {
        headers.insert(UPGRADE, protocol);
    }
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    *switched.headers_mut() = headers;
    switched
}

impl From<SendError> for Rejection {
    fn from(error: SendError) -> Self {
        match error {
            SendError::Busy => Self::UpstreamBusy,
            SendError::Unreachable(_) => Self::UpstreamUnreachable,
            SendError::BrokeOff(_) => Self::UpstreamBrokeOff,
            SendError::Body(BodyFault::Malformed) => BodyFault::Malformed.into(),
            SendError::Body(BodyFault::BrokeOff) => Self::BadRequest(
                "The request's body stopped before its end; a part of it had been passed on.",
            ),
        }
    }
}

pin_project! {
    /// An answer that counts as in flight until it ends.
    pub struct Counted {
        #[pin]
        answer: Answer,
        _slot: Slot,
    }
}

impl Counted {
    pub fn new(answer: Answer, slot: Slot) -> Self {
        Self { answer, _slot: slot }
    }
}

impl http_body::Body for Counted {
    type Data = Bytes;
    type Error = crate::http::BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.project().answer.poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.answer.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.answer.size_hint()
    }
}
