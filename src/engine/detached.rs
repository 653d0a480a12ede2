//! Attempts that run elsewhere: admitted here, ended or extended by whoever shows their token.
//!
//! [`Claim::detach`](super::Claim::detach) lets one go. Its end may come to any instance, so all
//! that is needed is in the record: the end is fenced by the token that the record shows.

use std::sync::Arc;
use std::time::Duration;

use super::{Engine, Shared};
use crate::clock::{self, Timestamp};
use crate::idempotency::policy::backoff;
use crate::idempotency::record::AfterFailure;
use crate::idempotency::settle::{Failure, cut};
use crate::idempotency::{
    Found, Identity, Origin, Policy, Record, Settlement, Snapshot, State, Token,
};
use crate::store::StoreError;
use crate::store::durable::Written;
use crate::store::fast;
use crate::store::tiered::Held;
use crate::telemetry::metrics;

/// What a caller shows to be the owner. What is not shown is not checked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Proof {
    pub token: Option<Token>,
    pub attempt: Option<u32>,
}

/// How it ended.
#[derive(Clone, Debug)]
pub enum Finish {
    Done {
        answer: Snapshot,
        result_ref: Option<String>,
    },
    Failed {
        error: String,
        base: Duration,
    },
    /// For good; `answer` is what the next ones are told.
    Conflict {
        answer: Snapshot,
        error: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finished {
    Stored,
    /// There is no such record.
    Missing,
    /// The attempt is not the caller's, or has ended in another way: nothing was changed.
    Fenced,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extended {
    Until { lease_until: Timestamp, attempt: u32 },
    Missing,
    Fenced,
}

impl Engine {
    /// Ends an attempt that runs elsewhere. Saying the same again is fine.
    pub async fn finish(
        &self,
        identity: &Identity,
        proof: Proof,
        finish: Finish,
        policy: &Policy,
    ) -> Result<Finished, StoreError> {
        let Some(found) = self.record(identity).await? else { return Ok(Finished::Missing) };
        let record = found.record;
        let finished = match standing(&record, proof, &finish) {
            Standing::Ended => Finished::Stored,
            Standing::Foreign => Finished::Fenced,
            Standing::Open => {
                let settlement = settlement(finish, record.attempt, policy);
                // Begun, it is carried through, whether or not the caller waits for it.
                let work = end(self.shared.clone(), record, settlement);
                let done = self.shared.runtime.spawn(work).await;
                done.unwrap_or_else(|error| Err(StoreError::busy("engine", error)))?
            }
        };
        if finished == Finished::Fenced {
            metrics::fenced_writes(1);
        }
        Ok(finished)
    }

    /// Protects an attempt that runs elsewhere for this long from now.
    pub async fn extend(
        &self,
        identity: &Identity,
        token: Token,
        lease: Duration,
    ) -> Result<Extended, StoreError> {
        let Some(found) = self.record(identity).await? else { return Ok(Extended::Missing) };
        let runs = |record: &Record| {
            record.token == token && matches!(record.state, State::Processing { .. })
        };
        if !runs(&found.record) {
            return Ok(Extended::Fenced);
        }
        let one = [(found.record.fence(), *identity.digest())];
        self.shared.tiers.renew(&one, lease).await?;
        // It may have ended or changed hands meanwhile; the record says so, and until when.
        Ok(match self.record(identity).await? {
            Some(Found { record, .. }) if runs(&record) => match record.state {
                State::Processing { lease_until } => {
                    Extended::Until { lease_until, attempt: record.attempt }
                }
                _ => Extended::Fenced,
            },
            Some(_) => Extended::Fenced,
            None => Extended::Missing,
        })
    }
}

enum Standing {
    Open,
    /// It has ended like this before.
    Ended,
    /// It is another's, or has ended otherwise.
    Foreign,
}

fn standing(record: &Record, proof: Proof, finish: &Finish) -> Standing {
    let shown = proof.token.is_none_or(|token| token == record.token)
        && proof.attempt.is_none_or(|attempt| attempt == record.attempt);
    if !shown {
        return Standing::Foreign;
    }
    match (&record.state, finish) {
        // What a gateway runs, a gateway ends.
        (State::Processing { .. } | State::Unknown { .. }, _) => match record.origin {
            Origin::Decision => Standing::Open,
            Origin::Call => Standing::Foreign,
        },
        (State::Succeeded { .. }, Finish::Done { .. })
        | (State::Failed { then: AfterFailure::Execute { .. }, .. }, Finish::Failed { .. })
        | (State::Failed { then: AfterFailure::Replay { .. }, .. }, Finish::Conflict { .. }) => {
            Standing::Ended
        }
        _ => Standing::Foreign,
    }
}

fn settlement(finish: Finish, attempt: u32, policy: &Policy) -> Settlement {
    let keep = policy.ttl;
    match finish {
        Finish::Done { answer, result_ref } => Settlement::Succeed { answer, result_ref, keep },
        Finish::Failed { error, base } => {
            let then = Failure::ExecuteAgain { after: backoff(base, attempt) };
            Settlement::Fail { then, error: cut(error), keep }
        }
        Finish::Conflict { answer, error } => {
            Settlement::Fail { then: Failure::Replay { answer }, error: cut(error), keep }
        }
    }
}

async fn end(
    shared: Arc<Shared>,
    record: Record,
    settlement: Settlement,
) -> Result<Finished, StoreError> {
    let (epoch, began) = (shared.answers.epoch(), clock::now());
    let fence = record.fence();
    if shared.tiers.settle(fence, &settlement).await? == Written::Fenced {
        return Ok(Finished::Fenced);
    }
    let identity = record.identity.digest();
    let held = match settlement {
        Settlement::Succeed { answer, keep, .. }
        | Settlement::Fail { then: Failure::Replay { answer }, keep, .. } => {
            let (fingerprint, credential) = (record.fingerprint, record.credential);
            let finished = fast::Finished { fingerprint, credential, answer };
            Some(Held::since(began, keep, finished))
        }
        _ => None,
    };
    if let Some(held) = &held {
        shared.answers.insert(identity, held, epoch);
    }
    // Whoever waits elsewhere is told, and the lock makes way for the answer or the next attempt.
    shared.tiers.publish(identity, fence.token, held).await;
    Ok(Finished::Stored)
}
