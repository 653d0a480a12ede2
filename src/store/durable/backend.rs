//! What a database has to be able to do: statements on one connection, nothing more.
//!
//! Retrying, time limits and grouping stand above this ([`super::grouped`]); connections and
//! dialects below. The bodies are the same for every database, but each needs its own types:
//! `shared_operations!` writes them out.

use std::time::Duration;

use sqlx::{Database, Pool};
use uuid::Uuid;

use super::listing::{Listing, Walk};
use super::row::{AuditRow, CountsRow, OwnerRow, Row};
use super::settle_row::SettleRow;
use super::{Audit, Hold, NewClaim, TakeOver};
use crate::clock::Timestamp;
use crate::idempotency::{Fence, Identity, Origin, RecordId, Settlement, Token};

pub type Connection<B> = <<B as Backend>::Db as Database>::Connection;
pub type Outcome<T> = Result<T, sqlx::Error>;

/// Writes answer with the number of rows they matched.
pub trait Backend: Send + Sync + 'static {
    type Db: Database;
    const NAME: &'static str;
    /// How many batches of one kind it can make use of at once.
    const BATCHES: usize;

    fn pool(&self) -> &Pool<Self::Db>;
    /// The statement was understood and its values refused.
    fn refuses_the_value(error: &sqlx::Error) -> bool;
    /// Whether these endings fit into what the server takes at once; an error that refuses the value.
    fn takes(
        &self,
        _: &mut Connection<Self>,
        _: &[SettleRow<'_>],
    ) -> impl Future<Output = Outcome<()>> + Send {
        std::future::ready(Ok(()))
    }
    fn migrate(&self) -> impl Future<Output = Result<(), sqlx::migrate::MigrateError>> + Send;

    fn insert(
        &self,
        conn: &mut Connection<Self>,
        claims: &[NewClaim],
    ) -> impl Future<Output = Outcome<u64>> + Send;
    fn find(
        &self,
        conn: &mut Connection<Self>,
        identities: &[Identity],
    ) -> impl Future<Output = Outcome<Vec<Row>>> + Send;
    fn settle(
        &self,
        conn: &mut Connection<Self>,
        rows: &[SettleRow<'_>],
    ) -> impl Future<Output = Outcome<u64>> + Send;
    fn release(
        &self,
        conn: &mut Connection<Self>,
        fences: &[Fence],
    ) -> impl Future<Output = Outcome<u64>> + Send;
    fn owners(
        &self,
        conn: &mut Connection<Self>,
        ids: &[Uuid],
    ) -> impl Future<Output = Outcome<Vec<OwnerRow>>> + Send;
    fn renew(
        &self,
        conn: &mut Connection<Self>,
        fences: &[Fence],
        lease: Duration,
    ) -> impl Future<Output = Outcome<u64>> + Send;
    fn take_over(
        &self,
        conn: &mut Connection<Self>,
        take: &TakeOver,
    ) -> impl Future<Output = Outcome<u64>> + Send;
    fn remove_expired(
        &self,
        conn: &mut Connection<Self>,
        identity: &Identity,
    ) -> impl Future<Output = Outcome<u64>> + Send;
    fn purge(
        &self,
        conn: &mut Connection<Self>,
        batch: u32,
    ) -> impl Future<Output = Outcome<u64>> + Send;
    fn abandoned(
        &self,
        conn: &mut Connection<Self>,
        origin: Origin,
        age: Duration,
        limit: u32,
    ) -> impl Future<Output = Outcome<Vec<Row>>> + Send;
    fn hold(
        &self,
        conn: &mut Connection<Self>,
        fence: Fence,
        hold: &Hold,
    ) -> impl Future<Output = Outcome<u64>> + Send;
    fn attending(
        &self,
        conn: &mut Connection<Self>,
        origin: Origin,
        limit: u32,
    ) -> impl Future<Output = Outcome<Vec<Row>>> + Send;
    fn attend(
        &self,
        conn: &mut Connection<Self>,
        fence: Fence,
        seen: Timestamp,
        next: Option<Timestamp>,
    ) -> impl Future<Output = Outcome<u64>> + Send;
    fn counts(
        &self,
        conn: &mut Connection<Self>,
        stuck_after: Duration,
    ) -> impl Future<Output = Outcome<CountsRow>> + Send;
    fn deployment(
        &self,
        conn: &mut Connection<Self>,
    ) -> impl Future<Output = Outcome<Option<Vec<u8>>>> + Send;
    /// What an operator does to a record and the line that says so, in one transaction.
    fn operate(
        &self,
        conn: &mut Connection<Self>,
        change: &Change,
        identity: &Identity,
        audit: &Audit,
    ) -> impl Future<Output = Outcome<u64>> + Send;
    fn audit_after(
        &self,
        conn: &mut Connection<Self>,
        line: i64,
    ) -> impl Future<Output = Outcome<Vec<AuditRow>>> + Send;

    fn list(
        &self,
        conn: &mut Connection<Self>,
        asked: &Listing,
        walk: Walk,
        limit: u32,
    ) -> impl Future<Output = Outcome<Vec<Row>>> + Send;
    /// The first record that a window below this id leaves out.
    fn window(
        &self,
        conn: &mut Connection<Self>,
        below: Uuid,
    ) -> impl Future<Output = Outcome<Option<Uuid>>> + Send;
    fn audit_of(
        &self,
        conn: &mut Connection<Self>,
        identity: &Identity,
    ) -> impl Future<Output = Outcome<Vec<AuditRow>>> + Send;
}

/// By the row that was seen, not by its name: a repetition must not hit what came after it.
pub enum Change {
    Remove(RecordId),
    /// Ends it under a token that nobody has, so that whoever had it before is fenced.
    Resolve {
        seen: Fence,
        by: Token,
        settlement: Settlement,
    },
}

/// The operations whose statements are shared, for one database: `$text` is how it binds text.
/// A write runs inside `$this.turn()`, which databases with a single writer use to queue.
macro_rules! shared_operations {
    ($statements:ident, $text:expr) => {
        async fn find(
            &self,
            conn: &mut Connection<Self>,
            identities: &[Identity],
        ) -> Outcome<Vec<Row>> {
            let mut query = sqlx::query_as($statements.find.exactly(identities.len()));
            for identity in identities {
                let (key, scope, tenant) = identity.index_order();
                query = query.bind($text(key)).bind($text(scope)).bind($text(tenant));
            }
            query.fetch_all(conn).await
        }

        async fn release(&self, conn: &mut Connection<Self>, fences: &[Fence]) -> Outcome<u64> {
            let _turn = self.turn().await;
            let fences = padded(fences.to_vec());
            let mut query = sqlx::query($statements.release.exactly(fences.len()));
            for fence in &fences {
                query = query.bind(fence.id.0);
            }
            for fence in &fences {
                query = query.bind(fence.token.0);
            }
            Ok(query.execute(conn).await?.rows_affected())
        }

        async fn owners(
            &self,
            conn: &mut Connection<Self>,
            ids: &[Uuid],
        ) -> Outcome<Vec<OwnerRow>> {
            let ids = padded(ids.to_vec());
            let mut query = sqlx::query_as($statements.owners.exactly(ids.len()));
            for id in ids {
                query = query.bind(id);
            }
            query.fetch_all(conn).await
        }

        async fn renew(
            &self,
            conn: &mut Connection<Self>,
            fences: &[Fence],
            lease: Duration,
        ) -> Outcome<u64> {
            let _turn = self.turn().await;
            let fences = padded(fences.to_vec());
            let mut query = sqlx::query($statements.renew.exactly(fences.len()))
                .bind(millis(lease))
                .bind(millis(lease));
            for fence in &fences {
                query = query.bind(fence.id.0);
            }
            for fence in &fences {
                query = query.bind(fence.token.0);
            }
            Ok(query.execute(conn).await?.rows_affected())
        }

        async fn take_over(&self, conn: &mut Connection<Self>, take: &TakeOver) -> Outcome<u64> {
            let _turn = self.turn().await;
            let origin = match take.right {
                Right::Decision => Some(Origin::Decision),
                Right::Due => Some(Origin::Call),
                // It runs nothing: it stays whose it was.
                Right::Probe => None,
            };
            let query = sqlx::query($statements.take_over)
                .bind(i32::from(take.right != Right::Probe))
                .bind(take.token.0)
                .bind(millis(take.lease))
                .bind(origin.map(decision))
                .bind(origin.and_then(|origin| attended(origin, take.lease)))
                .bind(take.asked.fingerprint.as_ref().map(|f| &f.as_bytes()[..]))
                .bind(take.asked.credential.as_ref().map(|c| &c.as_bytes()[..]))
                .bind(take.seen.id.0)
                .bind(take.seen.token.0)
                .bind(i32::from(take.right == Right::Probe))
                // What has an end is no probe's affair any more.
                .bind(i32::from(take.right != Right::Probe));
            Ok(query.execute(conn).await?.rows_affected())
        }

        async fn remove_expired(
            &self,
            conn: &mut Connection<Self>,
            identity: &Identity,
        ) -> Outcome<u64> {
            let _turn = self.turn().await;
            let (key, scope, tenant) = identity.index_order();
            let query = sqlx::query($statements.remove_expired)
                .bind($text(key))
                .bind($text(scope))
                .bind($text(tenant));
            Ok(query.execute(conn).await?.rows_affected())
        }

        async fn purge(&self, conn: &mut Connection<Self>, batch: u32) -> Outcome<u64> {
            let _turn = self.turn().await;
            let query = sqlx::query($statements.purge).bind(i64::from(batch));
            Ok(query.execute(conn).await?.rows_affected())
        }

        async fn abandoned(
            &self,
            conn: &mut Connection<Self>,
            origin: Origin,
            age: Duration,
            limit: u32,
        ) -> Outcome<Vec<Row>> {
            sqlx::query_as($statements.abandoned)
                .bind(decision(origin))
                .bind(millis(age))
                .bind(i64::from(limit))
                .fetch_all(conn)
                .await
        }

        async fn hold(
            &self,
            conn: &mut Connection<Self>,
            fence: Fence,
            hold: &Hold,
        ) -> Outcome<u64> {
            let _turn = self.turn().await;
            let query = sqlx::query($statements.hold)
                .bind(hold.attend_at.map(Timestamp::as_millis))
                .bind(hold.keep.map(millis))
                .bind($text(hold.why.as_str()))
                .bind(fence.id.0)
                .bind(fence.token.0);
            Ok(query.execute(conn).await?.rows_affected())
        }

        async fn attending(
            &self,
            conn: &mut Connection<Self>,
            origin: Origin,
            limit: u32,
        ) -> Outcome<Vec<Row>> {
            sqlx::query_as($statements.attending)
                .bind(decision(origin))
                .bind(i64::from(limit))
                .fetch_all(conn)
                .await
        }

        async fn attend(
            &self,
            conn: &mut Connection<Self>,
            fence: Fence,
            seen: Timestamp,
            next: Option<Timestamp>,
        ) -> Outcome<u64> {
            let _turn = self.turn().await;
            let query = sqlx::query($statements.attend)
                .bind(next.map(Timestamp::as_millis))
                .bind(fence.id.0)
                .bind(fence.token.0)
                .bind(seen.as_millis());
            Ok(query.execute(conn).await?.rows_affected())
        }

        async fn counts(
            &self,
            conn: &mut Connection<Self>,
            stuck_after: Duration,
        ) -> Outcome<CountsRow> {
            sqlx::query_as($statements.counts).bind(millis(stuck_after)).fetch_one(conn).await
        }

        async fn deployment(&self, conn: &mut Connection<Self>) -> Outcome<Option<Vec<u8>>> {
            sqlx::query_scalar($statements.deployment).fetch_optional(conn).await
        }

        async fn operate(
            &self,
            conn: &mut Connection<Self>,
            change: &Change,
            identity: &Identity,
            audit: &Audit,
        ) -> Outcome<u64> {
            let _turn = self.turn().await;
            let (key, scope, tenant) = identity.index_order();
            let mut both = sqlx::Connection::begin(conn).await?;
            let query = match change {
                Change::Remove(id) => Some(sqlx::query($statements.forget).bind(id.0)),
                Change::Resolve { seen, by, settlement } => {
                    let row = SettleRow::new(*seen, settlement);
                    self.takes(&mut both, row.as_slice()).await?;
                    row.map(|row| {
                        sqlx::query($statements.resolve)
                            .bind(row.state)
                            .bind(by.0)
                            .bind(row.due_in)
                            .bind(row.keep)
                            .bind(row.due_in)
                            .bind(row.status)
                            .bind(row.headers)
                            .bind(row.body)
                            .bind(row.result_ref.map($text))
                            .bind(row.error.map($text))
                            .bind(row.error.map(|_| 0_i64))
                            .bind(seen.id.0)
                            .bind(seen.token.0)
                    })
                }
            };
            let changed = match query {
                Some(query) => query.execute(&mut *both).await?.rows_affected(),
                None => 0,
            };
            if changed > 0 {
                sqlx::query($statements.audit)
                    .bind($text(audit.actor.as_str()))
                    .bind($text(audit.action))
                    .bind($text(key))
                    .bind($text(scope))
                    .bind($text(tenant))
                    .bind($text(audit.note.as_str()))
                    .execute(&mut *both)
                    .await?;
            }
            both.commit().await?;
            Ok(changed)
        }

        async fn audit_after(
            &self,
            conn: &mut Connection<Self>,
            line: i64,
        ) -> Outcome<Vec<AuditRow>> {
            match line {
                i64::MAX => sqlx::query_as($statements.audit_newest).fetch_all(conn).await,
                line => sqlx::query_as($statements.audit_after).bind(line).fetch_all(conn).await,
            }
        }
    };
}
pub(super) use shared_operations;

/// What `shared_operations!` needs in scope.
pub mod operations {
    pub use std::time::Duration;

    pub use uuid::Uuid;

    pub(in super::super) use super::super::claim_row::insert_operation;
    pub use super::super::claim_row::{ClaimRow, attended, decision};
    pub(in super::super) use super::super::listing::listing_operations;
    pub use super::super::listing::{Kind, Listing, Walk};
    pub use super::super::row::{AuditRow, CountsRow, OwnerRow, Row};
    pub use super::super::settle_row::SettleRow;
    pub(in super::super) use super::super::settle_row::bind_row;
    pub use super::super::sizes::padded;
    pub use super::super::{Audit, Hold, NewClaim, Right, TakeOver};
    pub(in super::super) use super::shared_operations;
    pub use super::{Backend, Change, Connection, Outcome};
    pub use crate::clock::{Timestamp, millis};
    pub use crate::idempotency::{Fence, Identity, Origin};
}
