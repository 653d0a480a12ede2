//! template.toml, and the same as a call inside a service: tenant, business type and key name a
//! request; a duplicate is told or waits; a failure stays one.

use std::time::Duration;

use oncegate::engine::{ExecuteError, Outcome, Request};
use oncegate::idempotency::{Fingerprint, Policy, WhenFailed};
use serde_json::json;

use super::{Recipe, record};
use crate::bed::{self, Operation, Pair, execute, identity_of};
use crate::gateway::{
    Retry, SOON, Site, assert_executed, assert_problem, assert_replayed, fresh_key, on_both_pairs,
};
use crate::support::{Ask, Gateway, Reply, eventually};

const ORDER: &str = r#"{"items":[{"sku":"a","n":2}],"amount":42.5,"external_id":"x-1"}"#;

on_both_pairs!(
    tenant_business_type_and_key_are_one_name,
    only_the_core_fields_make_the_request,
    a_running_request_is_recorded_and_its_end_replayed,
    a_duplicate_does_not_wait_by_default,
    a_duplicate_waits_and_gets_the_answer,
    a_duplicate_waits_no_longer_than_it_should,
    a_duplicate_that_waited_for_a_failure_is_told_so,
    a_failure_stays_a_failure,
    a_failure_that_may_be_retried_runs_again,
    a_lock_is_kept_as_long_as_the_call_runs,
    a_lock_that_nobody_holds_is_taken_over,
);

async fn template(site: &Site) -> Gateway {
    Recipe::read("template").gateway(site).await
}

fn post(at: &Gateway, tenant: &str, path: &str, key: &str, body: &str) -> Ask {
    at.posting(path, key, body).header("X-Tenant-Id", tenant)
}

async fn tenant_business_type_and_key_are_one_name(site: Site) {
    let gateway = template(&site).await;
    let key = fresh_key();
    let names = [("t1", "/orders"), ("t2", "/orders"), ("t1", "/stores"), ("t1", "/users")];
    let mut firsts = Vec::new();
    for (tenant, path) in names {
        let first = post(&gateway, tenant, path, &key, ORDER).send().await;
        assert_executed(&first, 201);
        firsts.push(first);
    }
    for ((tenant, path), first) in names.iter().zip(&firsts) {
        assert_replayed(&post(&gateway, tenant, path, &key, ORDER).send().await, first);
    }
    let missing = gateway.ask("POST", "/orders").header("X-Tenant-Id", "t1").body(ORDER);
    assert_problem(&missing.send().await, 400, "key-missing", Retry::No);
    assert_eq!(site.upstream.count(), 4);
}

async fn only_the_core_fields_make_the_request(site: Site) {
    let gateway = template(&site).await;
    let key = fresh_key();
    let first = post(&gateway, "t", "/orders", &key, ORDER).send().await;
    assert_executed(&first, 201);
    let same = r#"{"amount":4.25e1,"note":"ring twice","external_id":"x-1",
        "items":[{"n":2,"sku":"a"}],"client_time":"10:00"}"#;
    assert_replayed(&post(&gateway, "t", "/orders", &key, same).send().await, &first);
    for other in [ORDER.replace("42.5", "42.6"), ORDER.replace("x-1", "x-2"), "{}".to_owned()] {
        let refused = post(&gateway, "t", "/orders", &key, &other).send().await;
        assert_problem(&refused, 409, "key-reused", Retry::No);
    }
    assert_eq!(site.upstream.count(), 1);
}

async fn a_running_request_is_recorded_and_its_end_replayed(site: Site) {
    let gateway = template(&site).await;
    let reply = Reply::new(201).header("Location", "/orders/ord_8f2").body("ord_8f2");
    site.upstream.on("/orders", reply.held());
    let key = fresh_key();
    let call = tokio::spawn(post(&gateway, "t", "/orders", &key, ORDER).send());
    site.upstream.begun(1).await;
    let running = record(&gateway, "t", "ORDER_CREATE", &key).await.expect("it is recorded");
    assert_eq!(running["state"], "PROCESSING");
    site.upstream.let_go();
    let first = call.await.expect("no panic");
    let again = post(&gateway, "t", "/orders", &key, ORDER).send().await;
    assert_replayed(&again, &first);
    assert_eq!(again.header("Location"), Some("/orders/ord_8f2"));
    // Whoever looks for the order finds its public id with the record.
    let done = record(&gateway, "t", "ORDER_CREATE", &key).await.expect("it is recorded");
    assert_eq!(done["state"], "SUCCEEDED");
    assert!(done["response"]["headers"].to_string().contains("/orders/ord_8f2"), "{done}");
}

async fn a_duplicate_does_not_wait_by_default(site: Site) {
    let gateway = template(&site).await;
    site.upstream.on("/orders", Reply::new(201).held());
    let key = fresh_key();
    let call = tokio::spawn(post(&gateway, "t", "/orders", &key, ORDER).send());
    site.upstream.begun(1).await;
    let began = oncegate::clock::now();
    let told = post(&gateway, "t", "/orders", &key, ORDER).send().await;
    assert_problem(&told, 409, "in-progress", Retry::After);
    assert!(began.elapsed() < Duration::from_secs(3), "it waited {:?}", began.elapsed());
    site.upstream.let_go();
    assert_executed(&call.await.expect("no panic"), 201);
}

async fn a_duplicate_waits_and_gets_the_answer(site: Site) {
    let recipe = Recipe::read("template").with("wait = \"2s\"", "wait = \"10s\"");
    let gateways = [recipe.gateway(&site).await, recipe.gateway(&site).await];
    site.upstream.on("/stores", Reply::new(201).body("st_1").held());
    let key = fresh_key();
    let call = tokio::spawn(post(&gateways[0], "t", "/stores", &key, "{}").send());
    site.upstream.begun(1).await;
    let waiting = gateways
        .each_ref()
        .map(|gateway| tokio::spawn(post(gateway, "t", "/stores", &key, "{}").send()));
    tokio::time::sleep(crate::gateway::A_MOMENT).await;
    assert!(waiting.iter().all(|duplicate| !duplicate.is_finished()), "they wait");
    site.upstream.let_go();
    let first = call.await.expect("no panic");
    for duplicate in waiting {
        assert_replayed(&duplicate.await.expect("no panic"), &first);
    }
    assert_eq!(site.upstream.count(), 1);
}

async fn a_duplicate_waits_no_longer_than_it_should(site: Site) {
    let gateway = template(&site).await;
    site.upstream.on("/stores", Reply::new(201).held());
    let key = fresh_key();
    let call = tokio::spawn(post(&gateway, "t", "/stores", &key, "{}").send());
    site.upstream.begun(1).await;
    let began = oncegate::clock::now();
    let told = post(&gateway, "t", "/stores", &key, "{}").send().await;
    assert_problem(&told, 409, "in-progress", Retry::After);
    let waited = began.elapsed();
    assert!((Duration::from_secs(2)..Duration::from_secs(10)).contains(&waited), "{waited:?}");
    site.upstream.let_go();
    assert_executed(&call.await.expect("no panic"), 201);
}

async fn a_duplicate_that_waited_for_a_failure_is_told_so(site: Site) {
    let recipe = Recipe::read("template").with("wait = \"2s\"", "wait = \"10s\"");
    let gateway = recipe.gateway(&site).await;
    site.upstream.on("/stores", Reply::new(500).body("out of numbers").held());
    let key = fresh_key();
    let call = tokio::spawn(post(&gateway, "t", "/stores", &key, "{}").send());
    site.upstream.begun(1).await;
    let waiting = tokio::spawn(post(&gateway, "t", "/stores", &key, "{}").send());
    tokio::time::sleep(crate::gateway::A_MOMENT).await;
    site.upstream.let_go();
    assert_eq!(call.await.expect("no panic").text(), "out of numbers");
    assert_problem(&waiting.await.expect("no panic"), 409, "attempt-failed", Retry::No);
    assert_eq!(site.upstream.count(), 1);
}

async fn a_failure_stays_a_failure(site: Site) {
    let gateways = [template(&site).await, template(&site).await];
    site.upstream.on("/orders", Reply::new(500).body("no stock"));
    let key = fresh_key();
    let failed = post(&gateways[0], "t", "/orders", &key, ORDER).send().await;
    assert_eq!((failed.status, failed.text().as_str()), (500, "no stock"));
    for gateway in [&gateways[0], &gateways[1], &gateways[0]] {
        let refused = post(gateway, "t", "/orders", &key, ORDER).send().await;
        assert_problem(&refused, 409, "attempt-failed", Retry::No);
    }
    assert_eq!(site.upstream.count(), 1);
    let record = record(&gateways[0], "t", "ORDER_CREATE", &key).await.expect("it is recorded");
    assert_eq!((&record["state"], &record["retries"]), (&json!("FAILED"), &json!("refuse")));
    assert!(record["last_error"].as_str().is_some_and(|error| error.contains("500")), "{record}");
}

async fn a_failure_that_may_be_retried_runs_again(site: Site) {
    let gateway = template(&site).await;
    let replies = [Reply::new(500), Reply::new(201).body("u_1")];
    site.upstream.on("/users", crate::support::Behaviour::each(replies));
    let key = fresh_key();
    assert_eq!(post(&gateway, "t", "/users", &key, "{}").send().await.status, 500);
    assert_executed(&post(&gateway, "t", "/users", &key, "{}").send().await, 201);
    assert_eq!((site.upstream.count(), site.upstream.last().attempt()), (2, Some(2)));
}

async fn a_lock_is_kept_as_long_as_the_call_runs(site: Site) {
    let recipe = Recipe::read("template").with("lease = \"30s\"", "lease = \"1s\"");
    let (one, other) = (recipe.gateway(&site).await, recipe.gateway(&site).await);
    site.upstream.on("/orders", Reply::new(201).held());
    let key = fresh_key();
    let call = tokio::spawn(post(&one, "t", "/orders", &key, ORDER).send());
    site.upstream.begun(1).await;
    let began = oncegate::clock::now();
    while began.elapsed() < Duration::from_millis(2500) {
        let told = post(&other, "t", "/orders", &key, ORDER).send().await;
        assert_problem(&told, 409, "in-progress", Retry::After);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    site.upstream.let_go();
    assert_executed(&call.await.expect("no panic"), 201);
    assert_eq!(site.upstream.count(), 1);
}

async fn a_lock_that_nobody_holds_is_taken_over(site: Site) {
    let recipe = Recipe::read("template").with("lease = \"30s\"", "lease = \"1s\"");
    let (one, other) = (recipe.gateway(&site).await, recipe.gateway(&site).await);
    site.upstream.on("/orders", Reply::new(201).body("ord_1").held());
    let key = fresh_key();
    let call = tokio::spawn(post(&one, "t", "/orders", &key, ORDER).try_send());
    site.upstream.begun(1).await;
    one.kill();
    drop(call.await);
    site.upstream.let_go();
    let mut taken = None;
    eventually("the lock runs out", SOON, async || {
        let answer = post(&other, "t", "/orders", &key, ORDER).send().await;
        taken = (answer.status == 201).then_some(answer);
        taken.is_some()
    })
    .await;
    assert_executed(&taken.expect("it ran"), 201);
    assert_eq!(site.upstream.last().attempt(), Some(2));
}

/// The request object of the template: who, what for, which key, what, for how long.
fn request(key: &str, order: &serde_json::Value) -> Request {
    let policy = Policy { when_failed: WhenFailed::Reject, ..Policy::default() };
    Request::new(identity_of("t", "ORDER_CREATE", key))
        .fingerprint(Fingerprint::of_value(order).expect("it is JSON"))
        .policy(policy)
        .ttl(Duration::from_secs(24 * 3600))
        .lease(Duration::from_secs(30))
}

async fn the_call(site: bed::Site) {
    let (one, other) = (site.engine().await, site.engine().await);
    let order = json!({ "items": ["a"], "amount": 4 });
    // In progress, then executed, then replayed.
    let (key, held) = (fresh_key(), Operation::held());
    let first = tokio::spawn({
        let (one, request, held) = (one.clone(), request(&key, &order), held.clone());
        async move { execute(&one, request, &held).await }
    });
    held.begun(1).await;
    let again = execute(&other, request(&key, &order), &held).await.expect("it is answered");
    assert!(again.is_in_progress() && again.value().is_none());
    let waiting = request(&key, &order).wait(Duration::from_millis(50));
    let in_vain = execute(&other, waiting, &held).await.expect("it is answered");
    assert_eq!(in_vain, Outcome::InProgress);
    let waiting = tokio::spawn({
        let request = request(&key, &order).wait(Duration::from_secs(30));
        let (other, held) = (other.clone(), held.clone());
        async move { execute(&other, request, &held).await }
    });
    held.let_go();
    let first = first.await.expect("no panic").expect("it ran");
    assert_eq!(first, Outcome::Executed(1));
    let waited = waiting.await.expect("no panic").expect("it is answered");
    assert_eq!(waited, Outcome::Replayed(1));
    // The order of members does not matter, their values do.
    let same = json!({ "amount": 4, "items": ["a"] });
    let again = execute(&one, request(&key, &same), &held).await.expect("it is answered");
    assert!(again.is_replayed());
    let differs = execute(&one, request(&key, &json!({ "amount": 5 })), &held).await;
    assert!(matches!(differs, Err(ExecuteError::Mismatch)), "{differs:?}");
    assert_eq!(held.runs(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_call_inside_a_service_behaves_the_same() {
    for pair in [Pair::MySqlRedis, Pair::SqliteMemory] {
        if let Some(site) = pair.site() {
            the_call(site).await;
        }
    }
}

async fn the_error(site: bed::Site) {
    let (one, other) = (site.engine().await, site.engine().await);
    let (key, order) = (fresh_key(), json!({ "amount": 4 }));
    let failing = || async { Err::<usize, _>("no stock".to_owned()) };
    let failed = one.execute(request(&key, &order), failing).await;
    assert!(matches!(failed, Err(ExecuteError::Operation(why)) if why == "no stock"));
    let record = one.record(&request(&key, &order).identity).await.expect("it answers");
    let record = record.expect("it is recorded").record;
    assert_eq!(record.state.as_str(), "FAILED");
    assert_eq!(record.last_error.expect("it is kept").message, "no stock");
    let never = Operation::immediate();
    for engine in [&one, &other] {
        let waiting = request(&key, &order).wait(Duration::from_secs(2));
        let refused = execute(engine, waiting, &never).await;
        assert!(matches!(refused, Err(ExecuteError::Failed { retry_after: None })), "{refused:?}");
    }
    assert_eq!(never.runs(), 0);
    // Where failures may be retried, it runs again.
    let retry = request(&fresh_key(), &order).policy(Policy::default());
    assert!(one.execute(retry.clone(), failing).await.is_err());
    let again = execute(&other, retry, &never).await.expect("it runs");
    assert_eq!(again, Outcome::Executed(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_inside_a_service_is_handed_back_and_kept() {
    for pair in [Pair::MySqlRedis, Pair::SqliteMemory] {
        if let Some(site) = pair.site() {
            the_error(site).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_public_id_is_kept_with_the_record() {
    for pair in [Pair::MySqlRedis, Pair::SqliteMemory] {
        let Some(site) = pair.site() else { continue };
        let engine = site.engine().await;
        let create = || async { Ok::<_, String>(json!({ "public_id": "ord_8f2" })) };
        let public_id = |order: &serde_json::Value| order["public_id"].as_str().map(str::to_owned);
        let (key, order) = (fresh_key(), json!({}));
        let done = engine.execute_with_ref(request(&key, &order), create, public_id).await;
        assert!(matches!(done, Ok(Outcome::Executed(_))), "{done:?}");
        let find = async |key: &str| {
            let found = engine.record(&request(key, &order).identity).await.expect("it answers");
            found.expect("it is recorded").record.result_ref
        };
        assert_eq!(find(&key).await.as_deref(), Some("ord_8f2"));
        // One that does not fit is no reason to lose the answer.
        let key = fresh_key();
        let too_long = |_: &serde_json::Value| Some("x".repeat(256));
        let done = engine.execute_with_ref(request(&key, &order), create, too_long).await;
        assert!(matches!(done, Ok(Outcome::Executed(_))), "{done:?}");
        assert_eq!(find(&key).await, None);
    }
}
