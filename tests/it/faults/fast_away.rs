//! Redis flushed, killed, frozen, cut off: it may cost a 409 or a slower answer, never a second
//! execution.

use std::time::Duration;

use oncegate::engine::{Engine, Outcome, Request};

use crate::bed::{Database, Fresh, Operation, begin, engine, execute, fresh_identity};
use crate::support::servers::{self, Kind, Server};
use crate::support::{FaultProxy, Redis, eventually};

/// Two engines on MySQL and a Redis of their own, with a proxy in between.
struct Site {
    engines: [Engine; 2],
    redis: Redis,
    proxy: FaultProxy,
    _durable: Fresh,
}

async fn site() -> Option<Site> {
    if !servers::require(Kind::Redis) {
        return None;
    }
    let durable = Database::MySql.fresh()?;
    let redis = Redis::start();
    let proxy = FaultProxy::start(redis.addr()).await;
    let url = proxy.reroute(&redis.url());
    let engines = [engine(durable.open().await, &url), engine(durable.open().await, &url)];
    Some(Site { engines, redis, proxy, _durable: durable })
}

/// Something happens to Redis while a call runs: duplicates before, during and after never execute.
async fn one_execution_whatever_happens(
    break_it: impl AsyncFnOnce(&Site),
    heal_it: impl AsyncFnOnce(&Site),
) {
    let Some(site) = site().await else { return };
    let [one, other] = &site.engines;
    let warm_up = Request::new(fresh_identity());
    execute(one, warm_up.clone(), &Operation::immediate()).await.expect("both tiers work");

    let operation = Operation::held();
    let request = Request::new(fresh_identity());
    let call = begin(one, &request, &operation);
    operation.begun(1).await;
    break_it(&site).await;
    for engine in [one, other, one, other] {
        let duplicate = execute(engine, request.clone(), &operation).await.expect("an answer");
        assert_eq!(duplicate, Outcome::InProgress);
    }
    let unrelated = Operation::immediate();
    let first = execute(other, Request::new(fresh_identity()), &unrelated).await;
    assert_eq!(first.expect("new calls still run"), Outcome::Executed(1));

    operation.let_go();
    assert_eq!(call.await.expect("no panic").expect("it is stored"), Outcome::Executed(1));
    for engine in [one, other] {
        let retry = execute(engine, request.clone(), &operation).await.expect("an answer");
        assert_eq!(retry, Outcome::Replayed(1));
    }
    heal_it(&site).await;
    eventually("the fast tier is used again", Duration::from_secs(20), async || {
        execute(one, Request::new(fresh_identity()), &Operation::immediate())
            .await
            .expect("it runs");
        site.redis.try_command(&["DBSIZE"]).is_ok_and(|size| size != "0")
    })
    .await;
    for engine in [one, other] {
        let retry = execute(engine, request.clone(), &operation).await.expect("an answer");
        assert_eq!(retry, Outcome::Replayed(1));
    }
    assert_eq!(operation.runs(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_is_flushed_in_mid_flight() {
    one_execution_whatever_happens(async |site| site.redis.flush(), async |_| {}).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_is_killed_in_mid_flight_and_comes_back_empty() {
    one_execution_whatever_happens(
        async |site| site.redis.kill(),
        async |site| site.redis.restart(),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_hangs_in_mid_flight() {
    one_execution_whatever_happens(
        async |site| site.redis.freeze(),
        async |site| site.redis.thaw(),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_is_cut_off_in_mid_flight() {
    one_execution_whatever_happens(async |site| site.proxy.cut(), async |site| site.proxy.heal())
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_is_a_black_hole_in_mid_flight() {
    one_execution_whatever_happens(
        async |site| site.proxy.blackhole(),
        async |site| site.proxy.heal(),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hanging_redis_costs_a_request_a_fraction_of_a_second_once() {
    let Some(site) = site().await else { return };
    let [engine, _] = &site.engines;
    let operation = Operation::immediate();
    execute(engine, Request::new(fresh_identity()), &operation).await.expect("it runs");
    site.redis.freeze();
    let mut times = Vec::new();
    for _ in 0..20 {
        let began = oncegate::clock::now();
        execute(engine, Request::new(fresh_identity()), &operation).await.expect("it runs");
        times.push(began.elapsed());
    }
    site.redis.thaw();
    assert!(times[0] < Duration::from_secs(1), "the first one waited {:?}", times[0]);
    let slow = times[1..].iter().filter(|time| **time > times[0] * 3 / 4).count();
    assert!(slow <= 1, "the others waited as well: {times:?}");
}
