//! What was settled is what is read, to the byte.

use std::time::Duration;

use oncegate::idempotency::decide::Asked;
use oncegate::idempotency::record::AfterFailure;
use oncegate::idempotency::settle::Failure;
use oncegate::idempotency::{Body, HeaderBlock, Settlement, Snapshot, State};
use oncegate::idempotency::{Fence, Token};
use oncegate::store::durable::{self, DurableOptions, Right, TakeOver, Taken, Written};

use super::{LONG, Tier, answer, apply, look, record, running, settled, success};
use crate::bed::Fresh;
use crate::support::servers::{self, DatabaseServer, Kind};
use crate::support::{MariaDb, MySql};

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

pub async fn answers_in_one_batch_keep_their_own_status_and_time(fresh: Fresh) {
    in_one_batch(&fresh.open().await).await;
}

/// First all alike, then each with a status and an expiry of its own.
async fn in_one_batch(tier: &Tier) {
    for (round, differ) in [(0, 0), (1, 1)] {
        let keys: Vec<_> = (0..100).map(|n| format!("{n} of round {round}")).collect();
        let own = |n: u16| (200 + n * differ, LONG + Duration::from_secs((n * differ).into()));
        let fences = keys.iter().map(|key| running(tier, key, LONG));
        let fences = futures_util::future::join_all(fences).await;
        let endings = (0..).zip(&fences).map(|(n, fence)| {
            let (status, keep) = own(n);
            let answer = Snapshot { status, ..answer(n.to_string()) };
            tier.settle(*fence, Settlement::Succeed { answer, result_ref: None, keep })
        });
        let written = futures_util::future::join_all(endings).await;
        assert!(written.iter().all(|w| *w == Ok(Written::Applied)), "{written:?}");
        for (n, key) in (0..).zip(&keys) {
            let (status, keep) = own(n);
            let record = record(tier, key).await;
            let answer = Snapshot { status, ..answer(n.to_string()) };
            let expires_at = record.updated_at + keep;
            assert_eq!(record.state, State::Succeeded { answer, expires_at }, "{key}");
        }
    }
}

/// Where columns are not set from left to right, values are cut to fit, and quotes mean names.
async fn under_another_sql_mode(server: Box<dyn DatabaseServer>) {
    let tier = durable::open(&server.url(), &DurableOptions::default()).expect("a durable tier");
    tier.migrate().await.expect("a fresh database can be migrated");
    in_one_batch(&tier).await;
    let then = Failure::ExecuteAgain { after: LONG };
    let failed = Settlement::Fail { then, error: "declined".into(), keep: LONG };
    settled(&tier, "failed", failed).await;
    let record = record(&tier, "failed").await;
    let from = record.updated_at + LONG;
    assert!(
        matches!(record.state, State::Failed { then: AfterFailure::Execute { from: at }, .. } if at == from)
    );
    assert_eq!(record.last_error.expect("it is kept").at, record.updated_at);
}

#[tokio::test(flavor = "multi_thread")]
async fn mariadb_sets_columns_in_order_whatever_its_sql_mode() {
    if servers::require(Kind::MariaDb) {
        const MODE: &str = "--sql-mode=SIMULTANEOUS_ASSIGNMENT,ANSI_QUOTES,NO_BACKSLASH_ESCAPES";
        under_another_sql_mode(Box::new(MariaDb::start_with(&[MODE]))).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn mysql_takes_what_is_said_whatever_its_sql_mode() {
    if servers::require(Kind::MySql) {
        const MODE: &str = "--sql-mode=ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH";
        under_another_sql_mode(Box::new(MySql::start_with(&[MODE]))).await;
    }
}
