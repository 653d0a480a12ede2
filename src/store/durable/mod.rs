//! The durable tier: the one that admits.
//!
//! One trait, three backends (MySQL and MariaDB, PostgreSQL, SQLite). A claim is an insert under a
//! unique constraint; every later write shows the token of its attempt and changes nothing without
//! it. Leases and expiry are judged by the database's clock, inside the statement.
//!
//! Every write can be repeated: a claimer recognises its own row by the id it chose, a later writer
//! by its token. That is how an answer lost on the way back never becomes a second execution.

mod backend;
mod batches;
mod claim_row;
mod connection;
mod grouped;
mod listing;
mod mysql;
mod nodelay;
mod postgres;
mod row;
mod settle_row;
mod sizes;
mod sqlite;
mod statements;
mod withdrawals;
mod writer;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

pub use listing::{Kind, Listing, Page, Position};

use crate::clock::Timestamp;
use crate::idempotency::decide::Asked;
use crate::idempotency::{Fence, Found, Identity, Origin, RecordId, Settlement, Token};
use crate::store::StoreError;

/// An execution that asks to be admitted, with the id and token it will be known by.
#[derive(Clone, Debug)]
pub struct NewClaim {
    pub fence: Fence,
    pub identity: Identity,
    pub asked: Asked,
    pub lease: Duration,
    pub origin: Origin,
}

impl NewClaim {
    pub fn new(identity: Identity, asked: Asked, lease: Duration) -> Self {
        let fence = Fence { id: RecordId::fresh(), token: Token::fresh() };
        Self { fence, identity, asked, lease, origin: Origin::Call }
    }
}

#[derive(Debug)]
pub enum Claimed {
    /// Admitted: attempt 1 of a new record is ours.
    New,
    /// Somebody was first.
    Exists(Box<Found>),
}

/// The next attempt of a record that was found.
#[derive(Clone, Debug)]
pub struct TakeOver {
    pub seen: Fence,
    pub token: Token,
    pub lease: Duration,
    /// Who runs it from now on owns the answer; what is not given stays.
    pub asked: Asked,
    pub right: Right,
}

/// What entitles somebody to the next attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// The lease is over, or the time of the next retry has come.
    Due,
    /// The same, and a caller of the decision API will run it.
    Decision,
    /// It is known what became of a silent run: it is taken to write that down, which is no attempt
    /// of its own.
    Probe,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    Won { attempt: u32 },
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    Applied,
    /// The attempt is not ours any more: nothing was changed.
    Fenced,
}

/// The leases that a renewal did not prolong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NotRenewed {
    /// Another attempt owns the record, or it is gone.
    pub lost: Vec<Fence>,
    /// The record still shows this attempt, which has ended or was marked UNKNOWN meanwhile.
    pub over: Vec<Fence>,
}

impl NotRenewed {
    pub fn is_empty(&self) -> bool {
        self.lost.is_empty() && self.over.is_empty()
    }
}

/// What an abandoned run is marked with when nobody knows what became of it.
#[derive(Clone, Debug)]
pub struct Hold {
    pub why: String,
    /// When a job has to see to it; None: as it was.
    pub attend_at: Option<Timestamp>,
    /// For how long, if not until it is settled.
    pub keep: Option<Duration>,
}

/// What the gauges show. Read from the indexes of open records, never from the whole table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub processing: u64,
    pub stuck: u64,
    /// Calls. Decisions are run again by whoever asks next.
    pub unknown: u64,
    /// The age of what is overdue or may be: of a decision, since its lock has run out.
    pub oldest_processing: Option<Duration>,
}

/// Who did what to a record, and why.
#[derive(Clone, Debug)]
pub struct Audit {
    pub actor: String,
    pub action: &'static str,
    pub note: String,
}

/// A line of the audit trail, as the instances follow it.
#[derive(Clone, Debug)]
pub struct AuditLine {
    pub id: i64,
    pub at: Timestamp,
    pub actor: String,
    pub action: String,
    pub identity: Identity,
    pub note: String,
}

#[async_trait]
pub trait DurableTier: Send + Sync {
    /// The word for logs: `mysql`, `postgres`, `sqlite`.
    fn name(&self) -> &'static str;

    async fn migrate(&self) -> Result<(), StoreError>;
    async fn ping(&self) -> Result<(), StoreError>;
    /// The name that this database was given with its schema: another one's differs.
    async fn deployment(&self) -> Result<String, StoreError>;

    async fn claim(&self, claim: NewClaim) -> Result<Claimed, StoreError>;
    async fn find(&self, identity: &Identity) -> Result<Option<Found>, StoreError>;
    async fn take_over(&self, take: TakeOver) -> Result<Taken, StoreError>;
    async fn settle(&self, fence: Fence, settlement: Settlement) -> Result<Written, StoreError>;
    /// Renews every lease that runs in one statement; names the others.
    async fn renew(&self, leases: Vec<Fence>, lease: Duration) -> Result<NotRenewed, StoreError>;

    /// Removes the identity's record if it has expired.
    async fn remove_expired(&self, identity: &Identity) -> Result<(), StoreError>;
    /// Removes at most `batch` expired records, in one short statement.
    async fn purge(&self, batch: u32) -> Result<u64, StoreError>;
    /// What is PROCESSING past its lease, longest abandoned first: calls whose attempt is at least
    /// that old, or decisions whose lock ran out at least so long ago.
    async fn abandoned(
        &self,
        origin: Origin,
        age: Duration,
        limit: u32,
    ) -> Result<Vec<Found>, StoreError>;
    /// Marks an abandoned run as UNKNOWN and leaves it its owner's. False: its owner is back, or
    /// somebody else has marked or taken it.
    async fn hold(&self, fence: Fence, hold: Hold) -> Result<bool, StoreError>;
    /// What a job has to see to by now, longest due first: the callbacks of decisions, or the calls
    /// whose outcome is unknown.
    async fn attending(&self, origin: Origin, limit: u32) -> Result<Vec<Found>, StoreError>;
    /// Moves the time of a job's attention from what was seen. False: somebody else did, or the
    /// attempt is another one by now.
    async fn attend(
        &self,
        fence: Fence,
        seen: Timestamp,
        next: Option<Timestamp>,
    ) -> Result<bool, StoreError>;
    async fn counts(&self, stuck_after: Duration) -> Result<Counts, StoreError>;

    /// Removes a record that nobody runs, leaving an audit line. False: there was none to remove.
    async fn forget(&self, identity: &Identity, audit: Audit) -> Result<bool, StoreError>;
    /// Ends a record that nobody runs and that has no success yet, whoever had it before, leaving an
    /// audit line. False: there was none to end.
    async fn resolve(
        &self,
        identity: &Identity,
        settlement: Settlement,
        audit: Audit,
    ) -> Result<bool, StoreError>;
    /// The audit trail after a line; `i64::MAX` as the line asks only for the newest.
    async fn audit_after(&self, line: i64) -> Result<Vec<AuditLine>, StoreError>;
    /// What was done to one record, in order.
    async fn audit_of(&self, identity: &Identity) -> Result<Vec<AuditLine>, StoreError>;
    /// A page of records, reading a bounded number of them.
    async fn list(&self, asked: Listing) -> Result<Page, StoreError>;

    /// Stops taking work and closes the connections once what was taken is done.
    async fn close(&self);
}

#[derive(Clone, Debug)]
pub struct DurableOptions {
    pub max_connections: u32,
    /// How long one operation may take before its caller is told that the tier is down.
    pub patience: Duration,
    pub writes: Writes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// Concurrent claims share statements and commits, and so do concurrent completions.
    Grouped,
    /// A statement and a commit for every write.
    Single,
}

impl Default for DurableOptions {
    fn default() -> Self {
        Self { max_connections: 32, patience: Duration::from_secs(3), writes: Writes::Grouped }
    }
}

/// Opens the tier that the URL names, inside a runtime. The server need not be up yet.
pub fn open(url: &str, options: &DurableOptions) -> Result<Arc<dyn DurableTier>, StoreError> {
    let scheme = url.split(':').next().unwrap_or_default();
    match scheme {
        "mysql" | "mariadb" => Ok(grouped::start(mysql::MySqlBackend::new(url, options)?, options)),
        "postgres" | "postgresql" => {
            Ok(grouped::start(postgres::PostgresBackend::new(url, options)?, options))
        }
        "sqlite" => Ok(grouped::start(sqlite::SqliteBackend::new(url, options)?, options)),
        _ => Err(StoreError::Misconfigured(format!(
            "the durable tier's URL starts with {scheme:?}; use mysql://, postgres:// or sqlite://"
        ))),
    }
}

/// Every statement with its name, for whoever wants to see the plans that a database makes of them.
pub fn statements(scheme: &str) -> Vec<(&'static str, &'static str)> {
    match scheme {
        "mysql" => mysql::statements(),
        "postgres" => postgres::statements(),
        "sqlite" => sqlite::statements(),
        _ => Vec::new(),
    }
}
