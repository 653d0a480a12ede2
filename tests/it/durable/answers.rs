//! What was settled is what is read, to the byte.

use std::time::Duration;

use oncegate::idempotency::decide::Asked;
use oncegate::idempotency::record::AfterFailure;
use oncegate::idempotency::settle::Failure;
use oncegate::idempotency::{Body, HeaderBlock, Settlement, Snapshot, State};
use oncegate::idempotency::{Fence, Token};
use oncegate::store::durable::{Right, TakeOver, Taken, Written};

use super::{LONG, answer, apply, look, record, running, settled, success};
use crate::bed::Fresh;

pub async fn an_answer_comes_back_byte_for_byte(fresh: Fresh) {
    let tier = fresh.open().await;
    let headers = HeaderBlock::from_pairs([
        (&b"set-cookie"[..], &b"a=1"[..]),
        (b"x", b""),
        (b"set-cookie", b"b=2"),
        (b"x-latin", b"caf\xe9 \xff\t'\"\\%"),
    ]);
    let every_byte: Vec<u8> = (0..=255).collect();
    let large: Vec<u8> = every_byte.iter().copied().cycle().take(1 << 20).collect();
    for (key, body) in [("every byte", every_byte), ("large", large)] {
        let answer =
            Snapshot { status: 207, headers: headers.clone(), body: Body::Stored(body.into()) };
        let settlement = Settlement::Succeed {
            answer: answer.clone(),
            result_ref: Some("påyment 🦀 'x' \\ %s ?".into()),
            keep: LONG,
        };
        settled(&tier, key, settlement).await;
        let record = record(&tier, key).await;
        assert_eq!(record.result_ref.as_deref(), Some("påyment 🦀 'x' \\ %s ?"));
        let State::Succeeded { answer: stored, expires_at } = record.state else {
            panic!("{key} reads {}", record.state.as_str());
        };
        assert!(stored == answer, "{key} is not what was written");
        assert_eq!(expires_at, record.updated_at + LONG);
        assert_eq!((record.attempt, record.last_error), (1, None));
    }
}

pub async fn an_empty_body_is_not_a_body_that_was_too_long(fresh: Fresh) {
    let tier = fresh.open().await;
    let empty = Snapshot {
        status: 204,
        headers: HeaderBlock::default(),
        body: Body::Stored(Vec::new().into()),
    };
    let too_long = answer("gone").without_body();
    for (key, answer) in [("empty", empty), ("too long", too_long)] {
        let settlement =
            Settlement::Succeed { answer: answer.clone(), result_ref: None, keep: LONG };
        settled(&tier, key, settlement).await;
        let record = record(&tier, key).await;
        assert_eq!(record.result_ref, None);
        assert!(
            matches!(record.state, State::Succeeded { answer: stored, .. } if stored == answer)
        );
    }
}

pub async fn the_edges_of_the_status_range_come_back(fresh: Fresh) {
    let tier = fresh.open().await;
    for status in [100, 200, 204, 304, 404, 599, 999] {
        let key = status.to_string();
        let answer = Snapshot { status, ..answer("x") };
        let settlement = Settlement::Succeed { answer, result_ref: None, keep: LONG };
        settled(&tier, &key, settlement).await;
        let State::Succeeded { answer, .. } = record(&tier, &key).await.state else {
            panic!("{status} is not a success");
        };
        assert_eq!(answer.status, status);
    }
}

fn failure(then: Failure) -> Settlement {
    let error = "it fäiled: \"📉\"".into();
    Settlement::Fail { then, error, keep: LONG }
}

pub async fn a_failure_reads_back_with_what_it_does_to_the_next_retry(fresh: Fresh) {
    let tier = fresh.open().await;
    let after = Duration::from_millis(12_345);
    for (key, then) in [
        ("again", Failure::ExecuteAgain { after }),
        ("replay", Failure::Replay { answer: answer("no funds") }),
        ("replay nothing", Failure::Replay { answer: answer("").without_body() }),
        ("refuse", Failure::Refuse),
        ("allowed", Failure::Allowed),
    ] {
        settled(&tier, key, failure(then.clone())).await;
        let record = record(&tier, key).await;
        let expected = match then {
            Failure::Allowed => AfterFailure::Allowed,
            Failure::ExecuteAgain { .. } => {
                AfterFailure::Execute { from: record.updated_at + after }
            }
            Failure::Replay { answer } => AfterFailure::Replay { answer },
            Failure::Refuse => AfterFailure::Refuse,
        };
        let expires_at = record.updated_at + LONG;
        assert_eq!(record.state, State::Failed { then: expected, expires_at }, "{key}");
        let error = record.last_error.expect("the error is kept");
        assert_eq!(error.message, "it fäiled: \"📉\"");
        assert_eq!(error.at, record.updated_at);
    }
}

pub async fn an_unknown_outcome_reads_back_with_the_time_of_its_retry(fresh: Fresh) {
    let tier = fresh.open().await;
    let retry_in = Duration::from_secs(7);
    settled(&tier, "k", Settlement::Hold { why: "läuft?".into(), retry_in, probe_in: retry_in })
        .await;
    let record = record(&tier, "k").await;
    assert_eq!(record.state, State::Unknown { retry_at: record.updated_at + retry_in });
    assert_eq!(record.last_error.expect("the reason is kept").message, "läuft?");
}

pub async fn the_last_error_outlives_a_later_success(fresh: Fresh) {
    let tier = fresh.open().await;
    let seen = settled(&tier, "k", failure(Failure::ExecuteAgain { after: Duration::ZERO })).await;
    let failed = record(&tier, "k").await;
    let token = Token::fresh();
    let take = TakeOver { seen, token, lease: LONG, asked: Asked::default(), right: Right::Due };
    assert_eq!(tier.take_over(take).await, Ok(Taken::Won { attempt: 2 }));
    let fence = Fence { id: seen.id, token };
    assert_eq!(apply(&tier, fence, success("second try")).await, Written::Applied);
    let done = record(&tier, "k").await;
    assert!(matches!(done.state, State::Succeeded { .. }));
    assert!(done.last_error.is_some());
    assert_eq!(done.last_error, failed.last_error);
    assert_eq!(done.created_at, failed.created_at);
}

pub async fn a_release_removes_the_record(fresh: Fresh) {
    let tier = fresh.open().await;
    let fence = running(&tier, "k", LONG).await;
    running(&tier, "neighbour", LONG).await;
    assert_eq!(apply(&tier, fence, Settlement::Release).await, Written::Applied);
    assert!(look(&tier, "k").await.is_none());
    assert!(look(&tier, "neighbour").await.is_some());
    // Asked again because the first answer was lost, it is as true as before.
    assert_eq!(apply(&tier, fence, Settlement::Release).await, Written::Applied);
    // A completion of what was released has nothing to complete.
    assert_eq!(apply(&tier, fence, success("late")).await, Written::Fenced);
    assert!(look(&tier, "k").await.is_none());
    running(&tier, "k", LONG).await;
}
