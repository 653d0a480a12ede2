//! What operators do, and the trail they leave.

use std::time::Duration;

use oncegate::idempotency::record::AfterFailure;
use oncegate::idempotency::settle::Failure;
use oncegate::idempotency::{Body, Origin, Settlement, State};
use oncegate::store::durable::{Audit, AuditLine, Claimed, Written};

use super::{
    LONG, SHORT, Tier, answer, apply, claim_of, look, passed, record, running, settled, success,
};
use crate::bed::{Fresh, identity, identity_of};

fn because(note: &str) -> Audit {
    Audit { actor: "Øystein 'root'".into(), action: "forget", note: note.into() }
}

async fn trail(tier: &Tier) -> Vec<AuditLine> {
    tier.audit_after(0).await.expect("the trail is read")
}

pub async fn forgetting_removes_the_record_and_leaves_an_audit_line(fresh: Fresh) {
    let (tier, other) = (fresh.open().await, fresh.open().await);
    let hold = Settlement::Hold { why: "silence".into(), retry_in: LONG, probe_in: LONG };
    let (then, error) = (Failure::Refuse, "no".into());
    settled(&tier, "done", success("done")).await;
    settled(&tier, "failed", Settlement::Fail { then, error, keep: LONG }).await;
    settled(&tier, "unknown", hold).await;
    running(&tier, "abandoned", SHORT).await;
    passed(&tier, "abandoned", SHORT).await;
    let now = look(&tier, "abandoned").await.expect("it is there").now;
    for key in ["done", "failed", "unknown", "abandoned"] {
        let note = format!("{key}: wröng 🧾 \"amount\"");
        assert_eq!(tier.forget(&identity(key), because(&note)).await, Ok(true));
        assert!(look(&tier, key).await.is_none(), "{key} is still there");
        // Its own line is the newest, also for other instances.
        let newest = other.audit_after(i64::MAX).await.expect("the trail is read");
        let [line] = &newest[..] else {
            panic!("{} lines are the newest", newest.len());
        };
        assert_eq!(line.identity, identity(key));
        assert_eq!(line.note, note);
        assert_eq!((line.actor.as_str(), line.action.as_str()), ("Øystein 'root'", "forget"));
        assert!(line.at >= now && line.at.since(now) < LONG);
        running(&tier, key, LONG).await;
    }
    assert_eq!(trail(&tier).await.len(), 4);
}

pub async fn forgetting_leaves_a_run_under_its_lease_alone(fresh: Fresh) {
    let tier = fresh.open().await;
    running(&tier, "k", LONG).await;
    let before = look(&tier, "k").await.expect("it is there").record;
    assert_eq!(tier.forget(&identity("k"), because("stop it")).await, Ok(false));
    assert_eq!(look(&tier, "k").await.map(|found| found.record), Some(before));
    assert_eq!(tier.forget(&identity("none"), because("?")).await, Ok(false));
    assert!(trail(&tier).await.is_empty());
    assert!(tier.audit_after(i64::MAX).await.expect("read").is_empty());
}

pub async fn an_operator_ends_what_nobody_runs_and_nothing_else(fresh: Fresh) {
    let (tier, other) = (fresh.open().await, fresh.open().await);
    let hold = Settlement::Hold { why: "silence".into(), retry_in: LONG, probe_in: LONG };
    let failed = |then| Settlement::Fail { then, error: "no".into(), keep: LONG };
    for (key, ending) in [
        ("unknown", hold),
        ("again", failed(Failure::ExecuteAgain { after: LONG })),
        ("replay", failed(Failure::Replay { answer: answer("no") })),
        ("refuse", failed(Failure::Refuse)),
    ] {
        let owner = settled(&tier, key, ending).await;
        let resolved = tier.resolve(&identity(key), success("by hand"), because(key)).await;
        assert_eq!(resolved, Ok(true), "{key}");
        let after = record(&other, key).await;
        assert!(
            matches!(&after.state, State::Succeeded { answer: it, .. } if *it == answer("by hand"))
        );
        // Its old owner is fenced, by token and by number.
        assert_eq!((after.id, after.attempt), (owner.id, 2));
        assert_eq!(apply(&tier, owner, success("late")).await, Written::Fenced);
        assert_eq!(record(&other, key).await, after);
    }
    let owner = running(&tier, "abandoned", SHORT).await;
    passed(&tier, "abandoned", SHORT).await;
    let resolved = tier.resolve(&identity("abandoned"), success("by hand"), because("lost")).await;
    assert_eq!(resolved, Ok(true));
    assert_eq!(apply(&tier, owner, success("late")).await, Written::Fenced);
    let lines = trail(&tier).await;
    let notes: Vec<_> = lines.iter().map(|line| line.note.as_str()).collect();
    assert_eq!(notes, ["unknown", "again", "replay", "refuse", "lost"]);

    running(&tier, "running", LONG).await;
    settled(&tier, "done", success("done")).await;
    for key in ["running", "done"] {
        let before = record(&tier, key).await;
        let resolved = tier.resolve(&identity(key), success("by hand"), because("?")).await;
        assert_eq!(resolved, Ok(false), "{key}");
        assert_eq!(record(&tier, key).await, before);
    }
    let missing = tier.resolve(&identity("missing"), success("by hand"), because("?")).await;
    assert_eq!(missing, Ok(false));
    assert_eq!(trail(&tier).await.len(), lines.len(), "a line was left for nothing");
}

pub async fn each_way_to_resolve_a_record_reads_back_whole(fresh: Fresh) {
    let tier = fresh.open().await;
    let failed = |then| Settlement::Fail { then, error: "by hand".into(), keep: LONG };
    let mut without_body = answer("");
    without_body.body = Body::TooLong;
    let succeeded = |answer| Settlement::Succeed { answer, result_ref: None, keep: LONG };
    let ways = [
        succeeded(answer("paid")),
        succeeded(without_body.clone()),
        failed(Failure::Refuse),
        failed(Failure::Allowed),
    ];
    for (n, way) in ways.into_iter().enumerate() {
        let key = n.to_string();
        let mut claim = claim_of(&identity(&key), Duration::ZERO);
        claim.origin = if n == 3 { Origin::Decision } else { Origin::Call };
        assert!(matches!(tier.claim(claim).await, Ok(Claimed::New)));
        let before = record(&tier, &key).await;
        assert_eq!(tier.resolve(&identity(&key), way, because(&key)).await, Ok(true));
        let after = record(&tier, &key).await;
        let expires_at = after.updated_at + LONG;
        let (answer, then) = match n {
            0 => (Some(answer("paid")), None),
            1 => (Some(without_body.clone()), None),
            2 => (None, Some(AfterFailure::Refuse)),
            _ => (None, Some(AfterFailure::Allowed)),
        };
        let state = match (answer, then) {
            (Some(answer), _) => State::Succeeded { answer, expires_at },
            (None, then) => State::Failed { then: then.expect("it failed"), expires_at },
        };
        assert_eq!(after.state, state);
        let error = after.last_error.as_ref().map(|error| error.message.as_str());
        assert_eq!(error, (n >= 2).then_some("by hand"));
        // A decision that may run again is due to be called back.
        assert_eq!(after.attend_at.is_some(), n == 3);
        assert_eq!((after.origin, after.created_at), (before.origin, before.created_at));
        assert_eq!(after.fingerprint, before.fingerprint);
    }
}

pub async fn the_audit_trail_is_read_in_order_and_in_pages(fresh: Fresh) {
    let tier = fresh.open().await;
    settled(&tier, "1", success("done")).await;
    for n in 1..=5 {
        let identity = identity_of("tenänt", "scope", &n.to_string());
        let claimed = tier.claim(claim_of(&identity, Duration::ZERO)).await;
        assert!(matches!(claimed, Ok(Claimed::New)), "{claimed:?}");
        assert_eq!(tier.forget(&identity, because(&n.to_string())).await, Ok(true));
    }
    assert!(look(&tier, "1").await.is_some(), "it is another's");
    let lines = trail(&tier).await;
    let notes: Vec<_> = lines.iter().map(|line| line.note.as_str()).collect();
    assert_eq!(notes, ["1", "2", "3", "4", "5"]);
    assert!(lines.is_sorted_by_key(|line| line.id));
    assert!(lines.is_sorted_by_key(|line| line.at));
    for (n, line) in lines.iter().enumerate() {
        assert_eq!(line.identity.tenant().as_str(), "tenänt");
        assert_eq!(line.identity.scope().as_str(), "scope");
        assert_eq!(line.identity.key().as_str(), line.note);
        let after = tier.audit_after(line.id).await.expect("read");
        let after: Vec<_> = after.into_iter().map(|line| line.id).collect();
        let expected: Vec<_> = lines[n + 1..].iter().map(|line| line.id).collect();
        assert_eq!(after, expected);
    }
    let newest = tier.audit_after(i64::MAX).await.expect("read");
    let newest: Vec<_> = newest.iter().map(|line| line.note.as_str()).collect();
    assert_eq!(newest, ["5"]);
}
