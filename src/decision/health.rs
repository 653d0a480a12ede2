//! Whether this instance is alive, ready and healthy.

use http::{Response, StatusCode};
use serde_json::json;

use crate::engine::Engine;
use crate::http::{Body, json};

/// `GET /health`: 503 while the durable tier is down. The fast one may be: it is only told.
pub async fn health(engine: &Engine) -> Response<Body> {
    let tiers = engine.tiers();
    let durable = tiers.durable().ping().await;
    let fast = match tiers.fast() {
        Some(fast) => connected(fast.ping().await.is_ok()),
        None => "none",
    };
    let (status, word) = match durable {
        Ok(()) => (StatusCode::OK, "ok"),
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
    };
    let db = connected(durable.is_ok());
    json::answer(status, &json!({ "status": word, "db": db, "fast": fast }))
}

fn connected(is: bool) -> &'static str {
    if is { "connected" } else { "unreachable" }
}

/// `GET /livez` and `GET /readyz`: not ready while it drains.
pub fn state(is: bool, yes: &str, no: &str) -> Response<Body> {
    match is {
        true => json::answer(StatusCode::OK, &json!({ "status": yes })),
        false => json::answer(StatusCode::SERVICE_UNAVAILABLE, &json!({ "status": no })),
    }
}
