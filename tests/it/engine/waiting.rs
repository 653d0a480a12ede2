//! Duplicates of a running call: told so, or made to wait and woken.

use std::time::Duration;

use oncegate::engine::{Acquired, Outcome, Request};
use oncegate::idempotency::{Policy, Refusal, WhenUnknown};

use super::on_every_pair;
use crate::bed::{Operation, Site, begin, execute, fresh_identity};
use crate::support::eventually;

on_every_pair!(
    a_duplicate_that_does_not_wait_is_told_that_it_runs,
    a_retry_during_execution_waits_then_replays,
    a_wait_that_runs_out_says_in_progress,
    a_waiter_executes_when_the_running_call_is_released,
    a_long_call_keeps_its_lease,
);

async fn a_duplicate_that_does_not_wait_is_told_that_it_runs(site: Site) {
    let (one, other) = (site.engine().await, site.engine().await);
    let operation = Operation::held();
    let request = Request::new(fresh_identity());
    let call = begin(&one, &request, &operation);
    operation.begun(1).await;
    for engine in [&one, &other] {
        let duplicate = execute(engine, request.clone(), &operation).await.expect("an answer");
        assert_eq!(duplicate, Outcome::InProgress);
    }
    operation.let_go();
    assert_eq!(call.await.expect("no panic").expect("it runs"), Outcome::Executed(1));
    assert_eq!(operation.runs(), 1);
}

async fn a_retry_during_execution_waits_then_replays(site: Site) {
    let (one, other) = (site.engine().await, site.engine().await);
    let operation = Operation::held();
    let request = Request::new(fresh_identity()).wait(Duration::from_secs(30));
    let call = |engine: &oncegate::engine::Engine| {
        let (engine, request, operation) = (engine.clone(), request.clone(), operation.clone());
        tokio::spawn(async move { execute(&engine, request, &operation).await })
    };
    let first = call(&one);
    operation.begun(1).await;
    let waiters = [call(&one), call(&other), call(&other)];
    operation.let_go();
    assert_eq!(first.await.expect("no panic").expect("it runs"), Outcome::Executed(1));
    for waiter in waiters {
        let replayed = tokio::time::timeout(Duration::from_secs(10), waiter).await;
        let replayed = replayed.expect("long before the wait is over").expect("no panic");
        assert_eq!(replayed.expect("it is answered"), Outcome::Replayed(1));
    }
}

async fn a_wait_that_runs_out_says_in_progress(site: Site) {
    let (one, other) = (site.engine().await, site.engine().await);
    let operation = Operation::held();
    let request = Request::new(fresh_identity()).wait(Duration::from_millis(300));
    let call = begin(&one, &request, &operation);
    operation.begun(1).await;
    for engine in [&one, &other] {
        let duplicate = execute(engine, request.clone(), &operation).await.expect("an answer");
        assert_eq!(duplicate, Outcome::InProgress);
    }
    operation.let_go();
    call.await.expect("no panic").expect("it runs");
}

async fn a_waiter_executes_when_the_running_call_is_released(site: Site) {
    let (one, other) = (site.engine().await, site.engine().await);
    let request = Request::new(fresh_identity()).wait(Duration::from_secs(30));
    let Ok(Acquired::Execute(claim)) = one.acquire(&request).await else {
        panic!("the first one runs");
    };
    let waiter = {
        let request = request.clone();
        tokio::spawn(async move { other.acquire(&request).await })
    };
    claim.release("nothing was sent").await;
    let Ok(Acquired::Execute(claim)) = waiter.await.expect("no panic") else {
        panic!("the waiter runs it instead");
    };
    assert_eq!(claim.attempt(), 1, "a released record was never there");
    claim.release("the test is over").await;
}

async fn a_long_call_keeps_its_lease(site: Site) {
    let (one, other) = (site.engine().await, site.engine().await);
    let eager = Policy {
        lease: Duration::from_millis(600),
        when_unknown: WhenUnknown::Retry,
        ..Policy::default()
    };
    let request = Request::new(fresh_identity()).policy(eager);
    let Ok(Acquired::Execute(claim)) = one.acquire(&request).await else {
        panic!("the first one runs");
    };
    let began = tokio::time::Instant::from_std(oncegate::clock::now());
    let mut refusals = 0;
    eventually("three leases go by", Duration::from_secs(20), async || {
        match other.acquire(&request).await.expect("an answer") {
            Acquired::Refuse(Refusal::InProgress { .. }) => refusals += 1,
            _ => panic!("a live call was taken over"),
        }
        began.elapsed() > Duration::from_millis(2000)
    })
    .await;
    assert!(refusals > 3);
    claim.release("the test is over").await;
}
