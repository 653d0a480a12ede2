//! The reverse proxy: identify → acquire → forward → record → reply.
//!
//! A request that no route is about, or that has no key where none is needed, streams through
//! untouched. One with a key is decided by the engine; if it is to be executed, that happens in a
//! task of its own, and what was read whole is decided to the end ([`carried`]), so that a client
//! that hangs up changes nothing.

mod access;
mod carried;
mod execution;
mod forward;
mod identify;
mod interim;
mod keyed;
mod limits;
mod read;
mod rejection;
mod reply;
mod routing;
mod rules;
mod shadow;
mod snapshot;
mod tunnel;
mod untouched;
pub mod upstream;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use http::request::Parts;
use http::{Request, Response};
use hyper::body::Incoming;
use tokio_util::task::TaskTracker;

use crate::clock;
use crate::config::{Config, Mode, WhenDown};
use crate::engine::Engine;
use crate::http::Body;
use crate::http::server::{Handler, Peer};
use crate::telemetry::metrics::{self, Outcome};
use crate::telemetry::traces;
use access::Access;
use carried::Carried;
use keyed::admitted;
use limits::{InFlight, Slot};
use rejection::Rejection;
use reply::Reply;
use rules::{Routed, Rules};
use upstream::{Upstreams, UpstreamsError};

/// What all front threads share.
pub struct Gateway {
    engine: Engine,
    when_down: WhenDown,
    upstreams: Upstreams,
    /// Replaced by a reload; a request keeps those it began with.
    rules: ArcSwap<Rules>,
    in_flight: Arc<InFlight>,
    /// They outlive their clients.
    executions: TaskTracker,
    access: Access,
}

/// The gateway as one front thread sees it: with connections of its own.
#[derive(Clone)]
pub struct Front {
    gateway: Arc<Gateway>,
    thread: usize,
}

impl Gateway {
    pub fn new(config: &Config, engine: Engine, threads: usize) -> Result<Self, UpstreamsError> {
        let upstreams = Upstreams::new(config.connections.clone(), &config.upstream_tls, threads)?;
        Ok(Self {
            engine,
            when_down: config.durable.when_down,
            rules: ArcSwap::from_pointee(Rules::new(config, &upstreams)),
            upstreams,
            in_flight: Arc::default(),
            executions: TaskTracker::new(),
            access: Access::new(&config.logs),
        })
    }

    /// From now on requests follow this configuration's routes and limits.
    pub fn reload(&self, config: &Config) {
        self.rules.store(Arc::new(Rules::new(config, &self.upstreams)));
        let routes = config.routes.iter().map(|route| route.upstream.clone());
        let wanted: Vec<_> = routes.chain([config.upstream.clone()]).collect();
        self.upstreams.keep_only(&wanted);
    }

    /// Resolves when no execution runs any more, and nothing that was read is undecided.
    pub async fn finished(&self) {
        self.executions.close();
        self.executions.wait().await;
    }

    /// The last that is asked of it: nothing more is said of any request.
    pub fn finish_log(&self) {
        self.access.finish();
    }

    /// What is looked at rather than counted.
    pub fn publish_gauges(&self) {
        metrics::in_flight(self.in_flight.count());
        let (idle, in_use) = self.upstreams.connections();
        metrics::upstream_connections(idle, in_use);
    }
}

/// A request without its body: what every way through the gateway needs.
struct Visit {
    head: Parts,
    peer: Peer,
    /// How long the client may be silent within its body.
    body_idle: Duration,
    slot: Slot,
}

impl Front {
    pub fn new(gateway: Arc<Gateway>, thread: usize) -> Self {
        Self { gateway, thread }
    }

    async fn reply(
        &self,
        rules: &Rules,
        routed: Option<&Arc<Routed>>,
        request: Request<Incoming>,
        peer: Peer,
    ) -> Reply {
        let (head, mut body) = request.into_parts();
        let Some(slot) = self.gateway.in_flight.enter(rules.max_in_flight) else {
            read::discard(&head, &mut body).await;
            return match routed {
                Some(_) => Reply::rejected(Rejection::Overloaded),
                None => Reply::unmarked(Rejection::Overloaded),
            };
        };
        let visit = Visit { head, peer, body_idle: rules.body_idle, slot };
        let to = match routed {
            None => &rules.elsewhere,
            Some(routed) => match routed.route.mode {
                Mode::Off => &routed.destination,
                // Boxed, like the next: they are large, and others need not carry their weight.
                Mode::Shadow => return Box::pin(self.shadowed(routed, visit, body)).await,
                Mode::Enforce => match admitted(routed, &visit) {
                    Ok(None) => &routed.destination,
                    Ok(Some(caller)) => {
                        let parent = || access::received(&visit.head.headers);
                        let span = traces::request(&routed.route.path, parent);
                        let keyed = self.clone().keyed(routed.clone(), visit, body, caller);
                        let tasks = &self.gateway.executions;
                        let reply = Carried::new(keyed, span.clone(), tasks).await;
                        span.record("outcome", reply.outcome.map(Outcome::as_str));
                        return reply;
                    }
                    Err(rejection) => {
                        read::discard(&visit.head, &mut body).await;
                        return Reply::rejected(rejection);
                    }
                },
            },
        };
        match read::streamed(&visit, body).await {
            Ok(body) => self.untouched(to, visit, body).await,
            Err(rejection) => Reply::unmarked(rejection),
        }
    }
}

impl Handler for Front {
    async fn handle(&self, request: Request<Incoming>, peer: Peer) -> Response<Body> {
        let began = clock::now();
        let rules = self.gateway.rules.load_full();
        let routed = rules.table.find(request.method(), request.uri().path());
        let seen = self.gateway.access.see(&request, peer);
        let reply = self.reply(&rules, routed, request, peer).await;
        let took = began.elapsed();
        if let Some(outcome) = reply.outcome {
            let to = routed.map_or(&rules.elsewhere, |routed| &routed.destination);
            to.metrics.request(outcome, took);
        }
        if let Some(seen) = seen {
            let route = routed.map(|routed| routed.route.path.as_str());
            self.gateway.access.answered(&seen, route, &reply, took);
        }
        reply.response
    }
}
