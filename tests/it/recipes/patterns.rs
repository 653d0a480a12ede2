//! patterns.toml: POST and PATCH carry a key, everything else is idempotent by itself.

use super::{Recipe, assert_untouched, record, seconds};
use crate::bed::Database;
use crate::gateway::{
    Retry, SOON, Site, Tiers, assert_executed, assert_problem, assert_replayed, fresh_key, launch,
    on_both_pairs,
};
use crate::support::servers::{self, Kind, Server};
use crate::support::{Behaviour, Gateway, Redis, Reply, Upstream, eventually};

const BODY: &str = r#"{"amount":100.00,"currency":"USD","order_id":"order-123"}"#;

on_both_pairs!(
    a_lost_answer_is_no_second_payment,
    a_key_is_required,
    get_put_and_delete_need_no_key,
    patch_is_protected_as_post_is,
    a_retry_gets_the_first_answer,
    a_key_is_a_uuid_or_anything_up_to_64_characters,
    another_request_under_the_same_key_is_refused,
    a_burst_of_duplicates_is_one_payment,
    keys_live_as_long_as_their_business_needs,
    what_failed_halfway_is_on_record_and_can_be_tried_again,
    expired_keys_are_cleared_away,
);

async fn patterns(site: &Site) -> Gateway {
    Recipe::read("patterns").gateway(site).await
}

async fn a_lost_answer_is_no_second_payment(site: Site) {
    let gateway = patterns(&site).await;
    site.upstream.on("/api", Reply::new(200).body("paid").held());
    let key = fresh_key();
    let mut connection = gateway.connect().await;
    let ask = gateway.posting("/api/payments", &key, BODY);
    connection.send(ask.bytes()).await.expect("it is sent");
    site.upstream.begun(1).await;
    drop(connection);
    site.upstream.let_go();
    let mut retry = None;
    eventually("the payment ends", SOON, async || {
        let answer = gateway.post("/api/payments", &key, BODY).await;
        retry = (answer.status == 200).then_some(answer);
        retry.is_some()
    })
    .await;
    let retry = retry.expect("it ended");
    assert_eq!(
        (retry.text().as_str(), retry.header("Idempotency-Replayed")),
        ("paid", Some("true"))
    );
    assert_eq!(site.upstream.count_of(&key), 1);
}

async fn a_key_is_required(site: Site) {
    let gateway = patterns(&site).await;
    for method in ["POST", "PATCH"] {
        for path in ["/api/payments", "/api/orders/7", "/api/anything/else"] {
            let refused = gateway.ask(method, path).body(BODY).send().await;
            assert_problem(&refused, 400, "key-missing", Retry::No);
        }
    }
    assert_eq!(site.upstream.count(), 0);
}

async fn get_put_and_delete_need_no_key(site: Site) {
    let gateway = patterns(&site).await;
    let deleted = Behaviour::each([Reply::new(204), Reply::new(404)]);
    site.upstream.on("/api/users/9", deleted);
    for expected in [204, 404] {
        let answer = gateway.ask("DELETE", "/api/users/9").send().await;
        assert_untouched(&answer);
        assert_eq!(answer.status, expected, "404 says that it is deleted already");
    }
    for method in ["GET", "PUT", "GET", "PUT"] {
        // Not even a key that is sent makes a difference.
        assert_untouched(&gateway.ask(method, "/api/users/1").key("k").body(BODY).send().await);
    }
    assert_eq!(site.upstream.count(), 6);
}

async fn patch_is_protected_as_post_is(site: Site) {
    let gateway = patterns(&site).await;
    let key = fresh_key();
    let patch = || gateway.ask("PATCH", "/api/orders/7").key(&key).body(BODY).send();
    let first = patch().await;
    assert_executed(&first, 201);
    assert_replayed(&patch().await, &first);
    assert_eq!(site.upstream.count(), 1);
}

async fn a_retry_gets_the_first_answer(site: Site) {
    let gateway = patterns(&site).await;
    site.upstream.on("/api/payments", Reply::new(200).body(r#"{"id":"p-1"}"#));
    let key = fresh_key();
    let first = gateway.post("/api/payments", &key, BODY).await;
    assert_executed(&first, 200);
    assert_replayed(&gateway.post("/api/payments", &key, BODY).await, &first);
    assert_eq!(site.upstream.count(), 1);
}

async fn a_key_is_a_uuid_or_anything_up_to_64_characters(site: Site) {
    let gateway = patterns(&site).await;
    let longest: String = fresh_key().repeat(2).chars().take(64).collect();
    for key in [fresh_key(), longest.clone()] {
        assert_executed(&gateway.post("/api/payments", &key, BODY).await, 201);
    }
    let refused = gateway.post("/api/payments", &format!("{longest}0"), BODY).await;
    assert_problem(&refused, 400, "key-invalid", Retry::No);
}

async fn another_request_under_the_same_key_is_refused(site: Site) {
    let gateway = patterns(&site).await;
    let key = fresh_key();
    assert_executed(&gateway.post("/api/payments", &key, BODY).await, 201);
    for (path, body) in [("/api/payments", "{}"), ("/api/payments/7", BODY)] {
        let refused = gateway.post(path, &key, body).await;
        assert_problem(&refused, 409, "key-reused", Retry::No);
    }
    assert_eq!(site.upstream.count(), 1);
}

async fn a_burst_of_duplicates_is_one_payment(site: Site) {
    let gateways = [patterns(&site).await, patterns(&site).await];
    let key = fresh_key();
    let asks = gateways.iter().cycle().take(20);
    let asks = asks.map(|gateway| gateway.posting("/api/payments", &key, BODY).send());
    for answer in futures_util::future::join_all(asks).await {
        assert!([201, 409].contains(&answer.status), "{answer:?}");
    }
    assert_eq!(site.upstream.count_of(&key), 1);
}

async fn keys_live_as_long_as_their_business_needs(site: Site) {
    let gateway = patterns(&site).await;
    for (path, scope, hours) in [
        ("/api/payments", "payment", 48.0),
        ("/api/orders", "order", 90.0 * 24.0),
        ("/api/anything", "api", 24.0),
    ] {
        let key = fresh_key();
        assert_executed(&gateway.post(path, &key, BODY).await, 201);
        let record = record(&gateway, "", scope, &key).await.expect("it is recorded");
        let kept = seconds(&record["expires_at"]) - seconds(&record["updated_at"]);
        assert_eq!(kept.round(), hours * 3600.0, "{scope}");
    }
}

async fn what_failed_halfway_is_on_record_and_can_be_tried_again(site: Site) {
    let gateway = patterns(&site).await;
    let halfway = Reply::new(500).body("rolled back");
    site.upstream.on("/api/payments", Behaviour::each([halfway, Reply::new(200).body("paid")]));
    let key = fresh_key();
    assert_eq!(gateway.post("/api/payments", &key, BODY).await.text(), "rolled back");
    let failed = record(&gateway, "", "payment", &key).await.expect("it is recorded");
    assert_eq!((&failed["state"], &failed["attempt"]), (&"FAILED".into(), &1.into()));
    assert_executed(&gateway.post("/api/payments", &key, BODY).await, 200);
    assert_eq!(site.upstream.last().attempt(), Some(2));
    let done = record(&gateway, "", "payment", &key).await.expect("it is recorded");
    assert_eq!(done["state"], "SUCCEEDED");
}

async fn expired_keys_are_cleared_away(site: Site) {
    let recipe = Recipe::read("patterns").with("ttl = \"48h\"", "ttl = \"200ms\"");
    let gateway = recipe.and("[janitor]\ninterval = '100ms'").gateway(&site).await;
    let (gone, kept) = (fresh_key(), fresh_key());
    assert_executed(&gateway.post("/api/payments", &gone, BODY).await, 201);
    assert_executed(&gateway.post("/api/orders", &kept, BODY).await, 201);
    eventually("it is deleted", SOON, async || {
        gateway.metrics().await.sum("oncegate_purged_records_total", &[]) == 1.0
    })
    .await;
    assert_eq!(record(&gateway, "", "payment", &gone).await, None);
    assert!(record(&gateway, "", "order", &kept).await.is_some());
}

async fn redis_then_the_database(database: Database) {
    if !servers::require(Kind::Redis) {
        return;
    }
    let Some(durable) = database.fresh() else { return };
    let (redis, upstream) = (Redis::start(), Upstream::start().await);
    let recipe = Recipe::read("patterns");
    let gateway = || launch(&upstream, &durable.url, &redis.url()).config(&recipe.0).listening();
    let (one, other, third) = (gateway().await, gateway().await, gateway().await);
    let key = fresh_key();
    let first = one.post("/api/payments", &key, BODY).await;
    assert_executed(&first, 201);
    let by = async |gateway: &Gateway, tier: &str| {
        gateway.metrics().await.sum("oncegate_replays_total", &[("tier", tier)])
    };
    eventually("the answer is in Redis", SOON, async || {
        redis.try_command(&["DBSIZE"]).is_ok_and(|size| size != "0")
    })
    .await;
    assert_replayed(&other.post("/api/payments", &key, BODY).await, &first);
    assert_eq!((by(&other, "fast").await, by(&other, "durable").await), (1.0, 0.0));
    redis.flush();
    assert_replayed(&third.post("/api/payments", &key, BODY).await, &first);
    assert_eq!((by(&third, "fast").await, by(&third, "durable").await), (0.0, 1.0));
    assert_eq!(upstream.count(), 1);
}

/// The recipe's own database, and MySQL.
#[tokio::test(flavor = "multi_thread")]
async fn redis_answers_first_and_the_database_outlives_it() {
    redis_then_the_database(Database::Postgres).await;
    redis_then_the_database(Database::MySql).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_redis_it_is_the_same_only_slower() {
    let Some(site) = Tiers::SqliteMemory.site().await else { return };
    let recipe = Recipe::read("patterns").0;
    let gateway = launch(&site.upstream, &site.durable.url, "none").config(&recipe);
    let gateway = gateway.listening().await;
    let key = fresh_key();
    let first = gateway.post("/api/payments", &key, BODY).await;
    assert_executed(&first, 201);
    assert_replayed(&gateway.post("/api/payments", &key, BODY).await, &first);
    assert_eq!(site.upstream.count(), 1);
}
