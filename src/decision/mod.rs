//! The decision API: the engine for workflows with no proxy in the way.
//!
//! `POST /acquire` asks whether to run, `/complete` says how it ended, `/heartbeat` keeps the lock.
//! Whoever is told PROCEED runs somewhere else: nothing here renews that lock, and the end of the
//! run may come to another instance. The record in the durable tier is all that they share.
//!
//! ## Why used-up attempts are RETRY_LATER
//! A workflow skips on it, which is right: nothing may run. CONFLICT would claim that the payload
//! differs. `reason` tells the two apart, and a caller that allows more attempts proceeds.

mod acquire;
mod complete;
mod health;
mod heartbeat;
mod input;
mod stored;

use std::sync::Arc;
use std::time::Duration;

use http::{Response, StatusCode};

pub use acquire::acquire;
pub use complete::complete;
pub use health::{health, state};
pub use heartbeat::heartbeat;

use crate::http::{Body, Problem};
use crate::idempotency::{Origin, Policy, WhenFailed, WhenUnknown};
use crate::store::StoreError;

const RETRY_AFTER: Duration = Duration::from_secs(1);

/// What holds for every record of this API; the rest of a policy comes with the request, where a
/// lock's length is called its ttl.
fn policy(keep: Duration, lock: Duration, max_attempts: u32) -> Arc<Policy> {
    Arc::new(Policy {
        ttl: keep,
        lease: lock,
        max_attempts,
        when_failed: WhenFailed::Retry,
        when_unknown: WhenUnknown::Retry,
        origin: Origin::Decision,
        ..Policy::default()
    })
}

fn store_problem(error: &StoreError) -> Problem {
    tracing::warn!(%error, "the decision API cannot reach its records");
    match error {
        StoreError::Rejected { .. } => {
            let detail = "The database does not take one of these values.";
            Problem::new(StatusCode::BAD_REQUEST, "invalid-request", "Invalid request", detail)
        }
        _ => {
            let status = StatusCode::SERVICE_UNAVAILABLE;
            let title = "The store is unavailable";
            let detail = "Nothing is known to have changed; ask again.";
            Problem::new(status, "store-unavailable", title, detail).retry_after(RETRY_AFTER)
        }
    }
}

fn missing() -> Problem {
    let detail = "There is no record of this tenant, scope and idempotency_key, or it has expired.";
    Problem::new(StatusCode::NOT_FOUND, "not-found", "No such record", detail)
}

fn fenced(detail: &'static str) -> Problem {
    Problem::new(StatusCode::CONFLICT, "fenced", "Not this attempt", detail)
}

fn answer(result: Result<Response<Body>, Problem>) -> Response<Body> {
    result.unwrap_or_else(Problem::into_response)
}
