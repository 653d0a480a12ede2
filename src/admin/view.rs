//! Records as the JSON that operators read. Credentials and tokens are never part of it, bodies
//! only where the configuration says so.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::clock::Timestamp;
use crate::engine::inspect::AuditLine;
use crate::idempotency::record::{AfterFailure, Origin};
use crate::idempotency::{Body, Record, Snapshot, State};

/// How much of an answer is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Status,
    Headers,
    Body,
}

pub fn record(record: &Record, show: Answer) -> Value {
    let identity = &record.identity;
    let mut view = json!({
        "tenant": identity.tenant().as_str(),
        "scope": identity.scope().as_str(),
        "key": identity.key().as_str(),
        "state": record.state.as_str(),
        "origin": match record.origin {
            Origin::Call => "call",
            Origin::Decision => "decision",
        },
        "attempt": record.attempt,
        "fingerprint": record.fingerprint.map(|fingerprint| fingerprint.to_string()),
        "created_at": time(record.created_at),
        "updated_at": time(record.updated_at),
    });
    if let Value::Object(view) = &mut view {
        state(&record.state, show, view);
        if let Some(error) = &record.last_error {
            view.insert("last_error".into(), error.message.as_str().into());
            view.insert("last_error_at".into(), time(error.at));
        }
        if let Some(reference) = &record.result_ref {
            view.insert("result_ref".into(), reference.as_str().into());
        }
    }
    view
}

fn state(state: &State, show: Answer, view: &mut Map<String, Value>) {
    let mut put = |name: &str, value: Value| drop(view.insert(name.into(), value));
    match state {
        State::Processing { lease_until } => put("lease_until", time(*lease_until)),
        State::Unknown { retry_at } => put("next_retry_at", time(*retry_at)),
        State::Succeeded { answer, expires_at } => {
            put("expires_at", time(*expires_at));
            put("response", response(answer, show));
        }
        State::Failed { then, expires_at } => {
            put("expires_at", time(*expires_at));
            match then {
                AfterFailure::Execute { from } => {
                    put("next_retry_at", time(*from));
                    put("retries", "execute".into());
                }
                AfterFailure::Allowed => put("retries", "execute".into()),
                AfterFailure::Replay { answer } => {
                    put("retries", "replay".into());
                    put("response", response(answer, show));
                }
                AfterFailure::Refuse => put("retries", "refuse".into()),
            }
        }
    }
}

fn response(answer: &Snapshot, show: Answer) -> Value {
    let mut view = json!({ "status": answer.status });
    if show == Answer::Status {
        return view;
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let headers: Vec<_> =
        answer.headers.pairs().map(|(name, value)| json!([text(name), text(value)])).collect();
    view["headers"] = headers.into();
    match &answer.body {
        Body::TooLong => view["body_stored"] = false.into(),
        Body::Stored(body) => {
            view["body_stored"] = true.into();
            view["body_bytes"] = body.len().into();
            if show == Answer::Body {
                match str::from_utf8(body) {
                    Ok(text) => view["body"] = text.into(),
                    Err(_) => view["body_base64"] = STANDARD.encode(body).into(),
                }
            }
        }
    }
    view
}

pub fn audit(line: &AuditLine) -> Value {
    json!({
        "at": time(line.at),
        "actor": line.actor,
        "action": line.action,
        "note": line.note,
    })
}

pub fn time(at: Timestamp) -> Value {
    at.to_string().into()
}
