//! What goes back to the client, and what it counts as.

use http::{HeaderValue, Response};

use super::rejection::Rejection;
use super::snapshot::IDEMPOTENCY_STATUS;
use crate::http::Body;
use crate::telemetry::metrics::Outcome;

pub struct Reply {
    pub response: Response<Body>,
    /// None: somebody else counts it.
    pub outcome: Option<Outcome>,
}

impl Reply {
    pub fn new(response: Response<Body>, outcome: Outcome) -> Self {
        Self { response, outcome: Some(outcome) }
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
