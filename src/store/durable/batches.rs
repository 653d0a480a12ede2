//! What the two writers do with a batch: claim it, or settle it.
//!
//! A batch is repeated after any passing failure: a claimer finds its own id, a settler its own
//! token, so nothing is done twice. One bad row does not fail its neighbours: the batch is taken
//! apart.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::backend::Backend;
use super::connection::Kept;
use super::row::{OwnerRow, PROCESSING};
use super::settle_row::SettleRow;
use super::sizes::batch_of;
use super::withdrawals::Withdrawals;
use super::writer::{BatchWriter, Job};
use super::{Claimed, NewClaim, Written};
use crate::idempotency::settle::Failure;
use crate::idempotency::{Body, Fence, Identity, Settlement};
use crate::store::StoreError;
use crate::telemetry::metrics;

/// A stale connection, a deadlock and a record that vanished between two statements all pass.
const TRIES: usize = 4;

pub struct ClaimJob {
    pub claim: NewClaim,
    pub reply: oneshot::Sender<Result<Claimed, StoreError>>,
}

impl Job for ClaimJob {
    fn weight(&self) -> usize {
        0
    }

    fn is_moot(&self) -> bool {
        self.reply.is_closed()
    }
}

pub struct ClaimWriter<B: Backend> {
    kept: Kept<B>,
    withdrawals: Withdrawals,
    /// A try of the batch at hand was cut off: it may still land.
    in_doubt: bool,
}

impl<B: Backend> ClaimWriter<B> {
    pub fn new(kept: Kept<B>, withdrawals: Withdrawals) -> Self {
        Self { kept, withdrawals, in_doubt: false }
    }
}

impl<B: Backend> BatchWriter<ClaimJob> for ClaimWriter<B> {
    async fn write(&mut self, mut batch: Vec<ClaimJob>) {
        metrics::group_commit(metrics::Batch::Claims, batch.len());
        batch.sort_unstable_by(|a, b| {
            a.claim.identity.index_order().cmp(&b.claim.identity.index_order())
        });
        match self.claim_all(&batch).await {
            Ok(results) => {
                for (job, result) in batch.into_iter().zip(results) {
                    self.answer(job, Ok(result));
                }
            }
            Err(error) if !error.is_transient() && batch.len() > 1 => {
                for job in batch {
                    let alone = self.claim_all(std::slice::from_ref(&job)).await;
                    self.answer(job, alone.and_then(only::<B, _>));
                }
            }
            Err(error) => {
                for job in batch {
                    self.answer(job, Err(error.clone()));
                }
            }
        }
    }

    fn rest(&mut self) {
        self.kept.let_go();
    }
}

impl<B: Backend> ClaimWriter<B> {
    /// A claim that reaches nobody, or may have been written after all, is taken back.
    fn answer(&self, job: ClaimJob, result: Result<Claimed, StoreError>) {
        let may_be_there = match result {
            Ok(Claimed::New) => false,
            Ok(Claimed::Exists(_)) => self.in_doubt,
            Err(_) => true,
        };
        let new = matches!(result, Ok(Claimed::New));
        let delivered = job.reply.send(result).is_ok();
        if may_be_there || (new && !delivered) {
            self.withdrawals.withdraw(job.claim.fence);
        }
    }

    async fn claim_all(&mut self, batch: &[ClaimJob]) -> Result<Vec<Claimed>, StoreError> {
        let claims = batch.iter().map(|job| job.claim.clone()).collect();
        let mut outcome = Err(gone::<B>());
        self.in_doubt = false;
        for _ in 0..TRIES {
            match self.try_claim(&claims).await {
                Ok(Some(results)) => return Ok(results),
                Ok(None) => {}
                Err(error) if error.is_transient() => {
                    self.in_doubt = true;
                    outcome = Err(error);
                }
                Err(error) => return Err(error),
            }
            if batch.iter().all(Job::is_moot) {
                break;
            }
        }
        outcome
    }

    /// None: a row was gone again before it could be read.
    async fn try_claim(
        &mut self,
        claims: &Arc<[NewClaim]>,
    ) -> Result<Option<Vec<Claimed>>, StoreError> {
        let rows = claims.clone();
        let inserted =
            self.kept.run(|b, c| Box::pin(async move { b.insert(c, &rows).await })).await?;
        if inserted == claims.len() as u64 {
            return Ok(Some(claims.iter().map(|_| Claimed::New).collect()));
        }
        let identities: Vec<Identity> = claims.iter().map(|c| c.identity.clone()).collect();
        let rows =
            self.kept.run(|b, c| Box::pin(async move { b.find(c, &identities).await })).await?;
        let mut found = HashMap::with_capacity(rows.len());
        for row in rows {
            let row = row.found()?;
            found.insert(row.record.identity.clone(), row);
        }
        let results = claims.iter().map(|claim| match found.get(&claim.identity) {
            Some(row) if row.record.fence() == claim.fence => Some(Claimed::New),
            Some(row) => Some(Claimed::Exists(Box::new(row.clone()))),
            None => None,
        });
        Ok(results.collect())
    }
}

pub struct SettleJob {
    pub fence: Fence,
    pub settlement: Settlement,
    pub reply: oneshot::Sender<Result<Written, StoreError>>,
}

impl Job for SettleJob {
    fn weight(&self) -> usize {
        match &self.settlement {
            Settlement::Succeed { answer, .. }
            | Settlement::Fail { then: Failure::Replay { answer }, .. } => answer.len(),
            _ => 0,
        }
    }

    /// Whoever asked for it: what has happened is to be written.
    fn is_moot(&self) -> bool {
        false
    }
}

pub struct SettleWriter<B: Backend> {
    pub kept: Kept<B>,
}

impl<B: Backend> BatchWriter<SettleJob> for SettleWriter<B> {
    async fn write(&mut self, mut batch: Vec<SettleJob>) {
        metrics::group_commit(metrics::Batch::Settlements, batch.len());
        // One order for every batch, so that two of them never wait for each other.
        batch.sort_by_key(|job| job.fence.id);
        while !batch.is_empty() {
            // Endings of one record take turns: a statement could follow only one of them, and
            // that may be the one without the right to it.
            let mut last = None;
            let (round, later) =
                batch.into_iter().partition(|job| last.replace(job.fence.id) != Some(job.fence.id));
            self.settle_round(round).await;
            batch = later;
        }
    }

    fn rest(&mut self) {
        self.kept.let_go();
    }
}

impl<B: Backend> SettleWriter<B> {
    /// At most one ending of each record.
    async fn settle_round(&mut self, round: Vec<SettleJob>) {
        let (releases, mut updates): (Vec<_>, Vec<_>) =
            round.into_iter().partition(|job| job.settlement == Settlement::Release);
        if !releases.is_empty() {
            self.settle(releases).await;
        }
        while !updates.is_empty() {
            let rest = updates.split_off(batch_of(updates.len()));
            self.settle(updates).await;
            updates = rest;
        }
    }

    async fn settle(&mut self, batch: Vec<SettleJob>) {
        let (rows, replies): (Vec<_>, Vec<_>) =
            batch.into_iter().map(|job| ((job.fence, job.settlement), job.reply)).unzip();
        let rows: Arc<[_]> = rows.into();
        let results = match self.settle_all(rows.clone()).await {
            Ok(written) => written.into_iter().map(Ok).collect(),
            Err(StoreError::Rejected { .. }) => self.settle_apart(&rows).await,
            Err(error) => vec![Err(error); rows.len()],
        };
        for (reply, result) in replies.into_iter().zip(results) {
            // Nobody waiting is fine: it is written.
            let _ = reply.send(result);
        }
    }

    /// One by one; what the database will not take is left out, for the operation has run and must
    /// never run again.
    async fn settle_apart(
        &mut self,
        rows: &[(Fence, Settlement)],
    ) -> Vec<Result<Written, StoreError>> {
        let mut results = Vec::with_capacity(rows.len());
        for row in rows {
            let mut result = self.settle_all([row.clone()].into()).await;
            for lesser in lesser(&row.1) {
                let Err(StoreError::Rejected { reason, .. }) = &result else {
                    break;
                };
                tracing::warn!(reason, "an ending could not be stored whole: kept without");
                result = self.settle_all([(row.0, lesser)].into()).await;
            }
            results.push(result.and_then(only::<B, _>));
        }
        results
    }

    async fn settle_all(
        &mut self,
        rows: Arc<[(Fence, Settlement)]>,
    ) -> Result<Vec<Written>, StoreError> {
        let mut outcome = Err(gone::<B>());
        for _ in 0..TRIES {
            match self.try_settle(&rows).await {
                Ok(Some(written)) => return Ok(written),
                Ok(None) => {}
                Err(error) if error.is_transient() => outcome = Err(error),
                Err(error) => return Err(error),
            }
        }
        outcome
    }

    /// None: a row is still ours and unsettled, though the statement said otherwise.
    async fn try_settle(
        &mut self,
        rows: &Arc<[(Fence, Settlement)]>,
    ) -> Result<Option<Vec<Written>>, StoreError> {
        let values = rows.clone();
        let matched = self
            .kept
            .run(|b, c| {
                Box::pin(async move {
                    let updates: Vec<_> =
                        values.iter().filter_map(|(f, s)| SettleRow::new(*f, s)).collect();
                    match updates.is_empty() {
                        true => {
                            let fences: Vec<_> = values.iter().map(|(fence, _)| *fence).collect();
                            b.release(c, &fences).await
                        }
                        false => {
                            b.takes(c, &updates).await?;
                            b.settle(c, &updates).await
                        }
                    }
                })
            })
            .await?;
        if matched == rows.len() as u64 {
            return Ok(Some(vec![Written::Applied; rows.len()]));
        }
        let ids: Vec<_> = rows.iter().map(|(fence, _)| fence.id.0).collect();
        let owners = self.kept.run(|b, c| Box::pin(async move { b.owners(c, &ids).await })).await?;
        let owners: HashMap<_, _> = owners.into_iter().map(|owner| (owner.id, owner)).collect();
        Ok(rows.iter().map(|(fence, s)| verdict(fence, s, owners.get(&fence.id.0))).collect())
    }
}

/// Whether a write that matched fewer rows than it should has been applied to this one.
fn verdict(fence: &Fence, settlement: &Settlement, owner: Option<&OwnerRow>) -> Option<Written> {
    let wanted = SettleRow::new(*fence, settlement).map(|row| row.state.as_bytes());
    match owner {
        None if wanted.is_none() => Some(Written::Applied),
        Some(owner) if owner.token == fence.token.0 => match Some(owner.state.as_slice()) {
            state if state == wanted => Some(Written::Applied),
            Some(PROCESSING) => None,
            _ => Some(Written::Fenced),
        },
        _ => Some(Written::Fenced),
    }
}

/// What is left of an ending that the database refuses: first without its text, which says less
/// than the answer, then also without the body.
pub fn lesser(settlement: &Settlement) -> Vec<Settlement> {
    let mut without_text = settlement.clone();
    match &mut without_text {
        Settlement::Succeed { result_ref, .. } => *result_ref = None,
        Settlement::Fail { error: text, .. } | Settlement::Hold { why: text, .. } => {
            *text = "the database refused the text of this error".into();
        }
        Settlement::Release => return Vec::new(),
        Settlement::Undo { attempt, back } => {
            let undo = |back| Settlement::Undo { attempt: *attempt, back: Box::new(back) };
            return lesser(back).into_iter().map(undo).collect();
        }
    }
    let mut without_body = without_text.clone();
    if let Settlement::Succeed { answer, .. }
    | Settlement::Fail { then: Failure::Replay { answer }, .. } = &mut without_body
    {
        answer.body = Body::TooLong;
    }
    vec![without_text, without_body]
}

fn only<B: Backend, T>(mut one: Vec<T>) -> Result<T, StoreError> {
    one.pop().ok_or_else(gone::<B>)
}

fn gone<B: Backend>() -> StoreError {
    StoreError::busy(B::NAME, "the record keeps changing under this write")
}
