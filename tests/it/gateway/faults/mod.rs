//! Real processes break in mid-call. Afterwards no key of a route that holds unknown outcomes has
//! executed twice, and no answer that a client got has changed.

mod clients;
mod databases;
mod gateways;
mod load;
mod redis;
mod upstreams;

use super::{launch, payments};
use crate::support::servers::{self, Kind, Server};
use crate::support::{FaultProxy, Gateway, MySql, Redis, Upstream};

/// Two gateways on servers of their own.
struct Own {
    mysql: MySql,
    redis: Redis,
    redis_proxy: FaultProxy,
    mysql_proxy: FaultProxy,
    upstream: Upstream,
    gateways: [Gateway; 2],
}

/// None: one of the servers could not be had on this machine.
async fn own(route: &str) -> Option<Own> {
    if !(servers::require(Kind::MySql) && servers::require(Kind::Redis)) {
        return None;
    }
    let (mysql, redis, upstream) = (MySql::start(), Redis::start(), Upstream::start().await);
    let mysql_proxy = FaultProxy::start(mysql.addr()).await;
    let redis_proxy = FaultProxy::start(redis.addr()).await;
    let gateway = || {
        let (durable, fast) =
            (mysql_proxy.reroute(&mysql.url()), redis_proxy.reroute(&redis.url()));
        launch(&upstream, &durable, &fast).config(&payments(route)).listening()
    };
    let gateways = [gateway().await, gateway().await];
    Some(Own { mysql, redis, redis_proxy, mysql_proxy, upstream, gateways })
}
