//! Changing records: settled by hand, or forgotten. Each change leaves a line in the audit trail.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue};
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
use crate::http::headers::is_hop_by_hop;
use crate::http::{Body, Problem, json};
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

/// The answer that retries are to get.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    /// JSON knows no whole numbers: `201.0` is one, too.
    #[serde(default = "ok")]
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

const fn ok() -> f64 {
    200.0
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
    let Some(given) = given else {
        let headers = HeaderBlock::default();
        return Ok(Snapshot { status: 200, headers, body: idempotency::Body::TooLong });
    };
    if !(200.0..=599.0).contains(&given.status) || given.status.fract() != 0.0 {
        return Err(bad_request("response.status is 200 to 599."));
    }
    let mut headers = headers(&given.headers)?;
    let body = match (given.body, given.body_base64) {
        (Some(_), Some(_)) => {
            return Err(bad_request("response has body and body_base64; leave one of them out."));
        }
        (None, None) => Bytes::new(),
        (Some(Value::String(text)), None) => text.into(),
        (Some(value), None) => {
            if !headers.iter().any(|(name, _)| *name == CONTENT_TYPE) {
                headers.push((CONTENT_TYPE, HeaderValue::from_static("application/json")));
            }
            value.to_string().into()
        }
        (None, Some(text)) => STANDARD
            .decode(text)
            .map_err(|_| bad_request("response.body_base64 is not base64 with its padding."))?
            .into(),
    };
    let pairs = headers.iter().map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()));
    let headers = HeaderBlock::from_pairs(pairs);
    let status = given.status as u16;
    Ok(Snapshot { status, headers, body: idempotency::Body::Stored(body) })
}

/// Pairs of name and value, or an object of values or lists of them. What is about a connection or
/// the length of a body is left out: it is worked out anew for every replay.
fn headers(given: &Value) -> Result<Vec<(HeaderName, HeaderValue)>, Problem> {
    let wrong = || bad_request("response.headers is an object, or a list of [name, value] pairs.");
    let text = |value: &Value| value.as_str().map(str::to_owned).ok_or_else(wrong);
    let mut pairs = Vec::new();
    match given {
        Value::Null => {}
        Value::Object(object) => {
            for (name, value) in object {
                match value {
                    Value::Array(values) => {
                        for value in values {
                            pairs.push((name.clone(), text(value)?));
                        }
                    }
                    value => pairs.push((name.clone(), text(value)?)),
                }
            }
        }
        Value::Array(list) => {
            for pair in list {
                match pair.as_array().map(Vec::as_slice) {
                    Some([name, value]) => pairs.push((text(name)?, text(value)?)),
                    _ => return Err(wrong()),
                }
            }
        }
        _ => return Err(wrong()),
    }
    let mut headers = Vec::new();
    for (name, value) in pairs {
        let name: HeaderName = name
            .parse()
            .map_err(|_| bad_request("response.headers has a name that is no header's."))?;
        let value = value
            .parse()
            .map_err(|_| bad_request(format!("response.headers: {name} has a malformed value.")))?;
        if !is_hop_by_hop(&name) && name != CONTENT_LENGTH {
            headers.push((name, value));
        }
    }
    Ok(headers)
}
