//! The admin listener: who answers which path.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::header::ALLOW;
use http::{HeaderValue, Request, Response, StatusCode};
use hyper::body::Incoming;

use crate::admin::routes::{self, Asks, Endpoint, Found};
use crate::admin::{Access, Actor, Api};
use crate::config::{self, Config};
use crate::engine::Engine;
use crate::gateway::Gateway;
use crate::http::server::{self, Peer, Stop};
use crate::http::{Body, Problem};
use crate::telemetry::prometheus::Exposition;
use crate::{admin, decision};

#[derive(Clone)]
pub struct Handler(Arc<Shared>);

struct Shared {
    engine: Engine,
    gateway: Arc<Gateway>,
    exposition: Option<Exposition>,
    ready: Arc<AtomicBool>,
    access: Access,
    api: Api,
    decision: config::Decision,
}

impl Handler {
    pub fn new(
        config: &Config,
        engine: &Engine,
        gateway: &Arc<Gateway>,
        exposition: Option<Exposition>,
        ready: Arc<AtomicBool>,
    ) -> Self {
        let (access, api) = (Access::new(&config.admin), Api::new(engine, config));
        let (engine, gateway) = (engine.clone(), gateway.clone());
        let decision = config.decision.clone();
        Self(Arc::new(Shared { engine, gateway, exposition, ready, access, api, decision }))
    }

    pub fn reload(&self, config: &Config) {
        self.0.api.reload(config);
    }
}

impl server::Handler for Handler {
    async fn handle(&self, request: Request<Incoming>, _: Peer) -> Response<Body> {
        let shared = &self.0;
        let found = routes::find(request.method(), request.uri().path());
        let asks = match &found {
            Found::Entry(entry) => entry.asks,
            Found::File(_) => Asks::Nothing,
            Found::OtherMethods { asks, .. } => *asks,
            // Nor does a stranger learn what there is not.
            Found::Nothing => Asks::ToRead,
        };
        let (head, body) = request.into_parts();
        let actor = match asks {
            Asks::Nothing => Actor::Local,
            asks => match shared.access.check(&head, asks) {
                Ok(actor) => actor,
                Err(denied) => return denied.into_response(),
            },
        };
        let request = Request::from_parts(head, body);
        let entry = match found {
            Found::Entry(entry) => entry,
            Found::File(file) => return file.answer(request.headers()),
            Found::OtherMethods { allowed, .. } => return other_method(&allowed),
            Found::Nothing => return not_found(),
        };
        let query = request.uri().query().unwrap_or_default();
        match entry.endpoint {
            Endpoint::Livez => decision::state(true, "alive", ""),
            Endpoint::Readyz => {
                decision::state(shared.ready.load(Ordering::Relaxed), "ready", "draining")
            }
            Endpoint::Health => decision::health(&shared.engine).await,
            Endpoint::Metrics => {
                shared.gateway.publish_gauges();
                shared.exposition.as_ref().map_or_else(not_found, admin::metrics)
            }
            Endpoint::OpenApi => admin::document(),
            Endpoint::Overview => shared.api.overview(actor, shared.exposition.as_ref()).await,
            Endpoint::Records => shared.api.records(query).await,
            Endpoint::Record => shared.api.record(query).await,
            Endpoint::Forget => shared.api.forget(query, actor).await,
            Endpoint::Resolve => shared.api.resolve(request, actor).await,
            Endpoint::Acquire => {
                decision::acquire(&shared.engine, shared.decision.ttl, request).await
            }
            Endpoint::Complete => {
                decision::complete(&shared.engine, shared.decision.ttl, request).await
            }
            Endpoint::Heartbeat => decision::heartbeat(&shared.engine, request).await,
        }
    }
}

fn other_method(allowed: &str) -> Response<Body> {
    let detail = format!("This path takes {allowed}.");
    let (code, title) = ("method-not-allowed", "Not with this method");
    let problem = Problem::new(StatusCode::METHOD_NOT_ALLOWED, code, title, detail);
    let mut response = problem.into_response();
    if let Ok(allowed) = HeaderValue::from_str(allowed) {
        response.headers_mut().insert(ALLOW, allowed);
    }
    response
}

fn not_found() -> Response<Body> {
    let detail = "There is nothing at this path of the admin listener.";
    Problem::new(StatusCode::NOT_FOUND, "not-found", "Not found", detail).into_response()
}

/// On the runtime of the tiers: an operator's questions do not disturb the front.
pub fn start(
    listeners: Vec<TcpListener>,
    config: &Config,
    handler: Handler,
    stop: &Stop,
) -> io::Result<SocketAddr> {
    let front = server::Front::new(config.limits.clone(), None);
    let mut address = config.admin.listen;
    for listener in listeners {
        address = listener.local_addr()?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        tokio::spawn(server::serve(listener, front.clone(), handler.clone(), stop.clone()));
    }
    Ok(address)
}
