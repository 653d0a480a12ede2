//! The composition root: a configuration becomes tiers, an engine, a gateway and its listeners.
//!
//! Nothing is bound before the tiers have answered. The front runs on threads that each own their
//! listener, connections and upstream pool; tiers and jobs run on the runtime that starts the app.

mod admin;
mod files;
mod fronts;
mod tiers;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::clock;
use crate::config::{Config, Reload};
use crate::engine::Engine;
use crate::gateway::Gateway;
use crate::gateway::upstream::UpstreamsError;
use crate::http::server::{self, Stop, TlsError};
use crate::jobs::Jobs;
use crate::store::StoreError;
use crate::telemetry::prometheus::Exposition;

pub use tiers::migrate;

/// What the tiers are given to write down the last outcomes, however little of the grace is left.
const SETTLE: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("{0}")]
    Store(#[from] StoreError),
    #[error("{0}")]
    Upstream(#[from] UpstreamsError),
    #[error("{0}")]
    Tls(#[from] TlsError),
    #[error("{what} {address} cannot be listened on: {error}")]
    Listen { what: &'static str, address: SocketAddr, error: io::Error },
    #[error("a thread could not be started: {0}")]
    Thread(io::Error),
}

/// A gateway that runs.
pub struct App {
    config: Config,
    engine: Engine,
    gateway: Arc<Gateway>,
    front: Arc<server::Front>,
    fronts: fronts::Fronts,
    admin: admin::Handler,
    admin_address: SocketAddr,
    stop: Stop,
    admin_stop: Stop,
    ready: Arc<AtomicBool>,
    jobs: Jobs,
}

impl App {
    /// Starts everything, inside a runtime that has to outlive it.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        files::make_room(&config);
        let exposition = Exposition::start();
        let tiers = tiers::open(&config).await?;
        let engine = Engine::new(tiers);
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let gateway = Arc::new(Gateway::new(&config, engine.clone(), threads)?);

        let tls = config.tls.as_ref().map(server::Tls::load).transpose()?;
        let listen = |what, address, threads| {
            server::listen(address, threads).map_err(|error| StartError::Listen {
                what,
                address,
                error,
            })
        };
        let listeners = listen("the clients' address", config.listen, threads)?;
        let admin_listeners = listen("the admin address", config.admin.listen, 1)?;

        let front = server::Front::new(config.limits.clone(), tls);
        let (stop, admin_stop) = (Stop::default(), Stop::default());
        let ready = Arc::new(AtomicBool::new(true));
        let fronts = fronts::start(listeners, &front, &gateway, &stop)?;
        let handler = admin::Handler::new(&config, &engine, &gateway, exposition, ready.clone());
        let admin_address = admin::start(admin_listeners, &config, handler.clone(), &admin_stop)
            .map_err(|error| {
                let address = config.admin.listen;
                StartError::Listen { what: "the admin address", address, error }
            })?;
        let jobs = Jobs::start(&engine, &config);
        Ok(Self {
            config,
            engine,
            gateway,
            front,
            fronts,
            admin: handler,
            admin_address,
            stop,
            admin_stop,
            ready,
            jobs,
        })
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.fronts.address
    }

    pub fn admin_address(&self) -> SocketAddr {
        self.admin_address
    }

    /// Takes over the routes, upstreams, limits and certificates of a configuration that was read
    /// again. Returns what is left to say about it.
    pub fn reload(&mut self, read: Config) -> Vec<String> {
        let Reload { config, needs_restart } = self.config.reload(read);
        self.gateway.reload(&config);
        self.admin.reload(&config);
        self.jobs.reload(&config);
        let mut remarks = Vec::new();
        if !needs_restart.is_empty() {
            remarks.push(format!(
                "changed, but in force only after a restart: {}",
                needs_restart.join(", ")
            ));
        }
        self.front.set_limits(config.limits.clone());
        if let Some(Err(error)) = self.front.tls().map(server::Tls::reload) {
            remarks.push(format!("the certificate stays the old one: {error}"));
        }
        self.config = config;
        remarks
    }

    /// Accepts no more, lets what is in flight finish within the grace, settles every lease.
    pub async fn stop(self) {
        let deadline = clock::after(self.config.shutdown_grace);
        self.ready.store(false, Ordering::Relaxed);
        self.stop.softly();
        self.jobs.stop().await;
        let mut ended = self.fronts.ended;
        if tokio::time::timeout_at(deadline.into(), fronts::all(&mut ended)).await.is_err() {
            tracing::warn!("the grace is over: what is still in flight is cut off");
            self.stop.hard();
            fronts::all(&mut ended).await;
        }
        let left = deadline.saturating_duration_since(clock::now()).max(SETTLE);
        if !self.engine.shutdown(left).await {
            tracing::warn!("some outcomes could not be stored; their records become UNKNOWN");
        }
        self.admin_stop.hard();
        self.gateway.finish_log();
    }
}

/// What is said once it listens.
impl fmt::Display for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.config.tls.is_some() { "https" } else { "http" };
        let (front, admin) = (self.address(), self.admin_address);
        write!(f, "listening on {scheme}://{front}, admin on http://{admin}")
    }
}
