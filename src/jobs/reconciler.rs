//! The reconciler: runs that have gone silent are settled, by their own answer, by the probe, or as
//! UNKNOWN.
//!
//! An abandoned run may have an answer that its owner could only put into the fast tier: that is
//! looked for first. Then it is marked as UNKNOWN, which one of several gateways does, and only then
//! the upstream is asked what became of it. The mark takes nothing from a late owner but the right to
//! begin: should it have been slow rather than dead, its answer still counts.
//!
//! ## Why a probe leaves no trace
//! While nobody knows, nothing has changed: clients go on hearing `outcome-unknown`, operators see
//! since when and why. So the right to ask is taken by moving the time of the next probe, by
//! compare-and-set, and nothing else is written before there is an outcome. That one is written as a
//! takeover of just what was asked about: of a probe, a late owner, an operator and a retry, one ends
//! the record, and the others see that they came too late.
//!
//! ## What becomes of decisions
//! Who runs them may be anywhere and late, and whoever asks next runs them again. So one whose lock
//! ran out long ago is asked about once. If nobody knows, it is UNKNOWN with the end of its lock as the
//! time of its next attempt: the next `acquire` proceeds, its silent owner may still complete it, a
//! callback that is due stays due, and it goes when a finished decision would. FAILED would say
//! what nobody knows, and would refuse the late owner.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use futures_util::{StreamExt, stream};

use super::probe::{self, Probe, Probed};
use crate::clock::{self, Timestamp};
use crate::config::{self, Config};
use crate::engine::{Engine, TakenFromFast};
use crate::idempotency::settle::Verdict;
use crate::idempotency::{Found, Origin, Policy, State, WhenFailed, WhenUnknown};
use crate::store::StoreError;
use crate::telemetry::metrics::{self, Settlement};

const BATCH: u32 = 100;
const AT_ONCE: usize = 8;
/// How long the right to ask is ours: longer than a probe may take and its verdict needs.
const TAKEN: Duration = Duration::from_secs(30);
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);

/// What the operator said about the operations of each scope.
pub struct Rules {
    by_scope: HashMap<String, Arc<Policy>>,
    otherwise: Arc<Policy>,
    decision: Arc<Policy>,
}

impl Rules {
    /// Routes that share a scope: the first one speaks for it.
    pub fn new(config: &Config) -> Self {
        let mut by_scope = HashMap::new();
        for route in &config.routes {
            let scope = route.scope.as_str().to_owned();
            by_scope.entry(scope).or_insert_with(|| route.policy.clone());
        }
        let decision = Policy {
            ttl: config.decision.ttl,
            when_failed: WhenFailed::Retry,
            when_unknown: WhenUnknown::Retry,
            origin: Origin::Decision,
            ..Policy::default()
        };
        Self { by_scope, otherwise: Arc::default(), decision: Arc::new(decision) }
    }

    fn of(&self, found: &Found) -> Arc<Policy> {
        if found.record.origin == Origin::Decision {
            return self.decision.clone();
        }
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

    /// One batch each of the calls and decisions that have been abandoned for long enough, and of
    /// the calls that are unknown and due.
    pub async fn step(&self) -> Result<ReconcilerReport, StoreError> {
        let told = |error: &StoreError| {
            tracing::warn!(%error, "silent records cannot be looked at now");
        };
        let read_at = clock::now();
        let mut due = Vec::new();
        for origin in [Origin::Call, Origin::Decision] {
            let abandoned = self.engine.abandoned(origin, self.settle_after, BATCH).await;
            due.extend(abandoned.inspect_err(told)?);
        }
        if self.probe.is_some() {
            due.extend(self.engine.unsettled(BATCH).await.inspect_err(told)?);
        }
        let settling = due.into_iter().map(|found| self.settle(Silent { found, read_at }));
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

    async fn settle(&self, silent: Silent) -> Result<Option<Settlement>, StoreError> {
        let rescued = match silent.found.record.origin {
            Origin::Call => self.engine.settle_rescued(&silent.found).await?,
            Origin::Decision => None,
        };
        let settled = match rescued {
            Some(TakenFromFast::Succeeded) => Some(Settlement::Succeeded),
            Some(TakenFromFast::Failed) => Some(Settlement::Failed),
            Some(TakenFromFast::TooLate) => None,
            None => self.find_out(&silent).await?,
        };
        // That it is still unknown was counted when it became so.
        let news = !matches!(
            (&silent.found.record.state, settled),
            (State::Unknown { .. }, Some(Settlement::Unknown)) | (_, None)
        );
        if let (true, Some(settled)) = (news, settled) {
            metrics::settled(settled);
        }
        Ok(settled)
    }

    async fn find_out(&self, silent: &Silent) -> Result<Option<Settlement>, StoreError> {
        const { assert!(TAKEN.as_secs() > 2 * probe::LIMIT.as_secs()) };
        let found = &silent.found;
        let policy = self.rules.load().of(found);
        let taken = silent.now() + TAKEN;
        let ours = match (&found.record.state, found.record.attend_at, found.record.origin) {
            (State::Processing { .. }, _, Origin::Call) => {
                let next = if self.probe.is_some() { taken } else { self.next(silent) };
                self.engine.hold_silent(found, Some(next), None).await?
            }
            // Its time is that of its callback.
            (State::Processing { .. }, _, Origin::Decision) => {
                self.engine.hold_silent(found, None, Some(policy.ttl)).await?
            }
            (_, Some(seen), _) => {
                self.engine.attend(found.record.fence(), seen, Some(taken)).await?
            }
            (_, None, _) => false,
        };
        match &self.probe {
            _ if !ours => Ok(None),
            None => Ok(Some(Settlement::Unknown)),
            Some(probe) => self.ask(probe, silent, &policy, taken).await,
        }
    }

    async fn ask(
        &self,
        probe: &Probe,
        silent: &Silent,
        policy: &Policy,
        taken: Timestamp,
    ) -> Result<Option<Settlement>, StoreError> {
        let found = &silent.found;
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
            Verdict::Unknown => {
                if found.record.origin == Origin::Call {
                    let next = Some(self.next(silent));
                    self.engine.attend(found.record.fence(), taken, next).await?;
                }
                return Ok(Some(Settlement::Unknown));
            }
        };
        let written = self.engine.settle_silent(found, verdict, policy).await?;
        Ok(written.then_some(settled))
    }

    /// When it is asked about again. The older, the later: after half its age, and an hour at most.
    fn next(&self, silent: &Silent) -> Timestamp {
        let age = silent.found.now.since(silent.found.record.created_at);
        silent.now() + (age / 2).min(LONGEST_PAUSE).max(self.interval)
    }
}

/// A record as it was read, and when.
struct Silent {
    found: Found,
    read_at: Instant,
}

impl Silent {
    /// By the durable tier's clock: others may have been settled since this one was read.
    fn now(&self) -> Timestamp {
        self.found.now + clock::now().saturating_duration_since(self.read_at)
    }
}
