//! Statements behind the tier's back: how a test makes time pass, or looks at what is stored.

use sqlx::{AssertSqlSafe, MySqlPool, PgPool, SqlitePool};

#[allow(clippy::enum_variant_names, reason = "the names of the databases")]
pub enum Sql {
    MySql(MySqlPool),
    Postgres(PgPool),
    Sqlite(SqlitePool),
}

impl Sql {
    pub async fn connect(url: &str) -> Self {
        match url.split(':').next() {
            Some("mysql") => Self::MySql(MySqlPool::connect(url).await.expect("it connects")),
            Some("postgres") => Self::Postgres(PgPool::connect(url).await.expect("it connects")),
            _ => Self::Sqlite(SqlitePool::connect(url).await.expect("it connects")),
        }
    }

    /// Runs a statement with one text parameter, marked `?`; returns the rows it matched.
    pub async fn execute(&self, statement: &str, text: &str) -> u64 {
        let rows = match self {
            Self::MySql(pool) => sqlx::query(AssertSqlSafe(statement))
                .bind(text.as_bytes())
                .execute(pool)
                .await
                .map(|done| done.rows_affected()),
            Self::Postgres(pool) => sqlx::query(AssertSqlSafe(statement.replace('?', "$1")))
                .bind(text)
                .execute(pool)
                .await
                .map(|done| done.rows_affected()),
            Self::Sqlite(pool) => sqlx::query(AssertSqlSafe(statement))
                .bind(text)
                .execute(pool)
                .await
                .map(|done| done.rows_affected()),
        };
        rows.expect("the statement runs")
    }

    /// Runs a statement without parameters.
    pub async fn run(&self, statement: &str) {
        let statement = sqlx::raw_sql(AssertSqlSafe(statement));
        let done = match self {
            Self::MySql(pool) => statement.execute(pool).await.map(drop),
            Self::Postgres(pool) => statement.execute(pool).await.map(drop),
            Self::Sqlite(pool) => statement.execute(pool).await.map(drop),
        };
        done.expect("the statement runs");
    }
}
