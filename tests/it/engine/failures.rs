//! Attempts that fail, vanish, or never say how they ended.

use std::time::Duration;

use oncegate::engine::{Acquired, Engine, ExecuteError, Outcome, Request, Resolution, Settled};
use oncegate::idempotency::decide::Asked;
use oncegate::idempotency::{Policy, Record, Refusal, Snapshot, State, WhenFailed, WhenUnknown};
use oncegate::store::durable::{Claimed, NewClaim};

use super::on_every_pair;
use crate::bed::{Operation, Site, execute, fresh_identity};
use crate::support::eventually;

on_every_pair!(
    a_failing_closure_marks_the_record_failed_and_a_retry_executes_again,
    a_failure_under_reject_is_refused_for_good,
    a_failure_under_replay_is_replayed,
    a_backoff_says_when_a_retry_will_help,
    attempts_are_used_up,
    attempts_that_sent_nothing_are_not_counted,
    a_retry_that_was_allowed_stays_allowed_until_something_is_sent,
    an_unknown_outcome_is_as_it_was_after_an_attempt_that_sent_nothing,
    a_panicking_closure_leaves_the_outcome_unknown_and_held,
    a_dropped_claim_is_unknown_and_under_retry_runs_again_once_the_lease_is_over,
    an_attempt_that_was_taken_over_is_fenced,
    a_late_answer_settles_a_record_that_was_held,
    a_call_that_renewed_its_lease_meanwhile_is_not_held,
);

async fn fail(engine: &Engine, request: Request) -> Result<Outcome<usize>, ExecuteError<String>> {
    engine.execute(request, || async { Err("card declined".to_owned()) }).await
}

async fn a_failing_closure_marks_the_record_failed_and_a_retry_executes_again(site: Site) {
    let (one, other) = (site.engine().await, site.engine().await);
    let request = Request::new(fresh_identity());
    let failed = fail(&one, request.clone()).await;
    assert!(matches!(failed, Err(ExecuteError::Operation(ref why)) if why == "card declined"));
    let found = one.tiers().durable().find(&request.identity).await.expect("it answers");
    let record = found.expect("it is recorded").record;
    assert_eq!(record.state.as_str(), "FAILED");
    assert_eq!(record.last_error.expect("the reason is kept").message, "card declined");

    let operation = Operation::immediate();
    let retry = execute(&other, request.clone(), &operation).await.expect("it runs");
    assert_eq!(retry, Outcome::Executed(1));
    let found = one.tiers().durable().find(&request.identity).await.expect("it answers");
    assert_eq!(found.expect("it is recorded").record.attempt, 2);
    let retry = execute(&one, request, &operation).await.expect("it is answered");
    assert_eq!(retry, Outcome::Replayed(1));
}

async fn a_failure_under_reject_is_refused_for_good(site: Site) {
    let (one, other) = (site.engine().await, site.engine().await);
    let policy = Policy { when_failed: WhenFailed::Reject, ..Policy::default() };
    let request = Request::new(fresh_identity()).policy(policy);
    assert!(fail(&one, request.clone()).await.is_err());
    let operation = Operation::immediate();
    for engine in [&one, &other] {
        let refused = execute(engine, request.clone(), &operation).await;
        assert!(matches!(refused, Err(ExecuteError::Failed { retry_after: None })), "{refused:?}");
    }
    assert_eq!(operation.runs(), 0);
}

async fn a_failure_under_replay_is_replayed(site: Site) {
    let (one, other) = (site.engine().await, site.engine().await);
    let policy = Policy { when_failed: WhenFailed::Replay, ..Policy::default() };
    let request = Request::new(fresh_identity()).policy(policy);
    let Ok(Acquired::Execute(claim)) = one.acquire(&request).await else {
        panic!("the first one runs");
    };
    let answer = Snapshot { status: 500, ..Snapshot::of_value(b"it broke".to_vec()) };
    assert_eq!(claim.fail(Some(answer.clone()), "status 500").await, Settled::Stored);
    for engine in [&one, &other] {
        match engine.acquire(&request).await.expect("an answer") {
            Acquired::Replay(replay) => assert_eq!(replay.answer, answer),
            _ => panic!("a stored failure is replayed"),
        }
    }
}

async fn a_backoff_says_when_a_retry_will_help(site: Site) {
    let engine = site.engine().await;
    let policy = Policy { retry_backoff: Duration::from_secs(30), ..Policy::default() };
    let request = Request::new(fresh_identity()).policy(policy);
    assert!(fail(&engine, request.clone()).await.is_err());
    let refused = execute(&engine, request.clone(), &Operation::immediate()).await;
    let Err(ExecuteError::Failed { retry_after: Some(pause) }) = refused else {
        panic!("it is too early: {refused:?}");
    };
    assert!(pause > Duration::from_secs(50) && pause <= Duration::from_secs(60), "{pause:?}");
}

async fn attempts_are_used_up(site: Site) {
    let engine = site.engine().await;
    let policy = Policy { max_attempts: 3, ..Policy::default() };
    let request = Request::new(fresh_identity()).policy(policy);
    for _ in 0..3 {
        let failed = fail(&engine, request.clone()).await;
        assert!(matches!(failed, Err(ExecuteError::Operation(_))), "{failed:?}");
    }
    let operation = Operation::immediate();
    let refused = execute(&engine, request, &operation).await;
    assert!(matches!(refused, Err(ExecuteError::Failed { retry_after: None })), "{refused:?}");
    assert_eq!(operation.runs(), 0);
}

async fn record(engine: &Engine, request: &Request) -> Record {
    let found = engine.tiers().durable().find(&request.identity).await.expect("it answers");
    found.expect("it is recorded").record
}

/// Admitted as this attempt, it sends nothing.
async fn sends_nothing(engine: &Engine, request: &Request, attempt: u32) {
    match engine.acquire(request).await.expect("an answer") {
        Acquired::Execute(claim) => {
            assert_eq!(claim.attempt(), attempt);
            assert_eq!(claim.release("connection refused").await, Settled::Stored);
        }
        Acquired::Refuse(refusal) => panic!("attempts that sent nothing count: {refusal:?}"),
        Acquired::Replay(_) => panic!("there is no answer"),
    }
}

async fn attempts_that_sent_nothing_are_not_counted(site: Site) {
    let engine = site.engine().await;
    let policy = Policy { max_attempts: 2, ..Policy::default() };
    let request = Request::new(fresh_identity()).policy(policy);
    assert!(fail(&engine, request.clone()).await.is_err());
    for _ in 0..3 {
        sends_nothing(&engine, &request, 2).await;
        let record = record(&engine, &request).await;
        assert_eq!((record.state.as_str(), record.attempt), ("FAILED", 1));
        assert_eq!(record.last_error.expect("the reason is kept").message, "connection refused");
    }
    assert!(fail(&engine, request.clone()).await.is_err());
    let operation = Operation::immediate();
    let refused = execute(&engine, request, &operation).await;
    assert!(matches!(refused, Err(ExecuteError::Failed { retry_after: None })), "{refused:?}");
    assert_eq!(operation.runs(), 0);
}

async fn a_retry_that_was_allowed_stays_allowed_until_something_is_sent(site: Site) {
    let engine = site.engine().await;
    let policy = Policy { max_attempts: 1, ..Policy::default() };
    let request = Request::new(fresh_identity()).policy(policy.clone());
    assert!(fail(&engine, request.clone()).await.is_err());
    let identity = &request.identity;
    let allowed = engine.resolve(identity, Resolution::Retry, &policy, "ops", "try again").await;
    allowed.expect("it is open");
    let next = record(&engine, &request).await.attempt + 1;
    for _ in 0..2 {
        sends_nothing(&engine, &request, next).await;
    }
    let operation = Operation::immediate();
    let retry = execute(&engine, request.clone(), &operation).await.expect("it runs");
    assert_eq!(retry, Outcome::Executed(1));
}

async fn an_unknown_outcome_is_as_it_was_after_an_attempt_that_sent_nothing(site: Site) {
    let engine = site.engine().await;
    let policy = Policy {
        when_unknown: WhenUnknown::Retry,
        lease: Duration::from_millis(300),
        max_attempts: 2,
        ..Policy::default()
    };
    let request = Request::new(fresh_identity()).policy(policy);
    let Ok(Acquired::Execute(claim)) = engine.acquire(&request).await else {
        panic!("the first one runs");
    };
    claim.unknown("the upstream broke off").await;
    for _ in 0..3 {
        let mut again = None;
        eventually("it may run again", Duration::from_secs(10), async || {
            again = Some(engine.acquire(&request).await.expect("an answer"));
            !matches!(
                again,
                Some(Acquired::Refuse(Refusal::OutcomeUnknown { retry_after: Some(_) }))
            )
        })
        .await;
        let Some(Acquired::Execute(claim)) = again else {
            panic!("attempts that sent nothing count");
        };
        assert_eq!(claim.attempt(), 2);
        claim.release("connection refused").await;
        let record = record(&engine, &request).await;
        assert_eq!((record.state.as_str(), record.attempt), ("UNKNOWN", 1));
    }
}

async fn a_panicking_closure_leaves_the_outcome_unknown_and_held(site: Site) {
    let (one, other) = (site.engine().await, site.engine().await);
    let request = Request::new(fresh_identity());
    let panicked: Result<Outcome<usize>, ExecuteError<String>> =
        one.execute(request.clone(), || async { panic!("out of nowhere") }).await;
    assert!(matches!(panicked, Err(ExecuteError::Interrupted)), "{panicked:?}");
    let operation = Operation::immediate();
    for engine in [&one, &other] {
        let refused = execute(engine, request.clone(), &operation).await;
        assert!(matches!(refused, Err(ExecuteError::Unknown { retry_after: None })), "{refused:?}");
    }
    assert_eq!(operation.runs(), 0);
}

async fn a_dropped_claim_is_unknown_and_under_retry_runs_again_once_the_lease_is_over(site: Site) {
    let (one, other) = (site.engine().await, site.engine().await);
    let policy = Policy {
        when_unknown: WhenUnknown::Retry,
        lease: Duration::from_secs(3),
        ..Policy::default()
    };
    let request = Request::new(fresh_identity()).policy(policy);
    let Ok(Acquired::Execute(claim)) = one.acquire(&request).await else {
        panic!("the first one runs");
    };
    drop(claim);
    eventually("it is unknown", Duration::from_secs(10), async || {
        match other.acquire(&request).await.expect("an answer") {
            Acquired::Refuse(Refusal::OutcomeUnknown { retry_after }) => retry_after.is_some(),
            // As long as the fast tier still says so.
            Acquired::Refuse(Refusal::InProgress { .. }) => false,
            _ => panic!("not before the lease is over"),
        }
    })
    .await;
    let operation = Operation::immediate();
    eventually("it runs again", Duration::from_secs(10), async || {
        execute(&other, request.clone(), &operation).await.is_ok()
    })
    .await;
    assert_eq!(operation.runs(), 1);
}

async fn an_attempt_that_was_taken_over_is_fenced(site: Site) {
    let (one, other) = (site.engine().await, site.engine().await);
    let policy = Policy { when_unknown: WhenUnknown::Retry, ..Policy::default() };
    let request = Request::new(fresh_identity()).policy(policy);
    let Ok(Acquired::Execute(stalled)) = one.acquire(&request).await else {
        panic!("the first one runs");
    };
    // As if its lease had run out: an operator lets somebody else have it.
    let identity = &request.identity;
    let found = one.tiers().durable().find(identity).await.expect("it answers").expect("a record");
    let expired = oncegate::idempotency::Settlement::Hold {
        why: "stalled".into(),
        retry_in: Duration::ZERO,
        probe_in: Duration::ZERO,
    };
    one.tiers().durable().settle(found.record.fence(), expired).await.expect("it answers");
    let look = oncegate::store::tiered::Look::DurableOnly;
    let step = other.tiers().step(identity, &request.asked, &request.policy, look).await;
    let Ok(oncegate::store::tiered::Step::Admitted(second)) = step else {
        panic!("the second attempt runs: {step:?}");
    };
    assert_eq!(second.attempt, 2);
    let late = stalled.complete(Snapshot::of_value(b"1".to_vec()), None).await;
    assert_eq!(late, Settled::Fenced);
    let after = one.tiers().durable().find(identity).await.expect("it answers").expect("a record");
    assert_eq!(after.record.state.as_str(), "PROCESSING");
    assert_eq!((after.record.attempt, after.record.fence()), (2, second.fence));
}

async fn a_late_answer_settles_a_record_that_was_held(site: Site) {
    let (one, other) = (site.engine().await, site.engine().await);
    let request = Request::new(fresh_identity());
    let Ok(Acquired::Execute(claim)) = one.acquire(&request).await else {
        panic!("the first one runs");
    };
    let identity = &request.identity;
    let found = one.tiers().durable().find(identity).await.expect("it answers").expect("a record");
    let held = oncegate::idempotency::Settlement::Hold {
        why: "silent for too long".into(),
        retry_in: Duration::ZERO,
        probe_in: Duration::ZERO,
    };
    other.tiers().durable().settle(found.record.fence(), held).await.expect("it answers");
    let answer = Snapshot::of_value(b"1".to_vec());
    assert_eq!(claim.complete(answer.clone(), None).await, Settled::Stored);
    match other.acquire(&request).await.expect("an answer") {
        Acquired::Replay(replay) => assert_eq!(replay.answer, answer),
        _ => panic!("the answer that came late is the answer"),
    }
}

async fn a_call_that_renewed_its_lease_meanwhile_is_not_held(site: Site) {
    let engine = site.engine().await;
    let durable = engine.tiers().durable();
    let identity = fresh_identity();
    let claim = NewClaim::new(identity.clone(), Asked::default(), Duration::ZERO);
    let fence = claim.fence;
    assert!(matches!(durable.claim(claim).await, Ok(Claimed::New)));
    let silent = durable.find(&identity).await.expect("it answers").expect("a record");
    let lease = Duration::from_secs(600);
    durable.renew(vec![fence], lease).await.expect("its owner is back");
    assert_eq!(engine.hold_silent(&silent, None, None).await, Ok(false));
    let after = durable.find(&identity).await.expect("it answers").expect("a record");
    assert_eq!(after.record.state.as_str(), "PROCESSING");
    // One that stays silent is held.
    durable.renew(vec![fence], Duration::ZERO).await.expect("it answers");
    let probe = Some(silent.now + lease);
    assert_eq!(engine.hold_silent(&silent, probe, None).await, Ok(true));
    let after = durable.find(&identity).await.expect("it answers").expect("a record");
    assert!(matches!(after.record.state, State::Unknown { retry_at } if retry_at <= after.now));
    assert_eq!(after.record.fence(), fence);
    assert_eq!(after.record.attend_at, probe);
    assert!(after.record.last_error.expect("why").message.contains("silent"));
}
