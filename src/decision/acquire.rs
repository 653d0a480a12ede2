//! `POST /acquire`: whether to run, and under which token.

use std::time::Duration;

use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use serde_json::{Map, Value, json};

use super::input::Input;
use super::{answer, policy, store_problem, stored};
use crate::clock::Timestamp;
use crate::engine::{self, Acquired, Claim, Engine};
use crate::http::{Body, Problem, json};
use crate::idempotency::record::AfterFailure;
use crate::idempotency::{Decision, Found, Identity, Record, Refusal, Snapshot, State, decide};

/// `keep`: how long a finished record is kept.
pub async fn acquire(
    engine: &Engine,
    keep: Duration,
    request: Request<Incoming>,
) -> Response<Body> {
    answer(decided(engine, keep, request).await)
}

async fn decided(
    engine: &Engine,
    keep: Duration,
    request: Request<Incoming>,
) -> Result<Response<Body>, Problem> {
    let input = Input::read(request).await?;
    let identity = input.identity()?;
    let policy = policy(keep, input.ttl()?, input.max_attempts()?);
    let mut asked = engine::Request::new(identity.clone()).policy(policy);
    asked.asked.fingerprint = input.fingerprint()?;
    let acquired = engine.acquire(&asked).await.map_err(|error| store_problem(&error))?;
    Ok(match acquired {
        Acquired::Execute(claim) => match engine.record(&identity).await {
            Ok(Some(found)) if runs(&found, &claim) => {
                // From here on it is the caller's: to complete, to extend, or to let run out.
                claim.detach();
                proceed(&found.record)
            }
            // Its lock ran out on the way, and somebody else may have it: nothing here was told to
            // run, so this caller comes second.
            Ok(found) => {
                let second =
                    found.as_ref().map(|found| decide(Some(found), &asked.asked, &asked.policy));
                claim.release_later("its lock ran out before it was handed out");
                match second {
                    Some(Decision::Replay(answer)) => replayed(answer),
                    Some(Decision::Refuse(refusal)) => refused(engine, &identity, refusal).await?,
                    Some(Decision::Wait { .. } | Decision::Execute(_)) | None => {
                        let attempt = found.as_ref().map_or(0, |found| found.record.attempt);
                        said("RETRY_LATER", attempt, json!({ "reason": "in-progress" }))
                    }
                }
            }
            Err(error) => {
                claim.release_later("the durable tier went away before it was handed out");
                return Err(store_problem(&error));
            }
        },
        Acquired::Replay(replay) => replayed(&replay.answer),
        Acquired::Refuse(refusal) => refused(engine, &identity, refusal).await?,
    })
}

/// The attempt that was claimed, under a lock that has not run out.
fn runs(found: &Found, claim: &Claim) -> bool {
    let Found { record, now } = found;
    claim.owns(record)
        && matches!(record.state, State::Processing { lease_until } if *now < lease_until)
}

fn proceed(record: &Record) -> Response<Body> {
    let until = match record.state {
        State::Processing { lease_until } => Some(lease_until.to_string()),
        _ => None,
    };
    let token = record.token.0.simple().to_string();
    said("PROCEED", record.attempt, json!({ "lock_expires_at": until, "token": token }))
}

fn replayed(answer: &Snapshot) -> Response<Body> {
    let attempt = stored::attempt(answer).unwrap_or(1);
    if answer.status == stored::CONFLICT {
        return said("CONFLICT", attempt, json!({ "reason": "completed-as-conflict" }));
    }
    let mut more = Map::new();
    more.extend(stored::result(answer).map(|result| ("result".to_owned(), result)));
    more.extend(stored::result_ref(answer).map(|text| ("result_ref".to_owned(), text.into())));
    said("SKIP_ALREADY_DONE", attempt, Value::Object(more))
}

/// The record says when it is worth asking again.
async fn refused(
    engine: &Engine,
    identity: &Identity,
    refusal: Refusal,
) -> Result<Response<Body>, Problem> {
    let found = engine.record(identity).await.map_err(|error| store_problem(&error))?;
    let record = found.map(|found| found.record);
    let attempt = record.as_ref().map_or(0, |record| record.attempt);
    let (lock, retry) = record.as_ref().map_or((None, None), times);
    let times = |reason: &str| {
        let time = |time: Option<Timestamp>| time.map(|time| time.to_string());
        json!({ "reason": reason, "lock_expires_at": time(lock), "next_retry_at": time(retry) })
    };
    Ok(match refusal {
        Refusal::KeyReused | Refusal::CredentialMismatch => {
            said("CONFLICT", attempt, json!({ "reason": "payload-differs" }))
        }
        Refusal::ResponseNotStored { .. } => {
            said("SKIP_ALREADY_DONE", attempt, json!({ "reason": "result-not-stored" }))
        }
        Refusal::InProgress { .. } => said("RETRY_LATER", attempt, times("in-progress")),
        Refusal::AttemptFailed { retry_after: Some(_) }
        | Refusal::OutcomeUnknown { retry_after: Some(_) } => {
            said("RETRY_LATER", attempt, times("not-due"))
        }
        Refusal::AttemptFailed { retry_after: None } => {
            let for_good = record.is_some_and(|record| {
                matches!(record.state, State::Failed { then: AfterFailure::Refuse, .. })
            });
            match for_good {
                true => said("CONFLICT", attempt, json!({ "reason": "failed-for-good" })),
                false => said("RETRY_LATER", attempt, times("attempts-used-up")),
            }
        }
        Refusal::OutcomeUnknown { retry_after: None } => {
            let origin = record.map(|record| record.origin).unwrap_or_default();
            let reason = match origin {
                crate::idempotency::Origin::Decision => "attempts-used-up",
                crate::idempotency::Origin::Call => "outcome-unknown",
            };
            said("RETRY_LATER", attempt, times(reason))
        }
    })
}

/// When the lock ends, and when a retry is due.
fn times(record: &Record) -> (Option<Timestamp>, Option<Timestamp>) {
    match record.state {
        State::Processing { lease_until } => (Some(lease_until), None),
        State::Failed { then: AfterFailure::Execute { from }, .. } => (None, Some(from)),
        _ => (None, None),
    }
}

/// The members of every answer, whatever was decided, and what else there is to say.
fn said(decision: &str, attempt: u32, more: Value) -> Response<Body> {
    let mut members = json!({
        "decision": decision, "attempt_count": attempt, "lock_expires_at": null, "token": null,
    });
    if let (Value::Object(members), Value::Object(more)) = (&mut members, more) {
        members.extend(more);
    }
    json::answer(StatusCode::OK, &members)
}
