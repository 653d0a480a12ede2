//! A TCP proxy that slows down, holds back, loses or cuts what passes through it, switched at
//! any time, for open connections as for new ones. So a test makes a network partition, or lets
//! a statement be executed whose answer the client never gets.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::Instant;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Healthy,
    Delay(Duration),
    Cut,
    Blackhole,
    SwallowReplies,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Request,
    Reply,
}

/// Works as long as it lives, on the runtime it was started on; dropped, it cuts everything.
pub struct FaultProxy {
    addr: SocketAddr,
    target: SocketAddr,
    mode: watch::Sender<Mode>,
    swallowed: Arc<AtomicUsize>,
}

impl FaultProxy {
    /// A healthy proxy to `target` on a port of its own.
    pub async fn start(target: SocketAddr) -> FaultProxy {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let listener = listener.expect("the proxy finds a free port");
        let addr = listener.local_addr().expect("a bound socket has an address");
        let (mode, watcher) = watch::channel(Mode::Healthy);
        let swallowed = Arc::new(AtomicUsize::new(0));
        tokio::spawn(accept_all(listener, target, watcher, swallowed.clone()));
        FaultProxy { addr, target, mode, swallowed }
    }

    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    pub fn port(&self) -> u16 {
        self.addr.port()
    }

    /// The URL of the target, made to lead through the proxy.
    pub fn reroute(&self, url: &str) -> String {
        let (target, proxy) = (self.target.to_string(), self.addr.to_string());
        assert!(url.contains(&target), "{url} does not lead to {target}");
        url.replace(&target, &proxy)
    }

    /// Everything passes at once, also what was held back.
    pub fn heal(&self) {
        self.mode.send_replace(Mode::Healthy);
    }

    /// Everything passes, later by this much in each direction.
    pub fn delay(&self, by: Duration) {
        self.mode.send_replace(Mode::Delay(by));
    }

    /// Resets all connections, and new ones as they come.
    pub fn cut(&self) {
        self.mode.send_replace(Mode::Cut);
    }

    /// Connections stay open and new ones are accepted, but no byte passes.
    pub fn blackhole(&self) {
        self.mode.send_replace(Mode::Blackhole);
    }

    /// Requests pass, replies are lost for good.
    pub fn swallow_replies(&self) {
        self.mode.send_replace(Mode::SwallowReplies);
    }

    /// How many bytes of replies were lost so far: once it grows, the server has answered.
    pub fn swallowed_bytes(&self) -> usize {
        self.swallowed.load(Ordering::SeqCst)
    }
}

async fn accept_all(
    listener: TcpListener,
    target: SocketAddr,
    mut mode: watch::Receiver<Mode>,
    swallowed: Arc<AtomicUsize>,
) {
    loop {
        let client = tokio::select! {
            accepted = listener.accept() => accepted,
            () = proxy_dropped(&mut mode) => return,
        };
        // Failing to accept is the client's trouble, or passes when descriptors are free again.
        let Ok((client, _)) = client else { continue };
        tokio::spawn(serve(client, target, mode.clone(), swallowed.clone()));
    }
}

async fn proxy_dropped(mode: &mut watch::Receiver<Mode>) {
    while mode.changed().await.is_ok() {}
}

/// Carries one connection until either side ends it or the proxy is to cut it.
async fn serve(
    mut client: TcpStream,
    target: SocketAddr,
    mode: watch::Receiver<Mode>,
    swallowed: Arc<AtomicUsize>,
) {
    let mut cut = mode.clone();
    let carried = tokio::select! {
        biased;
        // An error says that the proxy is gone, which cuts as well.
        _ = cut.wait_for(|mode| *mode == Mode::Cut) => Err(io::ErrorKind::ConnectionReset.into()),
        carried = carry(&mut client, target, mode, swallowed) => carried,
    };
    if carried.is_err() {
        reset_on_drop(&client);
    }
}

async fn carry(
    client: &mut TcpStream,
    target: SocketAddr,
    mut mode: watch::Receiver<Mode>,
    swallowed: Arc<AtomicUsize>,
) -> io::Result<()> {
    mode.wait_for(|mode| *mode != Mode::Blackhole).await.map_err(io::Error::other)?;
    let mut server = TcpStream::connect(target).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    // Whoever drops this future wants the connection cut; an orderly end shuts down before.
    reset_on_drop(&server);
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    tokio::try_join!(
        pass(Direction::Request, from_client, to_server, mode.clone(), &swallowed),
        pass(Direction::Reply, from_server, to_client, mode, &swallowed),
    )?;
    Ok(())
}

async fn pass(
    direction: Direction,
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    mut mode: watch::Receiver<Mode>,
    swallowed: &AtomicUsize,
) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let read = from.read(&mut buffer).await;
        // The end of a connection is held back like any byte.
        let swallow = held_back(direction, &mut mode).await?;
        match read? {
            0 => return to.shutdown().await,
            length if swallow => drop(swallowed.fetch_add(length, Ordering::SeqCst)),
            length => to.write_all(&buffer[..length]).await?,
        }
    }
}

/// Waits as long as the mode says; whether the bytes are then to be swallowed.
async fn held_back(direction: Direction, mode: &mut watch::Receiver<Mode>) -> io::Result<bool> {
    let arrival = Instant::now();
    loop {
        let now = *mode.borrow_and_update();
        match now {
            Mode::Healthy => return Ok(false),
            Mode::SwallowReplies => return Ok(direction == Direction::Reply),
            Mode::Delay(by) => tokio::select! {
                () = tokio::time::sleep_until(arrival + by) => return Ok(false),
                changed = mode.changed() => changed.map_err(io::Error::other)?,
            },
            // After a cut the whole connection is about to be dropped.
            Mode::Blackhole | Mode::Cut => mode.changed().await.map_err(io::Error::other)?,
        }
    }
}

/// Lets the peer see an error instead of an orderly end.
fn reset_on_drop(stream: &TcpStream) {
    // It fails only for a connection that is gone already.
    let _ = stream.set_zero_linger();
}

#[cfg(test)]
mod tests;
