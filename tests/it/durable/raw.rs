//! The database itself, behind the tier's back.

use sqlx::{ConnectOptions, Connection, MySqlConnection, PgConnection, SqliteConnection};

use crate::bed::{Database, Fresh};

/// A connection of the test's own. Statements are given as text, without parameters.
pub enum Raw {
    MySql(MySqlConnection),
    Postgres(PgConnection),
    Sqlite(SqliteConnection),
}

macro_rules! on {
    ($raw:expr, $conn:ident => $do:expr) => {
        match $raw {
            Raw::MySql($conn) => $do,
            Raw::Postgres($conn) => $do,
            Raw::Sqlite($conn) => $do,
        }
    };
}

impl Raw {
    pub async fn connect(fresh: &Fresh) -> Self {
        const REACHED: &str = "the database is reached";
        match fresh.database {
            Database::MySql | Database::MariaDb => {
                Self::MySql(MySqlConnection::connect(&fresh.url).await.expect(REACHED))
            }
            Database::Postgres => {
                Self::Postgres(PgConnection::connect(&fresh.url).await.expect(REACHED))
            }
            Database::Sqlite => {
                let options: sqlx::sqlite::SqliteConnectOptions =
                    fresh.url.parse().expect("the URL is valid");
                Self::Sqlite(options.connect().await.expect(REACHED))
            }
        }
    }

    pub async fn execute(&mut self, sql: impl Into<String>) {
        let sql = sql.into();
        let shown = sql.clone();
        let sql = sqlx::raw_sql(sqlx::AssertSqlSafe(sql));
        let done = on!(self, conn => sql.execute(conn).await.map(drop));
        done.unwrap_or_else(|error| panic!("{error} in {shown}"));
    }

    /// The columns of every row that the statement gives, as text.
    pub async fn rows(&mut self, sql: impl Into<String>) -> Vec<Vec<(String, String)>> {
        let sql = sql.into();
        let shown = sql.clone();
        let sql = sqlx::raw_sql(sqlx::AssertSqlSafe(sql));
        let refused = |error| -> ! { panic!("{error} in {shown}") };
        on!(self, conn => {
            let rows = sql.fetch_all(conn).await.unwrap_or_else(|error| refused(error));
            rows.iter().map(columns).collect()
        })
    }

    /// The first column of every row, as text.
    pub async fn column(&mut self, sql: &str) -> Vec<String> {
        let first = |row: Vec<(String, String)>| row.into_iter().next().map(|(_, value)| value);
        self.rows(sql).await.into_iter().filter_map(first).collect()
    }
}

fn columns<R: sqlx::Row>(row: &R) -> Vec<(String, String)>
where
    usize: sqlx::ColumnIndex<R>,
    for<'r> Option<String>: sqlx::Decode<'r, R::Database>,
{
    use sqlx::Column;
    row.columns()
        .iter()
        .map(|column| {
            let value: Option<String> = row.try_get_unchecked(column.ordinal()).unwrap_or(None);
            (column.name().to_lowercase(), value.unwrap_or_default())
        })
        .collect()
}
