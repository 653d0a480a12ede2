//! Claims that were written and reached nobody, or that may have been written: taken back.
//!
//! Nothing was sent for them, so removing them is safe, and leaving them would hold a key that
//! nobody runs. A statement that was cut off may still land after the first removal, so each claim
//! is removed a second time a while later.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use super::backend::Backend;
use super::connection::Kept;
use super::sizes::MAX_IDS;
use crate::clock;
use crate::idempotency::Fence;

const SECOND_LOOK: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(250);

#[derive(Clone)]
pub struct Withdrawals(mpsc::UnboundedSender<Fence>);

impl Withdrawals {
    pub fn start<B: Backend>(kept: Kept<B>) -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        tokio::spawn(run(receiver, kept));
        Self(sender)
    }

    pub fn withdraw(&self, fence: Fence) {
        // Only fails when the runtime is going down.
        let _ = self.0.send(fence);
    }
}

async fn run<B: Backend>(mut receiver: mpsc::UnboundedReceiver<Fence>, mut kept: Kept<B>) {
    let mut later: VecDeque<(Instant, Fence)> = VecDeque::new();
    loop {
        let mut now: Vec<Fence> = Vec::new();
        match later.front() {
            None => match receiver.recv().await {
                Some(fence) => now.push(fence),
                None => return,
            },
            Some(&(due, _)) => {
                tokio::select! {
                    _ = receiver.recv_many(&mut now, MAX_IDS) => {}
                    () = tokio::time::sleep_until(due.into()) => {}
                }
            }
        }
        later.extend(now.iter().map(|fence| (clock::now() + SECOND_LOOK, *fence)));
        while let Some(&(due, fence)) = later.front()
            && due <= clock::now()
        {
            now.push(fence);
            later.pop_front();
        }
        for chunk in now.chunks(MAX_IDS) {
            while let Err(error) = remove(&mut kept, chunk.to_vec()).await {
                tracing::debug!(%error, "claims that reached nobody are still to be withdrawn");
                tokio::time::sleep(PAUSE).await;
            }
        }
        kept.let_go();
    }
}

async fn remove<B: Backend>(
    kept: &mut Kept<B>,
    fences: Vec<Fence>,
) -> Result<u64, crate::store::StoreError> {
    kept.run(|b, c| Box::pin(async move { b.release(c, &fences).await })).await
}
