//! The janitor: expired records are removed in small batches, with room for others in between.

use std::time::Duration;

use super::jittered;
use crate::engine::Engine;
use crate::store::StoreError;
use crate::telemetry::metrics;

/// Between two batches, so that replication and other writers keep up.
const PAUSE: Duration = Duration::from_millis(50);
/// The rest waits for the next step.
const MAX_BATCHES: u32 = 200;

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
    pub fn new(engine: &Engine, batch: u32) -> Self {
        Self { engine: engine.clone(), batch }
    }

    /// Until a batch is not full, or for long enough.
    pub async fn step(&self) -> Result<JanitorReport, StoreError> {
        let mut report = JanitorReport::default();
        while report.batches < MAX_BATCHES {
            let purged = self.engine.purge(self.batch).await.inspect_err(|error| {
                tracing::warn!(%error, "expired records could not be removed now");
            })?;
            report.batches += 1;
            report.purged += purged;
            metrics::purged(purged);
            if purged < u64::from(self.batch) {
                break;
            }
            tokio::time::sleep(jittered(PAUSE)).await;
        }
        Ok(report)
    }
}
