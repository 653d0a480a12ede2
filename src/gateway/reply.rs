//! What goes back to the client, and what it counts as.

use std::time::Duration;

use http::{HeaderValue, Response};

use super::rejection::Rejection;
use super::snapshot::IDEMPOTENCY_STATUS;
use crate::http::Body;
use crate::idempotency::Identity;
use crate::telemetry::metrics::{Outcome, Tier};
use crate::telemetry::trace_context::TraceContext;

pub struct Reply {
    pub response: Response<Body>,
    /// None: somebody else counts it.
    pub outcome: Option<Outcome>,
    pub trail: Trail,
}

/// What is told of it in the access log.
#[derive(Default)]
pub struct Trail {
    pub identity: Option<Identity>,
    pub attempt: Option<u32>,
    pub tier: Option<Tier>,
    pub upstream: Option<Duration>,
    pub trace: Option<TraceContext>,
}

impl Reply {
    pub fn new(response: Response<Body>, outcome: Outcome) -> Self {
        Self { response, outcome: Some(outcome), trail: Trail::default() }
    }

    /// With the word for what happened.
    pub fn marked(mut response: Response<Body>, status: &'static str, outcome: Outcome) -> Self {
        response.headers_mut().insert(IDEMPOTENCY_STATUS, HeaderValue::from_static(status));
        Self::new(response, outcome)
    }

    pub fn rejected(rejection: Rejection) -> Self {
        let (status, outcome) = (rejection.as_str(), rejection.outcome());
        Self::marked(rejection.into_response(), status, outcome)
    }

    /// For requests that are none of the gateway's business: no header is added.
    pub fn unmarked(rejection: Rejection) -> Self {
        Self::new(rejection.into_response(), Outcome::Untouched)
    }
}
