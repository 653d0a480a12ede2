//! The engine on every pair of tiers: at most one execution, every retry gets the answer.

mod basics;
mod edges;
mod failures;
mod operators;
mod silence;
mod waiting;

/// Runs each promise on every pair, as `engine::…::mysql_and_redis::promise`.
macro_rules! on_every_pair {
    ($($promise:ident),* $(,)?) => {
        on_every_pair!(@ mysql_and_redis, MySqlRedis, $($promise),*);
        on_every_pair!(@ mariadb_and_redis, MariaDbRedis, $($promise),*);
        on_every_pair!(@ postgres_and_redis, PostgresRedis, $($promise),*);
        on_every_pair!(@ sqlite_and_memory, SqliteMemory, $($promise),*);
        on_every_pair!(@ mysql_alone, MySqlAlone, $($promise),*);
    };
    (@ $module:ident, $pair:ident, $($promise:ident),*) => {
        mod $module {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $promise() {
                    if let Some(site) = crate::bed::Pair::$pair.site() {
                        super::$promise(site).await;
                    }
                }
            )*
        }
    };
}
use on_every_pair;
