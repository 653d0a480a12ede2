//! What happens without being asked: silent records are settled, owners of decisions called back,
//! expired records removed, and gauges kept.
//!
//! Each job is a bounded step that can be taken by any instance, any number of times, and says what
//! it did. A timer repeats the steps; instances start theirs at different moments.

mod callbacks;
mod gauges;
mod janitor;
mod probe;
mod reconciler;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub use callbacks::{CallbackReport, Callbacks};
pub use gauges::Gauges;
pub use janitor::{Janitor, JanitorReport};
pub use probe::{Probe, Probed};
pub use reconciler::{Reconciler, ReconcilerReport, Rules};

use crate::config::Config;
use crate::engine::Engine;

const GAUGES_EVERY: Duration = Duration::from_secs(5);
/// What a job that is in the middle of something is given when all end.
const LAST_STEP: Duration = Duration::from_secs(2);

/// The jobs of this instance.
pub struct Jobs {
    rules: Arc<ArcSwap<Rules>>,
    stop: CancellationToken,
    running: JoinSet<()>,
}

impl Jobs {
    /// Starts them, inside a runtime.
    pub fn start(engine: &Engine, config: &Config) -> Self {
        let rules = Arc::new(ArcSwap::from_pointee(Rules::new(config)));
        let mut jobs = Self { rules, stop: CancellationToken::new(), running: JoinSet::new() };
        let every = config.reconciler.interval;
        let reconciler = Arc::new(Reconciler::new(engine, &config.reconciler, jobs.rules.clone()));
        jobs.repeat(every, move || {
            let reconciler = reconciler.clone();
            async move { drop(reconciler.step().await) }
        });
        if let Some(callbacks) = Callbacks::new(engine, &config.reconciler) {
            let callbacks = Arc::new(callbacks);
            jobs.repeat(every, move || {
                let callbacks = callbacks.clone();
                async move { drop(callbacks.step().await) }
            });
        }
        let janitor = Arc::new(Janitor::new(engine, config.janitor.batch));
        jobs.repeat(config.janitor.interval, move || {
            let janitor = janitor.clone();
            async move { drop(janitor.step().await) }
        });
        let gauges = Arc::new(Gauges::new(engine, config.reconciler.stuck_after));
        jobs.repeat(GAUGES_EVERY.min(every), move || {
            let gauges = gauges.clone();
            async move { gauges.step().await }
        });
        jobs
    }

    /// After a reload: what routes say about failures.
    pub fn reload(&self, config: &Config) {
        self.rules.store(Arc::new(Rules::new(config)));
    }

    /// Lets what is being done end, within a moment; what is cut off is done by the next one.
    pub async fn stop(mut self) {
        self.stop.cancel();
        let ended = async { while self.running.join_next().await.is_some() {} };
        if tokio::time::timeout(LAST_STEP, ended).await.is_err() {
            self.running.shutdown().await;
        }
    }

    fn repeat<F>(&mut self, every: Duration, step: impl Fn() -> F + Send + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let stop = self.stop.clone();
        self.running.spawn(async move {
            // The first look comes soon after a start, but not at the same moment everywhere.
            let mut pause = jittered(every.min(Duration::from_secs(1)) / 2);
            loop {
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    () = stop.cancelled() => return,
                }
                step().await;
                pause = jittered(every);
            }
        });
    }
}

/// Between 80 and 120 per cent of it, so that instances do not keep step.
fn jittered(duration: Duration) -> Duration {
    let percent = 80 + u32::from(uuid::Uuid::new_v4().as_bytes()[0]) * 40 / 255;
    duration * percent / 100
}
