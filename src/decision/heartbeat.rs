//! `POST /heartbeat`: keeps a lock for a run that takes longer than it was given.

use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use serde_json::json;

use super::input::Input;
use super::{answer, fenced, missing, store_problem};
use crate::engine::{Engine, Extended};
use crate::http::{Body, Problem, json};

pub async fn heartbeat(engine: &Engine, request: Request<Incoming>) -> Response<Body> {
    answer(extend(engine, request).await)
}

async fn extend(engine: &Engine, request: Request<Incoming>) -> Result<Response<Body>, Problem> {
    let input = Input::read(request).await?;
    let identity = input.identity()?;
    let (token, ttl) = (input.required_token()?, input.ttl()?);
    let extended = engine.extend(&identity, token, ttl).await;
    match extended.map_err(|error| store_problem(&error))? {
        Extended::Until { lease_until, attempt } => {
            let until = lease_until.to_string();
            let members = json!({ "ok": true, "attempt_count": attempt, "lock_expires_at": until });
            Ok(json::answer(StatusCode::OK, &members))
        }
        Extended::Missing => Err(missing()),
        Extended::Fenced => Err(fenced(
            "This token's attempt has ended, or another attempt has taken over. Stop the run if it \
             can be stopped.",
        )),
    }
}
