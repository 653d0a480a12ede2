//! Shadow mode: everything is forwarded, and what would have happened is recorded and counted.
//!
//! The engine is asked beside the request, never before it, so nothing that a tier does or fails to
//! do reaches a client. The first answer of a key is kept, as it would be in earnest.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Response, StatusCode};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use tokio::sync::oneshot;

use super::execution::ending;
use super::keyed::identified;
use super::read::{self, Collected};
use super::rejection::Rejection;
use super::reply::{Reply, Trail};
use super::rules::Routed;
use super::snapshot;
use super::{Front, Visit};
use crate::clock;
use crate::config::Route;
use crate::engine::{self, Acquired};
use crate::http::{Body, BoxError};
use crate::idempotency::{Ending, Policy};
use crate::telemetry::metrics::Outcome;

/// In earnest an answer is stored before the client gets it; here that happens beside it, so a retry
/// may come a moment too early and is not yet a conflict.
const STORING: Duration = Duration::from_millis(500);

impl Front {
    pub(super) async fn shadowed(
        &self,
        routed: &Arc<Routed>,
        visit: Visit,
        body: Incoming,
    ) -> Reply {
        let began = clock::now();
        let max = routed.route.request_max_bytes;
        let mut watched = read::watched(&visit, body);
        let (body, identified) = match read::collect(&mut watched, max).await {
            Err(fault) => return Reply::unmarked(fault.into()),
            Ok(Collected::TooLong(read)) => {
                (read::resumed(read, watched), Err(Rejection::BodyTooLarge { max }))
            }
            Ok(Collected::Whole(body)) => {
                let identified = identified(routed, &visit, &body);
                (Body::from(body), identified)
            }
        };
        let tell = match identified {
            Ok(Some((identity, asked))) => {
                let policy = &routed.route.policy;
                let policy = Policy { wait: policy.wait + STORING, ..(**policy).clone() };
                let request = engine::Request { identity, asked, policy: Arc::new(policy) };
                let (tell, told) = oneshot::channel();
                let observer = Observer { front: self.clone(), routed: routed.clone(), began };
                self.gateway.executions.spawn(observer.run(request, told));
                Some(tell)
            }
            Ok(None) => {
                count(routed, Outcome::Untouched, began);
                None
            }
            Err(rejection) => {
                count(routed, rejection.outcome(), began);
                None
            }
        };
        let response = self.overheard(routed, visit, body, tell).await;
        Reply { response, outcome: None, trail: Trail::default() }
    }

    async fn overheard(
        &self,
        routed: &Arc<Routed>,
        visit: Visit,
        body: Body,
        tell: Option<oneshot::Sender<Ending>>,
    ) -> Response<Body> {
        match self.pass(&routed.destination, visit, body).await {
            Ok(response) => match tell {
                Some(tell) => listened_to(response, routed.route.clone(), tell),
                None => response,
            },
            Err(rejection) => {
                if let Some(tell) = tell {
                    let why = rejection.as_str().to_owned();
                    let _ = tell.send(match rejection {
                        Rejection::UpstreamBrokeOff => Ending::Unknown { why },
                        _ => Ending::Released { why },
                    });
                }
                rejection.into_response()
            }
        }
    }
}

fn count(routed: &Routed, outcome: Outcome, began: Instant) {
    routed.destination.metrics.request(outcome, began.elapsed());
}

/// Asks the engine what it would have said.
struct Observer {
    front: Front,
    routed: Arc<Routed>,
    began: Instant,
}

impl Observer {
    async fn run(self, request: engine::Request, told: oneshot::Receiver<Ending>) {
        let acquired = self.front.gateway.engine.acquire(&request).await;
        let outcome = match acquired {
            Ok(Acquired::Execute(claim)) => {
                // Nobody is left to tell: the client hung up on the answer.
                let ending = told.await.unwrap_or(Ending::Unknown {
                    why: "the answer was not read to its end".into(),
                });
                let outcome = match &ending {
                    Ending::Completed { .. } => Outcome::Executed,
                    Ending::Failed { .. } | Ending::Released { .. } => Outcome::Failed,
                    Ending::Unknown { .. } => Outcome::Unknown,
                };
                claim.end(ending).await;
                outcome
            }
            Ok(Acquired::Replay(_)) => Outcome::Replayed,
            Ok(Acquired::Refuse(refusal)) => {
                Rejection::Refused(refusal, StatusCode::CONFLICT).outcome()
            }
            Err(_) => Outcome::Rejected,
        };
        count(&self.routed, outcome, self.began);
    }
}

/// An answer that is passed on and remembered on the way.
struct Overheard {
    body: Body,
    status: StatusCode,
    headers: HeaderMap,
    read: BytesMut,
    too_long: bool,
    route: Arc<Route>,
    tell: Option<oneshot::Sender<Ending>>,
}

fn listened_to(
    response: Response<Body>,
    route: Arc<Route>,
    tell: oneshot::Sender<Ending>,
) -> Response<Body> {
    let (head, body) = response.into_parts();
    let mut headers = head.headers.clone();
    snapshot::clean(&mut headers);
    let mut overheard = Overheard {
        body,
        status: head.status,
        headers,
        read: BytesMut::new(),
        too_long: false,
        route,
        tell: Some(tell),
    };
    let body = match http_body::Body::is_end_stream(&overheard.body) {
        true => {
            overheard.ended();
            Body::empty()
        }
        false => Body::Stream(Box::pin(overheard)),
    };
    Response::from_parts(head, body)
}

impl Overheard {
    fn ended(&mut self) {
        let read = std::mem::take(&mut self.read).freeze();
        let stored = (!self.too_long).then_some(&read);
        if let Some(tell) = self.tell.take() {
            let _ = tell.send(ending(self.status, &self.headers, stored, &self.route));
        }
    }

    fn heard(&mut self, data: &Bytes) {
        self.too_long |= self.read.len() + data.len() > self.route.snapshot_max_bytes;
        match self.too_long {
            true => self.read.clear(),
            false => self.read.extend_from_slice(data),
        }
    }
}

impl http_body::Body for Overheard {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(data) = frame.data_ref() {
                    self.heard(data);
                }
                // The server does not ask again once it has what was announced.
                if self.body.is_end_stream() {
                    self.ended();
                }
            }
            Poll::Ready(None) => self.ended(),
            Poll::Ready(Some(Err(error))) => {
                let why = format!("the API broke off: {error}");
                if let Some(tell) = self.tell.take() {
                    let _ = tell.send(Ending::Unknown { why });
                }
            }
            Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
