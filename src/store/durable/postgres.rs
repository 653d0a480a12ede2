//! PostgreSQL.

use std::str::FromStr;
use std::sync::LazyLock;

use sqlx::postgres::PgConnectOptions;
use sqlx::{Pool, Postgres};

use super::backend::operations::*;
use super::sizes::{MAX_ROWS, Sizes, repeat};
use super::statements::{Dialect, Marks, Statements};
use super::{DurableOptions, connection, nodelay};
use crate::store::StoreError;

const DIALECT: Dialect = Dialect {
    now: "(extract(epoch FROM statement_timestamp()) * 1000)::bigint",
    marks: Marks::Numbered,
    text: |column| format!("convert_to({column}, 'UTF8') AS {column}"),
    insert: ("INSERT INTO", " ON CONFLICT DO NOTHING"),
    purge: "DELETE FROM oncegate_records WHERE id IN (SELECT id FROM oncegate_records \
            WHERE expires_at <= {now} ORDER BY expires_at LIMIT ? FOR UPDATE SKIP LOCKED)",
};
static SQL: LazyLock<Statements> = LazyLock::new(|| Statements::new(&DIALECT));
static SETTLE: LazyLock<Sizes> = LazyLock::new(|| Sizes::up_to(MAX_ROWS, settle_text));

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
            .after_connect(move |_, _| {
                nodelay::on_connections_to(port);
                Box::pin(async { Ok(()) })
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

    settle_of_rows!(SETTLE);
    shared_operations!(SQL, std::convert::identity::<&str>);
    listing_operations!(SQL, std::convert::identity::<&str>);
}

pub fn statements() -> Vec<(&'static str, &'static str)> {
    let mut all = SQL.named();
    all.push(("settle", SETTLE.exactly(4)));
    all
}

fn settle_text(rows: usize) -> String {
    let row = "(?::uuid, ?::uuid, ?::text, ?::bigint, ?::bigint, ?::integer, ?::bytea, ?::bytea, \
               ?::text, ?::text, ?::bigint, ?::integer)";
    DIALECT.finish(&format!(
        "UPDATE oncegate_records AS r SET updated_at = {{now}}, state = v.state, \
         due_at = {{now}} + v.due_in, expires_at = {{now}} + v.keep, attend_at = COALESCE( \
         {{now}} + v.probe_in, CASE WHEN r.decision = 1 THEN {{now}} + v.due_in END), \
         response_status = v.status, response_headers = v.headers, response_body = v.body, \
         result_ref = v.result_ref, last_error = COALESCE(v.error, r.last_error), \
         last_error_at = CASE WHEN v.error IS NULL THEN r.last_error_at ELSE {{now}} END, \
         attempt = COALESCE(v.attempt, r.attempt) \
         FROM (VALUES {}) AS v \
         (id, token, state, due_in, keep, status, headers, body, result_ref, error, \
         probe_in, attempt) \
         WHERE r.id = v.id AND r.token = v.token AND r.state IN ('PROCESSING', 'UNKNOWN')",
        repeat(row, rows, ", ")
    ))
}
