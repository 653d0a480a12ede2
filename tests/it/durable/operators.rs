//! What operators do, and the trail they leave.

use oncegate::idempotency::Settlement;
use oncegate::idempotency::settle::Failure;
use oncegate::store::durable::{Audit, AuditLine};

use super::{LONG, SHORT, Tier, look, passed, running, settled, success};
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

pub async fn the_audit_trail_is_read_in_order_and_in_pages(fresh: Fresh) {
    let tier = fresh.open().await;
    settled(&tier, "1", success("done")).await;
    for n in 1..=5 {
        let identity = identity_of("tenänt", "scope", &n.to_string());
        let audit = Audit { action: "audit", ..because(&n.to_string()) };
        tier.audit(&identity, audit).await.expect("a line is written");
    }
    assert!(look(&tier, "1").await.is_some(), "a line alone removes nothing");
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
