//! The reconciler: calls that have gone silent are settled, by the probe or as UNKNOWN.
//!
//! With a probe, a record is taken by compare-and-set before the upstream is asked, so that several
//! gateways ask once, and what it says is written under that fence. Without one it is only marked:
//! should its owner have been slow rather than dead, the answer still counts.
//!
//! Decisions are not touched: their locks run out by themselves, and their owners are called back.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use futures_util::{StreamExt, stream};

use super::probe::{self, Probe, Probed};
use crate::config::{self, Config};
use crate::engine::Engine;
use crate::idempotency::settle::Verdict;
use crate::idempotency::{Found, Policy, State};
use crate::store::StoreError;
use crate::telemetry::metrics::{self, Settlement};

const BATCH: u32 = 100;
const AT_ONCE: usize = 8;
/// Longer than a probe may take and its verdict needs to be written.
const LEASE: Duration = Duration::from_secs(30);
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);

/// What the operator said about the operations of each scope.
pub struct Rules {
    by_scope: HashMap<String, Arc<Policy>>,
    otherwise: Arc<Policy>,
}

impl Rules {
    /// Routes that share a scope: the first one speaks for it.
    pub fn new(config: &Config) -> Self {
        let mut by_scope = HashMap::new();
        for route in &config.routes {
            let scope = route.scope.as_str().to_owned();
            by_scope.entry(scope).or_insert_with(|| route.policy.clone());
        }
        Self { by_scope, otherwise: Arc::default() }
    }

    fn of(&self, found: &Found) -> Arc<Policy> {
        let scope = found.record.identity.scope().as_str();
        self.by_scope.get(scope).unwrap_or(&self.otherwise).clone()
    }
}

pub struct Reconciler {
    engine: Engine,
    rules: Arc<ArcSwap<Rules>>,
    settle_after: Duration,
    interval: Duration,
    probe: Option<Probe>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReconcilerReport {
    pub succeeded: u32,
    pub failed: u32,
    pub unknown: u32,
    /// Somebody else was faster, or it had ended meanwhile.
    pub lost: u32,
}

impl Reconciler {
    pub fn new(engine: &Engine, config: &config::Reconciler, rules: Arc<ArcSwap<Rules>>) -> Self {
        Self {
            engine: engine.clone(),
            rules,
            settle_after: config.settle_after,
            interval: config.interval,
            probe: config.probe_url.as_ref().and_then(Probe::new),
        }
    }

    /// One batch of what has been abandoned for long enough, and one of what is unknown and due.
    pub async fn step(&self) -> Result<ReconcilerReport, StoreError> {
        let told = |error: &StoreError| {
            tracing::warn!(%error, "silent records cannot be looked at now");
        };
        let mut due = self.engine.abandoned(self.settle_after, BATCH).await.inspect_err(told)?;
        if self.probe.is_some() {
            due.extend(self.engine.unsettled(BATCH).await.inspect_err(told)?);
        }
        let settling = due.into_iter().map(|found| self.settle(found));
        let mut settling = stream::iter(settling).buffer_unordered(AT_ONCE);
        let mut report = ReconcilerReport::default();
        while let Some(settled) = settling.next().await {
            match settled {
                Ok(Some(Settlement::Succeeded)) => report.succeeded += 1,
                Ok(Some(Settlement::Failed)) => report.failed += 1,
                Ok(Some(Settlement::Unknown)) => report.unknown += 1,
                Ok(None) => report.lost += 1,
                Err(error) => tracing::warn!(%error, "a silent record could not be settled now"),
            }
        }
        Ok(report)
    }

    async fn settle(&self, found: Found) -> Result<Option<Settlement>, StoreError> {
        let found = &found;
        let settled = match &self.probe {
            Some(probe) => self.ask(probe, found).await?,
            None => {
                let held = self.engine.hold_silent(found, self.pause(found)).await?;
                held.then_some(Settlement::Unknown)
            }
        };
        // That it is still unknown was counted when it became so.
        let news = !matches!(
            (&found.record.state, settled),
            (State::Unknown { .. }, Some(Settlement::Unknown)) | (_, None)
        );
        if let (true, Some(settled)) = (news, settled) {
            metrics::settled(settled);
        }
        Ok(settled)
    }

    async fn ask(&self, probe: &Probe, found: &Found) -> Result<Option<Settlement>, StoreError> {
        const { assert!(LEASE.as_secs() > 2 * probe::LIMIT.as_secs()) };
        let policy = self.rules.load().of(found);
        let Some(silent) = self.engine.take_silent(found, LEASE, &policy).await? else {
            return Ok(None);
        };
        let verdict = match probe.ask(found).await {
            Probed::Said(verdict) => verdict,
            Probed::Silent(why) => {
                tracing::warn!(identity = ?found.record.identity, why, "the probe gave no answer");
                Verdict::Unknown
            }
        };
        let settled = match verdict {
            Verdict::Succeeded { .. } => Settlement::Succeeded,
            Verdict::Failed => Settlement::Failed,
            Verdict::Unknown => Settlement::Unknown,
        };
        let pause = self.pause(found);
        let written = self.engine.settle_silent(silent, verdict, &policy, pause).await?;
        Ok(written.then_some(settled))
    }

    /// The older, the longer: half its age, and an hour at most.
    fn pause(&self, found: &Found) -> Duration {
        let age = found.now.since(found.record.created_at);
        (age / 2).min(LONGEST_PAUSE).max(self.interval)
    }
}
