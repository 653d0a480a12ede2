//! One execution: send it, see what comes of it, write that down, and only then answer.
//!
//! It runs in a task of its own and to its end, whether or not its client waits. Each way out of
//! here ends the claim in a named way: nothing was sent, it was answered, or nobody knows.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, EXPECT, TE, UPGRADE};
use http::response::Parts as ResponseParts;
use http::{Extensions, HeaderMap, HeaderValue, Request, Response, StatusCode, Version};
use tokio::time::timeout;
use tracing::Instrument;

use super::access;
use super::forward::{IDEMPOTENCY_ATTEMPT, IDEMPOTENCY_SCOPE, outgoing};
use super::identify::IDEMPOTENCY_KEY;
use super::interim;
use super::read::{self, Collected};
use super::rejection::Rejection;
use super::reply::Reply;
use super::rules::Routed;
use super::snapshot::{self, Judgement, judge};
use super::untouched::Counted;
use super::upstream::{Answer, SendError, Sent};
use super::{Front, Visit};
use crate::clock;
use crate::config::Route;
use crate::engine::{Claim, Settled, StillOurs};
use crate::http::{Body, IdleLimited};
use crate::idempotency::{Ending, Key, Refusal};
use crate::telemetry::metrics::Outcome;
use crate::telemetry::trace_context::TraceContext;
use crate::telemetry::traces::step;

pub struct Execution {
    pub front: Front,
    pub routed: Arc<Routed>,
    pub claim: Claim,
    pub visit: Visit,
    pub body: Bytes,
    pub key: Key,
    /// Known once it is on its way.
    pub trace: Option<TraceContext>,
}

/// An answer, as far as it was read.
struct Received {
    head: ResponseParts,
    body: Collected,
    rest: Answer,
}

/// Why there is no answer.
enum Lost {
    /// Nothing was sent.
    NotSent(Rejection, String),
    /// It may have been executed.
    Unknown(Rejection, String),
}

impl Execution {
    /// Boxed: it is handed from step to step, and each would carry its weight once more.
    pub async fn run(mut self: Box<Self>) -> Reply {
        match self.claim.confirm().await {
            Ok(StillOurs::Yes) => {}
            Ok(StillOurs::No) => {
                self.claim.release_later("it came too late");
                return Reply::rejected(Rejection::Superseded);
            }
            Err(_) => {
                self.claim.release_later("the durable tier could not confirm it");
                return Reply::rejected(Rejection::StoreUnavailable);
            }
        }
        let upstream = step!("upstream");
        let request = match upstream.in_scope(|| self.request()) {
            Ok(request) => request,
            Err(rejection) => {
                self.claim.release("the request is malformed").await;
                return Reply::rejected(rejection);
            }
        };
        let began = clock::now();
        let received = self.receive(request).instrument(upstream).await;
        let took = began.elapsed();
        self.routed.destination.metrics.upstream(took);
        let (attempt, trace) = (self.claim.attempt(), self.trace);
        let mut reply = self.settled(received).await;
        reply.trail.attempt = Some(attempt);
        reply.trail.upstream = Some(took);
        reply.trail.trace = trace;
        reply
    }

    async fn settled(self: Box<Self>, received: Result<Received, Lost>) -> Reply {
        match received {
            Ok(received) => self.record(received).await,
            Err(Lost::NotSent(rejection, why)) => {
                self.claim.release(why).await;
                Reply::rejected(rejection)
            }
            Err(Lost::Unknown(rejection, why)) => {
                self.claim.unknown(why).await;
                Reply::rejected(rejection)
            }
        }
    }

    fn request(&mut self) -> Result<Request<Body>, Rejection> {
        let mut head = std::mem::replace(&mut self.visit.head, Request::new(()).into_parts().0);
        outgoing(&mut head, self.visit.peer, &self.routed.destination.own_host)?;
        self.trace = Some(access::step(&mut head));
        let way_back = interim::way_back(&mut head.extensions);
        head.extensions = Extensions::new();
        let headers = &mut head.headers;
        // The body is here: nobody has to ask for it any more.
        headers.remove(EXPECT);
        // Nor is there a way for trailers or another protocol into a snapshot.
        for name in [CONNECTION, UPGRADE, TE] {
            headers.remove(name);
        }
        if let Ok(scope) = HeaderValue::from_str(self.routed.route.scope.as_str()) {
            headers.insert(IDEMPOTENCY_SCOPE, scope);
        }
        headers.insert(IDEMPOTENCY_ATTEMPT, HeaderValue::from(self.claim.attempt()));
        // A key that was found elsewhere goes on with the request, for upstreams that pass it on.
        if !headers.contains_key(IDEMPOTENCY_KEY)
            && let Ok(key) = HeaderValue::from_str(self.key.as_str())
        {
            headers.insert(IDEMPOTENCY_KEY, key);
        }
        let mut request = Request::from_parts(head, Body::from(self.body.clone()));
        interim::pass_on(&mut request, way_back);
        Ok(request)
    }

    async fn receive(&self, request: Request<Body>) -> Result<Received, Lost> {
        let route = &self.routed.route;
        let sent = Sent::default();
        let answer = async {
            let upstream = &self.routed.destination.upstream;
            let sending = upstream.send_noting(self.front.thread, request, &sent);
            let response = sending.await.map_err(lost)?;
            let (head, mut rest) = response.into_parts();
            if head.status.is_informational() {
                let why = "the API switched protocols without being asked".to_owned();
                return Err(Lost::Unknown(Rejection::UpstreamBrokeOff, why));
            }
            let body = read::collect(&mut rest, route.snapshot_max_bytes).await;
            let body = body.map_err(|_| {
                Lost::Unknown(
                    Rejection::UpstreamBrokeOff,
                    format!("the API answered {} and broke off", head.status.as_u16()),
                )
            })?;
            Ok(Received { head, body, rest })
        };
        let limit = route.timeout;
        timeout(limit, answer).await.unwrap_or_else(|_| match sent.maybe() {
            true => {
                let why = format!("the API did not answer within {limit:?}");
                Err(Lost::Unknown(Rejection::UpstreamTimeout, why))
            }
            false => {
                let why = format!("no connection to the API was had within {limit:?}");
                Err(Lost::NotSent(Rejection::UpstreamBusy, why))
            }
        })
    }

    /// Stores what was received; the client gets it afterwards.
    async fn record(self: Box<Self>, received: Received) -> Reply {
        let Received { mut head, body, rest } = received;
        let Self { routed, claim, visit, .. } = *self;
        let route = &routed.route;
        let length = head.headers.remove(CONTENT_LENGTH);
        snapshot::clean(&mut head.headers);
        snapshot::dated(&mut head.headers);
        let stored = match &body {
            Collected::Whole(body) => Some(body),
            Collected::TooLong(_) => None,
        };
        let judgement = judge(head.status, route);
        let ending = ending(head.status, &head.headers, stored, route);
        if let (None, Some(length)) = (stored, length) {
            head.headers.insert(CONTENT_LENGTH, length);
        }
        match claim.end(ending).await {
            Settled::Stored => {
                // What comes behind the snapshot's limit may take long, but not stall.
                let rest = IdleLimited::new(Counted::new(rest, visit.slot), route.timeout);
                answered(head, body, rest, judgement)
            }
            Settled::Fenced => Reply::rejected(Rejection::Superseded),
            Settled::NotStored => {
                let refusal = Refusal::OutcomeUnknown { retry_after: None };
                Reply::rejected(Rejection::Refused(refusal, StatusCode::CONFLICT))
            }
        }
    }
}

/// What an answer means for the record. No body: it was too long.
pub fn ending(
    status: StatusCode,
    headers: &HeaderMap,
    body: Option<&Bytes>,
    route: &Route,
) -> Ending {
    let code = status.as_u16();
    let answer = || snapshot::snapshot(status, headers, body, route);
    match judge(status, route) {
        Judgement::Done => Ending::Completed { answer: answer(), result_ref: None },
        Judgement::Failed => {
            Ending::Failed { answer: Some(answer()), error: format!("the API answered {code}") }
        }
        Judgement::NothingDone => {
            Ending::Released { why: format!("the API answered {code}: it did nothing") }
        }
        Judgement::Unknown => {
            Ending::Unknown { why: format!("the API answered {code}: a hop lost the answer") }
        }
    }
}

fn answered(
    mut head: ResponseParts,
    body: Collected,
    rest: IdleLimited<Counted>,
    judgement: Judgement,
) -> Reply {
    head.version = Version::HTTP_11;
    head.extensions = Extensions::new();
    let body = match body {
        Collected::Whole(body) => Body::from(body),
        Collected::TooLong(read) => read::resumed(read, rest),
    };
    let response = Response::from_parts(head, body);
    match judgement {
        Judgement::Done => Reply::marked(response, "executed", Outcome::Executed),
        Judgement::Failed | Judgement::NothingDone => {
            Reply::marked(response, "executed", Outcome::Failed)
        }
        Judgement::Unknown => Reply::marked(response, "outcome-unknown", Outcome::Unknown),
    }
}

fn lost(error: SendError) -> Lost {
    let why = match &error {
        SendError::Busy => "no connection to the API became free".to_owned(),
        SendError::Unreachable(why) => format!("the API could not be reached: {why}"),
        SendError::BrokeOff(why) => format!("the API broke off: {why}"),
        SendError::Body(_) => "its body could not be read".to_owned(),
    };
    match error {
        SendError::Busy | SendError::Unreachable(_) => Lost::NotSent(error.into(), why),
        SendError::BrokeOff(_) | SendError::Body(_) => Lost::Unknown(error.into(), why),
    }
}
