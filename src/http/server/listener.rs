//! Binding an address, once for every thread, and accepting from it.
//!
//! With `SO_REUSEPORT` the kernel spreads new connections over the threads. It would also let a
//! second gateway join in silently and take half of them, so the address is tried without it first.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};

use crate::clock;

/// Connections that the kernel holds for a thread that is busy.
const BACKLOG: i32 = 4096;
/// Accepting fails again at once while the process is out of file descriptors.
const PAUSE: Duration = Duration::from_millis(50);
const SAY_SO_EVERY: Duration = Duration::from_secs(10);

/// One listener for each thread, all on the same port; not blocking.
pub fn listen(address: SocketAddr, threads: usize) -> io::Result<Vec<std::net::TcpListener>> {
    let sharing = if threads > 1 { Sharing::Port } else { Sharing::Nothing };
    if sharing == Sharing::Port && address.port() != 0 {
        bind(address, Sharing::Nothing)?;
    }
    let mut listeners: Vec<std::net::TcpListener> = Vec::with_capacity(threads);
    for _ in 0..threads.max(1) {
        // With port 0 the first one finds a free port.
        let address = listeners.first().map_or(Ok(address), |first| first.local_addr())?;
        let socket = bind(address, sharing)?;
        socket.listen(BACKLOG)?;
        socket.set_nonblocking(true)?;
        listeners.push(socket.into());
    }
    Ok(listeners)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sharing {
    Nothing,
    Port,
}

fn bind(address: SocketAddr, sharing: Sharing) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // A restart need not wait for the connections of the process before to be forgotten.
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(sharing == Sharing::Port)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

/// Accepts, and copes with not being able to.
pub(super) struct Door {
    listener: TcpListener,
    failures: u64,
    said_so: Option<Instant>,
}

impl Door {
    pub(super) fn new(listener: TcpListener) -> Self {
        Self { listener, failures: 0, said_so: None }
    }

    /// Loses nothing when it is dropped before it is ready.
    pub(super) async fn accept(&mut self) -> (TcpStream, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok(accepted) => return accepted,
                // That client's doing; the next one may be fine.
                Err(error) if is_about_one_client(&error) => {}
                Err(error) => {
                    self.complain(&error);
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    fn complain(&mut self, error: &io::Error) {
        self.failures += 1;
        let now = clock::now();
        if self.said_so.is_none_or(|before| now - before >= SAY_SO_EVERY) {
            self.said_so = Some(now);
            tracing::warn!(%error, failures = self.failures, "cannot accept connections");
        }
    }

    /// What the kernel has accepted for us already, then nothing ever more: whoever finished
    /// connecting before the stop is not reset.
    pub(super) fn close(self) -> impl Iterator<Item = (TcpStream, SocketAddr)> {
        let listener = self.listener.into_std();
        std::iter::from_fn(move || {
            let (socket, address) = listener.as_ref().ok()?.accept().ok()?;
            socket.set_nonblocking(true).ok()?;
            Some((TcpStream::from_std(socket).ok()?, address))
        })
    }
}

fn is_about_one_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

    #[test]
    fn the_listeners_of_all_threads_share_one_port() {
        let listeners = listen(ANY, 3).unwrap();
        let port = listeners[0].local_addr().unwrap().port();
        assert_ne!(port, 0);
        assert!(listeners.iter().all(|one| one.local_addr().unwrap().port() == port));
    }

    #[test]
    fn an_address_that_somebody_else_uses_is_an_error() {
        for (theirs, ours) in [(1, 1), (1, 2), (2, 1), (2, 2)] {
            let listeners = listen(ANY, theirs).unwrap();
            let address = listeners[0].local_addr().unwrap();
            let error = listen(address, ours).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AddrInUse, "{theirs} then {ours}");
            drop(listeners);
            listen(address, ours).unwrap();
        }
    }
}
