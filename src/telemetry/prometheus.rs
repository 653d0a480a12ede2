//! The metrics as Prometheus reads them.

use std::time::Duration;

use super::metrics;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

use super::totals::Totals;

/// From a replay out of memory to the longest call that a default route allows, roughly doubling.
const SECONDS: [f64; 16] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    10.0, 30.0,
];
/// As batches are made: powers of two.
const ROWS: [f64; 7] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];
const UPKEEP: Duration = Duration::from_secs(5);

/// Everything counted so far, on demand. Cheap to clone.
#[derive(Clone)]
pub struct Exposition(PrometheusHandle);

impl Exposition {
    /// Counts from now on, inside a runtime. None: somebody who embeds this counts already.
    pub fn start() -> Option<Self> {
        let durations = Matcher::Suffix("_duration_seconds".to_owned());
        let rows = Matcher::Suffix("_rows".to_owned());
        let builder = PrometheusBuilder::new().set_buckets_for_metric(durations, &SECONDS).ok()?;
        let builder = builder.set_buckets_for_metric(rows, &ROWS).ok()?;
        let handle = builder.install_recorder().ok()?;
        metrics::begin();
        let upkeep = handle.clone();
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(UPKEEP).await;
                upkeep.run_upkeep();
            }
        });
        Some(Self(handle))
    }

    pub fn text(&self) -> String {
        self.0.render()
    }

    pub fn totals(&self) -> Totals {
        Totals::read(&self.text())
    }
}
