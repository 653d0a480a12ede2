//! The server of every listener: HTTP/1.1 and HTTP/2 on one port, with TLS and without.
//!
//! It gives each request to a [`Handler`] and knows nothing of what requests mean. It is run once
//! per thread ([`serve`]) on listeners that share a port ([`listen`]); [`Front`] is what the threads
//! share. Clients that are too slow are cut off by one watch per thread ([`roster`]), so that a
//! request pays for no timer.
//!
//! ## What a limit means here
//! `header_timeout` runs from the first byte of a head, or from the start of the connection, TLS
//! handshake included. `idle_timeout` runs between requests; on HTTP/2 a slow head falls under it
//! too. `body_idle_timeout` cuts a client that takes nothing of the answers it has waiting. A request
//! that we, or an upstream, still work on is never cut.

mod answer;
mod connection;
mod front;
mod interim;
mod listener;
mod pulse;
mod roster;
mod socket;
mod stop;
mod tls;
mod watch;

#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use http::{Request, Response};
use hyper::body::Incoming;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

pub use self::front::Front;
pub use self::interim::Interim;
pub use self::listener::listen;
pub use self::stop::Stop;
pub use self::tls::{Tls, TlsError};

use self::connection::Accepted;
use self::front::Slot;
use self::listener::Door;
use self::pulse::{Order, Pulse};
use self::roster::Roster;
use self::watch::{Serving, pause};
use crate::clock;
use crate::http::Body;

/// A clone is made for every request: let it be a pointer.
pub trait Handler: Clone + Send + Sync + 'static {
    /// Dropped when the client hangs up: what must run to its end belongs in a task of its own. A
    /// panic ends the connection and nothing else.
    fn handle(
        &self,
        request: Request<Incoming>,
        peer: Peer,
    ) -> impl Future<Output = Response<Body>> + Send;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    pub address: SocketAddr,
    pub scheme: Scheme,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    Http,
    Https,
}

impl Scheme {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

/// Serves one listener until a soft stop was asked for and every connection has ended, or until a
/// hard stop. Upgraded connections belong to whoever upgraded them and are not waited for.
pub async fn serve<H: Handler>(listener: TcpListener, front: Arc<Front>, handler: H, stop: Stop) {
    let server = Server { front, handler, roster: Arc::default() };
    let mut door = Door::new(listener);
    server.accept_until_stopped(&mut door, &stop).await;
    server.let_the_last_ones_finish(door, &stop).await;
}

struct Server<H> {
    front: Arc<Front>,
    handler: H,
    roster: Arc<Roster>,
}

impl<H: Handler> Server<H> {
    async fn accept_until_stopped(&self, door: &mut Door, stop: &Stop) {
        let mut stopped = pin!(stop.soft_asked());
        let mut next_look = pin!(sleep(pause(&self.front.limits(), Serving::Everyone)));
        // Accepted, and waiting for room. Until there is some, the others wait in the kernel.
        let mut waiting: Option<(TcpStream, SocketAddr)> = None;
        loop {
            tokio::select! {
                biased;
                () = &mut stopped => break,
                () = &mut next_look => {
                    next_look.set(sleep(self.look(Serving::Everyone)));
                }
                slot = self.front.slot(), if waiting.is_some() => {
                    if let Some((tcp, address)) = waiting.take() {
                        self.begin(tcp, address, slot);
                    }
                }
                accepted = door.accept(), if waiting.is_none() => waiting = Some(accepted),
            }
        }
        if let Some((tcp, address)) = waiting {
            self.begin(tcp, address, self.front.slot_at_once());
        }
    }

    async fn let_the_last_ones_finish(&self, door: Door, stop: &Stop) {
        for (tcp, address) in door.close() {
            self.begin(tcp, address, self.front.slot_at_once());
        }
        // What has arrived on connections that look idle is read first.
        tokio::task::yield_now().await;
        self.roster.order_all(Order::Close);
        let mut ended = pin!(stop.hard_asked());
        loop {
            tokio::select! {
                biased;
                () = &mut ended => break,
                () = self.roster.emptied() => return,
                () = sleep(self.look(Serving::TheLastOnes)) => {}
            }
        }
        self.roster.order_all(Order::Cut);
        self.roster.emptied().await;
    }

    fn begin(&self, tcp: TcpStream, address: SocketAddr, slot: Slot) {
        let pulse = Arc::new(Pulse::default());
        let place = self.roster.enter(pulse.clone(), clock::now());
        let accepted = Accepted { tcp, address, slot, pulse, place };
        tokio::spawn(connection::run(accepted, self.front.clone(), self.handler.clone()));
    }

    /// And says when to look again.
    fn look(&self, serving: Serving) -> std::time::Duration {
        let limits = self.front.limits();
        self.roster.look(&limits, serving, clock::now());
        pause(&limits, serving)
    }
}
