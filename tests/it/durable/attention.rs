//! When a job has to see to a record, and who gets to.

use oncegate::idempotency::decide::Asked;
use oncegate::idempotency::settle::Failure;
use oncegate::idempotency::{Fence, Origin, Settlement, State, Token};
use oncegate::store::durable::{Claimed, Counts, Hold, Right, TakeOver, Taken, Written};

use super::{IN_TIME, LONG, SHORT, Tier, apply, claim_of, look, passed, record, running, success};
use crate::bed::{Fresh, identity};
use crate::support::eventually;

/// A decision of this key, under a lock of this length.
async fn decision(tier: &Tier, key: &str, lease: std::time::Duration) -> Fence {
    let mut claim = claim_of(&identity(key), lease);
    claim.origin = Origin::Decision;
    let fence = claim.fence;
    assert!(matches!(tier.claim(claim).await, Ok(Claimed::New)), "{key} was taken");
    fence
}

async fn due(tier: &Tier, origin: Origin) -> Vec<String> {
    let found = tier.attending(origin, 10).await.expect("answered");
    found.iter().map(|found| found.record.identity.key().as_str().to_owned()).collect()
}

pub async fn a_decision_is_due_when_its_lock_runs_out_or_its_retry_comes(fresh: Fresh) {
    let tier = fresh.open().await;
    running(&tier, "a call", SHORT).await;
    decision(&tier, "silent", SHORT).await;
    let kept = decision(&tier, "renewed", SHORT).await;
    decision(&tier, "young", LONG).await;
    let failed = decision(&tier, "failed", LONG).await;
    let done = decision(&tier, "done", SHORT).await;
    let then = Failure::ExecuteAgain { after: SHORT };
    let failure = Settlement::Fail { then, error: "no".into(), keep: LONG };
    apply(&tier, failed, failure).await;
    apply(&tier, done, success("done")).await;
    assert!(tier.renew(vec![kept], LONG).await.expect("answered").is_empty());
    passed(&tier, "failed", SHORT).await;
    assert_eq!(due(&tier, Origin::Decision).await, ["silent", "failed"]);
    assert!(due(&tier, Origin::Call).await.is_empty());
    assert_eq!(
        tier.abandoned(Origin::Call, SHORT, 10).await.expect("answered").len(),
        1,
        "the call alone"
    );
    assert_eq!(record(&tier, "silent").await.origin, Origin::Decision);
    assert_eq!(record(&tier, "a call").await.origin, Origin::Call);
}

pub async fn of_two_who_move_a_due_time_one_does(fresh: Fresh) {
    let (one, other) = (fresh.open().await, fresh.open().await);
    let fence = decision(&one, "k", std::time::Duration::ZERO).await;
    let seen = record(&one, "k").await.attend_at.expect("it is due");
    let later = seen + LONG;
    let (a, b) =
        tokio::join!(one.attend(fence, seen, Some(later)), other.attend(fence, seen, Some(later)));
    assert_eq!(u8::from(a.expect("answered")) + u8::from(b.expect("answered")), 1);
    assert!(due(&one, Origin::Decision).await.is_empty());
    assert_eq!(record(&one, "k").await.attend_at, Some(later));
    assert_eq!(one.attend(fence, later, None).await, Ok(true));
    assert_eq!(record(&one, "k").await.attend_at, None);
    assert_eq!(one.attend(fence, later, Some(seen)).await, Ok(false));
}

pub async fn another_attempt_has_a_due_time_of_its_own(fresh: Fresh) {
    let tier = fresh.open().await;
    let seen = decision(&tier, "k", std::time::Duration::ZERO).await;
    let old = record(&tier, "k").await.attend_at.expect("it is due");
    let token = Token::fresh();
    let take =
        TakeOver { seen, token, lease: LONG, asked: Asked::default(), right: Right::Decision };
    assert_eq!(tier.take_over(take).await, Ok(Taken::Won { attempt: 2 }));
    assert_eq!(tier.attend(seen, old, None).await, Ok(false), "the old owner's is gone");
    assert!(due(&tier, Origin::Decision).await.is_empty());
    assert!(record(&tier, "k").await.attend_at > Some(old));
}

pub async fn an_unknown_call_is_due_for_its_probe_which_is_no_attempt(fresh: Fresh) {
    let tier = fresh.open().await;
    let seen = running(&tier, "k", LONG).await;
    let (retry_in, probe_in) = (std::time::Duration::ZERO, SHORT);
    apply(&tier, seen, Settlement::Hold { why: "silence".into(), retry_in, probe_in }).await;
    eventually("its time comes", IN_TIME, async || due(&tier, Origin::Call).await == ["k"]).await;
    let token = Token::fresh();
    let take = TakeOver { seen, token, lease: LONG, asked: Asked::default(), right: Right::Probe };
    assert_eq!(tier.take_over(take.clone()).await, Ok(Taken::Won { attempt: 1 }));
    assert!(due(&tier, Origin::Call).await.is_empty());
    let other = TakeOver { token: Token::fresh(), ..take };
    assert_eq!(tier.take_over(other).await, Ok(Taken::Lost));
    let taken = record(&tier, "k").await;
    assert!(matches!(taken.state, State::Processing { .. }));
    apply(&tier, taken.fence(), success("found out")).await;
    assert_eq!(record(&tier, "k").await.attend_at, None);
}

pub async fn what_has_ended_is_not_taken_for_a_probe(fresh: Fresh) {
    let tier = fresh.open().await;
    let seen = running(&tier, "k", LONG).await;
    let take =
        |token| TakeOver { seen, token, lease: LONG, asked: Asked::default(), right: Right::Probe };
    assert_eq!(tier.take_over(take(Token::fresh())).await, Ok(Taken::Lost), "it runs");
    let then = Failure::ExecuteAgain { after: std::time::Duration::ZERO };
    apply(&tier, seen, Settlement::Fail { then, error: "no".into(), keep: LONG }).await;
    assert_eq!(tier.take_over(take(Token::fresh())).await, Ok(Taken::Lost), "it has failed");
    // Before a retry may run as well as after.
    let seen = running(&tier, "other", LONG).await;
    let (retry_in, probe_in) = (LONG, std::time::Duration::ZERO);
    apply(&tier, seen, Settlement::Hold { why: "silence".into(), retry_in, probe_in }).await;
    let take = TakeOver { seen, ..take(Token::fresh()) };
    assert_eq!(tier.take_over(take).await, Ok(Taken::Won { attempt: 1 }));
}

fn nobody_knows(keep: Option<std::time::Duration>) -> Hold {
    Hold { why: "silence".into(), attend_at: None, keep }
}

pub async fn of_two_who_mark_an_abandoned_run_one_does_and_it_stays_its_owners(fresh: Fresh) {
    let (one, other) = (fresh.open().await, fresh.open().await);
    let alive = running(&one, "alive", LONG).await;
    assert_eq!(one.hold(alive, nobody_knows(None)).await, Ok(false));
    let fence = running(&one, "k", std::time::Duration::ZERO).await;
    let next = look(&one, "k").await.expect("it is there").now + LONG;
    let hold = Hold { attend_at: Some(next), ..nobody_knows(None) };
    let (a, b) = tokio::join!(one.hold(fence, hold.clone()), other.hold(fence, hold));
    assert_eq!(u8::from(a.expect("answered")) + u8::from(b.expect("answered")), 1);
    let held = record(&one, "k").await;
    assert!(matches!(held.state, State::Unknown { .. }));
    assert_eq!((held.attend_at, held.fence()), (Some(next), fence));
    assert_eq!(held.last_error.expect("it says why").message, "silence");
    assert_eq!(apply(&other, fence, success("late")).await, Written::Applied);
}

pub async fn a_decision_counts_from_the_end_of_its_lock_and_goes_when_it_is_told_to(fresh: Fresh) {
    let tier = fresh.open().await;
    let counts = async |stuck_after| tier.counts(stuck_after).await.expect("answered");
    decision(&tier, "young", LONG).await;
    let expected = Counts { processing: 1, ..Counts::default() };
    assert_eq!(counts(std::time::Duration::ZERO).await, expected);
    let silent = decision(&tier, "silent", SHORT).await;
    passed(&tier, "silent", SHORT).await;
    let now = counts(std::time::Duration::ZERO).await;
    assert_eq!((now.processing, now.stuck), (2, 1));
    let listed = async |origin, age| {
        let found = tier.abandoned(origin, age, 10).await.expect("answered");
        found.into_iter().map(|found| found.record.fence()).collect::<Vec<_>>()
    };
    assert_eq!(listed(Origin::Decision, std::time::Duration::ZERO).await, [silent]);
    assert!(listed(Origin::Call, std::time::Duration::ZERO).await.is_empty());
    assert!(listed(Origin::Decision, LONG).await.is_empty());
    let due = record(&tier, "silent").await.attend_at;
    assert_eq!(tier.hold(silent, nobody_knows(Some(SHORT))).await, Ok(true));
    assert_eq!(counts(std::time::Duration::ZERO).await, expected);
    assert_eq!(record(&tier, "silent").await.attend_at, due, "its callback is still due");
    eventually("it goes", IN_TIME, async || {
        tier.purge(10).await.expect("answered");
        look(&tier, "silent").await.is_none()
    })
    .await;
}
