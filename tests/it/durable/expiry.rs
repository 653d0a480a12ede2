//! What time does to records, by the clock of the database.

use std::time::Duration;

use oncegate::idempotency::settle::Failure;
use oncegate::idempotency::{Origin, Settlement};
use oncegate::store::durable::{Claimed, Counts};

use super::{
    IN_TIME, LONG, SHORT, Tier, answer, claim_of, look, passed, running, settled, success,
};
use crate::bed::{Fresh, identity};
use crate::support::eventually;

fn kept_for(keep: Duration) -> [(&'static str, Settlement); 2] {
    let (answer, error) = (answer("x"), "refused".into());
    let failed = Settlement::Fail { then: Failure::Refuse, error, keep };
    [("succeeded", Settlement::Succeed { answer, result_ref: None, keep }), ("failed", failed)]
}

fn hold() -> Settlement {
    let why = "silence".into();
    Settlement::Hold { why, retry_in: Duration::ZERO, probe_in: Duration::ZERO }
}

pub async fn a_finished_record_expires_by_the_clock_of_the_database(fresh: Fresh) {
    let tier = fresh.open().await;
    let keep = Duration::from_secs(2);
    for (key, ending) in kept_for(keep) {
        settled(&tier, key, ending).await;
        let found = look(&tier, key).await.expect("it is there");
        assert!(!found.record.is_expired(found.now));
        eventually("the record expires", IN_TIME, async || {
            let found = look(&tier, key).await.expect("it stays until it is removed");
            let is_expired = found.record.is_expired(found.now);
            assert_eq!(is_expired, found.now >= found.record.updated_at + keep);
            is_expired
        })
        .await;
    }
}

pub async fn only_an_expired_record_makes_way(fresh: Fresh) {
    let tier = fresh.open().await;
    let keep = Duration::from_secs(2);
    for (key, ending) in kept_for(keep) {
        settled(&tier, key, ending).await;
    }
    settled(&tier, "unknown", hold()).await;
    running(&tier, "abandoned", Duration::ZERO).await;
    running(&tier, "running", LONG).await;
    let remove_all = async || {
        for key in ["succeeded", "failed", "unknown", "abandoned", "running", "none"] {
            tier.remove_expired(&identity(key)).await.expect("answered");
        }
    };
    remove_all().await;
    for key in ["succeeded", "failed", "unknown", "abandoned", "running"] {
        assert!(look(&tier, key).await.is_some(), "{key} was removed");
    }
    passed(&tier, "failed", keep).await;
    // Expired, it still holds the key until it is removed.
    let claimed = tier.claim(claim_of(&identity("failed"), LONG)).await;
    assert!(matches!(claimed, Ok(Claimed::Exists(found)) if found.record.is_expired(found.now)));
    remove_all().await;
    for key in ["succeeded", "failed"] {
        assert!(look(&tier, key).await.is_none(), "{key} is still there");
        running(&tier, key, LONG).await;
    }
    for key in ["unknown", "abandoned", "running"] {
        assert!(look(&tier, key).await.is_some(), "{key} was removed");
    }
}

pub async fn a_purge_removes_a_batch_of_expired_records_and_nothing_else(fresh: Fresh) {
    let tier = fresh.open().await;
    assert_eq!(tier.purge(10).await, Ok(0));
    let keep = Duration::from_millis(1);
    let expired: Vec<_> = (0..15).map(|n| n.to_string()).collect();
    for (n, key) in expired.iter().enumerate() {
        let [(_, succeeded), (_, failed)] = kept_for(keep);
        settled(&tier, key, if n % 2 == 0 { succeeded } else { failed }).await;
    }
    let kept = ["done", "unknown", "abandoned", "running"];
    settled(&tier, "done", success("done")).await;
    settled(&tier, "unknown", hold()).await;
    running(&tier, "abandoned", Duration::ZERO).await;
    running(&tier, "running", LONG).await;
    passed(&tier, "14", keep).await;
    let left = async || {
        let mut left = 0;
        for key in &expired {
            left += u32::from(look(&tier, key).await.is_some());
        }
        left
    };
    assert_eq!(tier.purge(10).await, Ok(10));
    assert_eq!(left().await, 5);
    assert_eq!(tier.purge(10).await, Ok(5));
    assert_eq!(left().await, 0);
    assert_eq!(tier.purge(10).await, Ok(0));
    for key in kept {
        assert!(look(&tier, key).await.is_some(), "{key} was purged");
    }
}

pub async fn abandoned_runs_are_listed_oldest_first(fresh: Fresh) {
    let tier = fresh.open().await;
    // The first to be abandoned was not the first to begin.
    running(&tier, "second", SHORT * 2).await;
    running(&tier, "first", Duration::from_millis(1)).await;
    running(&tier, "third", SHORT * 3).await;
    running(&tier, "running", LONG).await;
    settled(&tier, "unknown", hold()).await;
    settled(&tier, "done", success("done")).await;
    passed(&tier, "third", SHORT * 3).await;
    let listed = async |age, limit| -> Vec<String> {
        let found = tier.abandoned(Origin::Call, age, limit).await.expect("answered");
        let key =
            |found: oncegate::idempotency::Found| found.record.identity.key().as_str().to_owned();
        found.into_iter().map(key).collect()
    };
    assert_eq!(listed(Duration::ZERO, 10).await, ["first", "second", "third"]);
    assert_eq!(listed(Duration::ZERO, 2).await, ["first", "second"]);
    assert!(listed(LONG, 10).await.is_empty());
    running(&tier, "young", Duration::ZERO).await;
    assert_eq!(listed(SHORT * 2, 10).await, ["first", "second", "third"]);
    eventually("the age is reached", IN_TIME, async || listed(SHORT * 2, 10).await.len() == 4)
        .await;
}

pub async fn counts_tell_running_stuck_and_unknown_apart(fresh: Fresh) {
    let tier = fresh.open().await;
    let count = async |stuck_after| tier.counts(stuck_after).await.expect("answered");
    assert_eq!(count(Duration::ZERO).await, Counts::default());
    running(&tier, "abandoned", Duration::ZERO).await;
    passed(&tier, "abandoned", SHORT).await;
    running(&tier, "running", LONG).await;
    running(&tier, "just abandoned", Duration::ZERO).await;
    settled(&tier, "unknown", hold()).await;
    settled(&tier, "also unknown", hold()).await;
    settled(&tier, "done", success("done")).await;
    for (stuck_after, stuck) in [(Duration::ZERO, 2), (LONG, 0)] {
        let counts = count(stuck_after).await;
        let expected = Counts {
            processing: 3,
            stuck,
            unknown: 2,
            oldest_processing: counts.oldest_processing,
        };
        assert_eq!(counts, expected);
        let oldest = counts.oldest_processing.expect("something runs");
        assert!(oldest >= SHORT && oldest < IN_TIME, "{oldest:?}");
    }
    let age = age_of(&tier, "abandoned").await;
    assert!(count(SHORT).await.stuck >= 1);
    assert_eq!(count(age + LONG).await.stuck, 0);
}

async fn age_of(tier: &Tier, key: &str) -> Duration {
    let found = look(tier, key).await.expect("it is there");
    found.now.since(found.record.updated_at)
}
