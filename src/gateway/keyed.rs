//! A request on a route that takes keys: read it, find out what it is, and ask the engine.

use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use hyper::body::Incoming;
use tracing::Instrument;

use super::execution::Execution;
use super::identify::{self, KeyInHead};
use super::read::{self, Collected};
use super::rejection::Rejection;
use super::reply::Reply;
use super::rules::Routed;
use super::snapshot;
use super::{Front, Visit};
use crate::config::{Need, Route, WhenDown};
use crate::engine::{self, Acquired};
use crate::idempotency::decide::Asked;
use crate::idempotency::{Identity, Policy, Tenant};
use crate::telemetry::logs::Seldom;
use crate::telemetry::metrics::Outcome;
use crate::telemetry::traces::step;

/// A bypass is never silent, and a storm of them is one line a second.
static BYPASSED: Seldom = Seldom::new();
static UNUSABLE: Seldom = Seldom::new();

/// What the head of a request says of who asks.
pub struct Caller {
    tenant: Tenant,
    key: KeyInHead,
}

impl Front {
    /// Reads it; what comes out is the rest, or the answer to one that is not decided about.
    pub(super) async fn keyed(
        self,
        routed: Arc<Routed>,
        visit: Visit,
        body: Incoming,
        caller: Caller,
    ) -> Result<impl Future<Output = Reply> + Send + 'static, Reply> {
        let route = &routed.route;
        let body = read_body(route, &visit, body).await.map_err(Reply::rejected)?;
        let Caller { tenant, key } = caller;
        let identify = || identify::identify(route, &visit.head, &body, key, tenant);
        let (identity, asked) = match step!("identify").in_scope(identify) {
            Ok(Some(identified)) => identified,
            Ok(None) if route.key == Need::Optional => {
                let untouched = self.untouched(&routed.destination, visit, body.into());
                return Err(Box::pin(untouched).await);
            }
            Ok(None) => return Err(Reply::rejected(key_missing(route))),
            Err(rejection) => return Err(Reply::rejected(rejection)),
        };
        let request = engine::Request { identity, asked, policy: policy(route, &visit.head) };
        Ok(async move {
            let mut reply = self.decided(&routed, visit, body, &request).await;
            reply.trail.identity = Some(request.identity);
            reply
        })
    }

    async fn decided(
        &self,
        routed: &Arc<Routed>,
        visit: Visit,
        body: Bytes,
        request: &engine::Request,
    ) -> Reply {
        let route = &routed.route;
        match self.gateway.engine.acquire(request).await {
            Ok(Acquired::Execute(claim)) => {
                let key = request.identity.key().clone();
                let (front, routed) = (self.clone(), routed.clone());
                let execution =
                    Box::new(Execution { front, routed, claim, visit, body, key, trace: None });
                // Should the task end without a word, its claim said so: unknown.
                let run = self.gateway.executions.spawn(execution.run().in_current_span());
                run.await.unwrap_or_else(|_| Reply::rejected(Rejection::UpstreamBrokeOff))
            }
            Ok(Acquired::Replay(replay)) => {
                let response = snapshot::replayed(&replay.answer);
                let mut reply = Reply::new(response, Outcome::Replayed);
                reply.trail.tier = Some(replay.tier);
                reply
            }
            Ok(Acquired::Refuse(refusal)) => {
                Reply::rejected(Rejection::Refused(refusal, route.mismatch_status))
            }
            // Only while it is down: a tier that answers may know that this has run.
            Err(error) if error.is_down() && self.gateway.when_down == WhenDown::Bypass => {
                if BYPASSED.is_due() {
                    tracing::warn!(%error, route = %route.path,
                        "the durable tier is down: requests are forwarded UNPROTECTED");
                }
                match Box::pin(self.pass(&routed.destination, visit, body.into())).await {
                    Ok(response) => Reply::marked(response, "bypassed", Outcome::Bypassed),
                    Err(rejection) => Reply::rejected(rejection),
                }
            }
            Err(error) => {
                if !error.is_transient() && UNUSABLE.is_due() {
                    tracing::error!(%error, route = %route.path,
                        "the durable tier cannot be used for a request");
                }
                tracing::debug!(%error, "a request is refused for want of the durable tier");
                Reply::rejected(Rejection::StoreUnavailable)
            }
        }
    }
}

/// Whether the caller may ask now, and with which key; None: it needs none and has none.
pub fn admitted(routed: &Routed, visit: &Visit) -> Result<Option<Caller>, Rejection> {
    let tenant = within_rate(routed, visit)?;
    match (identify::key_in_head(&routed.route, &visit.head.headers)?, routed.route.key) {
        (KeyInHead::Absent, Need::Optional) => Ok(None),
        (KeyInHead::Absent, Need::Required) => Err(key_missing(&routed.route)),
        (key, _) => Ok(Some(Caller { tenant, key })),
    }
}

/// The tenant, unless it has used up its rate.
fn within_rate(routed: &Routed, visit: &Visit) -> Result<Tenant, Rejection> {
    let tenant = identify::tenant(&routed.route, &visit.head.headers);
    if let Some(rates) = &routed.rates {
        rates.check(&tenant, visit.peer.address.ip()).map_err(|retry_after| {
            routed.destination.metrics.rate_limited();
            Rejection::RateLimited { retry_after }
        })?;
    }
    Ok(tenant)
}

/// The same, with the body: for the shadow, which reads it in any case.
pub fn identified(
    routed: &Routed,
    visit: &Visit,
    body: &[u8],
) -> Result<Option<(Identity, Asked)>, Rejection> {
    let Some(Caller { tenant, key }) = admitted(routed, visit)? else { return Ok(None) };
    let identified = identify::identify(&routed.route, &visit.head, body, key, tenant)?;
    match (identified, routed.route.key) {
        (None, Need::Required) => Err(key_missing(&routed.route)),
        (identified, _) => Ok(identified),
    }
}

async fn read_body(route: &Route, visit: &Visit, body: Incoming) -> Result<Bytes, Rejection> {
    let max = route.request_max_bytes;
    let mut body = read::watched(visit, body);
    if !read::is_announced_longer(&visit.head, max)
        && let Collected::Whole(body) = read::collect(&mut body, max).await?
    {
        return Ok(body);
    }
    read::discard(&visit.head, &mut body).await;
    Err(Rejection::BodyTooLarge { max })
}

fn key_missing(route: &Route) -> Rejection {
    Rejection::KeyMissing { from: identify::place_of_key(route) }
}

/// The route's, with the wait that this client prefers.
fn policy(route: &Route, head: &Parts) -> Arc<Policy> {
    let wait = identify::wait(route, &head.headers);
    match wait == route.policy.wait {
        true => route.policy.clone(),
        false => Arc::new(Policy { wait, ..(*route.policy).clone() }),
    }
}
