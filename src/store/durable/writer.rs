//! Group commit: whatever waits is written together.
//!
//! There is no linger. Alone, a write is a batch of one and leaves at once; under load the queue
//! grows while a batch is on its way, and so does the next batch. Once half of the longest batch
//! waits it leaves beside the first: the database works on one while it syncs the other to its disk.
//! More short batches would cost it more than they save.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::sizes::{MAX_ROWS, batch_of};

/// Keeps a batch inside the smallest packet limit that a database has by default (16 MiB).
const MAX_BATCH_BYTES: usize = 4 << 20;
/// Beyond this the tier is told to be overloaded rather than let work pile up.
const QUEUE: usize = 8192;
const REST_AFTER: Duration = Duration::from_secs(1);
/// So many rows leave beside a batch that is on its way.
const ENOUGH: usize = MAX_ROWS / 2;

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

/// How jobs reach their writers.
pub enum Way<J> {
    Together(mpsc::Sender<J>),
    Apart(Box<dyn Fn(J) + Send + Sync>),
}

impl<J> Way<J> {
    pub fn send(&self, job: J) -> Result<(), TrySendError<J>> {
        match self {
            Self::Together(lane) => lane.try_send(job),
            Self::Apart(write) => {
                write(job);
                Ok(())
            }
        }
    }
}

/// Starts a lane that has at most so many batches on their way at once. It ends, with everything in
/// it written, when told to stop or when nobody can send to it any more; `alive` is dropped with it.
pub fn together<J: Job, W: BatchWriter<J>>(
    batches: usize,
    writer: impl Fn() -> W,
    stop: &CancellationToken,
    alive: &watch::Receiver<()>,
) -> Way<J> {
    let (sender, receiver) = mpsc::channel(QUEUE);
    let lane = Lane {
        receiver,
        ended: false,
        waiting: VecDeque::new(),
        idle: (0..batches).map(|_| writer()).collect(),
        on_their_way: FuturesUnordered::new(),
    };
    let (stop, alive) = (stop.clone(), alive.clone());
    tokio::spawn(async move {
        let _alive = alive;
        lane.run(stop).await;
    });
    Way::Together(sender)
}

/// A statement, a commit and, for as long as they take, a connection for every job.
pub fn apart<J: Job, W: BatchWriter<J>>(writer: impl Fn() -> W + Send + Sync + 'static) -> Way<J> {
    Way::Apart(Box::new(move |job| {
        let mut writer = writer();
        tokio::spawn(async move { writer.write(vec![job]).await });
    }))
}

struct Lane<J, W> {
    receiver: mpsc::Receiver<J>,
    /// Nothing more will be received.
    ended: bool,
    waiting: VecDeque<J>,
    idle: Vec<W>,
    on_their_way: FuturesUnordered<BoxFuture<'static, W>>,
}

impl<J: Job, W: BatchWriter<J>> Lane<J, W> {
    async fn run(mut self, stop: CancellationToken) {
        let mut rested = true;
        loop {
            self.take_what_is_there();
            if let Some((mut writer, batch)) = self.next_batch() {
                rested = false;
                self.on_their_way.push(Box::pin(async move {
                    writer.write(batch).await;
                    writer
                }));
                continue;
            }
            let quiet = self.on_their_way.is_empty();
            if quiet && self.ended {
                return;
            }
            tokio::select! {
                biased;
                Some(writer) = self.on_their_way.next() => self.idle.push(writer),
                job = self.receiver.recv(), if !self.ended && !self.idle.is_empty() => match job {
                    Some(job) => self.waiting.push_back(job),
                    None => self.ended = true,
                },
                () = stop.cancelled(), if !self.receiver.is_closed() => self.receiver.close(),
                () = tokio::time::sleep(REST_AFTER), if quiet && !rested => {
                    self.idle.iter_mut().for_each(W::rest);
                    rested = true;
                }
            }
        }
    }

    fn take_what_is_there(&mut self) {
        while self.waiting.len() < MAX_ROWS
            && let Ok(job) = self.receiver.try_recv()
        {
            self.waiting.push_back(job);
        }
    }

    /// With the writer that takes it. None: nobody is free to, or it is better to wait for more.
    fn next_batch(&mut self) -> Option<(W, Vec<J>)> {
        let enough = if self.on_their_way.is_empty() { 1 } else { ENOUGH };
        if self.idle.is_empty() || self.waiting.len() < enough {
            return None;
        }
        self.waiting.retain(|job| !job.is_moot());
        let rows = batch_of(fitting(&self.waiting));
        // What is cut short by its bytes is enough too.
        if rows == 0 || self.waiting.len() < enough {
            return None;
        }
        Some((self.idle.pop()?, self.waiting.drain(..rows).collect()))
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

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    struct Numbered(usize);

    impl Job for Numbered {
        fn weight(&self) -> usize {
            0
        }

        fn is_moot(&self) -> bool {
            false
        }
    }

    /// Tells what it was given and is at it until it is let go.
    struct Slow(mpsc::UnboundedSender<(Vec<usize>, oneshot::Sender<()>)>);

    impl BatchWriter<Numbered> for Slow {
        async fn write(&mut self, batch: Vec<Numbered>) {
            let (finish, finished) = oneshot::channel();
            let numbers = batch.into_iter().map(|job| job.0).collect();
            self.0.send((numbers, finish)).expect("the test listens");
            let _ = finished.await;
        }

        fn rest(&mut self) {}
    }

    #[tokio::test]
    async fn a_second_batch_leaves_once_half_of_the_longest_waits_and_a_third_waits_for_both() {
        let (began, mut batches) = mpsc::unbounded_channel();
        let (stop, alive) = (CancellationToken::new(), watch::channel(()).1);
        let lane = together(2, || Slow(began.clone()), &stop, &alive);
        let send = |numbers: std::ops::Range<usize>| {
            numbers.for_each(|n| assert!(lane.send(Numbered(n)).is_ok()));
        };
        send(0..1);
        let (first, finish_first) = batches.recv().await.expect("it leaves at once");
        assert_eq!(first, [0]);
        send(1..ENOUGH);
        tokio::task::yield_now().await;
        assert!(batches.try_recv().is_err(), "too few to leave beside the first");
        send(ENOUGH..ENOUGH + 1);
        let (second, finish_second) = batches.recv().await.expect("they are enough");
        assert_eq!(second, Vec::from_iter(1..=ENOUGH));
        send(100..100 + MAX_ROWS + 3);
        tokio::task::yield_now().await;
        assert!(batches.try_recv().is_err(), "nobody is free");
        drop(finish_second);
        let (third, finish_third) = batches.recv().await.expect("one is free");
        assert_eq!(third, Vec::from_iter(100..100 + MAX_ROWS));
        drop((finish_first, finish_third));
        let mut rest = Vec::new();
        stop.cancel();
        while rest.len() < 3 {
            rest.extend(batches.recv().await.expect("what is in it is written").0);
        }
        assert_eq!(rest, [164, 165, 166]);
    }
}
