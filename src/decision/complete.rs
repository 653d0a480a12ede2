//! `POST /complete`: how an attempt ended, said by whoever ran it, to any instance.

use std::time::Duration;

use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use serde_json::json;

use super::input::Input;
use super::{answer, fenced, missing, policy, store_problem, stored};
use crate::engine::{Engine, Finish, Finished, Proof};
use crate::http::incoming::invalid;
use crate::http::{Body, Problem, json};

/// `keep`: how long a finished record is kept.
pub async fn complete(
    engine: &Engine,
    keep: Duration,
    request: Request<Incoming>,
) -> Response<Body> {
    answer(end(engine, keep, request).await)
}

async fn end(
    engine: &Engine,
    keep: Duration,
    request: Request<Incoming>,
) -> Result<Response<Body>, Problem> {
    let input = Input::read(request).await?;
    let identity = input.identity()?;
    let status = input.required("final_status")?;
    let proof = Proof { token: input.token()?, attempt: input.attempt_count()? };
    let (error, base) = (input.error_message(), input.base_retry()?);
    let result_ref = input.result_ref()?;
    if !matches!(status, "DONE" | "FAILED" | "CONFLICT") {
        return Err(invalid("final_status is DONE, FAILED or CONFLICT."));
    }
    // The answer that later acquires get names the attempt, which the caller need not know.
    let found = engine.record(&identity).await.map_err(|error| store_problem(&error))?;
    let record = found.ok_or_else(missing)?.record;
    // What ends is the attempt that was seen here, should there be another one a moment later.
    let proof = Proof { token: proof.token.or(Some(record.token)), ..proof };
    let finish = match status {
        "DONE" => Finish::Done {
            answer: stored::done(input.result(), result_ref, record.attempt),
            result_ref: result_ref.map(str::to_owned),
        },
        "FAILED" => Finish::Failed { error, base },
        _ => Finish::Conflict { answer: stored::conflict(record.attempt), error },
    };
    // The lease and the attempts were acquire's affair.
    let policy = policy(keep, input.ttl()?, input.max_attempts()?);
    let finished = engine.finish(&identity, proof, finish, &policy).await;
    match finished.map_err(|error| store_problem(&error))? {
        Finished::Stored => {
            Ok(json::answer(StatusCode::OK, &json!({ "ok": true, "status": status })))
        }
        Finished::Missing => Err(missing()),
        Finished::Fenced => Err(fenced(
            "Another attempt owns this record, or this one has ended in another way. Nothing was \
             changed.",
        )),
    }
}
