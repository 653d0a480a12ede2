//! One server of each kind for all tests of a process that do not hurt servers, started by the
//! first that asks. Tests keep apart by databases of their own, and in Redis by keys of their own.

use std::sync::OnceLock;

use super::servers::{MariaDb, MySql, Postgres, Redis};

pub fn redis() -> &'static Redis {
    static SERVER: OnceLock<Redis> = OnceLock::new();
    SERVER.get_or_init(Redis::start)
}

pub fn mysql() -> &'static MySql {
    static SERVER: OnceLock<MySql> = OnceLock::new();
    SERVER.get_or_init(MySql::start)
}

pub fn mariadb() -> &'static MariaDb {
    static SERVER: OnceLock<MariaDb> = OnceLock::new();
    SERVER.get_or_init(MariaDb::start)
}

pub fn postgres() -> &'static Postgres {
    static SERVER: OnceLock<Postgres> = OnceLock::new();
    SERVER.get_or_init(Postgres::start)
}
