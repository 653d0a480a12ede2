//! Values that a database will not take cost nobody else anything, and never make an operation
//! that has run look as if it had not.

use std::time::Duration;

use oncegate::idempotency::settle::Failure;
use oncegate::idempotency::{Body, Identity, Key, Scope, Settlement, State, Tenant};
use oncegate::store::StoreError;
use oncegate::store::durable::{self, Claimed, DurableOptions, Written};

use super::{LONG, answer, claim_of, record, running, success};
use crate::bed::{Database, Fresh, identity};
use crate::support::servers::{self, DatabaseServer, Kind};
use crate::support::{MariaDb, MySql};

/// Text that this database refuses; SQLite refuses none.
fn refused(database: Database) -> String {
    match database {
        Database::MySql | Database::MariaDb => "r".repeat(3000),
        Database::Postgres | Database::Sqlite => "before\0after".into(),
    }
}

pub async fn a_refused_reference_costs_neither_its_answer_nor_its_neighbours(fresh: Fresh) {
    let tier = fresh.open().await;
    let keys: Vec<_> = (0..16).map(|n| n.to_string()).collect();
    let fences = keys.iter().map(|key| running(&tier, key, LONG));
    let fences = futures_util::future::join_all(fences).await;
    let reference = refused(fresh.database);
    let endings = fences.iter().enumerate().map(|(n, fence)| {
        let bad = Settlement::Succeed {
            answer: answer("5"),
            result_ref: Some(reference.clone()),
            keep: LONG,
        };
        tier.settle(*fence, if n == 5 { bad } else { success(&n.to_string()) })
    });
    let written = futures_util::future::join_all(endings).await;
    assert!(written.iter().all(|w| *w == Ok(Written::Applied)), "{written:?}");
    for key in keys {
        let record = record(&tier, &key).await;
        let State::Succeeded { answer: stored, .. } = record.state else {
            panic!("{key} reads {}", record.state.as_str());
        };
        assert_eq!(stored, answer(key.as_str()));
        let reference = match key.as_str() {
            "5" if fresh.database != Database::Sqlite => None,
            "5" => Some(reference.clone()),
            _ => Some(format!("ref of {key}")),
        };
        assert_eq!(record.result_ref, reference);
    }
}

pub async fn a_refused_error_text_still_ends_its_attempt(fresh: Fresh) {
    let tier = fresh.open().await;
    let text = match fresh.database {
        // More than the column takes.
        Database::MySql | Database::MariaDb => "e".repeat(70_000),
        Database::Postgres | Database::Sqlite => "before\0after".into(),
    };
    let error = || text.clone();
    let hold = Settlement::Hold { why: error(), retry_in: LONG, probe_in: LONG };
    let failures = [
        Failure::Refuse,
        Failure::ExecuteAgain { after: LONG },
        Failure::Replay { answer: answer("no") },
    ];
    let failures = failures.map(|then| Settlement::Fail { then, error: error(), keep: LONG });
    for (key, ending) in failures.into_iter().chain([hold]).enumerate() {
        let key = key.to_string();
        let fence = running(&tier, &key, LONG).await;
        let neighbour = format!("{key} neighbour");
        let beside = running(&tier, &neighbour, LONG).await;
        let (written, other) =
            tokio::join!(tier.settle(fence, ending.clone()), tier.settle(beside, success("fine")));
        assert_eq!((written, other), (Ok(Written::Applied), Ok(Written::Applied)));
        let state = record(&tier, &key).await.state;
        match &ending {
            Settlement::Hold { .. } => assert!(matches!(state, State::Unknown { .. })),
            _ => assert!(matches!(state, State::Failed { .. })),
        }
    }
}

pub async fn a_refused_key_does_not_fail_the_claims_beside_it(fresh: Fresh) {
    let tier = fresh.open().await;
    let scope = Scope::new("payment").expect("a scope");
    let nul = Identity::new(Tenant::none(), scope, Key::from_stored("before\0after"));
    let mut identities: Vec<_> = (0..15).map(|n| identity(&n.to_string())).collect();
    identities.insert(7, nul.clone());
    let claims = identities.iter().map(|i| tier.claim(claim_of(i, LONG)));
    let claims = futures_util::future::join_all(claims).await;
    for (identity, claimed) in identities.iter().zip(claims) {
        match fresh.database {
            Database::Postgres if *identity == nul => {
                assert!(matches!(claimed, Err(StoreError::Rejected { .. })), "{claimed:?}");
            }
            _ => assert!(matches!(claimed, Ok(Claimed::New)), "{claimed:?}"),
        }
    }
}

/// An answer of three megabytes, on a server that takes packets of one.
async fn kept_without_its_body(server: Box<dyn DatabaseServer>) {
    let patience = Duration::from_secs(3);
    let options = DurableOptions { patience, ..DurableOptions::default() };
    let tier = durable::open(&server.url(), &options).expect("the URL names a durable tier");
    tier.migrate().await.expect("a fresh database can be migrated");
    let keys: Vec<_> = (0..8).map(|n| n.to_string()).collect();
    let fences = keys.iter().map(|key| running(&tier, key, LONG));
    let fences = futures_util::future::join_all(fences).await;
    let large = || Settlement::Succeed {
        answer: answer(vec![b'x'; 3 << 20]),
        result_ref: None,
        keep: LONG,
    };
    let endings = fences.iter().enumerate().map(|(n, fence)| {
        tier.settle(*fence, if n == 5 { large() } else { success(&n.to_string()) })
    });
    let written = futures_util::future::join_all(endings).await;
    assert!(written.iter().all(|w| *w == Ok(Written::Applied)), "{written:?}");
    for key in keys {
        let State::Succeeded { answer: stored, .. } = record(&tier, &key).await.state else {
            panic!("{key} is not done");
        };
        match key.as_str() {
            "5" => assert_eq!((stored.status, stored.body), (201, Body::TooLong)),
            _ => assert_eq!(stored, answer(key.as_str())),
        }
    }
    // The lane goes on.
    let next = running(&tier, "next", LONG).await;
    assert_eq!(tier.settle(next, success("next")).await, Ok(Written::Applied));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_mysql_takes_in_no_packet_is_kept_without_its_body() {
    if servers::require(Kind::MySql) {
        kept_without_its_body(Box::new(MySql::start_with(&["--max-allowed-packet=1M"]))).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_mariadb_takes_in_no_packet_is_kept_without_its_body() {
    if servers::require(Kind::MariaDb) {
        kept_without_its_body(Box::new(MariaDb::start_with(&["--max-allowed-packet=1M"]))).await;
    }
}
