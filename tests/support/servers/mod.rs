//! Private servers for tests: Redis, MySQL, MariaDB and PostgreSQL, each a child process on
//! 127.0.0.1 with its own data, started within a second or two from a prepared data folder.

mod binaries;
mod instance;
mod mariadb;
mod mysql;
mod old_redis;
mod postgres;
mod prepared;
mod redis;
mod redis_cluster;
mod redis_sentinel;
mod wire;

pub use binaries::{Kind, available, needed, require};
pub use instance::Instance;
pub use mariadb::MariaDb;
pub use mysql::MySql;
pub use old_redis::OldRedis;
pub use postgres::Postgres;
pub use redis::Redis;
pub use redis_cluster::RedisCluster;
pub use redis_sentinel::RedisSentinel;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU32, Ordering};

/// What can be done to every server.
pub trait Server: Send + Sync {
    fn instance(&self) -> &Instance;

    /// How the product is told to connect to it.
    fn url(&self) -> String;

    fn port(&self) -> u16 {
        self.instance().port()
    }

    fn addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port()).into()
    }

    /// Crashes it: SIGKILL.
    fn kill(&self) {
        self.instance().kill();
    }

    /// Shuts it down in good order.
    fn stop(&self) {
        self.instance().stop();
    }

    /// Makes it hang: connections stay open, nothing is answered.
    fn freeze(&self) {
        self.instance().freeze();
    }

    fn thaw(&self) {
        self.instance().thaw();
    }

    /// Starts it again on the same port with the data it left, and waits until it answers.
    /// Crashes it first when it still runs.
    fn restart(&self) {
        self.instance().restart();
    }
}

/// A server of the durable tier.
pub trait DatabaseServer: Server {
    /// The URL of one of its databases.
    fn url_of(&self, database: &str) -> String;

    /// Runs a statement whose result does not matter, as the superuser.
    ///
    /// # Panics
    /// When the server refuses it.
    fn execute(&self, sql: &str);

    /// Creates an empty database and returns its URL.
    fn database(&self) -> String {
        static CREATED: AtomicU32 = AtomicU32::new(0);
        let name = format!("t_{}", CREATED.fetch_add(1, Ordering::Relaxed));
        self.execute(&format!("CREATE DATABASE {name}"));
        self.url_of(&name)
    }
}

/// The database every durable server has from the start.
const FIRST_DATABASE: &str = "oncegate";
