//! The durable tier over any backend: writers that group, everything else one task per call.

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use sqlx::migrate::MigrateError;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::backend::{Backend, Change, Connection};
use super::batches::{ClaimJob, ClaimWriter, SettleJob, SettleWriter, lesser};
use super::connection::Kept;
use super::listing::{self, Listing, Page, Position, WINDOWS, Walk};
use super::row::{self, AuditRow, Row};
use super::sizes::MAX_IDS;
use super::withdrawals::Withdrawals;
use super::writer::{self, Way};
use super::{
    Audit, AuditLine, Claimed, Counts, DurableOptions, DurableTier, Hold, NewClaim, NotRenewed,
    TakeOver, Taken, Writes, Written,
};
use crate::clock::Timestamp;
use crate::idempotency::{Fence, Found, Identity, Origin, RecordId, Settlement, Token};
use crate::store::StoreError;

const MIGRATION_TRIES: u32 = 20;
const MIGRATION_PAUSE: Duration = Duration::from_millis(250);

pub fn start<B: Backend>(backend: B, options: &DurableOptions) -> Arc<dyn DurableTier> {
    let backend = Arc::new(backend);
    let patience = options.patience;
    let kept = {
        let backend = backend.clone();
        move || Kept::new(backend.clone(), patience)
    };
    let (lanes, alive) = watch::channel(());
    let stop = CancellationToken::new();
    let withdrawals = Withdrawals::start(kept());
    let settle = {
        let kept = kept.clone();
        move || SettleWriter { kept: kept() }
    };
    let claim = {
        let withdrawals = withdrawals.clone();
        move || ClaimWriter::new(kept(), withdrawals.clone())
    };
    let (claims, settlements) = match options.writes {
        Writes::Grouped => (
            writer::together(B::BATCHES, claim, &stop, &alive),
            writer::together(B::BATCHES, settle, &stop, &alive),
        ),
        Writes::Single => (writer::apart(claim), writer::apart(settle)),
    };
    Arc::new(Grouped { claims, settlements, patience, withdrawals, stop, lanes, backend })
}

struct Grouped<B: Backend> {
    backend: Arc<B>,
    claims: Way<ClaimJob>,
    settlements: Way<SettleJob>,
    withdrawals: Withdrawals,
    stop: CancellationToken,
    /// Closed when the lanes have ended.
    lanes: watch::Sender<()>,
    patience: Duration,
}

impl<B: Backend> Grouped<B> {
    /// Runs one operation in a task that nobody can cancel. A stale connection shows itself once:
    /// every operation may be repeated, so it is.
    async fn run<T: Send + 'static>(
        &self,
        operation: impl for<'c> Fn(
            &'c B,
            &'c mut Connection<B>,
        ) -> BoxFuture<'c, Result<T, sqlx::Error>>
        + Send
        + Sync
        + 'static,
    ) -> Result<T, StoreError> {
        let mut kept = Kept::new(self.backend.clone(), self.patience);
        let task = tokio::spawn(async move {
            match kept.run(&operation).await {
                Err(error) if error.is_transient() => kept.run(&operation).await,
                done => done,
            }
        });
        self.answer(task).await
    }

    /// What a task or a lane says within the caller's patience; it goes on without the caller.
    async fn answer<T, E: Display>(
        &self,
        reply: impl Future<Output = Result<Result<T, StoreError>, E>> + Send,
    ) -> Result<T, StoreError> {
        match tokio::time::timeout(self.patience, reply).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(gone)) => Err(StoreError::unavailable(B::NAME, gone)),
            Err(_) => Err(StoreError::unavailable(
                B::NAME,
                format_args!("no answer within {:?}", self.patience),
            )),
        }
    }
}

fn may_be_a_race(error: &MigrateError) -> bool {
    match error {
        MigrateError::Dirty(_) => true,
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => {
            error.as_database_error().is_some()
        }
        _ => false,
    }
}

fn full<B: Backend, J>(error: TrySendError<J>) -> StoreError {
    match error {
        TrySendError::Full(_) => StoreError::busy(B::NAME, "too many writes are waiting"),
        TrySendError::Closed(_) => StoreError::Misconfigured(format!("{} was closed", B::NAME)),
    }
}

/// A claim on its way. Whoever stops waiting for it leaves nothing behind: an answer that nobody
/// took is withdrawn.
struct OnItsWay<'a> {
    reply: oneshot::Receiver<Result<Claimed, StoreError>>,
    fence: Fence,
    withdrawals: &'a Withdrawals,
}

impl Drop for OnItsWay<'_> {
    fn drop(&mut self) {
        self.reply.close();
        if let Ok(Ok(Claimed::New)) = self.reply.try_recv() {
            self.withdrawals.withdraw(self.fence);
        }
    }
}

#[async_trait]
impl<B: Backend> DurableTier for Grouped<B> {
    fn name(&self) -> &'static str {
        B::NAME
    }

    async fn migrate(&self) -> Result<(), StoreError> {
        // Not every database has a lock for this. Whoever comes second is refused by the history
        // or by what is there already, and a moment later finds it done.
        let mut tries = 1..MIGRATION_TRIES;
        loop {
            match self.backend.migrate().await {
                Ok(()) => return Ok(()),
                Err(error) if may_be_a_race(&error) && tries.next().is_some() => {
                    tokio::time::sleep(MIGRATION_PAUSE).await;
                }
                Err(error) => {
                    return Err(StoreError::Misconfigured(format!(
                        "the {} schema could not be migrated: {error}",
                        B::NAME
                    )));
                }
            }
        }
    }

    async fn ping(&self) -> Result<(), StoreError> {
        self.run(|_, conn| Box::pin(sqlx::Connection::ping(conn))).await
    }

    async fn deployment(&self) -> Result<String, StoreError> {
        let name = self.run(|b, c| Box::pin(b.deployment(c))).await?;
        let name = name.and_then(|name| row::text(name).ok());
        name.ok_or_else(|| StoreError::Misconfigured(format!("the {} has no name", B::NAME)))
    }

    async fn claim(&self, claim: NewClaim) -> Result<Claimed, StoreError> {
        if !claim.identity.fits_the_columns() {
            let reason = "the tenant, scope or key is too long".into();
            return Err(StoreError::Rejected { tier: B::NAME, reason });
        }
        let (reply, answer) = oneshot::channel();
        let fence = claim.fence;
        self.claims.send(ClaimJob { claim, reply }).map_err(full::<B, _>)?;
        let mut claim = OnItsWay { reply: answer, fence, withdrawals: &self.withdrawals };
        self.answer(&mut claim.reply).await
    }

    async fn find(&self, identity: &Identity) -> Result<Option<Found>, StoreError> {
        let one = [identity.clone()];
        let rows = self
            .run(move |b, c| {
                let one = one.clone();
                Box::pin(async move { b.find(c, &one).await })
            })
            .await?;
        rows.into_iter().next().map(Row::found).transpose()
    }

    async fn take_over(&self, take: TakeOver) -> Result<Taken, StoreError> {
        let id = take.seen.id.0;
        let token = take.token.0;
        // The count would not tell a lost race from an answer that was lost on its way. Read where it
        // was written: behind a balancer another connection may lead to a server that lags.
        let owners = self.run(move |b, c| {
            let take = take.clone();
            Box::pin(async move {
                b.take_over(c, &take).await?;
                b.owners(c, &[id]).await
            })
        });
        let owners = owners.await?;
        Ok(match owners.first() {
            Some(owner) if owner.token == token => {
                Taken::Won { attempt: u32::try_from(owner.attempt).unwrap_or(u32::MAX) }
            }
            _ => Taken::Lost,
        })
    }

    async fn settle(&self, fence: Fence, settlement: Settlement) -> Result<Written, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.settlements.send(SettleJob { fence, settlement, reply }).map_err(full::<B, _>)?;
        self.answer(answer).await
    }

    async fn renew(&self, leases: Vec<Fence>, lease: Duration) -> Result<NotRenewed, StoreError> {
        let mut not_renewed = NotRenewed::default();
        for chunk in leases.chunks(MAX_IDS) {
            let fences: Arc<[Fence]> = chunk.into();
            let renewed = fences.clone();
            let owners = self.run(move |b, c| {
                let fences = renewed.clone();
                Box::pin(async move {
                    if b.renew(c, &fences, lease).await? == fences.len() as u64 {
                        return Ok(None);
                    }
                    let ids: Vec<_> = fences.iter().map(|fence| fence.id.0).collect();
                    b.owners(c, &ids).await.map(Some)
                })
            });
            let Some(owners) = owners.await? else { continue };
            let owners: HashMap<_, _> = owners.into_iter().map(|o| (o.id, o)).collect();
            for fence in &*fences {
                match owners.get(&fence.id.0).filter(|owner| owner.token == fence.token.0) {
                    None => not_renewed.lost.push(*fence),
                    Some(owner) if owner.state != row::PROCESSING => not_renewed.over.push(*fence),
                    Some(_) => {}
                }
            }
        }
        Ok(not_renewed)
    }

    async fn remove_expired(&self, identity: &Identity) -> Result<(), StoreError> {
        let identity = identity.clone();
        let removed = self.run(move |b, c| {
            let identity = identity.clone();
            Box::pin(async move { b.remove_expired(c, &identity).await })
        });
        removed.await.map(drop)
    }

    async fn purge(&self, batch: u32) -> Result<u64, StoreError> {
        self.run(move |b, c| Box::pin(b.purge(c, batch))).await
    }

    async fn abandoned(
        &self,
        origin: Origin,
        age: Duration,
        limit: u32,
    ) -> Result<Vec<Found>, StoreError> {
        let rows = self.run(move |b, c| Box::pin(b.abandoned(c, origin, age, limit))).await?;
        rows.into_iter().map(Row::found).collect()
    }

    async fn hold(&self, fence: Fence, hold: Hold) -> Result<bool, StoreError> {
        let held = self.run(move |b, c| {
            let hold = hold.clone();
            Box::pin(async move { b.hold(c, fence, &hold).await })
        });
        Ok(held.await? > 0)
    }

    async fn attending(&self, origin: Origin, limit: u32) -> Result<Vec<Found>, StoreError> {
        let rows = self.run(move |b, c| Box::pin(b.attending(c, origin, limit))).await?;
        rows.into_iter().map(Row::found).collect()
    }

    async fn attend(
        &self,
        fence: Fence,
        seen: Timestamp,
        next: Option<Timestamp>,
    ) -> Result<bool, StoreError> {
        let moved = self.run(move |b, c| Box::pin(b.attend(c, fence, seen, next))).await?;
        Ok(moved > 0)
    }

    async fn counts(&self, stuck_after: Duration) -> Result<Counts, StoreError> {
        let row = self.run(move |b, c| Box::pin(b.counts(c, stuck_after))).await?;
        let count = |n: i64| u64::try_from(n).unwrap_or(0);
        Ok(Counts {
            processing: count(row.processing),
            stuck: count(row.stuck),
            unknown: count(row.unknown),
            oldest_processing: row.oldest_millis.map(|age| Duration::from_millis(count(age))),
        })
    }

    async fn forget(&self, identity: &Identity, audit: Audit) -> Result<bool, StoreError> {
        let Some(found) = self.find(identity).await? else { return Ok(false) };
        let id = found.record.id;
        if self.operated(Change::Remove(id), identity, audit).await? > 0 {
            return Ok(true);
        }
        Ok(self.find(identity).await?.is_none_or(|found| found.record.id != id))
    }

    async fn resolve(
        &self,
        identity: &Identity,
        settlement: Settlement,
        audit: Audit,
    ) -> Result<bool, StoreError> {
        let Some(found) = self.find(identity).await? else { return Ok(false) };
        let (seen, by) = (found.record.fence(), Token::fresh());
        let lesser = lesser(&settlement);
        let change = |settlement| Change::Resolve { seen, by, settlement };
        let mut changed = self.operated(change(settlement), identity, audit.clone()).await;
        for lesser in lesser {
            let Err(StoreError::Rejected { reason, .. }) = &changed else {
                break;
            };
            tracing::warn!(reason, "a resolution could not be stored whole: kept without");
            changed = self.operated(change(lesser), identity, audit.clone()).await;
        }
        if changed? > 0 {
            return Ok(true);
        }
        // Written the first time, when that was not heard of, it shows our token.
        Ok(self.find(identity).await?.is_some_and(|found| found.record.token == by))
    }

    async fn audit_after(&self, line: i64) -> Result<Vec<AuditLine>, StoreError> {
        let rows = self.run(move |b, c| Box::pin(b.audit_after(c, line))).await?;
        rows.into_iter().map(AuditRow::line).collect()
    }

    async fn audit_of(&self, identity: &Identity) -> Result<Vec<AuditLine>, StoreError> {
        let identity = identity.clone();
        let rows = self.run(move |b, c| {
            let identity = identity.clone();
            Box::pin(async move { b.audit_of(c, &identity).await })
        });
        rows.await?.into_iter().map(AuditRow::line).collect()
    }

    async fn list(&self, asked: Listing) -> Result<Page, StoreError> {
        let limit = asked.limit.max(1);
        let asked = Arc::new(asked);
        if asked.key.is_some() || asked.is_longest_first() {
            let walk = match asked.is_longest_first() {
                true => Walk::State { behind: asked.behind() },
                false => Walk::Key { below: asked.below() },
            };
            return Ok(asked.page(self.listed(&asked, walk, limit + 1).await?, None));
        }
        let (mut found, mut below) = (Vec::new(), asked.below());
        for _ in 0..WINDOWS {
            let left = limit + 1 - u32::try_from(found.len()).unwrap_or(limit);
            let end = self.run(move |b, c| Box::pin(b.window(c, below))).await?;
            // The row behind the window is the first of the next one.
            let down_to = end.map_or(Uuid::nil(), listing::after);
            let walk = Walk::Newest { below, down_to };
            found.extend(self.listed(&asked, walk, left).await?);
            if end.is_none() || found.len() > limit as usize {
                return Ok(asked.page(found, None));
            }
            below = down_to;
        }
        Ok(asked.page(found, Some(Position::Below(RecordId(below)))))
    }

    async fn close(&self) {
        self.stop.cancel();
        // The lanes write their last first, and what reached nobody is taken back: nobody would look
        // for it after us. A database that hangs is not waited for.
        let _ = tokio::time::timeout(self.patience, self.lanes.closed()).await;
        let _ = tokio::time::timeout(self.patience, self.withdrawals.looked()).await;
        let _ = tokio::time::timeout(self.patience, self.backend.pool().close()).await;
    }
}

impl<B: Backend> Grouped<B> {
    async fn listed(
        &self,
        asked: &Arc<Listing>,
        walk: Walk,
        limit: u32,
    ) -> Result<Vec<Found>, StoreError> {
        let asked = asked.clone();
        let rows = self.run(move |b, c| {
            let asked = asked.clone();
            Box::pin(async move { b.list(c, &asked, walk, limit).await })
        });
        rows.await?.into_iter().map(Row::found).collect()
    }

    async fn operated(
        &self,
        change: Change,
        identity: &Identity,
        audit: Audit,
    ) -> Result<u64, StoreError> {
        let all = Arc::new((change, identity.clone(), audit));
        self.run(move |b, c| {
            let all = all.clone();
            Box::pin(async move { b.operate(c, &all.0, &all.1, &all.2).await })
        })
        .await
    }
}
