//! The front threads: each has a runtime, a listener, and connections of its own.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use tokio::sync::oneshot;

use super::StartError;
use crate::gateway::{self, Gateway};
use crate::http::server::{self, Stop};

pub struct Fronts {
    pub address: SocketAddr,
    /// Each tells when its thread has nothing left to do.
    pub ended: Vec<oneshot::Receiver<()>>,
}

pub fn start(
    listeners: Vec<TcpListener>,
    front: &Arc<server::Front>,
    gateway: &Arc<Gateway>,
    stop: &Stop,
) -> Result<Fronts, StartError> {
    let mut address = SocketAddr::from(([0, 0, 0, 0], 0));
    let mut ended = Vec::new();
    for (thread, listener) in listeners.into_iter().enumerate() {
        address = listener.local_addr().map_err(StartError::Thread)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(StartError::Thread)?;
        let (front, gateway, stop) = (front.clone(), gateway.clone(), stop.clone());
        let (tell, told) = oneshot::channel();
        let run = move || {
            runtime.block_on(run(thread, listener, front, gateway, stop));
            // What is cut off here drops its claim, and that says so to the engine.
            drop(runtime);
            let _ = tell.send(());
        };
        std::thread::Builder::new()
            .name(format!("front-{thread}"))
            .spawn(run)
            .map_err(StartError::Thread)?;
        ended.push(told);
    }
    Ok(Fronts { address, ended })
}

async fn run(
    thread: usize,
    listener: TcpListener,
    front: Arc<server::Front>,
    gateway: Arc<Gateway>,
    stop: Stop,
) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "a front thread cannot listen"),
    };
    let handler = gateway::Front::new(gateway.clone(), thread);
    server::serve(listener, front, handler, stop.clone()).await;
    // Executions whose clients have left still run on this thread.
    tokio::select! {
        () = gateway.finished() => {}
        () = stop.hard_asked() => {}
    }
}

/// Resolves when every thread has ended; may be dropped and asked again.
pub async fn all(ended: &mut Vec<oneshot::Receiver<()>>) {
    while let Some(last) = ended.last_mut() {
        // A thread that panicked has ended, too.
        let _ = last.await;
        ended.pop();
    }
}
