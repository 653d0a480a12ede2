//! The durable tier is down: nothing runs unrecorded, unless the operator said that it may.

use super::super::{
    Retry, SOON, Tiers, assert_executed, assert_problem, assert_replayed, fresh_key, launch,
    payments,
};
use crate::sql::Sql;
use crate::support::servers::{self, Kind, Server};
use crate::support::{Gateway, MySql, Redis, Reply, Upstream, eventually};

/// A gateway on servers of its own.
struct Own {
    mysql: MySql,
    _redis: Redis,
    upstream: Upstream,
    gateway: Gateway,
}

async fn own(toml: &str) -> Option<Own> {
    if !(servers::require(Kind::MySql) && servers::require(Kind::Redis)) {
        return None;
    }
    let (mysql, redis, upstream) = (MySql::start(), Redis::start(), Upstream::start().await);
    let launch = launch(&upstream, &mysql.url(), &redis.url()).config(toml);
    let gateway = launch.listening().await;
    Some(Own { mysql, _redis: redis, upstream, gateway })
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_durable_tier_nothing_is_forwarded() {
    let Some(own) = own(&payments("")).await else { return };
    let stored = fresh_key();
    let first = own.gateway.post("/pay", &stored, "{}").await;
    assert_executed(&first, 201);
    own.mysql.kill();
    let key = fresh_key();
    for _ in 0..2 {
        let refused = own.gateway.post("/pay", &key, "{}").await;
        assert_problem(&refused, 503, "store-unavailable", Retry::After);
    }
    assert_eq!((own.upstream.count_of(&key), own.upstream.count()), (0, 1));
    // What needs no key needs no tier.
    let untouched = own.gateway.get("/other").await;
    assert_eq!((untouched.status, untouched.header("Idempotency-Status")), (201, None));

    own.mysql.restart();
    eventually("it is back", SOON, async || {
        own.gateway.post("/pay", &key, "{}").await.status == 201
    })
    .await;
    let retry = own.gateway.post("/pay", &key, "{}").await;
    assert_eq!(retry.header("Idempotency-Status"), Some("replayed"), "{retry:?}");
    assert_eq!(own.upstream.count_of(&key), 1);
    assert_replayed(&own.gateway.post("/pay", &stored, "{}").await, &first);
    assert_eq!(own.upstream.count_of(&stored), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bypass_forwards_unprotected_and_says_so() {
    let toml = format!("[durable]\nwhen_down = 'bypass'\n{}", payments(""));
    let Some(own) = own(&toml).await else { return };
    let key = fresh_key();
    let first = own.gateway.post("/pay", &key, "{}").await;
    assert_executed(&first, 201);
    own.mysql.kill();
    let unprotected = fresh_key();
    for executions in [1, 2] {
        let answer = own.gateway.post("/pay", &unprotected, "{}").await;
        assert_eq!(answer.status, 201, "{answer:?}");
        let said = format!("{:?}", answer.headers).to_ascii_lowercase();
        assert!(said.contains("bypass"), "in a header: {said}");
        assert_eq!(own.upstream.count_of(&unprotected), executions);
    }
    assert!(own.gateway.metrics().await.requests("bypassed") >= 2.0, "in a metric");
    eventually("in a log line", SOON, async || {
        let said = own.gateway.stderr().to_ascii_lowercase();
        said.contains("bypass") || said.contains("unprotected")
    })
    .await;
    // Without a key there is nothing to protect: a required one is still required.
    let missing = own.gateway.ask("POST", "/pay").body("{}").send().await;
    assert_problem(&missing, 400, "key-missing", Retry::No);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shadow_does_not_notice() {
    let Some(own) = own(&payments("mode = 'shadow'")).await else { return };
    own.mysql.freeze();
    let key = fresh_key();
    for executions in 1..=3 {
        let began = oncegate::clock::now();
        let answer = own.gateway.post("/pay", &key, "{}").await;
        assert_eq!((answer.status, own.upstream.count_of(&key)), (201, executions), "{answer:?}");
        assert!(began.elapsed() < SOON / 10, "nobody waits for a tier: {:?}", began.elapsed());
    }
    own.mysql.kill();
    assert_eq!(own.gateway.post("/pay", &key, "{}").await.status, 201);
    assert_eq!(own.upstream.count_of(&key), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_cannot_be_read_is_no_reason_to_bypass() {
    for tiers in [Tiers::MySqlRedis, Tiers::SqliteMemory] {
        let Some(site) = tiers.site().await else { continue };
        let gateway =
            site.gateway(&format!("[durable]\nwhen_down = 'bypass'\n{}", payments(""))).await;
        let key = fresh_key();
        site.upstream.on("/pay", Reply::new(500));
        assert_eq!(gateway.post("/pay", &key, "{}").await.status, 500);
        let damage = "UPDATE oncegate_records SET attempt = -1 WHERE idem_key = ?";
        let damaged = Sql::connect(&site.durable.url).await.execute(damage, &key).await;
        assert_eq!(damaged, 1);
        let refused = gateway.post("/pay", &key, "{}").await;
        assert_problem(&refused, 503, "store-unavailable", Retry::After);
        assert_eq!(site.upstream.count_of(&key), 1);
    }
}
