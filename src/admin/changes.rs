//! Changing records: settled by hand, or forgotten. Each change leaves a line in the audit trail.

use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::query::{self, Named};
use super::view::{self, Answer};
use super::{Actor, Api, bad_request, no_such_record, store_away};
use crate::engine::{OperatorError, Resolution};
use crate::http::{Body, GivenAnswer, Problem, given_answer, json};
use crate::idempotency::{self, HeaderBlock, Identity, Policy, Snapshot, State};

/// An answer of a few megabytes in base64, with room to spare.
const LONGEST_BODY: usize = 16 << 20;

#[derive(Deserialize)]
struct Resolve {
    #[serde(flatten)]
    named: Named,
    outcome: Outcome,
    response: Option<Given>,
    note: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Outcome {
    Succeeded,
    Failed,
    Retry,
}

/// The answer that retries are to get. What it does not know may be a slip, and nobody could mend
/// it later.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    #[serde(default = "given_answer::ok")]
    status: f64,
    #[serde(default)]
    headers: Value,
    body: Option<Value>,
    body_base64: Option<String>,
    /// As `GET /api/record` shows them; they say nothing that the body does not.
    #[serde(rename = "body_stored")]
    _body_stored: Option<IgnoredAny>,
    #[serde(rename = "body_bytes")]
    _body_bytes: Option<IgnoredAny>,
}

/// `POST /api/record/resolve`.
pub async fn resolve(
    api: &Api,
    request: Request<Incoming>,
    actor: Actor,
) -> Result<Response<Body>, Problem> {
    let body = Limited::new(request.into_body(), LONGEST_BODY).collect().await;
    let body = body.map_err(|error| bad_request(format!("The body cannot be read: {error}.")))?;
    let asked: Resolve = serde_json::from_slice(&body.to_bytes())
        .map_err(|error| bad_request(format!("The body is not what is asked for: {error}.")))?;
    let identity = asked.named.identity()?;
    let note = query::note(asked.note)?;
    if asked.response.is_some() && asked.outcome != Outcome::Succeeded {
        return Err(bad_request("response goes with the outcome \"succeeded\" only."));
    }
    let resolution = match asked.outcome {
        Outcome::Succeeded => Resolution::Succeeded(snapshot(asked.response)?),
        Outcome::Failed => Resolution::Failed,
        Outcome::Retry => Resolution::Retry,
    };
    is_free(api, &identity).await?;
    let policy = policy(api, &identity);
    let done = api.engine.resolve(&identity, resolution, &policy, actor.as_str(), &note).await;
    match done {
        Ok(()) => {}
        Err(OperatorError::Store(error)) => return Err(store_away(&error)),
        Err(OperatorError::NotOpen) => return Err(changed()),
    }
    let found = api.engine.record(&identity).await.map_err(|error| store_away(&error))?;
    let record = found.map(|found| view::record(&found.record, Answer::Headers));
    Ok(json::answer(StatusCode::OK, &json!({ "resolved": true, "record": record })))
}

/// `DELETE /api/record`.
pub async fn forget(api: &Api, query: &str, actor: Actor) -> Result<Response<Body>, Problem> {
    let (identity, note) = query::one(query, true)?;
    let found = api.engine.record(&identity).await.map_err(|error| store_away(&error))?;
    let found = found.ok_or_else(no_such_record)?;
    if is_running(&found) {
        return Err(running());
    }
    let forgotten = api.engine.forget(&identity, actor.as_str(), &note).await;
    match forgotten.map_err(|error| store_away(&error))? {
        true => Ok(json::answer(StatusCode::OK, &json!({ "forgotten": true }))),
        false => Err(changed()),
    }
}

/// There is such a record, nobody runs it, and it has no answer yet.
async fn is_free(api: &Api, identity: &Identity) -> Result<(), Problem> {
    let found = api.engine.record(identity).await.map_err(|error| store_away(&error))?;
    let found = found.ok_or_else(no_such_record)?;
    match &found.record.state {
        State::Processing { .. } if is_running(&found) => Err(running()),
        State::Succeeded { .. } => {
            let detail = "It succeeded, and an answer never changes. Forget the record if the \
                          operation is to be executed anew.";
            let title = "The record has its answer";
            Err(Problem::new(StatusCode::CONFLICT, "record-settled", title, detail))
        }
        _ => Ok(()),
    }
}

fn is_running(found: &idempotency::Found) -> bool {
    matches!(found.record.state, State::Processing { lease_until } if lease_until > found.now)
}

fn running() -> Problem {
    let detail = "It runs under its lease. Look again when the lease is over, or it has ended.";
    let title = "The record is running";
    Problem::new(StatusCode::CONFLICT, "record-running", title, detail).retryable()
}

fn changed() -> Problem {
    let detail = "Somebody else took or ended it meanwhile. Look at it again.";
    let title = "The record has changed";
    Problem::new(StatusCode::CONFLICT, "record-changed", title, detail).retryable()
}

/// That of the first route with the record's scope: how long the outcome is kept.
fn policy(api: &Api, identity: &Identity) -> Policy {
    let routes = api.routes.load();
    let route = routes.iter().find(|route| route.scope == *identity.scope());
    route.map_or_else(Policy::default, |route| (*route.policy).clone())
}

/// Without a response it is done and retries learn that its answer is not stored.
fn snapshot(given: Option<Given>) -> Result<Snapshot, Problem> {
    let Some(Given { status, headers, body, body_base64, .. }) = given else {
        let headers = HeaderBlock::default();
        return Ok(Snapshot { status: 200, headers, body: idempotency::Body::TooLong });
    };
    let given = GivenAnswer { status, headers, body, body_base64 };
    given.snapshot().map_err(|why| bad_request(format!("response.{why}.")))
}
