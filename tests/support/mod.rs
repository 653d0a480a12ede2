//! The test bed: real servers, killed and frozen at will, a proxy that breaks connections, an
//! upstream that does as it is told, and gateways between it and a client.
//!
//! Every server is a private child process on 127.0.0.1 with throw-away data, so that tests run
//! side by side, need no setup besides the installed binaries, and leave nothing behind.

#![allow(
    dead_code,
    unused_imports,
    reason = "each test binary and the benchmark use a different part of the test bed"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "the bed runs outside the product: it reads the environment, the clock, and blocks"
)]
#![allow(unsafe_code, reason = "signals and process settings have no safe form in std")]

pub mod client;
pub mod family;
pub mod fault_proxy;
pub mod gateway;
pub mod http1;
pub mod http2;
pub mod ports;
pub mod process;
pub mod scratch;
pub mod servers;
pub mod shared;
pub mod upstream;
pub mod webdriver;

pub use client::{Answer, Ask};
pub use fault_proxy::FaultProxy;
pub use gateway::{Gateway, Launch};
pub use http1::Connection;
pub use http2::Http2;
pub use servers::{
    DatabaseServer, Kind, MariaDb, MySql, OldRedis, Postgres, Redis, RedisCluster, RedisSentinel,
    Server,
};
pub use upstream::{Behaviour, End, Execution, Reply, Upstream};
pub use webdriver::Browser;

use std::time::Duration;

/// Waits until `condition` holds, asking every few milliseconds.
///
/// # Panics
/// When it does not hold within `timeout`; `what` then names what was awaited in vain.
pub async fn eventually(what: &str, timeout: Duration, mut condition: impl AsyncFnMut() -> bool) {
    let polling = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    if tokio::time::timeout(timeout, polling).await.is_err() {
        panic!("waited {timeout:?} in vain: {what}");
    }
}
