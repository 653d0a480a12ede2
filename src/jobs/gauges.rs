//! The gauges: how many records are open, and whether the tiers answer.

use std::time::Duration;

use crate::engine::Engine;
use crate::telemetry::metrics::{self, Tier};

pub struct Gauges {
    engine: Engine,
    stuck_after: Duration,
}

impl Gauges {
    pub fn new(engine: &Engine, stuck_after: Duration) -> Self {
        Self { engine: engine.clone(), stuck_after }
    }

    pub async fn step(&self) {
        match self.engine.counts(self.stuck_after).await {
            Ok(counts) => {
                metrics::tier_up(Tier::Durable, true);
                let oldest = counts.oldest_processing.unwrap_or_default();
                metrics::open_records(counts.processing, counts.stuck, counts.unknown, oldest);
            }
            // The last counts stay: that they are old is what `tier_up` says.
            Err(_) => metrics::tier_up(Tier::Durable, false),
        }
        if let Some(fast) = self.engine.tiers().fast() {
            metrics::tier_up(Tier::Fast, fast.ping().await.is_ok());
        }
    }
}
