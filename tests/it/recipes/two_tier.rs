//! two-tier.toml: Redis takes the rush, MySQL decides, each business has its own rules.

use serde_json::json;

use super::{Recipe, assert_untouched, record, seconds};
use crate::bed::Database;
use crate::gateway::{
    Retry, SOON, Site, assert_executed, assert_problem, assert_replayed, fresh_key, launch,
    on_both_pairs,
};
use crate::support::servers::{self, Kind, Server};
use crate::support::{
    Answer, Behaviour, FaultProxy, Gateway, Redis, Reply, Upstream, eventually, shared,
};

const BODY: &str = r#"{"user":7,"amount":100}"#;

on_both_pairs!(
    the_callers_request_id_is_the_key,
    where_nobody_sends_an_id_the_content_is_the_key,
    one_key_runs_once_in_each_business,
    a_key_may_be_composed,
    success_is_given_back_and_a_running_request_refused,
    of_many_at_once_one_runs,
    another_payload_is_refused,
    a_failure_that_must_not_be_retried_is_refused,
    a_failure_that_may_be_retried_runs_again_with_the_same_payload,
    what_may_be_overwritten_is_left_alone,
    a_stuck_request_is_counted_and_then_settled_as_the_business_says,
    records_are_kept_as_long_as_each_business_needs,
    expired_records_are_deleted,
    hits_conflicts_and_zombies_are_counted,
);

async fn two_tier(site: &Site) -> Gateway {
    Recipe::read("two-tier").gateway(site).await
}

async fn the_callers_request_id_is_the_key(site: Site) {
    let gateway = two_tier(&site).await;
    let id = fresh_key();
    let deduct = || gateway.ask("POST", "/points/deduct").header("X-Request-Id", &id).body(BODY);
    let first = deduct().send().await;
    assert_executed(&first, 201);
    assert_replayed(&deduct().send().await, &first);
    let missing = gateway.ask("POST", "/points/deduct").body(BODY).send().await;
    assert_problem(&missing, 400, "key-missing", Retry::No);
    assert_eq!(site.upstream.count(), 1);
    assert_eq!(site.upstream.last().header("x-request-id"), Some(&*id), "it is passed on");
}

async fn where_nobody_sends_an_id_the_content_is_the_key(site: Site) {
    let gateway = two_tier(&site).await;
    let message = |body: &str| gateway.ask("POST", "/messages/stock").body(body).send();
    let first = message(r#"{"sku":"a","n":1,"sent_at":"10:00"}"#).await;
    assert_executed(&first, 201);
    assert_replayed(&message(r#"{"n":1,"sku":"a","sent_at":"10:05"}"#).await, &first);
    assert_executed(&message(r#"{"sku":"a","n":2,"sent_at":"10:00"}"#).await, 201);
    assert_eq!(site.upstream.count(), 2);
}

async fn one_key_runs_once_in_each_business(site: Site) {
    let gateway = two_tier(&site).await;
    let key = fresh_key();
    for path in ["/coupons/grant", "/payments/charge"] {
        let first = gateway.post(path, &key, BODY).await;
        assert_executed(&first, 201);
        assert_replayed(&gateway.post(path, &key, BODY).await, &first);
        let seen = site.upstream.last();
        assert_eq!(seen.key(), Some(&*key), "the next system gets the same key");
    }
    assert_eq!(site.upstream.executions()[0].header("idempotency-scope"), Some("coupon.grant"));
    assert_eq!(site.upstream.executions()[1].header("idempotency-scope"), Some("payment.charge"));
    assert_eq!(site.upstream.count(), 2);
}

async fn a_key_may_be_composed(site: Site) {
    let gateway = two_tier(&site).await;
    let id = fresh_key();
    let keys = [id.clone(), format!("{id}:item-A"), format!("{id}:item-B"), format!("A:{id}")];
    for _ in 0..2 {
        for key in &keys {
            assert_eq!(gateway.post("/coupons/grant", key, BODY).await.status, 201);
        }
    }
    assert_eq!((site.upstream.count(), site.upstream.most_of_one_key()), (4, 1));
}

async fn success_is_given_back_and_a_running_request_refused(site: Site) {
    let gateway = two_tier(&site).await;
    site.upstream.on("/payments", Reply::new(200).body("charged").held());
    let key = fresh_key();
    let call = tokio::spawn(gateway.posting("/payments/charge", &key, BODY).send());
    site.upstream.begun(1).await;
    let told = gateway.post("/payments/charge", &key, BODY).await;
    assert_problem(&told, 409, "in-progress", Retry::After);
    let running = record(&gateway, "", "payment.charge", &key).await.expect("it is recorded");
    assert_eq!(running["state"], "PROCESSING");
    site.upstream.let_go();
    let first = call.await.expect("no panic");
    assert_replayed(&gateway.post("/payments/charge", &key, BODY).await, &first);
    let done = record(&gateway, "", "payment.charge", &key).await.expect("it is recorded");
    assert_eq!(done["state"], "SUCCEEDED");
    for kept in ["fingerprint", "created_at", "updated_at", "expires_at", "response"] {
        assert!(!done[kept].is_null(), "{kept}: {done}");
    }
}

async fn of_many_at_once_one_runs(site: Site) {
    let gateways = [two_tier(&site).await, two_tier(&site).await];
    site.upstream.on("/payments", Reply::new(201).held());
    let key = fresh_key();
    let calls: Vec<_> = gateways
        .iter()
        .cycle()
        .take(40)
        .map(|gateway| tokio::spawn(gateway.posting("/payments/charge", &key, BODY).send()))
        .collect();
    site.upstream.begun(1).await;
    // All others are answered while the one still runs.
    let answered = || calls.iter().filter(|call| call.is_finished()).count();
    eventually("the others are told", SOON, async || answered() == 39).await;
    site.upstream.let_go();
    let mut executed = 0;
    for call in calls {
        match call.await.expect("no panic") {
            answer if answer.status == 201 => executed += 1,
            answer => assert_problem(&answer, 409, "in-progress", Retry::After),
        }
    }
    assert_eq!((executed, site.upstream.count()), (1, 1));
}

async fn another_payload_is_refused(site: Site) {
    let gateway = two_tier(&site).await;
    let key = fresh_key();
    assert_executed(&gateway.post("/payments/charge", &key, BODY).await, 201);
    let refused = gateway.post("/payments/charge", &key, r#"{"user":7,"amount":101}"#).await;
    assert_problem(&refused, 409, "key-reused", Retry::No);
    assert_eq!(site.upstream.count(), 1);
}

async fn a_failure_that_must_not_be_retried_is_refused(site: Site) {
    let gateway = two_tier(&site).await;
    site.upstream.on("/payments", Reply::new(500));
    let key = fresh_key();
    assert_eq!(gateway.post("/payments/charge", &key, BODY).await.status, 500);
    for _ in 0..2 {
        let refused = gateway.post("/payments/charge", &key, BODY).await;
        assert_problem(&refused, 409, "attempt-failed", Retry::No);
    }
    assert_eq!(site.upstream.count(), 1);
}

async fn a_failure_that_may_be_retried_runs_again_with_the_same_payload(site: Site) {
    let gateway = two_tier(&site).await;
    let replies = [Reply::new(500), Reply::new(201).body("granted")];
    site.upstream.on("/coupons", Behaviour::each(replies));
    let key = fresh_key();
    assert_eq!(gateway.post("/coupons/grant", &key, BODY).await.status, 500);
    let other = gateway.post("/coupons/grant", &key, "{}").await;
    assert_problem(&other, 409, "key-reused", Retry::No);
    let again = gateway.post("/coupons/grant", &key, BODY).await;
    assert_executed(&again, 201);
    assert_replayed(&gateway.post("/coupons/grant", &key, BODY).await, &again);
    assert_eq!(site.upstream.count(), 2);
}

/// No route is for it: the last one wins, as with a name that is changed twice.
async fn what_may_be_overwritten_is_left_alone(site: Site) {
    let gateway = two_tier(&site).await;
    let key = fresh_key();
    for name in ["one", "two", "one"] {
        let put = gateway.ask("PUT", "/profile").key(&key).body(name).send().await;
        assert_untouched(&put);
        assert_eq!(site.upstream.last().text(), name);
    }
    assert_untouched(&gateway.post("/settings", &key, "{}").await);
    assert_eq!(site.upstream.count(), 4);
}

/// The gateway dies in mid-call at both of these, and another one finds out.
async fn a_stuck_request_is_counted_and_then_settled_as_the_business_says(site: Site) {
    let recipe = Recipe::read("two-tier")
        .with(
            "http://127.0.0.1:9000/idempotency/outcome",
            &format!("{}/outcome", site.upstream.url()),
        )
        .with("interval = \"30s\"", "interval = \"100ms\"")
        .with("mismatch_status = 409", "mismatch_status = 409\nlease = \"1s\"");
    let [quiet, looking] = [("1h", "2h"), ("500ms", "4s")].map(|(stuck, settle)| {
        recipe
            .clone()
            .with("stuck_after = \"5m\"", &format!("stuck_after = \"{stuck}\""))
            .with("settle_after = \"10m\"", &format!("settle_after = \"{settle}\""))
    });
    site.upstream.on("/payments", Reply::new(201).held());
    site.upstream.on("/coupons", Reply::new(201).held());
    let (paid, failed) = (fresh_key(), fresh_key());
    let said = paid.clone();
    let outcome = Behaviour::by(move |question| {
        let question: serde_json::Value = serde_json::from_slice(&question.body).expect("JSON");
        let done =
            json!({ "outcome": "succeeded", "response": { "status": 200, "body": "charged" } });
        let answer =
            if question["key"] == json!(said) { done } else { json!({"outcome":"failed"}) };
        Reply::new(200).header("Content-Type", "application/json").body(answer.to_string())
    });
    site.upstream.on("/outcome", outcome);
    let dying = quiet.gateway(&site).await;
    let calls = [("/payments/charge", &paid), ("/coupons/grant", &failed)]
        .map(|(path, key)| tokio::spawn(dying.posting(path, key, BODY).try_send()));
    site.upstream.begun(2).await;
    dying.kill();
    for call in calls {
        drop(call.await);
    }
    let gateway = looking.gateway(&site).await;
    let gauge = async |name: &str| gateway.metrics().await.sum(name, &[]);
    eventually("both count as stuck", SOON, async || gauge("oncegate_stuck_records").await == 2.0)
        .await;
    assert!(gauge("oncegate_oldest_processing_age_seconds").await >= 0.5);
    assert_eq!(gauge("oncegate_settled_total").await, 0.0, "not yet");
    eventually("both are settled", SOON, async || {
        gauge("oncegate_settled_total").await == 2.0 && gauge("oncegate_stuck_records").await == 0.0
    })
    .await;
    let paid_again = gateway.post("/payments/charge", &paid, BODY).await;
    assert_eq!((paid_again.status, paid_again.text().as_str()), (200, "charged"));
    assert_eq!(paid_again.header("Idempotency-Status"), Some("replayed"));
    site.upstream.let_go();
    assert_executed(&gateway.post("/coupons/grant", &failed, BODY).await, 201);
    assert_eq!((site.upstream.count_of(&paid), site.upstream.count_of(&failed)), (1, 2));
}

async fn records_are_kept_as_long_as_each_business_needs(site: Site) {
    let gateway = two_tier(&site).await;
    for (path, scope, days) in
        [("/coupons/a", "coupon.grant", 7.0), ("/payments/a", "payment.charge", 3.0)]
    {
        let key = fresh_key();
        assert_executed(&gateway.post(path, &key, BODY).await, 201);
        let record = record(&gateway, "", scope, &key).await.expect("it is recorded");
        let kept = seconds(&record["expires_at"]) - seconds(&record["updated_at"]);
        assert_eq!(kept.round(), days * 86_400.0, "{scope}");
    }
    let message =
        gateway.ask("POST", "/messages/a").body(format!("{{\"id\":\"{}\"}}", fresh_key()));
    assert_executed(&message.send().await, 201);
    let path = "/api/records?scope=message.consume";
    let listed = crate::support::Ask::new(gateway.admin(), "GET", path).send().await.json();
    let record = &listed["records"][0];
    let kept = seconds(&record["expires_at"]) - seconds(&record["updated_at"]);
    assert_eq!(kept.round(), 30.0 * 86_400.0);
}

async fn expired_records_are_deleted(site: Site) {
    let recipe = Recipe::read("two-tier")
        .with("ttl = \"3d\"", "ttl = \"200ms\"")
        .with("interval = \"1m\"", "interval = \"100ms\"");
    let gateway = recipe.gateway(&site).await;
    let (payment, coupon) = (fresh_key(), fresh_key());
    assert_executed(&gateway.post("/payments/a", &payment, BODY).await, 201);
    assert_executed(&gateway.post("/coupons/a", &coupon, BODY).await, 201);
    eventually("the payment's record is gone", SOON, async || {
        gateway.metrics().await.sum("oncegate_purged_records_total", &[]) == 1.0
    })
    .await;
    assert_eq!(record(&gateway, "", "payment.charge", &payment).await, None);
    assert!(record(&gateway, "", "coupon.grant", &coupon).await.is_some());
}

async fn hits_conflicts_and_zombies_are_counted(site: Site) {
    let gateway = two_tier(&site).await;
    let key = fresh_key();
    assert_executed(&gateway.post("/payments/a", &key, BODY).await, 201);
    for _ in 0..3 {
        gateway.post("/payments/a", &key, BODY).await;
    }
    gateway.post("/payments/a", &key, "{}").await;
    let metrics = gateway.metrics().await;
    assert_eq!((metrics.requests("executed"), metrics.requests("replayed")), (1.0, 3.0));
    assert_eq!(metrics.sum("oncegate_conflicts_total", &[("kind", "mismatch")]), 1.0);
    assert_eq!(metrics.sum("oncegate_stuck_records", &[]), 0.0);
}

/// Two gateways on a Redis of their own, and what is behind them.
struct Rush {
    redis: Redis,
    /// On the second gateway's way to MySQL.
    mysql: FaultProxy,
    upstream: Upstream,
    gateways: [Gateway; 2],
    /// What was executed until both gateways used their Redis.
    warm_up: usize,
}

async fn rush() -> Option<Rush> {
    if !servers::require(Kind::Redis) {
        return None;
    }
    let durable = Database::MySql.fresh()?;
    let (redis, upstream) = (Redis::start(), Upstream::start().await);
    let recipe = Recipe::read("two-tier").0;
    let mysql = FaultProxy::start(shared::mysql().addr()).await;
    let gateway = |url: &str| launch(&upstream, url, &redis.url()).config(&recipe).listening();
    let gateways = [gateway(&durable.url).await, gateway(&mysql.reroute(&durable.url)).await];
    for gateway in &gateways {
        eventually("it uses its Redis", SOON, async || {
            gateway.post("/coupons/warm-up", &fresh_key(), BODY).await;
            redis.command(&["DBSIZE"]) != "0"
        })
        .await;
        redis.flush();
    }
    let warm_up = upstream.count();
    Some(Rush { redis, mysql, upstream, gateways, warm_up })
}

/// A payment that the upstream has got and holds: its key, and the call that waits for it.
async fn running(upstream: &Upstream, gateway: &Gateway, warm_up: usize) -> (String, Call) {
    upstream.on("/payments", Reply::new(201).held());
    let key = fresh_key();
    let call = tokio::spawn(gateway.posting("/payments/a", &key, BODY).send());
    upstream.begun(warm_up + 1).await;
    (key, call)
}

type Call = tokio::task::JoinHandle<Answer>;

/// MySQL is out of reach for the second gateway, and it does not need it.
#[tokio::test(flavor = "multi_thread")]
async fn redis_turns_duplicates_away_before_they_reach_mysql() {
    let Some(Rush { upstream, mysql, gateways: [one, other], warm_up, redis: _redis }) =
        rush().await
    else {
        return;
    };
    let (key, call) = running(&upstream, &one, warm_up).await;
    mysql.blackhole();
    let duplicates = (0..50).map(|_| other.posting("/payments/a", &key, BODY).send());
    let told: Vec<Answer> = futures_util::future::join_all(duplicates).await;
    told.iter().for_each(|answer| assert_problem(answer, 409, "in-progress", Retry::After));
    upstream.let_go();
    let first = call.await.expect("no panic");
    assert_executed(&first, 201);
    assert_replayed(&other.post("/payments/a", &key, BODY).await, &first);
    // Whom Redis lets through, MySQL has to admit.
    let new = other.post("/payments/a", &fresh_key(), BODY).await;
    assert_problem(&new, 503, "store-unavailable", Retry::After);
    assert_eq!(upstream.count(), warm_up + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn mysql_decides_when_redis_has_forgotten() {
    let Some(Rush { redis, upstream, gateways: [one, other], warm_up, mysql: _mysql }) =
        rush().await
    else {
        return;
    };
    let (key, call) = running(&upstream, &one, warm_up).await;
    redis.flush();
    for gateway in [&other, &one] {
        let told = gateway.post("/payments/a", &key, BODY).await;
        assert_problem(&told, 409, "in-progress", Retry::After);
    }
    upstream.let_go();
    let first = call.await.expect("no panic");
    assert_executed(&first, 201);
    redis.flush();
    assert_replayed(&other.post("/payments/a", &key, BODY).await, &first);
    assert_eq!(upstream.count(), warm_up + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_in_redis_ends_by_itself() {
    let Some(Rush { redis, upstream, gateways: [one, _other], warm_up, mysql: _mysql }) =
        rush().await
    else {
        return;
    };
    upstream.on("/payments", Reply::new(201).held());
    let call = tokio::spawn(one.posting("/payments/a", &fresh_key(), BODY).try_send());
    upstream.begun(warm_up + 1).await;
    one.kill();
    drop(call.await);
    let lock = redis.command(&["RANDOMKEY"]);
    let left: i64 = redis.command(&["PTTL", &lock]).trim().parse().expect("milliseconds");
    assert!(left > 0 && left <= 20_000, "{lock}: {left}");
    assert_eq!(redis.command(&["DBSIZE"]), "1");
}
