//! A request that is decided to the end, whether or not its client waits.
//!
//! The server drops what it works on when the client hangs up. Until a request has been read that is
//! right: it has not been asked yet. From there on it is a request like any other, and the call that
//! it asks for runs and is stored.
//!
//! ## Why not a task for each request
//! Nearly all clients wait, and a replay costs little more than a task would. So a request is worked
//! on where it came in, in one allocation, and moves into a task only if it is dropped.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;
use tracing::Span;
use tracing::instrument::{Instrument, Instrumented};

use super::reply::Reply;

pin_project! {
    /// Reading comes to an answer, or to the decision that follows.
    #[project = Projected]
    pub enum Steps<R, D> {
        Reading { #[pin] reading: R },
        Deciding { #[pin] deciding: D },
    }
}

/// In one place, from which they need not be moved again.
type Moved<R, D> = Pin<Box<Instrumented<Steps<R, D>>>>;

/// The steps of one request, carried on in a task of their own if they are dropped while deciding.
pub struct Carried<'t, R, D>
where
    R: Future<Output = Result<D, Reply>> + Send + 'static,
    D: Future<Output = Reply> + Send + 'static,
{
    /// None once they are done.
    steps: Option<Moved<R, D>>,
    tasks: &'t TaskTracker,
}

impl<'t, R, D> Carried<'t, R, D>
where
    R: Future<Output = Result<D, Reply>> + Send + 'static,
    D: Future<Output = Reply> + Send + 'static,
{
    pub fn new(reading: R, span: Span, tasks: &'t TaskTracker) -> Self {
        let steps = Steps::Reading { reading }.instrument(span);
        Self { steps: Some(Box::pin(steps)), tasks }
    }
}

impl<R, D> Future for Steps<R, D>
where
    R: Future<Output = Result<D, Reply>>,
    D: Future<Output = Reply>,
{
    type Output = Reply;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Reply> {
        loop {
            match self.as_mut().project() {
                Projected::Reading { reading } => match ready!(reading.poll(cx)) {
                    Ok(deciding) => self.set(Self::Deciding { deciding }),
                    Err(reply) => return Poll::Ready(reply),
                },
                Projected::Deciding { deciding } => return deciding.poll(cx),
            }
        }
    }
}

impl<R, D> Future for Carried<'_, R, D>
where
    R: Future<Output = Result<D, Reply>> + Send + 'static,
    D: Future<Output = Reply> + Send + 'static,
{
    type Output = Reply;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Reply> {
        let Some(steps) = &mut self.steps else { return Poll::Pending };
        let reply = ready!(steps.as_mut().poll(cx));
        self.steps = None;
        Poll::Ready(reply)
    }
}

impl<R, D> Drop for Carried<'_, R, D>
where
    R: Future<Output = Result<D, Reply>> + Send + 'static,
    D: Future<Output = Reply> + Send + 'static,
{
    fn drop(&mut self) {
        let Some(steps) = self.steps.take() else { return };
        let is_read = matches!(steps.inner(), Steps::Deciding { .. });
        // Without a runtime the process ends, and with a panic the request has.
        if is_read
            && !std::thread::panicking()
            && let Ok(runtime) = Handle::try_current()
        {
            self.tasks.spawn_on(steps, &runtime);
        }
    }
}
