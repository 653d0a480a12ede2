//! Learning what was forgotten elsewhere.
//!
//! A push comes at once but can be lost; the audit trail in the durable tier comes a moment later
//! and cannot. Whoever reads a line there also makes sure that the fast tier has heard of it.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::broadcast::{self, error::RecvError};

use super::cache::Answers;
use crate::idempotency::IdentityDigest;
use crate::store::Tiered;
use crate::store::fast::Push;

const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Lines may become visible out of order: the last few are read again.
const OVERLAP: i64 = 64;

pub async fn pushes(answers: Arc<Answers>, mut pushes: broadcast::Receiver<Push>) {
    loop {
        match pushes.recv().await {
            Ok(Push::Forgotten(identity)) => answers.forget(&identity),
            Ok(Push::Changed(_)) => {}
            // Which ones were missed is not known.
            Err(RecvError::Lagged(_)) => answers.forget_all(),
            Err(RecvError::Closed) => return,
        }
    }
}

pub async fn audit_trail(answers: Arc<Answers>, tiers: Arc<Tiered>) {
    let mut position = None;
    let mut seen: HashSet<i64> = HashSet::new();
    let mut unheard: Vec<IdentityDigest> = Vec::new();
    loop {
        let from = match position {
            Some(line) => line - OVERLAP,
            None => i64::MAX,
        };
        seen.retain(|line| *line > from || position.is_none());
        match tiers.audit_after(from).await {
            Ok(lines) if position.is_none() => {
                position = Some(lines.last().map_or(0, |line| line.id));
                seen.extend(position);
                // Whatever was forgotten before this point was not followed.
                answers.forget_all();
            }
            Ok(lines) => {
                for line in lines {
                    if seen.contains(&line.id) {
                        continue;
                    }
                    seen.insert(line.id);
                    position = position.max(Some(line.id));
                    answers.forget(line.identity.digest());
                    unheard.push(*line.identity.digest());
                }
            }
            Err(error) => tracing::debug!(%error, "the audit trail cannot be followed now"),
        }
        let mut still = Vec::new();
        for identity in unheard {
            if !tiers.forget_fast(&identity).await {
                still.push(identity);
            }
        }
        unheard = still;
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
