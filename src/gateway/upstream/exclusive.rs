//! HTTP/1 connections: one request at a time, pooled for each front thread.

use std::sync::Weak;
use std::time::Duration;

use deadpool::managed::{Manager, Metrics, Pool, QueueMode, RecycleError, RecycleResult};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::AbortHandle;

use super::socket::{Kept, Socket};
use super::wear::{Limits, Wear};
use super::{SendError, Upstream};
use crate::clock;
use crate::http::Body;

/// A connection that has just ended an answer needs a moment until it takes the next request. One
/// that needs longer is still busy with the last one, and a new one is better.
const READY_WITHIN: Duration = Duration::from_millis(20);

pub struct Exclusive {
    pub sender: http1::SendRequest<Body>,
    /// None once the connection was upgraded: its driver then ends by itself.
    driver: Option<AbortHandle>,
    kept: Kept,
    pub wear: Wear,
}

/// Makes the connections of one front thread.
pub struct Exclusives {
    upstream: Weak<Upstream>,
    thread: usize,
    limits: Limits,
}

impl Exclusive {
    pub async fn shake_hands(socket: Socket, kept: Kept) -> hyper::Result<Self> {
        let (sender, connection) = http1::Builder::new().handshake(TokioIo::new(socket)).await?;
        let driver = tokio::spawn(async move {
            if let Err(error) = connection.with_upgrades().await {
                tracing::debug!(%error, "a connection to an upstream ended");
            }
        });
        let driver = Some(driver.abort_handle());
        Ok(Self { sender, driver, kept, wear: Wear::new(clock::now()) })
    }

    /// The socket now belongs to whoever takes the upgrade, and so does the permit.
    pub fn hand_over(mut self, permit: OwnedSemaphorePermit) {
        self.driver = None;
        // It is empty: a connection is upgraded once.
        drop(self.kept.set(permit));
    }
}

impl Drop for Exclusive {
    fn drop(&mut self) {
        if let Some(driver) = &self.driver {
            driver.abort();
        }
    }
}

impl Exclusives {
    pub fn pool(upstream: Weak<Upstream>, thread: usize, max: usize, limits: Limits) -> Pool<Self> {
        let builder = Pool::builder(Self { upstream, thread, limits })
            .max_size(max)
            // Those that are not needed any more grow old and are closed.
            .queue_mode(QueueMode::Lifo);
        match builder.build() {
            Ok(pool) => pool,
            Err(never) => unreachable!("a pool without timeouts needs no runtime: {never}"),
        }
    }
}

impl Manager for Exclusives {
    type Type = Exclusive;
    type Error = SendError;

    async fn create(&self) -> Result<Exclusive, SendError> {
        match self.upstream.upgrade() {
            Some(upstream) => upstream.connect_exclusive(self.thread).await,
            None => Err(SendError::Unreachable("the gateway is stopping".into())),
        }
    }

    async fn recycle(&self, connection: &mut Exclusive, _: &Metrics) -> RecycleResult<SendError> {
        if !self.limits.allow(&connection.wear, clock::now()) {
            return Err(RecycleError::message("it is too old"));
        }
        // As ready() would say, without a timer in the usual case.
        if connection.sender.is_ready() {
            return Ok(());
        }
        match tokio::time::timeout(READY_WITHIN, connection.sender.ready()).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(RecycleError::message("it was closed")),
            Err(_) => Err(RecycleError::message("it is still busy")),
        }
    }
}
