//! PostgreSQL.
//!
//! ## Why the planner is led
//! Plans are kept for as long as a connection lives, and made when the table may be empty: a scan of
//! all that is open looks cheap then. Later it reads every row that waits to be settled and every dead
//! entry, for each batch. So a list of ids finds rows by their ids alone, nothing scans a table, and the
//! state is asked for in words from which the planner does not conclude that hardly any row has it.

use std::str::FromStr;
use std::sync::LazyLock;

use sqlx::postgres::PgConnectOptions;
use sqlx::{Executor, PgConnection, Pool, Postgres};

use super::backend::operations::*;
use super::sizes::lasting;
use super::statements::{Dialect, Marks, Statements};
use super::{DurableOptions, connection, nodelay};
use crate::store::StoreError;

const DIALECT: Dialect = Dialect {
    now: "(extract(epoch FROM statement_timestamp()) * 1000)::bigint",
    marks: Marks::Numbered,
    text: |column| format!("convert_to({column}, 'UTF8') AS {column}"),
    purge: "DELETE FROM oncegate_records WHERE id IN (SELECT id FROM oncegate_records \
            WHERE expires_at <= {now} ORDER BY expires_at LIMIT ? FOR UPDATE SKIP LOCKED)",
    state_of_named: "(state || '')",
};
static SQL: LazyLock<Statements> = LazyLock::new(|| Statements::new(&DIALECT));
/// Columns as lists: one text for any number of rows.
static INSERT: LazyLock<&str> = LazyLock::new(|| {
    lasting(DIALECT.finish(
        "INSERT INTO oncegate_records (id, idem_key, scope, tenant, fingerprint, credential, token, \
         due_at, decision, attend_at, state, attempt, created_at, updated_at) \
         SELECT id, idem_key, scope, tenant, fingerprint, credential, token, {now} + lease, \
         decision, {now} + attended, 'PROCESSING', 1, {now}, {now} \
         FROM unnest(?::uuid[], ?::text[], ?::text[], ?::text[], ?::bytea[], ?::bytea[], \
         ?::uuid[], ?::bigint[], ?::smallint[], ?::bigint[]) AS v \
         (id, idem_key, scope, tenant, fingerprint, credential, token, lease, decision, attended) \
         ON CONFLICT DO NOTHING",
    ))
});
/// Of one row as values: lists cost a single one a seventh more.
static SETTLE_ONE: LazyLock<&str> = LazyLock::new(|| {
    settle_text(
        "(VALUES (?::uuid, ?::uuid, ?::text, ?::bigint, ?::bigint, ?::integer, ?::bytea, ?::bytea, \
         ?::text, ?::text, ?::bigint, ?::integer))",
        "",
    )
});
/// Joined to what the list of ids finds.
static SETTLE_MANY: LazyLock<&str> = LazyLock::new(|| {
    settle_text(
        "unnest(?::uuid[], ?::uuid[], ?::text[], ?::bigint[], ?::bigint[], ?::integer[], \
         ?::bytea[], ?::bytea[], ?::text[], ?::text[], ?::bigint[], ?::integer[])",
        "r.id = ANY($1) AND ",
    )
});

/// A plan that fits any values is kept from the first, instead of making one for each batch and
/// finding out that it was no better. Nothing here is long enough to be compiled.
const PLANS: &str =
    "SET enable_seqscan = off; SET plan_cache_mode = force_generic_plan; SET jit = off";

pub struct PostgresBackend {
    pool: Pool<Postgres>,
}

impl PostgresBackend {
    pub fn new(url: &str, options: &DurableOptions) -> Result<Self, StoreError> {
        let connect = PgConnectOptions::from_str(url)
            .map_err(|error| {
                connection::bad_url("postgres://user:password@host:5432/database", error)
            })?
            .statement_cache_capacity(256);
        let port = connect.get_port();
        let pool = connection::pool_options(options)
            .after_connect(move |conn: &mut PgConnection, _| {
                nodelay::on_connections_to(port);
                Box::pin(async move { conn.execute(PLANS).await.map(drop) })
            })
            .connect_lazy_with(connect);
        Ok(Self { pool })
    }

    /// Any number may write at once.
    async fn turn(&self) {}
}

impl Backend for PostgresBackend {
    type Db = Postgres;
    const NAME: &'static str = "postgres";
    const BATCHES: usize = 2;

    fn pool(&self) -> &Pool<Postgres> {
        &self.pool
    }

    /// Class 22 is "data exception", 23 "integrity constraint violation", 54 "program limit".
    fn refuses_the_value(error: &sqlx::Error) -> bool {
        let code = error.as_database_error().and_then(|error| error.code());
        code.is_some_and(|code| ["22", "23", "54"].iter().any(|class| code.starts_with(class)))
    }

    async fn migrate(&self) -> Result<(), sqlx::migrate::MigrateError> {
        let mut migrations = sqlx::migrate!("migrations/postgres");
        connection::own_history(&mut migrations).run(&self.pool).await
    }

    async fn insert(&self, conn: &mut Connection<Self>, claims: &[NewClaim]) -> Outcome<u64> {
        let rows: Vec<_> = claims.iter().map(ClaimRow::from).collect();
        let query = sqlx::query(*INSERT)
            .bind(column(&rows, |row| row.id))
            .bind(column(&rows, |row| row.key))
            .bind(column(&rows, |row| row.scope))
            .bind(column(&rows, |row| row.tenant))
            .bind(column(&rows, |row| row.fingerprint))
            .bind(column(&rows, |row| row.credential))
            .bind(column(&rows, |row| row.token))
            .bind(column(&rows, |row| row.lease))
            .bind(column(&rows, |row| row.decision))
            .bind(column(&rows, |row| row.attended));
        Ok(query.execute(conn).await?.rows_affected())
    }

    async fn settle(&self, conn: &mut Connection<Self>, rows: &[SettleRow<'_>]) -> Outcome<u64> {
        let query = match rows {
            [row] => bind_row!(sqlx::query(*SETTLE_ONE), row),
            rows => sqlx::query(*SETTLE_MANY)
                .bind(column(rows, |row| row.fence.id.0))
                .bind(column(rows, |row| row.fence.token.0))
                .bind(column(rows, |row| row.state))
                .bind(column(rows, |row| row.due_in))
                .bind(column(rows, |row| row.keep))
                .bind(column(rows, |row| row.status))
                .bind(column(rows, |row| row.headers))
                .bind(column(rows, |row| row.body))
                .bind(column(rows, |row| row.result_ref))
                .bind(column(rows, |row| row.error))
                .bind(column(rows, |row| row.probe_in))
                .bind(column(rows, |row| row.attempt)),
        };
        Ok(query.execute(conn).await?.rows_affected())
    }

    shared_operations!(SQL, std::convert::identity::<&str>);
    listing_operations!(SQL, std::convert::identity::<&str>);
}

pub fn statements() -> Vec<(&'static str, &'static str)> {
    let mut all = SQL.named();
    all.extend([("insert", *INSERT), ("settle_one", *SETTLE_ONE), ("settle", *SETTLE_MANY)]);
    all
}

fn column<R, T>(rows: &[R], of: impl Fn(&R) -> T) -> Vec<T> {
    rows.iter().map(of).collect()
}

/// `source` gives the rows, and `found` narrows down where they are looked for.
fn settle_text(source: &str, found: &str) -> &'static str {
    lasting(DIALECT.finish(&format!(
        "UPDATE oncegate_records AS r SET updated_at = {{now}}, state = v.state, \
         due_at = {{now}} + v.due_in, expires_at = {{now}} + v.keep, attend_at = COALESCE( \
         {{now}} + v.probe_in, CASE WHEN r.decision = 1 THEN {{now}} + v.due_in END), \
         response_status = v.status, response_headers = v.headers, response_body = v.body, \
         result_ref = v.result_ref, last_error = COALESCE(v.error, r.last_error), \
         last_error_at = CASE WHEN v.error IS NULL THEN r.last_error_at ELSE {{now}} END, \
         attempt = COALESCE(v.attempt, r.attempt) \
         FROM {source} AS v \
         (id, token, state, due_in, keep, status, headers, body, result_ref, error, \
         probe_in, attempt) \
         WHERE {found}r.id = v.id AND r.token = v.token \
         AND CASE WHEN r.state IN ('PROCESSING', 'UNKNOWN') THEN TRUE ELSE FALSE END"
    )))
}
