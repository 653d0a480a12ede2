//! Once, and the same answer for everybody.

use std::time::Duration;

use oncegate::engine::{ExecuteError, Outcome, Request};
use oncegate::idempotency::Fingerprint;

use super::on_every_pair;
use crate::bed::{Operation, Site, begin, execute, fresh_identity, identity_of};
use crate::support::eventually;

on_every_pair!(
    a_first_call_executes_and_every_retry_replays,
    two_hundred_concurrent_duplicates_on_two_instances_run_once,
    another_fingerprint_is_a_mismatch_while_it_runs_and_after,
    keys_of_other_tenants_scopes_and_letter_case_are_other_keys,
    an_expired_key_is_a_new_request,
    a_caller_that_is_dropped_changes_nothing,
);

async fn a_first_call_executes_and_every_retry_replays(site: Site) {
    let (one, other) = (site.engine().await, site.engine().await);
    let operation = Operation::immediate();
    let request = Request::new(fresh_identity()).fingerprint(Fingerprint::of_text("100 EUR"));

    let first = execute(&one, request.clone(), &operation).await.expect("it runs");
    assert_eq!(first, Outcome::Executed(1));
    for engine in [&one, &other, &one, &other] {
        let retry = execute(engine, request.clone(), &operation).await.expect("it is answered");
        assert_eq!(retry, Outcome::Replayed(1));
    }
    let restarted = site.engine().await;
    let retry = execute(&restarted, request, &operation).await.expect("it is answered");
    assert_eq!(retry, Outcome::Replayed(1));
    assert_eq!(operation.runs(), 1);
}

async fn two_hundred_concurrent_duplicates_on_two_instances_run_once(site: Site) {
    let engines = [site.engine().await, site.engine().await];
    let operation = Operation::held();
    let request = Request::new(fresh_identity()).wait(Duration::from_secs(30));
    let calls: Vec<_> = (0..200)
        .map(|n| {
            let (engine, operation) = (engines[n % 2].clone(), operation.clone());
            let request = request.clone();
            tokio::spawn(async move { execute(&engine, request, &operation).await })
        })
        .collect();
    operation.begun(1).await;
    operation.let_go();
    let mut executed = 0;
    for call in calls {
        match call.await.expect("no panic").expect("everybody is answered") {
            Outcome::Executed(1) => executed += 1,
            Outcome::Replayed(1) => {}
            other => panic!("unexpected: {other:?}"),
        }
    }
    assert_eq!((executed, operation.runs()), (1, 1));
}

async fn another_fingerprint_is_a_mismatch_while_it_runs_and_after(site: Site) {
    let (one, other) = (site.engine().await, site.engine().await);
    let operation = Operation::held();
    let identity = fresh_identity();
    let request = Request::new(identity.clone()).fingerprint(Fingerprint::of_text("100 EUR"));
    let different = Request::new(identity).fingerprint(Fingerprint::of_text("999 EUR"));
    let call = begin(&one, &request, &operation);
    operation.begun(1).await;
    for engine in [&one, &other] {
        let refused = execute(engine, different.clone(), &operation).await;
        assert!(matches!(refused, Err(ExecuteError::Mismatch)), "{refused:?}");
    }
    operation.let_go();
    assert_eq!(call.await.expect("no panic").expect("it runs"), Outcome::Executed(1));
    for engine in [&one, &other] {
        let refused = execute(engine, different.clone(), &operation).await;
        assert!(matches!(refused, Err(ExecuteError::Mismatch)), "{refused:?}");
        let retry = execute(engine, request.clone(), &operation).await.expect("it is answered");
        assert_eq!(retry, Outcome::Replayed(1));
    }
    assert_eq!(operation.runs(), 1);
}

async fn keys_of_other_tenants_scopes_and_letter_case_are_other_keys(site: Site) {
    let engine = site.engine().await;
    let operation = Operation::immediate();
    let unique = uuid::Uuid::new_v4().to_string();
    let key = |text: &str| format!("{unique}{text}");
    let identities = [
        identity_of("t", "pay", &key("abc")),
        identity_of("T", "pay", &key("abc")),
        identity_of("t", "PAY", &key("abc")),
        identity_of("t", "pay", &key("ABC")),
        identity_of("t", "pay", &key("abc ")),
        identity_of("t", "pay", &key("a:b\"c'")),
        identity_of("t ", "pay", &key("abc")),
        identity_of("", "pay", &key("abc")),
        identity_of("t", "pay", &format!("{:x<255}", unique)),
    ];
    for (index, identity) in identities.iter().enumerate() {
        let request = Request::new(identity.clone());
        let first = execute(&engine, request, &operation).await.expect("it runs");
        assert_eq!(first, Outcome::Executed(index + 1));
    }
    for (index, identity) in identities.iter().enumerate() {
        let request = Request::new(identity.clone());
        let retry = execute(&engine, request, &operation).await.expect("it is answered");
        assert_eq!(retry, Outcome::Replayed(index + 1));
    }
}

async fn an_expired_key_is_a_new_request(site: Site) {
    let (one, other) = (site.engine().await, site.engine().await);
    let operation = Operation::immediate();
    let request = Request::new(fresh_identity()).ttl(Duration::from_millis(600));
    execute(&one, request.clone(), &operation).await.expect("it runs");
    let retry = execute(&other, request.clone(), &operation).await.expect("it is answered");
    assert_eq!(retry, Outcome::Replayed(1));
    eventually("the key expires on both instances", Duration::from_secs(10), async || {
        execute(&other, request.clone(), &operation).await.expect("it is answered");
        operation.runs() == 2
    })
    .await;
    let retry = execute(&one, request, &operation).await.expect("it is answered");
    assert_eq!(retry, Outcome::Replayed(2));
}

async fn a_caller_that_is_dropped_changes_nothing(site: Site) {
    let (one, other) = (site.engine().await, site.engine().await);
    let operation = Operation::held();
    let request = Request::new(fresh_identity());
    let caller = {
        let (request, operation) = (request.clone(), operation.clone());
        tokio::spawn(async move { execute(&one, request, &operation).await })
    };
    operation.begun(1).await;
    caller.abort();
    assert!(caller.await.is_err(), "the caller is gone");
    operation.let_go();
    let retry = execute(&other, request.wait(Duration::from_secs(30)), &operation).await;
    assert_eq!(retry.expect("it is answered"), Outcome::Replayed(1));
    assert_eq!(operation.runs(), 1);
}
