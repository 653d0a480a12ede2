//! The API behind the gateway, as a test wants it: it answers, holds, breaks off, hangs, streams,
//! and counts every execution. What the gateway promises is judged by these counts.
//!
//! It reads and writes raw bytes over HTTP/1.1, so that a test decides about each of them; HTTP/2
//! by prior knowledge is for ordinary answers only.

mod executions;
mod http2;
mod reply;
mod serve;
#[cfg(test)]
mod tests;

use std::net::{Shutdown, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};

pub use executions::Execution;
pub use reply::{End, Reply, filling};

use super::eventually;
use super::ports::Port;
use executions::Executions;

const PATIENCE: Duration = Duration::from_secs(30);

/// Serves as long as it lives, on the runtime it was started on.
pub struct Upstream {
    port: Port,
    site: Arc<Site>,
    server: Mutex<Option<Server>>,
}

struct Server {
    listener: Arc<TcpListener>,
    accepting: JoinHandle<()>,
}

/// What all its connections share.
struct Site {
    executions: Executions,
    script: Mutex<Vec<(String, Behaviour)>>,
    let_go: watch::Sender<bool>,
    /// One permit for every piece of a body that is sent on demand.
    pieces: Semaphore,
}

/// What it does with requests to a path.
#[derive(Clone)]
pub struct Behaviour {
    reads_body: bool,
    reply: Arc<dyn Fn(&Execution) -> Reply + Send + Sync>,
}

impl Behaviour {
    /// A reply that depends on the execution.
    pub fn by(reply: impl Fn(&Execution) -> Reply + Send + Sync + 'static) -> Self {
        Self { reads_body: true, reply: Arc::new(reply) }
    }

    /// Answers as soon as it has read the head.
    pub fn before_the_body(reply: Reply) -> Self {
        Self { reads_body: false, ..Self::from(reply) }
    }

    /// One reply after the other; the last one for all that follow.
    pub fn each(replies: impl Into<Vec<Reply>>) -> Self {
        let (replies, next) = (replies.into(), Mutex::new(0));
        Self::by(move |_| {
            let mut next = next.lock().unwrap_or_else(PoisonError::into_inner);
            let reply = replies[(*next).min(replies.len() - 1)].clone();
            *next += 1;
            reply
        })
    }
}

impl From<Reply> for Behaviour {
    fn from(reply: Reply) -> Self {
        Self::by(move |_| reply.clone())
    }
}

impl Upstream {
    /// Answers everything with 201 and the number of the execution, until it is told otherwise.
    pub async fn start() -> Upstream {
        let site = Site {
            executions: Executions::default(),
            script: Mutex::default(),
            let_go: watch::Sender::new(false),
            pieces: Semaphore::new(0),
        };
        let upstream =
            Upstream { port: Port::claim(), site: Arc::new(site), server: Mutex::default() };
        upstream.start_again().await;
        upstream
    }

    /// On the same port, after it was stopped.
    pub async fn start_again(&self) {
        let mut bound = None;
        // A child that another test is just forking may hold a copy of the old one for a moment.
        eventually("its port is still its own", PATIENCE, async || {
            bound = TcpListener::bind(self.addr()).await.ok();
            bound.is_some()
        })
        .await;
        let listener = Arc::new(bound.expect("it was bound"));
        let accepting = tokio::spawn(accept_all(listener.clone(), self.site.clone()));
        *self.server() = Some(Server { listener, accepting });
    }

    /// Ends all connections; new ones are refused.
    pub async fn stop(&self) {
        let server = self.server().take();
        if let Some(Server { listener, accepting }) = server {
            // A child that another test is just forking may have a copy of it: closing is not enough.
            let _ = socket2::SockRef::from(&*listener).shutdown(Shutdown::Both);
            accepting.abort();
            // When the task is gone, so are its connections.
            let _ = accepting.await;
        }
    }

    pub fn addr(&self) -> SocketAddr {
        self.port.addr()
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.addr())
    }

    /// What it does with requests whose path starts with this; the longest such path counts, and
    /// the last that was said about it.
    pub fn on(&self, path: &str, behaviour: impl Into<Behaviour>) {
        let mut script = self.site.script.lock().unwrap_or_else(PoisonError::into_inner);
        script.retain(|(other, _)| other != path);
        script.push((path.to_owned(), behaviour.into()));
    }

    /// Lets every reply go that is held, now or later.
    pub fn let_go(&self) {
        self.site.let_go.send_replace(true);
    }

    /// Holds again what is to be held.
    pub fn hold(&self) {
        self.site.let_go.send_replace(false);
    }

    /// Lets the next piece of a body that is sent on demand go.
    pub fn send_piece(&self) {
        self.site.pieces.add_permits(1);
    }

    /// All executions so far.
    pub fn executions(&self) -> Vec<Execution> {
        self.site.executions.all()
    }

    pub fn count(&self) -> usize {
        self.site.executions.all().len()
    }

    /// Executions of one `Idempotency-Key`.
    pub fn count_of(&self, key: &str) -> usize {
        self.executions().iter().filter(|execution| execution.key() == Some(key)).count()
    }

    /// The most executions that any key has had.
    pub fn most_of_one_key(&self) -> usize {
        let executions = self.executions();
        let keys = executions.iter().filter_map(Execution::key);
        let mut counts = std::collections::HashMap::<&str, usize>::new();
        keys.for_each(|key| *counts.entry(key).or_default() += 1);
        counts.into_values().max().unwrap_or(0)
    }

    /// The last execution.
    ///
    /// # Panics
    /// When there was none.
    pub fn last(&self) -> Execution {
        self.executions().pop().expect("something was executed")
    }

    /// Resolves when that many executions have begun.
    pub async fn begun(&self, times: usize) {
        let begun = self.site.executions.at_least(times);
        if tokio::time::timeout(PATIENCE, begun).await.is_err() {
            panic!("{} of {times} executions have begun", self.count());
        }
    }

    /// What came in that is no request, or could be read in two ways.
    pub fn malformed(&self) -> Vec<String> {
        self.site.executions.malformed()
    }

    fn server(&self) -> MutexGuard<'_, Option<Server>> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        if let Some(server) = self.server().take() {
            server.accepting.abort();
        }
    }
}

impl Site {
    fn behaviour(&self, path: &str) -> Behaviour {
        let script = self.script.lock().unwrap_or_else(PoisonError::into_inner);
        let fitting = script.iter().filter(|(prefix, _)| path.starts_with(prefix.as_str()));
        let found = fitting.max_by_key(|(prefix, _)| prefix.len());
        found.map_or_else(|| Behaviour::by(Reply::numbered), |(_, behaviour)| behaviour.clone())
    }

    async fn held(&self) {
        // An error says that the upstream is gone, which ends every wait.
        let _ = self.let_go.subscribe().wait_for(|let_go| *let_go).await;
    }
}

async fn accept_all(listener: Arc<TcpListener>, site: Arc<Site>) {
    let mut connections = JoinSet::new();
    for number in 1.. {
        tokio::select! {
            // Failing to accept is the client's trouble.
            accepted = listener.accept() => if let Ok((stream, peer)) = accepted {
                connections.spawn(serve::connection(stream, peer, number, site.clone()));
            },
            Some(_) = connections.join_next() => {}
        }
    }
}
