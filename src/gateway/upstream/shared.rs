//! HTTP/2 connections: one for each front thread and address, with many streams on it.
//!
//! Whoever has a stream holds the connection, so it is idle when its cell alone holds it, and one
//! that was taken out of its cell (too old) is closed with its last stream.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use hyper::client::conn::http2;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::task::AbortHandle;

use super::socket::Socket;
use super::wear::{Idle, Limits, Wear};
use crate::clock;
use crate::http::Body;

/// A peer that says nothing for this long is asked whether it is there,
const PING_AFTER: Duration = Duration::from_secs(15);
/// and has this long to answer.
const PING_TIMEOUT: Duration = Duration::from_secs(5);

pub struct Multiplexed {
    sender: http2::SendRequest<Body>,
    /// Index of the address at the other end.
    pub address: usize,
    dispatcher: AbortHandle,
    driver: Driver,
    wear: Mutex<Wear>,
}

/// Spawns what the connection needs, and remembers the task that owns the socket: it is the first,
/// spawned during the handshake; all others belong to single streams.
#[derive(Clone, Default)]
struct Driver(Arc<OnceLock<AbortHandle>>);

/// Where the requests of one front thread find the connection to one address.
#[derive(Default)]
pub struct Shared {
    open: Mutex<Option<Arc<Multiplexed>>>,
    /// Held while connecting, so that one does it and the others wait for it; tells them of its
    /// failure, or each would wait for a failure of its own.
    pub connecting: tokio::sync::Mutex<Option<Failure>>,
}

pub struct Failure {
    pub at: Instant,
    pub why: String,
}

impl<F> hyper::rt::Executor<F> for Driver
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, task: F) {
        let spawned = tokio::spawn(task);
        self.0.get_or_init(|| spawned.abort_handle());
    }
}

impl Multiplexed {
    pub async fn shake_hands(socket: Socket, address: usize) -> hyper::Result<Self> {
        let driver = Driver::default();
        let (sender, connection) = http2::Builder::new(driver.clone())
            .timer(TokioTimer::new())
            .keep_alive_interval(PING_AFTER)
            .keep_alive_timeout(PING_TIMEOUT)
            .keep_alive_while_idle(true)
            // Until the server has said how many streams it takes: one that it refused would look
            // as if it may have run.
            .initial_max_send_streams(1)
            .handshake(TokioIo::new(socket))
            .await?;
        let dispatcher = tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to an upstream ended");
            }
        });
        let (dispatcher, wear) = (dispatcher.abort_handle(), Mutex::new(Wear::new(clock::now())));
        Ok(Self { sender, address, dispatcher, driver, wear })
    }

    pub fn sender(&self) -> http2::SendRequest<Body> {
        self.sender.clone()
    }

    /// A stream has ended.
    pub fn used(&self, now: Instant) {
        self.wear.lock().unwrap_or_else(PoisonError::into_inner).idle_since = now;
    }

    fn wear(&self) -> Wear {
        *self.wear.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Multiplexed {
    fn drop(&mut self) {
        self.dispatcher.abort();
        if let Some(driver) = self.driver.0.get() {
            driver.abort();
        }
    }
}

impl Shared {
    /// The open connection, if it may take another stream.
    pub fn get(&self, limits: &Limits, now: Instant) -> Option<Arc<Multiplexed>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        // Busy ones have an age, but no idle time.
        let usable = |connection: &Arc<Multiplexed>| {
            let wear = connection.wear();
            let busy = Arc::strong_count(connection) > 1;
            let allowed = limits.allow(&wear, now) || busy && limits.allow_age(&wear, now);
            allowed && !connection.sender.is_closed()
        };
        if !open.as_ref().is_some_and(usable) {
            *open = None;
        }
        open.clone()
    }

    pub fn put(&self, connection: Arc<Multiplexed>) {
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = Some(connection);
    }

    /// Takes the connection out if it is idle and not to be kept; says whether an idle one stays.
    pub fn retain_idle(&self, mut keep: impl FnMut(&Idle) -> bool) -> bool {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(connection) = open.as_ref().filter(|open| Arc::strong_count(open) == 1) else {
            return false;
        };
        let idle = Idle { wear: connection.wear(), closed: connection.sender.is_closed() };
        let stays = keep(&idle);
        if !stays {
            *open = None;
        }
        stays
    }
}
