//! Connections: how they are pooled, and how one statement is run without ever being cancelled.
//!
//! ## Why every call has a task of its own
//! A driver future that is dropped half-way leaves its connection in an unknown state, and the pool
//! would hand it to the next borrower. So nobody's impatience reaches the driver: callers wait for
//! a task; the task has a time limit, and when that strikes the connection is thrown away.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use sqlx::migrate::Migrator;
use sqlx::pool::{PoolConnection, PoolOptions};
use sqlx::{Connection as _, Database, Error};

use tokio::time::timeout;

use super::DurableOptions;
use super::backend::{Backend, Connection};
use crate::store::StoreError;

/// Two for each lane, one for the heartbeat, one for everything else.
const FEWEST: u32 = 6;
const PING_LIMIT: Duration = Duration::from_millis(300);
const RESTED: Duration = Duration::from_millis(500);

pub fn pool_options<Db: Database>(options: &DurableOptions) -> PoolOptions<Db> {
    PoolOptions::new()
        .max_connections(options.max_connections.max(FEWEST))
        .acquire_timeout(options.patience)
        // A ping before every use would double the round trips: only one that rested is asked.
        .test_before_acquire(false)
        .before_acquire(|conn: &mut Db::Connection, meta| {
            Box::pin(async move {
                if meta.idle_for > RESTED {
                    return Ok(matches!(timeout(PING_LIMIT, conn.ping()).await, Ok(Ok(()))));
                }
                Ok(true)
            })
        })
}

/// Migrations keep their history beside ours, not in a table that another application may own.
pub fn own_history(migrations: &mut Migrator) -> &Migrator {
    migrations.dangerous_set_table_name("oncegate_migrations");
    migrations
}

pub fn bad_url(form: &str, error: Error) -> StoreError {
    StoreError::Misconfigured(format!(
        "the durable tier's URL cannot be used ({error}); it looks like {form}"
    ))
}

pub fn classify<B: Backend>(error: Error) -> StoreError {
    let reason = error.to_string();
    match error {
        error if B::refuses_the_value(&error) => StoreError::Rejected { tier: B::NAME, reason },
        // It answered, with rows of another shape.
        Error::ColumnDecode { .. }
        | Error::ColumnNotFound(_)
        | Error::ColumnIndexOutOfBounds { .. }
        | Error::Decode(_)
        | Error::TypeNotFound { .. } => {
            StoreError::Misconfigured(format!("the {} has another schema: {reason}", B::NAME))
        }
        _ => StoreError::Unavailable { tier: B::NAME, reason },
    }
}

/// A connection that a writer keeps, replaced after any failure.
pub struct Kept<B: Backend> {
    backend: Arc<B>,
    limit: Duration,
    held: Option<PoolConnection<B::Db>>,
}

impl<B: Backend> Kept<B> {
    pub fn new(backend: Arc<B>, limit: Duration) -> Self {
        Self { backend, limit, held: None }
    }

    /// Gives the connection back while there is nothing to do.
    pub fn let_go(&mut self) {
        self.held = None;
    }

    /// What broke one connection has mostly broken those that rest beside it, and the next try
    /// must not fail on each of them in turn.
    fn drop_rested(&self) {
        while let Some(conn) = self.backend.pool().try_acquire() {
            drop(conn.detach());
        }
    }

    /// The tier was closed: there will be no connection any more.
    pub fn is_closed(&self) -> bool {
        self.backend.pool().is_closed()
    }

    /// Runs one operation within the time limit. After an error the connection is gone: whether it
    /// is broken or merely refused something is not worth finding out.
    pub async fn run<T>(
        &mut self,
        operation: impl for<'c> FnOnce(&'c B, &'c mut Connection<B>) -> BoxFuture<'c, Result<T, Error>>,
    ) -> Result<T, StoreError> {
        let mut conn = match self.held.take() {
            Some(conn) => conn,
            // Boxed: it is rare, and large since it can make a connection.
            None => Box::pin(self.backend.pool().acquire()).await.map_err(classify::<B>)?,
        };
        match timeout(self.limit, operation(&self.backend, &mut conn)).await {
            Ok(Ok(value)) => {
                self.held = Some(conn);
                Ok(value)
            }
            Ok(Err(error)) => {
                drop(conn.detach());
                let error = classify::<B>(error);
                if error.is_transient() {
                    self.drop_rested();
                }
                Err(error)
            }
            Err(_) => {
                drop(conn.detach());
                self.drop_rested();
                Err(StoreError::unavailable(
                    B::NAME,
                    format_args!("no answer within {:?}", self.limit),
                ))
            }
        }
    }
}
