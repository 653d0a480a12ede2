//! Group commit: one task takes whatever is waiting and writes it together.
//!
//! There is no linger. Alone, a write is a batch of one and leaves at once; under load the queue
//! grows while the previous batch is on its way, and so does the next batch.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::sizes::{MAX_ROWS, batch_of};

/// Keeps a batch inside the smallest packet limit that a database has by default (16 MiB).
const MAX_BATCH_BYTES: usize = 4 << 20;
/// Beyond this the tier is told to be overloaded rather than let work pile up.
const QUEUE: usize = 8192;
const REST_AFTER: Duration = Duration::from_secs(1);

pub trait Job: Send + 'static {
    /// About how many bytes it puts on the wire.
    fn weight(&self) -> usize;
    /// Nobody waits for it any more and nothing is lost by leaving it out.
    fn is_moot(&self) -> bool;
}

/// What writes a batch of one, two, four … jobs.
pub trait BatchWriter<J>: Send + 'static {
    fn write(&mut self, batch: Vec<J>) -> impl Future<Output = ()> + Send;
    /// There was nothing to do for a while: what is held may be given back.
    fn rest(&mut self);
}

/// How a lane is worked off: one writer with many rows, or many writers with one row each.
#[derive(Clone, Copy)]
pub struct Crew {
    pub writers: u32,
    pub max_rows: usize,
}

impl Crew {
    pub const GROUPED: Self = Self { writers: 1, max_rows: MAX_ROWS };
}

/// Starts a lane. It ends, with everything in it written, when told to stop or when the sender is
/// dropped; `alive` is dropped with it.
pub fn start<J: Job, W: BatchWriter<J>>(
    crew: Crew,
    stop: &CancellationToken,
    alive: &watch::Receiver<()>,
    writer: impl Fn() -> W,
) -> mpsc::Sender<J> {
    let (sender, receiver) = mpsc::channel(QUEUE);
    let queue =
        Arc::new(Mutex::new(Queue { receiver, waiting: VecDeque::new(), stop: stop.clone() }));
    for _ in 0..crew.writers {
        let (queue, mut writer, alive) = (queue.clone(), writer(), alive.clone());
        tokio::spawn(async move {
            let _alive = alive;
            loop {
                let next = next_batch(&queue, crew.max_rows);
                let batch = match tokio::time::timeout(REST_AFTER, next).await {
                    Ok(batch) => batch,
                    Err(_) => {
                        writer.rest();
                        next_batch(&queue, crew.max_rows).await
                    }
                };
                match batch {
                    Some(batch) => writer.write(batch).await,
                    None => return,
                }
            }
        });
    }
    sender
}

struct Queue<J> {
    receiver: mpsc::Receiver<J>,
    waiting: VecDeque<J>,
    stop: CancellationToken,
}

/// None: stopped, and nothing is left.
async fn next_batch<J: Job>(queue: &Mutex<Queue<J>>, max_rows: usize) -> Option<Vec<J>> {
    let mut queue = queue.lock().await;
    let Queue { receiver, waiting, stop } = &mut *queue;
    loop {
        if waiting.is_empty() {
            tokio::select! {
                biased;
                job = receiver.recv() => waiting.push_back(job?),
                () = stop.cancelled(), if !receiver.is_closed() => receiver.close(),
            }
        }
        while waiting.len() < max_rows
            && let Ok(job) = receiver.try_recv()
        {
            waiting.push_back(job);
        }
        waiting.retain(|job| !job.is_moot());
        let rows = batch_of(fitting(waiting));
        if rows > 0 {
            return Some(waiting.drain(..rows).collect());
        }
    }
}

/// How many of the first jobs fit into one batch; at least one, however large.
fn fitting<J: Job>(waiting: &VecDeque<J>) -> usize {
    let mut bytes = 0;
    let within = waiting.iter().take_while(|job| {
        bytes += job.weight();
        bytes <= MAX_BATCH_BYTES
    });
    within.count().max(usize::from(!waiting.is_empty()))
}
