//! SQLite: the embedded default. WAL, every commit synced to disk.
//!
//! The database takes one writer at a time; writers queue here, first come first served, instead of
//! spinning on its lock. Other processes on the same file are waited for by the busy timeout.

use std::str::FromStr;
use std::sync::LazyLock;

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{Pool, Sqlite};
use tokio::sync::{Mutex, MutexGuard};

use super::DurableOptions;
use super::backend::operations::*;
use super::claim_row::Inserts;
use super::connection;
use super::sizes::{MAX_ROWS, Sizes, repeat};
use super::statements::{Dialect, Marks, Statements};
use crate::store::StoreError;

const DIALECT: Dialect = Dialect {
    now: "CAST(unixepoch('subsec') * 1000 AS INTEGER)",
    marks: Marks::Question,
    text: str::to_owned,
    purge: "DELETE FROM oncegate_records WHERE rowid IN (SELECT rowid FROM oncegate_records \
            WHERE expires_at <= {now} ORDER BY expires_at LIMIT ?)",
    state_of_named: "state",
};
static SQL: LazyLock<Statements> = LazyLock::new(|| Statements::new(&DIALECT));
static INSERT: LazyLock<Inserts> =
    LazyLock::new(|| Inserts::new(&DIALECT, "INSERT INTO", " ON CONFLICT DO NOTHING", "{now}"));
static SETTLE: LazyLock<Sizes> = LazyLock::new(|| Sizes::up_to(MAX_ROWS, settle_text));

pub struct SqliteBackend {
    pool: Pool<Sqlite>,
    writing: Mutex<()>,
}

impl SqliteBackend {
    pub fn new(url: &str, options: &DurableOptions) -> Result<Self, StoreError> {
        let connect = SqliteConnectOptions::from_str(url)
            .map_err(|error| connection::bad_url("sqlite://path/to/oncegate.db", error))?
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(options.patience)
            .statement_cache_capacity(256);
        let pool = connection::pool_options(options).connect_lazy_with(connect);
        Ok(Self { pool, writing: Mutex::new(()) })
    }

    async fn turn(&self) -> MutexGuard<'_, ()> {
        self.writing.lock().await
    }
}

impl Backend for SqliteBackend {
    type Db = Sqlite;
    const NAME: &'static str = "sqlite";
    const BATCHES: usize = 1;

    fn pool(&self) -> &Pool<Sqlite> {
        &self.pool
    }

    /// 18 is "too big", 19 "constraint", 20 "mismatch", 25 "range"; extended codes build on them.
    fn refuses_the_value(error: &sqlx::Error) -> bool {
        let code = error.as_database_error().and_then(|error| error.code());
        code.and_then(|code| code.parse::<u32>().ok())
            .is_some_and(|code| matches!(code & 0xff, 18 | 19 | 20 | 25))
    }

    async fn migrate(&self) -> Result<(), sqlx::migrate::MigrateError> {
        let _turn = self.turn().await;
        let mut migrations = sqlx::migrate!("migrations/sqlite");
        connection::own_history(&mut migrations).run(&self.pool).await
    }

    async fn settle(&self, conn: &mut Connection<Self>, rows: &[SettleRow<'_>]) -> Outcome<u64> {
        let _turn = self.turn().await;
        let mut query = sqlx::query(SETTLE.exactly(rows.len()));
        for row in rows {
            query = bind_row!(query, row);
        }
        Ok(query.execute(conn).await?.rows_affected())
    }

    insert_operation!(INSERT, std::convert::identity::<&str>);
    shared_operations!(SQL, std::convert::identity::<&str>);
    listing_operations!(SQL, std::convert::identity::<&str>);
}

pub fn statements() -> Vec<(&'static str, &'static str)> {
    let mut all = SQL.named();
    all.extend([
        ("insert", INSERT.exactly(4, false)),
        ("insert_any", INSERT.exactly(4, true)),
        ("settle", SETTLE.exactly(4)),
    ]);
    all
}

fn settle_text(rows: usize) -> String {
    DIALECT.finish(&format!(
        "WITH v (id, token, state, due_in, keep, status, headers, body, result_ref, error, \
         probe_in, attempt) \
         AS (VALUES {}) \
         UPDATE oncegate_records AS r SET updated_at = {{now}}, state = v.state, \
         due_at = {{now}} + v.due_in, expires_at = {{now}} + v.keep, attend_at = COALESCE( \
         {{now}} + v.probe_in, CASE WHEN r.decision = 1 THEN {{now}} + v.due_in END), \
         response_status = v.status, response_headers = v.headers, response_body = v.body, \
         result_ref = v.result_ref, last_error = COALESCE(v.error, r.last_error), \
         last_error_at = CASE WHEN v.error IS NULL THEN r.last_error_at ELSE {{now}} END, \
         attempt = COALESCE(v.attempt, r.attempt) \
         FROM v WHERE r.id = v.id AND r.token = v.token \
         AND r.state IN ('PROCESSING', 'UNKNOWN')",
        repeat("(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows, ", ")
    ))
}
