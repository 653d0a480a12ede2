//! Servers that die, hang or keep a claim waiting: they are used again when they are back, and
//! nothing stays behind that nobody runs.

use oncegate::clock;
use oncegate::store::StoreError;
use oncegate::store::durable::{Claimed, Written};

use super::lost_answers::{PATIENCE, with};
use super::raw::Raw;
use super::{IN_TIME, LONG, Tier, apply, claim_of, look, record, running, success};
use crate::bed::{Database, Fresh, identity};
use crate::support::{DatabaseServer, MySql, Postgres, eventually};

on_servers! {
    a_server_that_died_is_used_again_when_it_is_back
    a_frozen_server_is_given_up_in_time_and_keeps_no_claim
    a_full_queue_is_not_taken_for_a_server_that_is_down
}

/// A server of the test's own.
fn private(database: Database) -> Option<(Box<dyn DatabaseServer>, Fresh)> {
    // Skips where there is no such server.
    let mut fresh = database.fresh()?;
    let server: Box<dyn DatabaseServer> = match database {
        Database::Postgres => Box::new(Postgres::start()),
        _ => Box::new(MySql::start()),
    };
    fresh.url = server.url();
    Some((server, fresh))
}

async fn a_server_that_died_is_used_again_when_it_is_back(database: Database) {
    let Some((server, fresh)) = private(database) else {
        return;
    };
    let tier = fresh.open().await;
    let fence = running(&tier, "before", LONG).await;
    let looks = (0..10).map(|_| look(&tier, "before"));
    futures_util::future::join_all(looks).await;
    server.kill();
    let impatient = fresh_tier(&fresh);
    let claimed = impatient.claim(claim_of(&identity("meanwhile"), LONG)).await;
    assert!(matches!(claimed, Err(StoreError::Unavailable { .. })), "{claimed:?}");
    let server = tokio::task::spawn_blocking(move || {
        server.restart();
        server
    })
    .await
    .expect("it starts again");
    assert_eq!(record(&tier, "before").await.fence(), fence);
    assert_eq!(apply(&tier, fence, success("done")).await, Written::Applied);
    running(&tier, "after", LONG).await;
    assert!(tier.counts(LONG).await.is_ok());
    // Opened while it was down, it works as well.
    running(&impatient, "also after", LONG).await;
    drop(server);
}

fn fresh_tier(fresh: &Fresh) -> Tier {
    oncegate::store::durable::open(&fresh.url, &with(PATIENCE)).expect("the URL is valid")
}

async fn a_frozen_server_is_given_up_in_time_and_keeps_no_claim(database: Database) {
    let Some((server, fresh)) = private(database) else {
        return;
    };
    let direct = fresh.open().await;
    let tier = fresh.open_with(with(PATIENCE)).await;
    running(&tier, "before", LONG).await;
    server.freeze();
    let began = clock::now();
    let claimed = tier.claim(claim_of(&identity("k"), LONG)).await;
    let (claim_took, began) = (began.elapsed(), clock::now());
    assert!(matches!(claimed, Err(StoreError::Unavailable { .. })), "{claimed:?}");
    assert!(claim_took < PATIENCE * 2, "the claim took {claim_took:?}");
    let found = tier.find(&identity("k")).await;
    let find_took = began.elapsed();
    assert!(matches!(found, Err(StoreError::Unavailable { .. })), "{found:?}");
    assert!(find_took < PATIENCE * 2, "looking took {find_took:?}");
    server.thaw();
    // Whatever of the claim lands after the thaw is taken back.
    eventually("the key is free", IN_TIME, async || {
        let claimed = direct.claim(claim_of(&identity("k"), LONG)).await;
        claimed.is_ok_and(|claimed| matches!(claimed, Claimed::New))
    })
    .await;
    running(&tier, "after", LONG).await;
}

/// The claim waits behind another one for longer than its caller, and lands after it was taken
/// back. PostgreSQL, because there the removal does not wait for the claim.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_lands_after_it_was_taken_back_is_taken_back_again() {
    let Some(fresh) = Database::Postgres.fresh() else {
        return;
    };
    let direct = fresh.open().await;
    let tier = fresh.open_with(with(PATIENCE)).await;
    let mut raw = Raw::connect(&fresh).await;
    raw.execute("BEGIN").await;
    raw.execute(
        "INSERT INTO oncegate_records (id, tenant, scope, idem_key, state, attempt, token, \
         created_at, updated_at) VALUES (gen_random_uuid(), 'tenant', 'payment', 'k', \
         'SUCCEEDED', 1, gen_random_uuid(), 0, 0)",
    )
    .await;
    let claimed = tier.claim(claim_of(&identity("k"), LONG)).await;
    assert!(matches!(claimed, Err(StoreError::Unavailable { .. })), "{claimed:?}");
    let mut other = Raw::connect(&fresh).await;
    eventually("it is taken back", IN_TIME, async || {
        let removals = "SELECT pid::text FROM pg_stat_activity WHERE state = 'idle' \
             AND datname = current_database() AND query LIKE 'DELETE FROM oncegate_records%'";
        !other.column(removals).await.is_empty()
    })
    .await;
    raw.execute("ROLLBACK").await;
    eventually("it lands all the same", IN_TIME, async || look(&direct, "k").await.is_some()).await;
    eventually("it is taken back again", IN_TIME, async || look(&direct, "k").await.is_none())
        .await;
}

async fn a_full_queue_is_not_taken_for_a_server_that_is_down(database: Database) {
    let Some((server, fresh)) = private(database) else {
        return;
    };
    let tier = fresh.open_with(with(PATIENCE)).await;
    running(&tier, "before", LONG).await;
    server.freeze();
    // More than are on their way and in the queue.
    let identities: Vec<_> = (0..9000).map(|n| identity(&n.to_string())).collect();
    let claims = identities.iter().map(|identity| tier.claim(claim_of(identity, LONG)));
    let refused = futures_util::future::join_all(claims).await;
    server.thaw();
    let errors: Vec<_> = refused.into_iter().filter_map(Result::err).collect();
    assert_eq!(errors.len(), identities.len());
    assert!(errors.iter().all(StoreError::is_transient));
    let (down, busy): (Vec<_>, Vec<_>) = errors.into_iter().partition(StoreError::is_down);
    assert!(down.len() > 8000 && !busy.is_empty(), "{} down, {} busy", down.len(), busy.len());
}
