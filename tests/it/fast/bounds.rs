//! The tier in memory holds only so much.

use oncegate::store::fast::{FastTier, Replacement, Reserved, Value, memory::Memory};

use super::{LONG, finished, fresh_identity, look, replace, reserve};

const MAX_BYTES: usize = 64 << 20;
const ANSWER_BYTES: usize = 64 << 10;

#[tokio::test(flavor = "multi_thread")]
async fn memory_keeps_less_than_its_limit_and_locks_still_work() {
    let tier = Memory::default();
    let identities: Vec<_> = (0..3 * MAX_BYTES / ANSWER_BYTES).map(|_| fresh_identity()).collect();
    for identity in &identities {
        let owner = reserve(&tier, identity, LONG).await.token;
        let answer = Value::Finished(finished(vec![7; ANSWER_BYTES]));
        replace(&tier, identity, owner, Replacement::With(answer, LONG)).await;
    }
    let fresh = fresh_identity();
    let lock = reserve(&tier, &fresh, LONG).await;
    let locked = Reserved::Taken(Value::Locked(lock));
    assert_eq!(look(&tier, &fresh).await, locked);
    let mut kept = 0;
    for identity in &identities {
        // A lock here would push out what is still to be counted.
        let seen = tier.reserve(identity, lock, std::time::Duration::ZERO).await;
        kept += usize::from(matches!(seen, Ok(Reserved::Taken(Value::Finished(_)))));
    }
    assert!(kept * ANSWER_BYTES <= MAX_BYTES, "{kept} answers were kept");
    assert!(kept * ANSWER_BYTES > MAX_BYTES / 2, "only {kept} were kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_larger_than_memorys_share_leaves_the_identity_usable() {
    let tier = Memory::default();
    let identity = fresh_identity();
    let owner = reserve(&tier, &identity, LONG).await.token;
    let answer = Value::Finished(finished(vec![7; MAX_BYTES]));
    replace(&tier, &identity, owner, Replacement::With(answer, LONG)).await;
    assert!(!matches!(look(&tier, &identity).await, Reserved::Taken(Value::Finished(_))));
    tier.forget(&identity).await.expect("memory answers");
    assert_eq!(look(&tier, &identity).await, Reserved::Taken(Value::Forgotten));
}
