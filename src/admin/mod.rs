//! The operator's side: records to look at, to settle and to forget, metrics, and the API's own
//! description. Who may do what is decided in [`access`] before anything here is asked.

pub mod access;
mod changes;
pub mod console;
mod cursor;
mod openapi;
mod overview;
mod query;
mod records;
pub mod routes;
mod view;

use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response, StatusCode};
use hyper::body::Incoming;

use crate::clock;
use crate::config::{Config, Route};
use crate::engine::Engine;
use crate::http::{Body, Problem};
use crate::store::StoreError;
use crate::telemetry::prometheus::Exposition;

pub use access::{Access, Actor};
pub use openapi::document;

/// What the operator's requests are answered from.
pub struct Api {
    engine: Engine,
    routes: ArcSwap<Vec<Arc<Route>>>,
    show_bodies: bool,
    stuck_after: Duration,
    started: Instant,
}

impl Api {
    pub fn new(engine: &Engine, config: &Config) -> Self {
        Self {
            engine: engine.clone(),
            routes: ArcSwap::from_pointee(config.routes.clone()),
            show_bodies: config.admin.show_bodies,
            stuck_after: config.reconciler.stuck_after,
            started: clock::now(),
        }
    }

    /// Takes over the routes of a configuration that was read again.
    pub fn reload(&self, config: &Config) {
        self.routes.store(Arc::new(config.routes.clone()));
    }

    pub async fn overview(&self, actor: Actor, counted: Option<&Exposition>) -> Response<Body> {
        overview::answer(self, actor, counted).await
    }

    pub async fn records(&self, query: &str) -> Response<Body> {
        records::list(self, query).await.unwrap_or_else(Problem::into_response)
    }

    pub async fn record(&self, query: &str) -> Response<Body> {
        records::show(self, query).await.unwrap_or_else(Problem::into_response)
    }

    pub async fn resolve(&self, request: Request<Incoming>, actor: Actor) -> Response<Body> {
        changes::resolve(self, request, actor).await.unwrap_or_else(Problem::into_response)
    }

    pub async fn forget(&self, query: &str, actor: Actor) -> Response<Body> {
        changes::forget(self, query, actor).await.unwrap_or_else(Problem::into_response)
    }
}

/// `GET /metrics`.
pub fn metrics(exposition: &Exposition) -> Response<Body> {
    let mut response = Response::new(Body::from(Bytes::from(exposition.text())));
    let text = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, text);
    response
}

fn bad_request(detail: impl Into<String>) -> Problem {
    let (code, title) = ("bad-request", "The request cannot be understood");
    Problem::new(StatusCode::BAD_REQUEST, code, title, detail.into())
}

fn no_such_record() -> Problem {
    let detail = "There is no record of this tenant, scope and key, or it has expired.";
    Problem::new(StatusCode::NOT_FOUND, "record-not-found", "No such record", detail)
}

/// The driver's words may name hosts and users: they are for the log.
fn store_away(error: &StoreError) -> Problem {
    tracing::warn!(%error, "an operator's request could not be answered");
    let detail = "The durable tier does not answer; the log says more. Try again.";
    let (code, title) = ("store-unavailable", "The records cannot be reached");
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, code, title, detail)
        .retry_after(Duration::from_secs(1))
}
