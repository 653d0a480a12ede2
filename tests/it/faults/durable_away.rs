//! The durable tier killed, frozen or cut off: nothing runs unrecorded, no answer is lost.

use std::time::Duration;

use oncegate::engine::{Engine, ExecuteError, Outcome, Request};
use oncegate::store::StoreError;
use oncegate::store::durable::{self, DurableOptions};

use crate::bed::{Operation, begin, engine, execute, fresh_identity};
use crate::support::servers::{self, DatabaseServer, Kind, Server};
use crate::support::{FaultProxy, MySql, Postgres, Redis, eventually};

const SOON: Duration = Duration::from_secs(30);

/// Two engines on a database of their own, with a proxy in between, and on a Redis of their own.
struct Site {
    engines: [Engine; 2],
    database: Box<dyn DatabaseServer>,
    proxy: FaultProxy,
    _redis: Redis,
}

async fn site(database: Box<dyn DatabaseServer>) -> Site {
    let redis = Redis::start();
    let proxy = FaultProxy::start(database.addr()).await;
    let url = proxy.reroute(&database.url());
    let mut engines = Vec::new();
    for _ in 0..2 {
        let patience = Duration::from_millis(1500);
        let options = DurableOptions { patience, ..DurableOptions::default() };
        let tier = durable::open(&url, &options).expect("the URL names a durable tier");
        tier.migrate().await.expect("a fresh database can be migrated");
        engines.push(engine(tier, &redis.url()));
    }
    let engines = engines.try_into().unwrap_or_else(|_| panic!("there are two"));
    Site { engines, database, proxy, _redis: redis }
}

async fn mysql() -> Option<Site> {
    if !(servers::require(Kind::MySql) && servers::require(Kind::Redis)) {
        return None;
    }
    Some(site(Box::new(MySql::start())).await)
}

async fn postgres() -> Option<Site> {
    if !(servers::require(Kind::Postgres) && servers::require(Kind::Redis)) {
        return None;
    }
    Some(site(Box::new(Postgres::start())).await)
}

/// The database goes away while a call runs and comes back after it has ended.
async fn an_answer_survives(
    site: Option<Site>,
    away: impl AsyncFnOnce(&Site),
    back: impl AsyncFnOnce(&Site),
) {
    let Some(site) = site else { return };
    let [one, other] = &site.engines;
    let operation = Operation::held();
    let request = Request::new(fresh_identity());
    let call = begin(one, &request, &operation);
    operation.begun(1).await;
    away(&site).await;

    let unrecorded = Operation::immediate();
    let refused = execute(other, Request::new(fresh_identity()), &unrecorded).await;
    assert!(
        matches!(refused, Err(ExecuteError::Store(StoreError::Unavailable { .. }))),
        "{refused:?}"
    );
    assert_eq!(unrecorded.runs(), 0, "nothing runs that is not recorded");

    operation.let_go();
    eventually("the answer is kept in the fast tier meanwhile", SOON, async || {
        let retry = execute(other, request.clone(), &operation).await;
        matches!(retry, Ok(Outcome::Replayed(1)))
    })
    .await;
    assert!(!call.is_finished(), "the first client waits until it is durable");
    back(&site).await;
    let stored = tokio::time::timeout(SOON, call).await.expect("it is stored once it can be");
    assert_eq!(stored.expect("no panic").expect("it is stored"), Outcome::Executed(1));
    let found = other.tiers().durable().find(&request.identity).await.expect("it answers");
    assert_eq!(found.expect("it is recorded").record.state.as_str(), "SUCCEEDED");
    let again = execute(other, Request::new(fresh_identity()), &unrecorded).await;
    assert_eq!(again.expect("new calls run again"), Outcome::Executed(1));
    assert_eq!(operation.runs(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn mysql_is_killed_in_mid_run_and_comes_back() {
    an_answer_survives(
        mysql().await,
        async |site| site.database.kill(),
        async |site| site.database.restart(),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mysql_hangs_in_mid_run() {
    an_answer_survives(
        mysql().await,
        async |site| site.database.freeze(),
        async |site| site.database.thaw(),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mysql_is_cut_off_in_mid_run() {
    an_answer_survives(
        mysql().await,
        async |site| site.proxy.cut(),
        async |site| site.proxy.heal(),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mysql_is_a_black_hole_in_mid_run() {
    an_answer_survives(
        mysql().await,
        async |site| site.proxy.blackhole(),
        async |site| site.proxy.heal(),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_is_killed_in_mid_run_and_comes_back() {
    an_answer_survives(
        postgres().await,
        async |site| site.database.kill(),
        async |site| site.database.restart(),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_lost_on_its_way_back_from_the_database_is_not_a_second_execution() {
    let Some(site) = mysql().await else { return };
    let [one, other] = &site.engines;
    let operation = Operation::held();
    let request = Request::new(fresh_identity()).wait(SOON);
    let call = begin(one, &request, &operation);
    operation.begun(1).await;
    // The completion arrives and is written; that it was is never heard.
    site.proxy.swallow_replies();
    operation.let_go();
    eventually("the database has answered into the void", SOON, async || {
        site.proxy.swallowed_bytes() > 0
    })
    .await;
    site.proxy.cut();
    site.proxy.heal();
    let stored = tokio::time::timeout(SOON, call).await.expect("it is settled");
    assert_eq!(stored.expect("no panic").expect("it is stored"), Outcome::Executed(1));
    let retry = execute(other, request, &operation).await.expect("it is answered");
    assert_eq!(retry, Outcome::Replayed(1));
    assert_eq!(operation.runs(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_database_makes_calls_slow_and_nothing_else() {
    let Some(site) = mysql().await else { return };
    let [one, other] = &site.engines;
    site.proxy.delay(Duration::from_millis(60));
    let operation = Operation::immediate();
    let request = Request::new(fresh_identity()).wait(SOON);
    let calls: Vec<_> = (0..20)
        .map(|n| {
            let engine = if n % 2 == 0 { one.clone() } else { other.clone() };
            let (request, operation) = (request.clone(), operation.clone());
            tokio::spawn(async move { execute(&engine, request, &operation).await })
        })
        .collect();
    for call in calls {
        let outcome = call.await.expect("no panic").expect("it is answered");
        assert!(matches!(outcome, Outcome::Executed(1) | Outcome::Replayed(1)), "{outcome:?}");
    }
    assert_eq!(operation.runs(), 1);
}
