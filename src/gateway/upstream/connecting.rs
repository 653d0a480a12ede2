//! New connections: a place among the open ones, an address that answers, a handshake.
//!
//! ## Why there is always a place
//! Whoever connects holds one of `max` permits, so at most `max - 1` sockets are in use by others.
//! When all places are taken, one is idle or about to be closed: an idle one is closed, on whatever
//! thread it is, and its place comes free when its socket is really gone. Permits are therefore
//! given up after connections, never before.

use std::sync::{Arc, PoisonError};

use tokio::sync::OwnedSemaphorePermit;

use super::address::Speaks;
use super::exclusive::Exclusive;
use super::shared::{Failure, Multiplexed};
use super::socket::Socket;
use super::{SendError, Upstream};
use crate::clock;

enum Connected {
    Exclusive(Exclusive),
    Multiplexed(Multiplexed),
    /// It was asked for either, and a connection that others cannot share is of no use then.
    OnlyHttp1,
}

impl Upstream {
    /// An HTTP/1 connection to the first address in turn that answers.
    pub(super) async fn connect_exclusive(&self, thread: usize) -> Result<Exclusive, SendError> {
        let mut tried = Vec::new();
        let mut failure = SendError::Unreachable("it has no address".into());
        while let Some(address) = self.pick(&tried) {
            match self.connect(thread, address, Speaks::Http1).await {
                Ok(Connected::Exclusive(connection)) => return Ok(connection),
                Ok(_) => {}
                Err(SendError::Busy) => return Err(SendError::Busy),
                Err(error) => failure = error,
            }
            tried.push(address);
        }
        Err(failure)
    }

    /// The thread's HTTP/2 connection to this address; None if it turned out to speak HTTP/1.
    pub(super) async fn share(
        &self,
        thread: usize,
        address: usize,
    ) -> Result<Option<Arc<Multiplexed>>, SendError> {
        let began = clock::now();
        let shared = &self.fronts[thread].shared[address];
        if let Some(connection) = shared.get(&self.limits, began) {
            return Ok(Some(connection));
        }
        let mut last = shared.connecting.lock().await;
        if let Some(failure) = last.as_ref().filter(|failure| failure.at >= began) {
            return Err(SendError::Unreachable(failure.why.clone()));
        }
        if let Some(connection) = shared.get(&self.limits, clock::now()) {
            return Ok(Some(connection));
        }
        if self.addresses[address].speaks() == Speaks::Http1 {
            return Ok(None);
        }
        let wanted = self.addresses[address].configured();
        match self.connect(thread, address, wanted).await {
            Ok(Connected::Multiplexed(connection)) => {
                let connection = Arc::new(connection);
                shared.put(connection.clone());
                Ok(Some(connection))
            }
            Ok(_) => Ok(None),
            Err(error) => {
                if let SendError::Unreachable(why) = &error {
                    *last = Some(Failure { at: clock::now(), why: why.clone() });
                }
                Err(error)
            }
        }
    }

    pub(super) fn pick(&self, tried: &[usize]) -> Option<usize> {
        self.choice.lock().unwrap_or_else(PoisonError::into_inner).pick(tried, clock::now())
    }

    async fn connect(
        &self,
        thread: usize,
        index: usize,
        wanted: Speaks,
    ) -> Result<Connected, SendError> {
        let place = self.place(thread).await?;
        let (address, limit) = (&self.addresses[index], self.connect_timeout);
        let began = clock::now();
        let attempt = async {
            let (stream, spoken) = address.dial(wanted, &self.trust, limit).await?;
            if wanted == Speaks::NotKnownYet {
                address.learn(spoken);
            }
            let (socket, kept) = Socket::new(stream, place);
            let connected = match (wanted, spoken) {
                (Speaks::NotKnownYet, Speaks::Http1) => Ok(Connected::OnlyHttp1),
                (_, Speaks::Http2) => {
                    Multiplexed::shake_hands(socket, index).await.map(Connected::Multiplexed)
                }
                _ => Exclusive::shake_hands(socket, kept).await.map(Connected::Exclusive),
            };
            connected.map_err(|error| error.to_string())
        };
        let result = match tokio::time::timeout(limit, attempt).await {
            Ok(result) => result,
            Err(_) => Err(format!("no connection within {limit:?}")),
        };
        let mut choice = self.choice.lock().unwrap_or_else(PoisonError::into_inner);
        match result {
            Ok(connected) => {
                choice.connected(index);
                drop(choice);
                self.keep_swept();
                Ok(connected)
            }
            Err(why) => {
                choice.failed(index, began, clock::now());
                drop(choice);
                address.forget();
                Err(SendError::Unreachable(format!("{address}: {why}")))
            }
        }
    }

    async fn place(&self, thread: usize) -> Result<OwnedSemaphorePermit, SendError> {
        if let Ok(place) = self.places.clone().try_acquire_owned() {
            return Ok(place);
        }
        self.evict(thread);
        match tokio::time::timeout(self.connect_timeout, self.places.clone().acquire_owned()).await
        {
            Ok(Ok(place)) => Ok(place),
            _ => Err(SendError::Busy),
        }
    }
}
