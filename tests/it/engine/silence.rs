//! Runs that others have given up on: what their owners may still do, and whose answers count.

use std::time::Duration;

use oncegate::engine::{Acquired, Claim, Engine, Request, Settled, StillOurs, TakenFromFast};
use oncegate::idempotency::record::LastError;
use oncegate::idempotency::{Found, Settlement, Snapshot, State, Token};
use oncegate::store::durable::Written;
use oncegate::store::fast::{Finished, Replacement, Rescued, Vacancy, Value};

use super::on_every_pair;
use crate::bed::{Site, fresh_identity};
use crate::support::eventually;

const SOON: Duration = Duration::from_secs(30);

on_every_pair!(
    who_was_given_up_may_not_begin_but_may_end,
    a_rescued_answer_is_written_down_for_its_own_attempt_alone,
);

async fn admitted(engine: &Engine, request: &Request) -> Claim {
    match engine.acquire(request).await.expect("answered") {
        Acquired::Execute(claim) => claim,
        _ => panic!("the first one runs"),
    }
}

async fn found(engine: &Engine, request: &Request) -> Found {
    engine.record(&request.identity).await.expect("answered").expect("it is there")
}

async fn who_was_given_up_may_not_begin_but_may_end(site: Site) {
    let (owner, other) = (site.engine().await, site.engine().await);
    let request = Request::new(fresh_identity()).lease(Duration::from_millis(200));
    let claim = admitted(&owner, &request).await;
    let fence = found(&other, &request).await.record.fence();
    let (retry_in, probe_in) = (Duration::ZERO, Duration::ZERO);
    let hold = Settlement::Hold { why: "silence".into(), retry_in, probe_in };
    let held = other.tiers().durable().settle(fence, hold).await;
    assert_eq!(held, Ok(Written::Applied));
    eventually("it learns that it may not begin", SOON, async || {
        claim.confirm().await == Ok(StillOurs::No)
    })
    .await;
    // Had it begun before, its answer would be the one.
    assert_eq!(claim.complete(Snapshot::of_value(b"1".to_vec()), None).await, Settled::Stored);
    assert!(matches!(found(&other, &request).await.record.state, State::Succeeded { .. }));
}

async fn a_rescued_answer_is_written_down_for_its_own_attempt_alone(site: Site) {
    let engine = site.engine().await;
    let Some(fast) = engine.tiers().fast().cloned() else { return };
    let answer = Snapshot::of_value(b"1".to_vec());
    let ends = [None, Some("status 500".to_owned())];
    for (error, is_ours) in ends.iter().flat_map(|error| [(error, false), (error, true)]) {
        let request = Request::new(fresh_identity()).lease(Duration::from_secs(60));
        let claim = admitted(&engine, &request).await;
        let (identity, there) = (request.identity.digest(), found(&engine, &request).await);
        let token = there.record.token;
        let rescued = Rescued {
            owner: if is_ours { token } else { Token::fresh() },
            finished: Finished { fingerprint: None, credential: None, answer: answer.clone() },
            error: error.clone(),
            result_ref: Some("charge 7".to_owned()).filter(|_| error.is_none()),
            keep: Duration::from_secs(600),
        };
        let by = Replacement::With(Value::Rescued(Box::new(rescued)), Duration::from_secs(600));
        eventually("it stands where the lock was", SOON, async || {
            let _ = fast.replace(identity, token, by.clone(), Vacancy::Fill).await;
            matches!(fast.look(identity).await, Ok(Some(Value::Rescued(_))))
        })
        .await;
        let expected = match (is_ours, error) {
            (false, _) => None,
            (true, None) => Some(TakenFromFast::Succeeded),
            (true, Some(_)) => Some(TakenFromFast::Failed),
        };
        eventually("it is found, or left alone", SOON, async || {
            engine.settle_rescued(&there).await == Ok(expected)
        })
        .await;
        let record = found(&engine, &request).await.record;
        match expected {
            None => assert!(matches!(record.state, State::Processing { .. }), "another attempt's"),
            Some(TakenFromFast::Succeeded) => {
                assert!(
                    matches!(&record.state, State::Succeeded { answer: a, .. } if *a == answer)
                );
                assert_eq!(record.result_ref.as_deref(), Some("charge 7"));
            }
            Some(_) => {
                assert!(matches!(record.state, State::Failed { .. }));
                let said = record.last_error.map(|LastError { message, .. }| message);
                assert_eq!(&said, error);
            }
        }
        drop(claim);
    }
}
