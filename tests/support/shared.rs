//! One server of each kind for all tests of a process that do not hurt servers, started by the
//! first that asks. Tests keep apart by databases of their own, and in Redis by keys of their own.

use std::sync::OnceLock;

use super::servers::{MariaDb, MySql, OldRedis, Postgres, Redis, RedisCluster, RedisSentinel};

pub fn redis() -> &'static Redis {
    static SERVER: OnceLock<Redis> = OnceLock::new();
    SERVER.get_or_init(Redis::start)
}

pub fn old_redis() -> &'static Redis {
    static SERVER: OnceLock<Redis> = OnceLock::new();
    SERVER.get_or_init(OldRedis::start)
}

pub fn redis_cluster() -> &'static RedisCluster {
    static SERVERS: OnceLock<RedisCluster> = OnceLock::new();
    SERVERS.get_or_init(Redis::start_cluster)
}

pub fn redis_sentinel() -> &'static RedisSentinel {
    static SERVERS: OnceLock<RedisSentinel> = OnceLock::new();
    SERVERS.get_or_init(Redis::start_sentinel)
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
