//! Callbacks: whoever left a decision unfinished is told when it is due to be run again.
//!
//! A due time is taken by compare-and-set before anything is sent, and cleared when the receiver
//! has confirmed it: several gateways send it once. A gateway that dies in between leaves a time
//! that comes again, so a callback may come twice, and never not at all.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use serde_json::{Value, json};

use crate::clock::{self, Timestamp};
use crate::config;
use crate::engine::Engine;
use crate::http::client::Target;
use crate::idempotency::record::AfterFailure;
use crate::idempotency::{Found, Record, State};
use crate::store::StoreError;

const LIMIT: Duration = Duration::from_secs(10);
const MAX_BYTES: usize = 64 << 10;
const BATCH: u32 = 100;
const AT_ONCE: usize = 16;
const MAX_BATCHES: u32 = 200;
/// How long a due time is ours: longer than a callback may take.
const TAKEN: Duration = Duration::from_secs(30);
const SHORTEST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);
const PROCESSING: &str = "PROCESSING";

pub struct Callbacks {
    engine: Engine,
    receiver: Target,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallbackReport {
    pub delivered: u32,
    /// The receiver did not take them: they are due again later.
    pub postponed: u32,
    /// Another instance was faster.
    pub lost: u32,
}

enum Called {
    Delivered,
    Postponed,
    Lost,
}

/// How a batch goes.
#[derive(Default)]
struct Going {
    postponed: AtomicU32,
    lost: AtomicU32,
}

impl Going {
    /// A receiver that is down is not asked for every record that is due; and where others have
    /// been, a new look finds more to do than the rest of this one.
    fn is_pointless(&self) -> bool {
        self.postponed.load(Ordering::Relaxed) >= AT_ONCE as u32
            || self.lost.load(Ordering::Relaxed) >= AT_ONCE as u32
    }
}

impl Callbacks {
    /// None: nobody wants to be called.
    pub fn new(engine: &Engine, config: &config::Reconciler) -> Option<Self> {
        let receiver =
            Target::new(config.callback_url.as_ref()?.expose(), LIMIT, MAX_BYTES).ok()?;
        Some(Self { engine: engine.clone(), receiver })
    }

    /// Until nothing is due any more, the receiver is down, or for long enough.
    pub async fn step(&self) -> Result<CallbackReport, StoreError> {
        let mut report = CallbackReport::default();
        for _ in 0..MAX_BATCHES {
            let due = self.engine.callbacks(BATCH).await.inspect_err(|error| {
                tracing::warn!(%error, "due decisions cannot be looked at now");
            })?;
            let full = due.len() >= BATCH as usize;
            let going = Going::default();
            let calls = elsewhere_first(due).into_iter().map(|found| self.call(found, &going));
            let mut calls = stream::iter(calls).buffer_unordered(AT_ONCE);
            while let Some(called) = calls.next().await {
                match called {
                    Ok(Called::Delivered) => report.delivered += 1,
                    Ok(Called::Postponed) => report.postponed += 1,
                    Ok(Called::Lost) => report.lost += 1,
                    Err(error) => tracing::warn!(%error, "a callback could not be noted"),
                }
            }
            if !full || going.postponed.load(Ordering::Relaxed) > 0 {
                break;
            }
        }
        if report.postponed > 0 {
            let count = report.postponed;
            tracing::warn!(count, "the receiver of callbacks does not take them");
        }
        Ok(report)
    }

    async fn call(&self, found: Found, going: &Going) -> Result<Called, StoreError> {
        let Found { record, now } = &found;
        let Some(seen) = record.attend_at else { return Ok(Called::Lost) };
        if going.is_pointless() {
            return Ok(Called::Lost);
        }
        let fence = record.fence();
        let began = clock::now();
        let taken = *now + TAKEN;
        if !self.engine.attend(fence, seen, Some(taken)).await? {
            going.lost.fetch_add(1, Ordering::Relaxed);
            return Ok(Called::Lost);
        }
        if record.is_expired(*now) {
            self.engine.attend(fence, taken, None).await?;
            return Ok(Called::Lost);
        }
        let answer = self.receiver.post_json(notice(record).to_string().into_bytes()).await;
        let why = match answer {
            Ok(answer) if answer.status.is_success() => {
                self.engine.attend(fence, taken, None).await?;
                return Ok(Called::Delivered);
            }
            Ok(answer) => format!("status {}", answer.status.as_u16()),
            Err(error) => error.to_string(),
        };
        going.postponed.fetch_add(1, Ordering::Relaxed);
        tracing::debug!(identity = ?record.identity, why, "a callback was not taken");
        // The later it is, the longer the pause: half of what it is late by.
        let now = *now + clock::now().saturating_duration_since(began);
        let late = now.since(due(record).unwrap_or(seen));
        let pause = (late / 2).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
        self.engine.attend(fence, taken, Some(now + pause)).await?;
        Ok(Called::Postponed)
    }
}

/// Every instance sees the same batch: each begins at another place of it.
fn elsewhere_first(mut due: Vec<Found>) -> Vec<Found> {
    let place = usize::from(uuid::Uuid::new_v4().as_bytes()[0]) * due.len() / 256;
    due.rotate_left(place);
    due
}

/// When it came to be due, however often that was tried since.
fn due(record: &Record) -> Option<Timestamp> {
    match record.state {
        State::Processing { lease_until: due }
        | State::Unknown { retry_at: due }
        | State::Failed { then: AfterFailure::Execute { from: due }, .. } => Some(due),
        _ => None,
    }
}

fn notice(record: &Record) -> Value {
    let due = due(record).map(|time| time.to_string());
    // An abandoned lock is one to its owner, also after the reconciler has given up on it.
    let (status, lock_expires_at, next_retry_at) = match record.state {
        State::Processing { .. } | State::Unknown { .. } => (PROCESSING, due, None),
        _ => (record.state.as_str(), None, due),
    };
    json!({
        "tenant": record.identity.tenant().as_str(),
        "scope": record.identity.scope().as_str(),
        "idempotency_key": record.identity.key().as_str(),
        "status": status,
        "attempt_count": record.attempt,
        "last_error": record.last_error.as_ref().map(|error| error.message.as_str()),
        "next_retry_at": next_retry_at,
        "lock_expires_at": lock_expires_at,
    })
}
