//! Claims that were written and reached nobody, or that may have been written: taken back.
//!
//! Nothing was sent for them, so removing them is safe, and leaving them would hold a key that
//! nobody runs. A statement that was cut off may still land after the first removal, when a server or
//! a network gets going again, so each claim is looked for a few more times later on.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};

use super::backend::Backend;
use super::connection::Kept;
use super::sizes::MAX_IDS;
use crate::clock;
use crate::idempotency::Fence;

/// Between one look and the next.
const LATER_LOOKS: [Duration; 3] =
    [Duration::from_secs(20), Duration::from_secs(100), Duration::from_secs(480)];
const PAUSE: Duration = Duration::from_millis(250);

#[derive(Clone)]
pub struct Withdrawals {
    sender: mpsc::UnboundedSender<Fence>,
    /// How many have not been looked for at all.
    pending: watch::Sender<usize>,
}

impl Withdrawals {
    pub fn start<B: Backend>(kept: Kept<B>) -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        let pending = watch::Sender::new(0);
        tokio::spawn(run(receiver, kept, pending.clone()));
        Self { sender, pending }
    }

    pub fn withdraw(&self, fence: Fence) {
        self.pending.send_modify(|pending| *pending += 1);
        // Only fails when the runtime is going down.
        let _ = self.sender.send(fence);
    }

    /// Resolves when each has been looked for once.
    pub async fn looked(&self) {
        // An error would say that nobody looks any more, and we are somebody who could tell.
        let _ = self.pending.subscribe().wait_for(|pending| *pending == 0).await;
    }
}

async fn run<B: Backend>(
    mut receiver: mpsc::UnboundedReceiver<Fence>,
    mut kept: Kept<B>,
    pending: watch::Sender<usize>,
) {
    // One queue for each look, so that each is in the order of time.
    let mut looks: [VecDeque<(Instant, Fence)>; LATER_LOOKS.len()] = Default::default();
    loop {
        let mut first = Vec::new();
        let ended = receiver.is_closed() && receiver.is_empty();
        match looks.iter().filter_map(VecDeque::front).map(|(due, _)| *due).min() {
            None if ended => return,
            None => drop(receiver.recv_many(&mut first, MAX_IDS).await),
            Some(due) => {
                tokio::select! {
                    _ = receiver.recv_many(&mut first, MAX_IDS), if !ended => {}
                    () = tokio::time::sleep_until(due.into()) => {}
                }
            }
        }
        let mut due = vec![first];
        due.extend(looks.iter_mut().map(take_due));
        for (look, fences) in due.into_iter().enumerate() {
            for chunk in fences.chunks(MAX_IDS) {
                while let Err(error) = remove(&mut kept, chunk.to_vec()).await {
                    if kept.is_closed() {
                        return;
                    }
                    tracing::debug!(%error, "claims that reached nobody are still to be withdrawn");
                    tokio::time::sleep(PAUSE).await;
                }
                if look == 0 {
                    pending.send_modify(|pending| *pending -= chunk.len());
                }
            }
            // Counted from here: what was cut off by an outage can land when the outage is over.
            if let (Some(queue), Some(pause)) = (looks.get_mut(look), LATER_LOOKS.get(look)) {
                let due = clock::now() + *pause;
                queue.extend(fences.into_iter().map(|fence| (due, fence)));
            }
        }
        kept.let_go();
    }
}

fn take_due(queue: &mut VecDeque<(Instant, Fence)>) -> Vec<Fence> {
    let now = clock::now();
    let due = queue.iter().take_while(|(due, _)| *due <= now).count();
    queue.drain(..due).map(|(_, fence)| fence).collect()
}

async fn remove<B: Backend>(
    kept: &mut Kept<B>,
    fences: Vec<Fence>,
) -> Result<u64, crate::store::StoreError> {
    kept.run(|b, c| Box::pin(async move { b.release(c, &fences).await })).await
}
