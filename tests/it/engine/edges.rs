//! Where it is easy to get wrong: the ends of things, and values at their limits.

use std::time::Duration;

use oncegate::engine::{
    Acquired, Claim, Engine, ExecuteError, Finish, Finished, Outcome, Proof, Request, Resolution,
    Settled, StillOurs,
};
use oncegate::idempotency::{Credential, Origin, Policy, Refusal, ReplayTo, Snapshot, WhenUnknown};
use oncegate::store::durable::{DurableOptions, Writes};

use super::on_every_pair;
use crate::bed::{Database, Operation, Site, begin, engine, execute, fresh_identity};
use crate::sql::Sql;
use crate::support::servers::{self, Kind, Server};
use crate::support::{FaultProxy, MariaDb, eventually};

const SOON: Duration = Duration::from_secs(30);

on_every_pair!(
    kept_for_ever_leased_for_ever_and_waited_for_for_ever,
    an_answer_goes_to_the_credential_whose_attempt_it_is,
    a_run_outlives_the_last_handle_of_its_engine_and_keeps_its_lease,
    an_operator_allows_one_more_attempt_when_they_are_used_up,
    a_closing_engine_admits_nothing,
    an_ending_is_kept_whatever_its_texts_are,
);

async fn kept_for_ever_leased_for_ever_and_waited_for_for_ever(site: Site) {
    let (one, other) = (site.engine().await, site.engine().await);
    let operation = Operation::immediate();
    let long = Duration::MAX;
    let request = Request::new(fresh_identity()).ttl(long).lease(long).wait(long);
    let first = execute(&one, request.clone(), &operation).await.expect("it runs");
    assert_eq!(first, Outcome::Executed(1));
    for engine in [&one, &other] {
        let retry = execute(engine, request.clone(), &operation).await.expect("it is answered");
        assert_eq!(retry, Outcome::Replayed(1));
    }
}

async fn an_answer_goes_to_the_credential_whose_attempt_it_is(site: Site) {
    let (one, other) = (site.engine().await, site.engine().await);
    let policy = Policy { replay_to: ReplayTo::SameCredential, ..Policy::default() };
    let request = Request::new(fresh_identity()).policy(policy);
    let old = request.clone().credential(Credential::of(b"Bearer old"));
    let new = request.credential(Credential::of(b"Bearer new"));
    let Ok(Acquired::Execute(claim)) = one.acquire(&old).await else {
        panic!("the first one runs");
    };
    claim.fail(None, "status 500").await;
    let Ok(Acquired::Execute(claim)) = one.acquire(&new).await else {
        panic!("a failure may be retried");
    };
    claim.complete(Snapshot::of_value(b"1".to_vec()), None).await;
    for engine in [&one, &other] {
        assert!(matches!(engine.acquire(&new).await, Ok(Acquired::Replay(_))));
        match engine.acquire(&old).await.expect("an answer") {
            Acquired::Refuse(Refusal::CredentialMismatch) => {}
            _ => panic!("it is not theirs"),
        }
    }
}

async fn a_run_outlives_the_last_handle_of_its_engine_and_keeps_its_lease(site: Site) {
    let (one, other) = (site.engine().await, site.engine().await);
    let eager = Policy {
        lease: Duration::from_millis(600),
        when_unknown: WhenUnknown::Retry,
        ..Policy::default()
    };
    let request = Request::new(fresh_identity()).policy(eager);
    let operation = Operation::held();
    let caller = {
        let (request, operation) = (request.clone(), operation.clone());
        tokio::spawn(async move { execute(&one, request, &operation).await })
    };
    operation.begun(1).await;
    // The client hangs up, and the last handle goes with it.
    caller.abort();
    assert!(caller.await.is_err(), "the caller is gone");
    let began = oncegate::clock::now();
    eventually("three leases go by", Duration::from_secs(20), async || {
        let duplicate = execute(&other, request.clone(), &operation).await.expect("an answer");
        assert_eq!(duplicate, Outcome::InProgress, "a live call was taken over");
        began.elapsed() > Duration::from_millis(1800)
    })
    .await;
    operation.let_go();
    let retry = execute(&other, request.wait(Duration::from_secs(30)), &operation).await;
    assert_eq!(retry.expect("it is answered"), Outcome::Replayed(1));
}

async fn an_operator_allows_one_more_attempt_when_they_are_used_up(site: Site) {
    let engine = site.engine().await;
    let policy = Policy { max_attempts: 1, ..Policy::default() };
    let request = Request::new(fresh_identity()).policy(policy.clone());
    let failed: Result<Outcome<usize>, _> =
        engine.execute(request.clone(), || async { Err("declined".to_owned()) }).await;
    assert!(matches!(failed, Err(ExecuteError::Operation(_))));
    let operation = Operation::immediate();
    let refused = execute(&engine, request.clone(), &operation).await;
    assert!(matches!(refused, Err(ExecuteError::Failed { retry_after: None })), "{refused:?}");
    engine
        .resolve(&request.identity, Resolution::Retry, &policy, "ops", "the bank is back")
        .await
        .expect("it is open");
    let retry = execute(&engine, request, &operation).await.expect("it runs");
    assert_eq!(retry, Outcome::Executed(1));
}

async fn a_closing_engine_admits_nothing(site: Site) {
    let engine = site.engine().await;
    let operation = Operation::immediate();
    execute(&engine, Request::new(fresh_identity()), &operation).await.expect("it runs");
    assert!(engine.shutdown(Duration::from_secs(10)).await, "nothing runs any more");
    let refused = execute(&engine, Request::new(fresh_identity()), &operation).await;
    assert!(matches!(refused, Err(ExecuteError::Store(_))), "{refused:?}");
    assert_eq!(operation.runs(), 1);
}

async fn an_ending_is_kept_whatever_its_texts_are(site: Site) {
    let engine = site.engine().await;
    let texts = ["\0".to_owned(), "x".repeat(100_000), "\u{1f4b8}".repeat(5000)];
    for text in texts {
        let (success, failure) = (Request::new(fresh_identity()), Request::new(fresh_identity()));
        let Ok(Acquired::Execute(claim)) = engine.acquire(&success).await else {
            panic!("it runs");
        };
        let answer = Snapshot::of_value(b"1".to_vec());
        assert_eq!(claim.complete(answer.clone(), Some(text.clone())).await, Settled::Stored);
        let found = engine.tiers().durable().find(&success.identity).await.expect("it answers");
        assert_eq!(found.expect("it is recorded").record.state.as_str(), "SUCCEEDED");

        let Ok(Acquired::Execute(claim)) = engine.acquire(&failure).await else {
            panic!("it runs");
        };
        assert_eq!(claim.fail(None, text).await, Settled::Stored);
        let found = engine.tiers().durable().find(&failure.identity).await.expect("it answers");
        assert_eq!(found.expect("it is recorded").record.state.as_str(), "FAILED");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn few_connections_are_enough() {
    let fresh = Database::Sqlite.fresh().expect("it is embedded");
    for writes in [Writes::Grouped, Writes::Single] {
        let patience = Duration::from_secs(5);
        let options = DurableOptions { max_connections: 1, patience, writes };
        let engine = engine(fresh.open_with(options).await, "none");
        for _ in 0..10 {
            let operation = Operation::immediate();
            let request = Request::new(fresh_identity());
            let first = execute(&engine, request.clone(), &operation).await.expect("it runs");
            assert_eq!(first, Outcome::Executed(1));
            let found = engine.tiers().durable().find(&request.identity).await;
            assert!(found.expect("it answers").is_some());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn duplicates_that_meet_a_hanging_database_are_told_together() {
    if !servers::require(Kind::MariaDb) {
        return;
    }
    let server = MariaDb::start();
    let proxy = FaultProxy::start(server.addr()).await;
    let patience = Duration::from_secs(1);
    let options = DurableOptions { patience, ..DurableOptions::default() };
    let tier = oncegate::store::durable::open(&proxy.reroute(&server.url()), &options);
    let tier = tier.expect("the URL names a durable tier");
    tier.migrate().await.expect("a fresh database can be migrated");
    let engine = engine(tier, "none");
    let operation = Operation::immediate();
    execute(&engine, Request::new(fresh_identity()), &operation).await.expect("it runs");
    proxy.blackhole();
    let request = Request::new(fresh_identity());
    let began = oncegate::clock::now();
    let calls: Vec<_> = (0..20)
        .map(|_| {
            let call = begin(&engine, &request, &operation);
            tokio::spawn(async move { (call.await.expect("no panic"), began.elapsed()) })
        })
        .collect();
    let mut waits = Vec::new();
    for call in calls {
        let (refused, wait) = call.await.expect("no panic");
        assert!(matches!(refused, Err(ExecuteError::Store(_))), "{refused:?}");
        waits.push(wait);
    }
    waits.sort();
    assert!(waits[19] < waits[0] * 4, "one after the other: {waits:?}");
    assert_eq!(operation.runs(), 1);
}

/// A database, an engine behind a proxy, and one that sees it directly.
async fn behind_a_proxy(database: Database) -> Option<(FaultProxy, Engine, Engine)> {
    let mut fresh = database.fresh()?;
    let direct = engine(fresh.open().await, "none");
    let host = fresh.url.split(['@', '/']).nth(3).expect("the URL has a host");
    let proxy = FaultProxy::start(host.parse().expect("the host is an address")).await;
    fresh.url = proxy.reroute(&fresh.url);
    let behind = engine(fresh.open().await, "memory:");
    execute(&behind, Request::new(fresh_identity()), &Operation::immediate())
        .await
        .expect("it runs");
    Some((proxy, behind, direct))
}

async fn held_while_it_was_cut_off(database: Database) {
    let Some((proxy, behind, direct)) = behind_a_proxy(database).await else { return };
    let request = Request::new(fresh_identity()).lease(Duration::from_millis(600));
    let Ok(Acquired::Execute(claim)) = behind.acquire(&request).await else {
        panic!("the first one runs");
    };
    proxy.blackhole();
    eventually("its lease is over and another instance holds it", SOON, async || {
        let silent = direct.abandoned(Origin::Call, Duration::ZERO, 10).await.expect("it answers");
        let ours = silent.iter().find(|found| found.record.identity == request.identity);
        match ours {
            Some(found) => direct.hold_silent(found, None, None).await.expect("it answers"),
            None => false,
        }
    })
    .await;
    proxy.heal();
    eventually("it learns that it must not begin", SOON, async || match claim.confirm().await {
        Ok(ours) => {
            assert_eq!(ours, StillOurs::No, "others were told that it may have happened");
            true
        }
        Err(_) => false,
    })
    .await;
    // It sent nothing, and says so.
    claim.release("it came too late").await;
    let operation = Operation::immediate();
    let next = execute(&direct, request, &operation).await.expect("it runs");
    assert_eq!(next, Outcome::Executed(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_was_held_before_it_began_does_not_begin() {
    held_while_it_was_cut_off(Database::MySql).await;
    held_while_it_was_cut_off(Database::Postgres).await;
}

/// The database counts from when its statement begins, which takes a second here.
async fn a_copy_of_a_slow_write(origin: Origin, end: impl AsyncFnOnce(&Engine, Claim, &Request)) {
    let Some(fresh) = Database::MySql.fresh() else { return };
    let engine = engine(fresh.open().await, "memory:");
    let policy = Policy { ttl: Duration::from_secs(2), origin, ..Policy::default() };
    let request = Request::new(fresh_identity()).policy(policy);
    let Ok(Acquired::Execute(claim)) = engine.acquire(&request).await else {
        panic!("the first one runs");
    };
    let sql = Sql::connect(&fresh.url).await;
    sql.run("CREATE TRIGGER slow AFTER UPDATE ON oncegate_records FOR EACH ROW DO SLEEP(1)").await;
    end(&engine, claim, &request).await;
    eventually("the record expires", SOON, async || {
        let found = engine.tiers().durable().find(&request.identity).await.expect("it answers");
        found.is_none_or(|found| found.record.is_expired(found.now))
    })
    .await;
    match engine.acquire(&request).await.expect("an answer") {
        Acquired::Execute(claim) => drop(claim.release("the test is over").await),
        Acquired::Replay(replay) => panic!("the copy of tier {:?} outlives it", replay.tier),
        Acquired::Refuse(refusal) => panic!("an expired key is new: {refusal:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_an_answer_does_not_outlive_its_record() {
    a_copy_of_a_slow_write(Origin::Call, async |_, claim, _| {
        let answer = Snapshot::of_value(b"1".to_vec());
        assert_eq!(claim.complete(answer, None).await, Settled::Stored);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_what_was_ended_from_elsewhere_does_not_outlive_its_record() {
    a_copy_of_a_slow_write(Origin::Decision, async |engine, claim, request| {
        claim.detach();
        let done = Finish::Done { answer: Snapshot::of_value(b"1".to_vec()), result_ref: None };
        let (identity, policy) = (&request.identity, &request.policy);
        let ended = engine.finish(identity, Proof::default(), done, policy).await;
        assert_eq!(ended, Ok(Finished::Stored));
    })
    .await;
}

#[test]
fn a_claim_that_is_dropped_outside_of_a_runtime_is_unknown_all_the_same() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be built");
    let fresh = Database::Sqlite.fresh().expect("it is embedded");
    let request = Request::new(fresh_identity());
    let (engine, claim): (Engine, _) = runtime.block_on(async {
        let engine = engine(fresh.open().await, "none");
        let Ok(Acquired::Execute(claim)) = engine.acquire(&request).await else {
            panic!("it runs");
        };
        (engine, claim)
    });
    drop(claim);
    runtime.block_on(eventually("it is held", Duration::from_secs(10), async || {
        let answer = engine.acquire(&request).await.expect("an answer");
        matches!(answer, Acquired::Refuse(Refusal::OutcomeUnknown { .. }))
    }));
    assert!(runtime.block_on(engine.shutdown(Duration::from_secs(10))), "nothing is left running");
}
