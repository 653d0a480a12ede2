//! Only the attempt that owns a record changes it, and ends it once.

use std::time::Duration;

use oncegate::idempotency::decide::Asked;
use oncegate::idempotency::record::AfterFailure;
use oncegate::idempotency::settle::Failure;
use oncegate::idempotency::{Fence, Settlement, State, Token};
use oncegate::store::durable::{Right, TakeOver, Taken, Written};

use super::{LONG, Tier, answer, apply, record, running, settled, success};
use crate::bed::Fresh;

const AGAIN: Failure = Failure::ExecuteAgain { after: Duration::ZERO };

fn fail(then: Failure) -> Settlement {
    let error = "refused".into();
    Settlement::Fail { then, error, keep: LONG }
}

fn hold() -> Settlement {
    let why = "silence".into();
    Settlement::Hold { why, retry_in: LONG, probe_in: LONG }
}

/// Every way to end an attempt.
fn endings() -> [Settlement; 6] {
    [
        success("of the old owner"),
        fail(AGAIN),
        fail(Failure::Replay { answer: answer("old") }),
        fail(Failure::Refuse),
        hold(),
        Settlement::Release,
    ]
}

/// A record whose first attempt was taken over: the fences of both.
async fn taken_over(tier: &Tier, key: &str) -> (Fence, Fence) {
    let old = running(tier, key, Duration::ZERO).await;
    let token = Token::fresh();
    let take =
        TakeOver { seen: old, token, lease: LONG, asked: Asked::default(), right: Right::Due };
    assert_eq!(tier.take_over(take).await, Ok(Taken::Won { attempt: 2 }));
    (old, Fence { id: old.id, token })
}

pub async fn an_old_token_changes_nothing(fresh: Fresh) {
    let tier = fresh.open().await;
    let (old, new) = taken_over(&tier, "k").await;
    let nobody = Fence { id: old.id, token: Token::fresh() };
    let states = [None, Some(hold()), Some(success("of the new owner"))];
    for state in states {
        if let Some(state) = state {
            assert_eq!(apply(&tier, new, state).await, Written::Applied);
        }
        let before = record(&tier, "k").await;
        for stranger in [old, nobody] {
            for ending in endings() {
                let written = apply(&tier, stranger, ending.clone()).await;
                assert_eq!(written, Written::Fenced, "{ending:?}");
                assert_eq!(record(&tier, "k").await, before, "{ending:?}");
            }
            let lost = tier.renew(vec![stranger], LONG * 2).await.expect("answered");
            assert_eq!(lost.lost, [stranger]);
            let (seen, token) = (stranger, Token::fresh());
            let right = Right::Due;
            let take = TakeOver { seen, token, lease: LONG, asked: Asked::default(), right };
            assert_eq!(tier.take_over(take).await, Ok(Taken::Lost));
            assert_eq!(record(&tier, "k").await, before);
        }
    }
}

pub async fn an_old_owner_in_the_batch_of_the_new_one_changes_nothing(fresh: Fresh) {
    let tier = fresh.open().await;
    for round in 0..30 {
        let key = round.to_string();
        let (old, new) = taken_over(&tier, &key).await;
        let others = [0, 1].map(|n| format!("{key} neighbour {n}"));
        // What is in the queue while the first is on its way shares the next statement.
        let first = running(&tier, &others[0], LONG).await;
        let second = running(&tier, &others[1], LONG).await;
        let ending = endings()[round % 5].clone();
        let (_, _, late, good, _) = tokio::join!(
            tier.settle(first, success("neighbour")),
            tier.settle(second, success("neighbour")),
            tier.settle(old, ending),
            tier.settle(new, success("new")),
            tier.settle(old, Settlement::Release),
        );
        assert_eq!((late, good), (Ok(Written::Fenced), Ok(Written::Applied)));
        let State::Succeeded { answer: stored, .. } = record(&tier, &key).await.state else {
            panic!("the new owner's success was lost");
        };
        assert_eq!(stored, answer("new"));
    }
}

pub async fn two_endings_of_one_attempt_at_once_leave_the_first(fresh: Fresh) {
    let tier = fresh.open().await;
    for round in 0..30 {
        let key = round.to_string();
        let other = running(&tier, &format!("{key} neighbour"), LONG).await;
        let fence = running(&tier, &key, LONG).await;
        let (neighbour, held, done, failed) = tokio::join!(
            tier.settle(other, success("neighbour")),
            tier.settle(fence, hold()),
            tier.settle(fence, success("done")),
            tier.settle(fence, fail(AGAIN)),
        );
        assert_eq!(neighbour, Ok(Written::Applied));
        assert_eq!(held, Ok(Written::Applied));
        // After "nobody knows" the answer may still come; after the answer nothing may.
        assert_eq!((done, failed), (Ok(Written::Applied), Ok(Written::Fenced)));
        let state = record(&tier, &key).await.state;
        assert!(matches!(state, State::Succeeded { .. }), "{state:?}");
    }
}

pub async fn a_repeated_settlement_is_applied_once(fresh: Fresh) {
    let tier = fresh.open().await;
    for (key, ending) in endings().into_iter().take(4).enumerate() {
        let key = key.to_string();
        let fence = settled(&tier, &key, ending.clone()).await;
        let before = record(&tier, &key).await;
        for _ in 0..3 {
            assert_eq!(apply(&tier, fence, ending.clone()).await, Written::Applied);
        }
        assert_eq!(record(&tier, &key).await, before);
    }
    // The same settlement several times in one batch.
    let fence = running(&tier, "at once", LONG).await;
    let all = (0..10).map(|_| tier.settle(fence, success("once")));
    let all = futures_util::future::join_all(all).await;
    assert!(all.iter().all(|written| *written == Ok(Written::Applied)), "{all:?}");
}

pub async fn a_second_ending_after_a_success_changes_nothing(fresh: Fresh) {
    let tier = fresh.open().await;
    let fence = settled(&tier, "k", success("first")).await;
    let before = record(&tier, "k").await;
    for ending in endings().into_iter().skip(1) {
        assert_eq!(apply(&tier, fence, ending.clone()).await, Written::Fenced, "{ending:?}");
        assert_eq!(record(&tier, "k").await, before, "{ending:?}");
    }
    // Whatever is said of another answer by the same attempt: the first one stays.
    apply(&tier, fence, success("second")).await;
    assert_eq!(record(&tier, "k").await, before);
}

pub async fn a_late_completion_ends_a_record_that_was_marked_unknown(fresh: Fresh) {
    let (one, other) = (fresh.open().await, fresh.open().await);
    for (key, ending) in [("done", success("late")), ("failed", fail(AGAIN))] {
        let fence = running(&one, key, Duration::ZERO).await;
        // The reconciler shows the token that it found.
        let found = record(&other, key).await.fence();
        assert_eq!(apply(&other, found, hold()).await, Written::Applied);
        assert!(matches!(record(&one, key).await.state, State::Unknown { .. }));
        assert_eq!(apply(&one, fence, ending).await, Written::Applied);
        let state = record(&one, key).await.state;
        assert!(!matches!(state, State::Unknown { .. }));
    }
    let State::Succeeded { answer: stored, .. } = record(&one, "done").await.state else {
        panic!("the late answer is not there");
    };
    assert_eq!(stored, answer("late"));
}

pub async fn settling_many_at_once_gives_each_record_its_own_answer(fresh: Fresh) {
    let tier = fresh.open().await;
    let keys: Vec<_> = (0..150).map(|n| n.to_string()).collect();
    let fences = keys.iter().map(|key| running(&tier, key, LONG));
    let fences = futures_util::future::join_all(fences).await;
    let endings = fences.iter().zip(&keys).enumerate().map(|(n, (fence, key))| {
        let ending = match n % 5 {
            0 => success(key),
            1 => fail(Failure::Replay { answer: answer(key.as_str()) }),
            2 => hold(),
            3 => Settlement::Release,
            _ => {
                return tier.settle(Fence { token: Token::fresh(), ..*fence }, success(key));
            }
        };
        tier.settle(*fence, ending)
    });
    let written = futures_util::future::join_all(endings).await;
    for (n, (key, written)) in keys.iter().zip(written).enumerate() {
        let expected = if n % 5 == 4 { Written::Fenced } else { Written::Applied };
        assert_eq!(written, Ok(expected), "{key}");
        let state = super::look(&tier, key).await.map(|found| found.record.state);
        let right = match (n % 5, state) {
            (0, Some(State::Succeeded { answer: stored, .. })) => stored == answer(key.as_str()),
            (1, Some(State::Failed { then, .. })) => {
                let answer = answer(key.as_str());
                then == oncegate::idempotency::record::AfterFailure::Replay { answer }
            }
            (2, Some(State::Unknown { .. })) => true,
            (3, None) => true,
            (4, Some(State::Processing { .. })) => true,
            _ => false,
        };
        assert!(right, "record {key} is not as it was settled");
    }
}

pub async fn an_attempt_that_did_not_take_place_gives_its_number_back_once(fresh: Fresh) {
    let tier = fresh.open().await;
    let again = || fail(Failure::ExecuteAgain { after: Duration::ZERO });
    for (key, back) in
        [("failed", again()), ("allowed", fail(Failure::Allowed)), ("unknown", hold())]
    {
        let (old, new) = taken_over(&tier, key).await;
        let undo = |attempt| Settlement::Undo { attempt, back: Box::new(back.clone()) };
        assert_eq!(apply(&tier, old, undo(7)).await, Written::Fenced);
        // Beside others in its batch, which keep their numbers; and told twice.
        let (_, beside) = taken_over(&tier, &format!("{key} neighbour")).await;
        let (undone, other) =
            tokio::join!(tier.settle(new, undo(1)), tier.settle(beside, fail(Failure::Refuse)),);
        assert_eq!((undone, other), (Ok(Written::Applied), Ok(Written::Applied)));
        let state = record(&tier, key).await;
        assert_eq!(apply(&tier, new, undo(1)).await, Written::Applied);
        let after = record(&tier, key).await;
        assert_eq!((after.attempt, after.fence()), (1, new), "{key}");
        assert_eq!(after.last_error.map(|e| e.message), state.last_error.map(|e| e.message));
        match (key, after.state) {
            ("failed", State::Failed { then: AfterFailure::Execute { .. }, .. })
            | ("allowed", State::Failed { then: AfterFailure::Allowed, .. })
            | ("unknown", State::Unknown { .. }) => {}
            (key, state) => panic!("{key} reads {state:?}"),
        }
        assert_eq!(record(&tier, &format!("{key} neighbour")).await.attempt, 2);
    }
}
