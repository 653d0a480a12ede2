//! The janitor: expired records are removed in small batches, with room for others in between.
//!
//! ## Why the size of a batch is measured
//! What a thousand rows cost depends on the server, its indexes and the answers in them: a few
//! milliseconds here, a tenth of a second there, and whoever calls meanwhile waits as long. So a
//! batch is as large as fits into some milliseconds, never larger than configured, and the pause
//! after it is a multiple of what it took: the server is left alone most of the time.

use std::time::Duration;

use super::jittered;
use crate::clock;
use crate::engine::Engine;
use crate::store::StoreError;
use crate::telemetry::metrics;

/// What a batch may take.
const AIM: Duration = Duration::from_millis(10);
const FIRST_BATCH: u32 = 100;
/// Fewer would not be faster: the commit alone takes its time.
const SMALLEST_BATCH: u32 = 100;
/// Between two batches, so that replication and other writers keep up: so many times what the last
/// one took.
const REST: u32 = 4;
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// The rest waits for the next step.
const MAX_BATCHES: u32 = 100_000;

pub struct Janitor {
    engine: Engine,
    batch: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JanitorReport {
    pub batches: u32,
    pub purged: u64,
}

impl Janitor {
    /// `batch`: at most so many records at a time.
    pub fn new(engine: &Engine, batch: u32) -> Self {
        Self { engine: engine.clone(), batch }
    }

    /// Until a batch is not full, or for long enough.
    pub async fn step(&self) -> Result<JanitorReport, StoreError> {
        let mut report = JanitorReport::default();
        let mut batch = FIRST_BATCH.min(self.batch);
        while report.batches < MAX_BATCHES {
            let began = clock::now();
            let purged = self.engine.purge(batch).await.inspect_err(|error| {
                tracing::warn!(%error, "expired records could not be removed now");
            })?;
            let took = clock::now().saturating_duration_since(began);
            report.batches += 1;
            report.purged += purged;
            metrics::purged(purged);
            if purged < u64::from(batch) {
                break;
            }
            batch = next_batch(batch, took).min(self.batch);
            let pause = (took * REST).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
            tokio::time::sleep(jittered(pause)).await;
        }
        Ok(report)
    }
}

/// At most twice the last one, since one that was lucky says little.
fn next_batch(last: u32, took: Duration) -> u32 {
    let fits = f64::from(last) * AIM.as_secs_f64() / took.as_secs_f64().max(1e-6);
    // A number that is too large for the type is the largest one of it.
    (fits as u32).clamp(SMALLEST_BATCH, last.saturating_mul(2).max(SMALLEST_BATCH))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_grows_and_shrinks_to_what_fits() {
        assert_eq!(next_batch(400, AIM), 400);
        assert_eq!(next_batch(400, AIM * 2), 200);
        assert_eq!(next_batch(400, AIM / 10), 800, "not all at once");
        assert_eq!(next_batch(100, Duration::from_secs(5)), SMALLEST_BATCH);
        assert_eq!(next_batch(1, Duration::ZERO), SMALLEST_BATCH);
        assert_eq!(next_batch(u32::MAX, Duration::ZERO), u32::MAX);
    }
}
