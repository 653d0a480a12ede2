//! MySQL 8+, 9 and MariaDB 10.6+.
//!
//! Claims are `INSERT IGNORE`: a duplicate costs its neighbours nothing. READ COMMITTED and rows
//! sorted by the unique index keep batches from deadlocking each other.
//!
//! ## Why CASE
//! A batch of completions is one `UPDATE` that picks each column by token. An upsert would be shorter,
//! but it can raise a purged record from the dead.
//!
//! ## Why the server is asked for its packet limit
//! It closes the connection on whoever sends more, which looks like an outage, and an ending is tried
//! again until an outage is over. What cannot fit is refused here, so that it is kept without its body.

use std::str::FromStr;
use std::sync::LazyLock;

use sqlx::mysql::MySqlConnectOptions;
use sqlx::{Executor, MySql, MySqlConnection, Pool, Row as _};

use super::backend::operations::*;
use super::claim_row::Inserts;
use super::sizes::{MAX_ROWS, Sizes, repeat};
use super::statements::{Dialect, Marks, Statements};
use super::{DurableOptions, connection, nodelay};
use crate::store::StoreError;

const DIALECT: Dialect = Dialect {
    now: "CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED)",
    marks: Marks::Question,
    text: str::to_owned,
    purge: "DELETE FROM oncegate_records WHERE state IN ('SUCCEEDED', 'FAILED', 'UNKNOWN') \
            AND expires_at <= {now} ORDER BY state, expires_at LIMIT ?",
    state_of_named: "state",
};
static SQL: LazyLock<Statements> = LazyLock::new(|| Statements::new(&DIALECT));
static INSERT: LazyLock<Inserts> =
    LazyLock::new(|| Inserts::new(&DIALECT, "INSERT IGNORE INTO", "", "created_at"));
static SETTLE: LazyLock<Sizes> = LazyLock::new(|| Sizes::up_to(MAX_ROWS, settle_text));
static ANSWER: LazyLock<Sizes> =
    LazyLock::new(|| Sizes::up_to(MAX_ROWS, |n| answer_text(n, &pick(n))));
static ALIKE: LazyLock<Sizes> = LazyLock::new(|| Sizes::up_to(MAX_ROWS, |n| answer_text(n, "?")));

/// Values of a length or kind that the column does not take, and packets over the server's limit.
const REFUSALS: [u16; 6] = [1048, 1153, 1264, 1366, 1406, 1690];

/// No server that keeps answers takes less; only for more is it asked what it takes.
const SMALLEST_PACKET: u64 = 256 << 10;

/// What a statement means is not left to the server's configuration: an answer that does not fit is
/// to be refused, not shortened, and columns are set from left to right, on MariaDB too.
const MODE: &str = "SET SESSION sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION'";

pub struct MySqlBackend {
    pool: Pool<MySql>,
}

impl MySqlBackend {
    pub fn new(url: &str, options: &DurableOptions) -> Result<Self, StoreError> {
        let url = url.replacen("mariadb:", "mysql:", 1);
        let connect = MySqlConnectOptions::from_str(&url)
            .map_err(|error| {
                connection::bad_url("mysql://user:password@host:3306/database", error)
            })?
            .timezone(Some("+00:00".to_owned()))
            .statement_cache_capacity(256);
        let port = connect.get_port();
        let pool = connection::pool_options(options)
            .after_connect(move |conn: &mut MySqlConnection, _| {
                nodelay::on_connections_to(port);
                Box::pin(async move {
                    conn.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED").await?;
                    conn.execute(MODE).await?;
                    Ok(())
                })
            })
            .connect_lazy_with(connect);
        Ok(Self { pool })
    }

    /// Any number may write at once.
    async fn turn(&self) {}
}

impl Backend for MySqlBackend {
    type Db = MySql;
    const NAME: &'static str = "mysql";
    const BATCHES: usize = 2;

    fn pool(&self) -> &Pool<MySql> {
        &self.pool
    }

    async fn takes(&self, conn: &mut Connection<Self>, rows: &[SettleRow<'_>]) -> Outcome<()> {
        let bytes: u64 = rows.iter().map(SettleRow::bytes).sum();
        if bytes < SMALLEST_PACKET {
            return Ok(());
        }
        // As text: prepared, it would be two round trips.
        let limit = sqlx::raw_sql("SELECT @@max_allowed_packet").fetch_one(conn).await?;
        let limit: u64 = limit.try_get(0)?;
        match bytes <= limit {
            true => Ok(()),
            false => Err(sqlx::Error::Encode(
                format!("{bytes} bytes are more than max_allowed_packet, {limit}").into(),
            )),
        }
    }

    fn refuses_the_value(error: &sqlx::Error) -> bool {
        if matches!(error, sqlx::Error::Encode(_)) {
            return true;
        }
        let database = error.as_database_error();
        database
            .and_then(|error| error.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>())
            .is_some_and(|error| REFUSALS.contains(&error.number()))
    }

    async fn migrate(&self) -> Result<(), sqlx::migrate::MigrateError> {
        let mut migrations = sqlx::migrate!("migrations/mysql");
        connection::own_history(&mut migrations).run(&self.pool).await
    }

    async fn settle(&self, conn: &mut Connection<Self>, rows: &[SettleRow<'_>]) -> Outcome<u64> {
        let plain = rows.iter().all(SettleRow::is_plain_answer);
        let first = &rows[0];
        let alike = plain && rows.iter().all(|r| (r.keep, r.status) == (first.keep, first.status));
        let texts = if alike {
            &ALIKE
        } else if plain {
            &ANSWER
        } else {
            &SETTLE
        };
        let mut query = sqlx::query(texts.exactly(rows.len()));
        macro_rules! column {
            ($row:ident => $value:expr) => {
                for $row in rows {
                    query = query.bind($row.fence.token.0).bind($value);
                }
            };
        }
        if alike {
            query = query.bind(first.keep).bind(first.status);
        } else {
            column!(row => row.keep);
            column!(row => row.status);
        }
        column!(row => row.headers);
        column!(row => row.body);
        if !plain {
            column!(row => row.state);
            column!(row => row.due_in);
            column!(row => row.probe_in);
            column!(row => row.result_ref.map(str::as_bytes));
            column!(row => row.error.map(|_| 0_i64));
            column!(row => row.error.map(str::as_bytes));
            column!(row => row.attempt);
        }
        for row in rows {
            query = query.bind(row.fence.id.0);
        }
        for row in rows {
            query = query.bind(row.fence.token.0);
        }
        Ok(query.execute(conn).await?.rows_affected())
    }

    insert_operation!(INSERT, str::as_bytes);
    shared_operations!(SQL, str::as_bytes);
    listing_operations!(SQL, str::as_bytes);
}

pub fn statements() -> Vec<(&'static str, &'static str)> {
    let mut all = SQL.named();
    all.extend([
        ("insert", INSERT.exactly(4, false)),
        ("insert_any", INSERT.exactly(4, true)),
        ("settle", SETTLE.exactly(4)),
        ("answer", ANSWER.exactly(4)),
        ("alike", ALIKE.exactly(4)),
    ]);
    all
}

/// Any mixture of endings. Columns are set from left to right here: a decision's callback is due
/// when its retry is.
fn settle_text(rows: usize) -> String {
    let pick = pick(rows);
    update_text(
        rows,
        &pick,
        &format!(
            "state = {pick}, due_at = updated_at + {pick}, attend_at = COALESCE( \
             updated_at + {pick}, CASE WHEN decision = 1 THEN due_at END), result_ref = {pick}, \
             last_error_at = COALESCE(updated_at + {pick}, last_error_at), \
             last_error = COALESCE({pick}, last_error), attempt = COALESCE({pick}, attempt)"
        ),
    )
}

/// Answers only: what nearly every batch is, with half of the columns to pick. Nearly as often they
/// are kept for the same time and have the same status: `common` is how these two are had.
fn answer_text(rows: usize, common: &str) -> String {
    let rest = "state = 'SUCCEEDED', due_at = NULL, attend_at = NULL, result_ref = NULL";
    update_text(rows, common, rest)
}

fn update_text(rows: usize, common: &str, rest: &str) -> String {
    let ids = repeat("?", rows, ", ");
    let pick = pick(rows);
    DIALECT.finish(&format!(
        "UPDATE oncegate_records FORCE INDEX (PRIMARY) SET updated_at = {{now}}, \
         expires_at = updated_at + {common}, response_status = {common}, \
         response_headers = {pick}, response_body = {pick}, {rest} \
         WHERE id IN ({ids}) AND token IN ({ids}) AND state IN ('PROCESSING', 'UNKNOWN')",
    ))
}

/// A column's value by the token of the row: two attempts of one record never get each other's.
fn pick(rows: usize) -> String {
    format!("CASE token {} END", repeat("WHEN ? THEN ?", rows, " "))
}
