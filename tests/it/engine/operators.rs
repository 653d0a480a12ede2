//! What operators do reaches every tier and every instance.

use std::time::Duration;

use oncegate::engine::{Acquired, OperatorError, Outcome, Request, Resolution};
use oncegate::idempotency::{Origin, Policy, Refusal, Snapshot, WhenFailed};

use super::on_every_pair;
use crate::bed::{Operation, Site, execute, fresh_identity};
use crate::sql::Sql;
use crate::support::eventually;

on_every_pair!(
    forgetting_reaches_every_instance,
    an_unknown_outcome_is_settled_with_an_answer,
    an_unknown_outcome_is_allowed_to_run_again,
    a_resolution_that_cannot_be_written_changes_nothing,
    a_running_call_is_left_alone,
);

const SOON: Duration = Duration::from_secs(15);

async fn forgetting_reaches_every_instance(site: Site) {
    let (one, other) = (site.engine().await, site.engine().await);
    let operation = Operation::immediate();
    let request = Request::new(fresh_identity());
    execute(&one, request.clone(), &operation).await.expect("it runs");
    // Both have a copy of their own now.
    for engine in [&one, &other] {
        let retry = execute(engine, request.clone(), &operation).await.expect("it is answered");
        assert_eq!(retry, Outcome::Replayed(1));
    }
    assert!(one.forget(&request.identity, "ops", "test order").await.expect("it answers"));
    assert!(!one.forget(&request.identity, "ops", "again").await.expect("it answers"));
    eventually("the other instance has forgotten it too", SOON, async || {
        execute(&other, request.clone(), &operation).await.expect("it is answered");
        operation.runs() == 2
    })
    .await;
    let retry = execute(&one, request.clone(), &operation).await.expect("it is answered");
    assert_eq!(retry, Outcome::Replayed(2));
}

async fn held(site: &Site) -> (oncegate::engine::Engine, Request) {
    let engine = site.engine().await;
    let request = Request::new(fresh_identity());
    let Ok(Acquired::Execute(claim)) = engine.acquire(&request).await else {
        panic!("the first one runs");
    };
    claim.unknown("the upstream broke off").await;
    (engine, request)
}

async fn an_unknown_outcome_is_settled_with_an_answer(site: Site) {
    let (engine, request) = held(&site).await;
    let other = site.engine().await;
    match other.acquire(&request).await.expect("an answer") {
        Acquired::Refuse(Refusal::OutcomeUnknown { retry_after: None }) => {}
        _ => panic!("it is held"),
    }
    let answer = Snapshot::of_value(b"\"paid\"".to_vec());
    let resolution = Resolution::Succeeded(answer.clone());
    let policy = Policy::default();
    engine
        .resolve(&request.identity, resolution.clone(), &policy, "ops", "seen at the bank")
        .await
        .expect("it is open");
    for engine in [&engine, &other] {
        match engine.acquire(&request).await.expect("an answer") {
            Acquired::Replay(replay) => assert_eq!(replay.answer, answer),
            _ => panic!("the answer is what was settled"),
        }
    }
    let again = engine.resolve(&request.identity, Resolution::Retry, &policy, "ops", "").await;
    assert!(matches!(again, Err(OperatorError::NotOpen)), "an answer never changes: {again:?}");
}

async fn an_unknown_outcome_is_allowed_to_run_again(site: Site) {
    let (engine, request) = held(&site).await;
    let policy = Policy::default();
    engine
        .resolve(&request.identity, Resolution::Retry, &policy, "ops", "it never arrived")
        .await
        .expect("it is open");
    let operation = Operation::immediate();
    let retry = execute(&engine, request, &operation).await.expect("it runs");
    assert_eq!(retry, Outcome::Executed(1));
}

async fn a_resolution_that_cannot_be_written_changes_nothing(site: Site) {
    let engine = site.engine().await;
    let sql = Sql::connect(&site.durable.url).await;
    let failing = [WhenFailed::Reject, WhenFailed::Replay, WhenFailed::Retry];
    for (when_failed, origin) in
        failing.into_iter().zip([Origin::Call, Origin::Call, Origin::Decision])
    {
        let policy = Policy { when_failed, origin, ..Policy::default() };
        let request = Request::new(fresh_identity()).policy(policy.clone());
        let Ok(Acquired::Execute(claim)) = engine.acquire(&request).await else {
            panic!("the first one runs");
        };
        claim.fail(Some(Snapshot::of_value(b"no".to_vec())), "declined").await;
        let before = engine.record(&request.identity).await.expect("it answers");
        let before = before.expect("it is recorded").record;
        sql.run("ALTER TABLE oncegate_audit RENAME TO oncegate_audit_away").await;
        for resolution in [Resolution::Retry, Resolution::Failed] {
            let refused = engine.resolve(&request.identity, resolution, &policy, "ops", "").await;
            assert!(matches!(refused, Err(OperatorError::Store(_))), "{refused:?}");
        }
        sql.run("ALTER TABLE oncegate_audit_away RENAME TO oncegate_audit").await;
        let after = engine.record(&request.identity).await.expect("it answers");
        assert_eq!(after.expect("it is recorded").record, before);
    }
}

async fn a_running_call_is_left_alone(site: Site) {
    let (one, other) = (site.engine().await, site.engine().await);
    let request = Request::new(fresh_identity());
    let Ok(Acquired::Execute(claim)) = one.acquire(&request).await else {
        panic!("the first one runs");
    };
    let policy = Policy::default();
    let refused =
        other.resolve(&request.identity, Resolution::Failed, &policy, "ops", "impatient").await;
    assert!(matches!(refused, Err(OperatorError::NotOpen)), "{refused:?}");
    assert!(!other.forget(&request.identity, "ops", "impatient").await.expect("it answers"));
    match other.acquire(&request).await.expect("an answer") {
        Acquired::Refuse(Refusal::InProgress { .. }) => {}
        _ => panic!("it still runs"),
    }
    claim.release("the test is over").await;
}
