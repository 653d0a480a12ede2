//! One upstream, and how a request is sent to it.
//!
//! ## Why so little is retried
//! A request that may have reached the upstream may have run. The HTTP library hands a request back
//! when not a byte of it was written, and that alone allows another try; an answer that broke off,
//! however early, does not.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use deadpool::managed::PoolError;
use http::header::UPGRADE;
use http::{Request, Response, StatusCode};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::address::{Address, Speaks};
use super::answer::{Answer, Held, Line};
use super::choice::Choice;
use super::front::Front;
use super::message;
use super::trust::Trust;
use super::wear::Limits;
use crate::clock;
use crate::config;
use crate::http::{Body, BodyFault};

/// The first on any connection, the second on one that is not known to be closed, the last on a
/// new one.
const TRIES: usize = 3;

/// Some addresses of the same service, and the connections of all front threads to them.
pub struct Upstream {
    pub(super) me: Weak<Self>,
    pub(super) addresses: Box<[Address]>,
    pub(super) choice: Mutex<Choice>,
    pub(super) trust: Trust,
    pub(super) fronts: Box<[Front]>,
    pub(super) limits: Limits,
    pub(super) connect_timeout: Duration,
    acquire_timeout: Duration,
    pub(super) max: usize,
    /// Requests that may be under way, each with a connection or a stream.
    pub(super) permits: Arc<Semaphore>,
    /// Sockets that may be open.
    pub(super) places: Arc<Semaphore>,
    /// Whose turn it is among addresses that share a connection.
    turn: AtomicUsize,
    only_http1: bool,
    pub(super) retired: AtomicBool,
    pub(super) swept: AtomicBool,
}

/// Whether a request may have left, for whoever gives up on it.
#[derive(Default)]
pub struct Sent(AtomicBool);

impl Sent {
    pub fn maybe(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, sent: bool) {
        self.0.store(sent, Ordering::Relaxed);
    }
}

/// Why there is no answer; the gateway decides by it what becomes of the record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// Nothing was sent.
    #[error("all connections to the upstream are in use")]
    Busy,
    /// Nothing was sent.
    #[error("the upstream cannot be reached: {0}")]
    Unreachable(String),
    /// It may have been sent.
    #[error("the upstream broke off: {0}")]
    BrokeOff(String),
    /// A part of it may have been sent, never all.
    #[error("the request's body could not be read")]
    Body(BodyFault),
}

impl Upstream {
    pub(super) fn new(
        upstream: &config::Upstream,
        connections: &config::Connections,
        trust: Trust,
        threads: usize,
    ) -> Arc<Self> {
        let addresses: Box<[Address]> =
            upstream.addresses().iter().map(|url| Address::new(url, connections.http2)).collect();
        let max = usize::try_from(connections.max).unwrap_or(usize::MAX);
        let limits = Limits::new(connections);
        Arc::new_cyclic(|me| {
            let front = |thread| Front::new(me.clone(), thread, addresses.len(), max, limits);
            Self {
                me: me.clone(),
                choice: Mutex::new(Choice::new(addresses.len())),
                trust,
                fronts: (0..threads.max(1)).map(front).collect(),
                limits,
                connect_timeout: connections.connect_timeout,
                acquire_timeout: connections.acquire_timeout,
                max,
                permits: Arc::new(Semaphore::new(max)),
                places: Arc::new(Semaphore::new(max)),
                turn: AtomicUsize::new(0),
                only_http1: !addresses.iter().any(Address::may_speak_http2),
                addresses,
                retired: AtomicBool::new(false),
                swept: AtomicBool::new(false),
            }
        })
    }

    /// Sends one request from a front thread, counted from 0; its connections are driven on the
    /// runtime that this is called on. The target is a path and query, Host says for whom, and the
    /// headers of the hop before are gone. Dropping the future closes the connection it is on.
    pub async fn send(
        &self,
        thread: usize,
        request: Request<Body>,
    ) -> Result<Response<Answer>, SendError> {
        self.send_noting(thread, request, &Sent::default()).await
    }

    /// The same; whoever drops the future can see whether anything may have been sent.
    pub async fn send_noting(
        &self,
        thread: usize,
        mut request: Request<Body>,
        sent: &Sent,
    ) -> Result<Response<Answer>, SendError> {
        let mut held = Held::new(self.permit().await?);
        let mut returned = String::new();
        let upgrades = request.headers().contains_key(UPGRADE);
        for again in 0..TRIES {
            if again > 0 {
                // What was idle as long as the one that failed is likely to fail as well.
                let last = again + 1 == TRIES;
                self.fronts[thread].retain_idle(|idle| !last && !idle.closed);
            }
            let line = held.hold(self.line(thread, upgrades).await?);
            sent.set(true);
            let answer = match line {
                Line::Exclusive(connection) => {
                    message::for_http1(&mut request);
                    connection.sender.try_send_request(request).await
                }
                Line::Stream(connection) => {
                    message::for_http2(&mut request, &self.addresses[connection.address]);
                    connection.sender().try_send_request(request).await
                }
            };
            match answer {
                Ok(response) if response.status() == StatusCode::SWITCHING_PROTOCOLS => {
                    return Ok(response.map(|body| Answer::upgraded(body, held)));
                }
                Ok(response) => return Ok(response.map(|body| Answer::new(body, held))),
                Err(mut error) => match error.take_message() {
                    Some(unsent) => {
                        sent.set(false);
                        request = unsent;
                        returned = told(&error.into_error());
                        held.discard();
                    }
                    None => return Err(broke_off(&error.into_error())),
                },
            }
        }
        Err(SendError::Unreachable(returned))
    }

    /// In the order of asking, over all front threads.
    async fn permit(&self) -> Result<OwnedSemaphorePermit, SendError> {
        // No timer in the usual case. Those who wait are not overtaken.
        if let Ok(permit) = self.permits.clone().try_acquire_owned() {
            return Ok(permit);
        }
        let turn = self.permits.clone().acquire_owned();
        // Boxed: it is rare, and every request would carry its weight.
        match Box::pin(tokio::time::timeout(self.acquire_timeout, turn)).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(SendError::Busy),
        }
    }

    async fn line(&self, thread: usize, upgrades: bool) -> Result<Line, SendError> {
        if self.only_http1 {
            return self.exclusive(thread).await;
        }
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % self.addresses.len();
        let address = &self.addresses[turn];
        // HTTP/2 has no upgrades; a server that can do both is asked in HTTP/1.
        let upgrades = upgrades && address.configured() != Speaks::Http2;
        if upgrades || address.speaks() == Speaks::Http1 {
            return self.exclusive(thread).await;
        }
        let open = self.fronts[thread].shared[turn].get(&self.limits, clock::now());
        if let Some(connection) = open {
            return Ok(Line::Stream(connection));
        }
        let mut tried = Vec::new();
        let mut failure = SendError::Unreachable("it has no address".into());
        while let Some(address) = self.pick(&tried) {
            match Box::pin(self.share(thread, address)).await {
                Ok(Some(connection)) => return Ok(Line::Stream(connection)),
                Ok(None) => return self.exclusive(thread).await,
                Err(SendError::Busy) => return Err(SendError::Busy),
                Err(error) => failure = error,
            }
            tried.push(address);
        }
        Err(failure)
    }

    async fn exclusive(&self, thread: usize) -> Result<Line, SendError> {
        match self.fronts[thread].pool.get().await {
            Ok(connection) => Ok(Line::Exclusive(connection)),
            Err(PoolError::Backend(error)) => Err(error),
            Err(error) => Err(SendError::Unreachable(error.to_string())),
        }
    }
}

/// Either side may have been the one that did.
fn broke_off(error: &hyper::Error) -> SendError {
    match error.is_user() {
        true => SendError::Body(BodyFault::of(error)),
        false => SendError::BrokeOff(told(error)),
    }
}

/// An error with its causes; the HTTP library's own words say little.
fn told(error: &hyper::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
