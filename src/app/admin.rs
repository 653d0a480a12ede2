//! The admin listener: who answers which path.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;

use crate::config::Config;
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
}

impl Handler {
    pub fn new(
        engine: &Engine,
        gateway: &Arc<Gateway>,
        exposition: Option<Exposition>,
        ready: Arc<AtomicBool>,
    ) -> Self {
        let (engine, gateway) = (engine.clone(), gateway.clone());
        Self(Arc::new(Shared { engine, gateway, exposition, ready }))
    }
}

impl server::Handler for Handler {
    async fn handle(&self, request: Request<Incoming>, _: Peer) -> Response<Body> {
        let shared = &self.0;
        match (request.method(), request.uri().path()) {
            (&Method::GET, "/livez") => decision::state(true, "alive", ""),
            (&Method::GET, "/readyz") => {
                decision::state(shared.ready.load(Ordering::Relaxed), "ready", "draining")
            }
            (&Method::POST, "/acquire") => decision::acquire(&shared.engine, request).await,
            (&Method::POST, "/complete") => decision::complete(&shared.engine, request).await,
            (&Method::POST, "/heartbeat") => decision::heartbeat(&shared.engine, request).await,
            (&Method::GET, "/health") => decision::health(&shared.engine).await,
            (&Method::GET, "/metrics") if shared.exposition.is_some() => {
                shared.gateway.publish_gauges();
                shared.exposition.as_ref().map_or_else(not_found, admin::metrics)
            }
            _ => not_found(),
        }
    }
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
