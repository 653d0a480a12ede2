//! A request on a route that takes keys: read it, find out what it is, and ask the engine.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http::request::Parts;
use hyper::body::Incoming;

use super::Front;
use super::execution::Execution;
use super::identify::{self, KeyInHead};
use super::limits::Slot;
use super::read::{self, Collected};
use super::rejection::Rejection;
use super::reply::Reply;
use super::rules::Routed;
use super::snapshot;
use crate::config::{Need, Route, WhenDown};
use crate::engine::{self, Acquired};
use crate::http::server::Peer;
use crate::idempotency::decide::Asked;
use crate::idempotency::{Identity, Policy, Tenant};
use crate::telemetry::logs::Seldom;
use crate::telemetry::metrics::Outcome;

/// A bypass is never silent, and a storm of them is one line a second.
static BYPASSED: Seldom = Seldom::new();

impl Front {
    pub(super) async fn keyed(
        &self,
        routed: &Arc<Routed>,
        request: Request<Incoming>,
        peer: Peer,
        body_idle: Duration,
        slot: Slot,
    ) -> Reply {
        let (head, mut body) = request.into_parts();
        let route = &routed.route;
        let (tenant, key) = match admitted(routed, &head, peer.address.ip()) {
            Ok((_, KeyInHead::Absent)) if route.key == Need::Optional => {
                let body = read::whole(body, body_idle);
                return self.untouched(&routed.destination, head, body, peer, slot).await;
            }
            Ok((_, KeyInHead::Absent)) => {
                read::discard(&head, &mut body).await;
                return Reply::rejected(key_missing(route));
            }
            Ok(admitted) => admitted,
            Err(rejection) => {
                read::discard(&head, &mut body).await;
                return Reply::rejected(rejection);
            }
        };
        let body = match read_body(route, &head, body, body_idle).await {
            Ok(body) => body,
            Err(rejection) => return Reply::rejected(rejection),
        };
        let (identity, asked) = match identify::identify(route, &head, &body, key, tenant) {
            Ok(Some(identified)) => identified,
            Ok(None) if route.key == Need::Optional => {
                return self.untouched(&routed.destination, head, body.into(), peer, slot).await;
            }
            Ok(None) => return Reply::rejected(key_missing(route)),
            Err(rejection) => return Reply::rejected(rejection),
        };
        let request = engine::Request { identity, asked, policy: policy(route, &head) };
        match self.gateway.engine.acquire(&request).await {
            Ok(Acquired::Execute(claim)) => {
                let key = request.identity.key().clone();
                let execution = Execution {
                    front: self.clone(),
                    routed: routed.clone(),
                    claim,
                    head,
                    body,
                    key,
                    peer,
                    slot,
                };
                // Should the task end without a word, its claim said so: unknown.
                let run = self.gateway.executions.spawn(execution.run());
                run.await.unwrap_or_else(|_| Reply::rejected(Rejection::UpstreamBrokeOff))
            }
            Ok(Acquired::Replay(replay)) => {
                Reply::new(snapshot::replayed(&replay.answer), Outcome::Replayed)
            }
            Ok(Acquired::Refuse(refusal)) => {
                Reply::rejected(Rejection::Refused(refusal, route.mismatch_status))
            }
            Err(error) => match self.gateway.when_down {
                WhenDown::Reject => {
                    tracing::debug!(%error, "a request is refused while the durable tier is down");
                    Reply::rejected(Rejection::StoreUnavailable)
                }
                WhenDown::Bypass => {
                    if BYPASSED.is_due() {
                        tracing::warn!(%error, route = %route.path,
                            "the durable tier is down: requests are forwarded UNPROTECTED");
                    }
                    match self.pass(&routed.destination, head, body.into(), peer, slot).await {
                        Ok(response) => Reply::marked(response, "bypassed", Outcome::Bypassed),
                        Err(rejection) => Reply::rejected(rejection),
                    }
                }
            },
        }
    }
}

/// What can be told from the head alone: whether the caller may ask now, and its key.
fn admitted(
    routed: &Routed,
    head: &Parts,
    client: IpAddr,
) -> Result<(Tenant, KeyInHead), Rejection> {
    let tenant = rate_limited(routed, head, client)?;
    let key = identify::key_in_head(&routed.route, &head.headers)?;
    Ok((tenant, key))
}

/// The tenant, unless it has used up its rate.
pub(super) fn rate_limited(
    routed: &Routed,
    head: &Parts,
    client: IpAddr,
) -> Result<Tenant, Rejection> {
    let tenant = identify::tenant(&routed.route, &head.headers);
    if let Some(rates) = &routed.rates {
        rates.check(&tenant, client).map_err(|retry_after| {
            routed.destination.metrics.rate_limited();
            Rejection::RateLimited { retry_after }
        })?;
    }
    Ok(tenant)
}

async fn read_body(
    route: &Route,
    head: &Parts,
    body: Incoming,
    idle: Duration,
) -> Result<Bytes, Rejection> {
    let max = route.request_max_bytes;
    let mut body = read::watched(body, idle);
    if !read::is_announced_longer(head, max)
        && let Collected::Whole(body) = read::collect(&mut body, max).await?
    {
        return Ok(body);
    }
    read::discard(head, &mut body).await;
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

/// Used by the shadow, too.
pub(super) fn identified(
    routed: &Routed,
    head: &Parts,
    body: &[u8],
) -> Result<Option<(Identity, Asked)>, Rejection> {
    let route = &routed.route;
    let tenant = identify::tenant(route, &head.headers);
    let key = identify::key_in_head(route, &head.headers)?;
    let identified = identify::identify(route, head, body, key, tenant)?;
    match (identified, route.key) {
        (None, Need::Required) => Err(key_missing(route)),
        (identified, _) => Ok(identified),
    }
}
