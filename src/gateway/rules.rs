//! What a configuration means to a request: made once, at the start and with each reload.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;

use super::limits::Rates;
use super::routing::Table;
use super::upstream::{Upstream, Upstreams};
use crate::config::{self, Config, Route};
use crate::telemetry::metrics::RouteMetrics;

/// The `route` label of requests that no route is about.
const NO_ROUTE: &str = "none";

pub struct Rules {
    pub table: Table<Routed>,
    /// For requests that no route is about.
    pub elsewhere: Destination,
    pub max_in_flight: usize,
    pub body_idle: Duration,
}

/// A route and what it needs.
pub struct Routed {
    pub route: Arc<Route>,
    pub destination: Destination,
    pub rates: Option<Rates>,
}

pub struct Destination {
    pub upstream: Arc<Upstream>,
    /// For clients that name no host.
    pub own_host: HeaderValue,
    pub metrics: RouteMetrics,
}

impl Rules {
    pub fn new(config: &Config, upstreams: &Upstreams) -> Self {
        let destination = |upstream: &config::Upstream, label: &str| Destination {
            upstream: upstreams.get(upstream),
            own_host: host_of(upstream),
            metrics: RouteMetrics::new(label),
        };
        let routed = config.routes.iter().map(|route| {
            let routed = Routed {
                route: route.clone(),
                destination: destination(&route.upstream, &route.path),
                rates: route.rate_limit.as_ref().and_then(Rates::new),
            };
            (route.path.as_str(), &route.methods[..], Arc::new(routed))
        });
        Self {
            table: Table::new(routed),
            elsewhere: destination(&config.upstream, NO_ROUTE),
            max_in_flight: config.limits.max_in_flight as usize,
            body_idle: config.limits.body_idle_timeout,
        }
    }
}

fn host_of(upstream: &config::Upstream) -> HeaderValue {
    let first = upstream.addresses().first();
    let host = first.map(|url| url[url::Position::BeforeHost..url::Position::AfterPort].to_owned());
    host.and_then(|host| host.try_into().ok()).unwrap_or(HeaderValue::from_static("localhost"))
}
