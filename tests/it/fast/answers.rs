//! What takes the place of a lock, and who may put it there.

use std::time::Duration;

use oncegate::idempotency::{Body, Credential, Fingerprint, HeaderBlock, Snapshot, Token};
use oncegate::store::fast::{Finished, Replacement, Reserved, Vacancy, Value};

use super::{
    Instances, LONG, finished, fresh_identity, fresh_lock, look, replace, reserve, vanishes,
    with_answer,
};

fn seen(finished: &Finished) -> Reserved {
    Reserved::Taken(Value::Finished(finished.clone()))
}

fn variants() -> Vec<Finished> {
    let every_byte: Vec<u8> = (0..=255).collect();
    let mebibyte: Vec<u8> = every_byte.iter().copied().cycle().take(1 << 20).collect();
    let ordinary = finished(every_byte);
    let without_body = finished("").answer.without_body();
    let headers = [
        (&b"set-cookie"[..], &b"a=1"[..]),
        (b"set-cookie", b"b=2"),
        (b"x-name", b"caf\xe9"),
        (b"x-empty", b""),
    ];
    vec![
        finished(mebibyte),
        finished(""),
        Finished { answer: without_body, ..ordinary.clone() },
        Finished {
            answer: Snapshot {
                headers: HeaderBlock::from_pairs(headers),
                ..ordinary.answer.clone()
            },
            ..ordinary.clone()
        },
        Finished {
            answer: Snapshot {
                status: 204,
                headers: HeaderBlock::default(),
                body: Body::Stored("".into()),
            },
            ..ordinary.clone()
        },
        Finished { fingerprint: None, ..ordinary.clone() },
        Finished { credential: None, ..ordinary.clone() },
        Finished {
            fingerprint: Some(Fingerprint::from_bytes([0xff; 32])),
            credential: Some(Credential::from_bytes([0; 32])),
            ..ordinary.clone()
        },
        ordinary,
    ]
}

pub async fn an_answer_comes_back_byte_for_byte([a, b]: Instances) {
    for answer in variants() {
        let identity = fresh_identity();
        let owner = reserve(&*a, &identity, LONG).await.token;
        let by = Replacement::With(Value::Finished(answer.clone()), LONG);
        replace(&*a, &identity, owner, by).await;
        for tier in [&a, &b] {
            assert_eq!(look(&**tier, &identity).await, seen(&answer));
        }
    }
}

pub async fn an_answer_goes_after_its_time([a, b]: Instances) {
    let identity = fresh_identity();
    let owner = reserve(&*a, &identity, LONG).await.token;
    let answer = finished("done");
    let ttl = Duration::from_millis(500);
    let by = Replacement::With(Value::Finished(answer.clone()), ttl);
    replace(&*a, &identity, owner, by).await;
    assert_eq!(look(&*b, &identity).await, seen(&answer));
    vanishes(&*b, &identity).await;
}

pub async fn a_lock_replaced_by_nothing_is_free([a, b]: Instances) {
    let identity = fresh_identity();
    let owner = reserve(&*a, &identity, LONG).await.token;
    replace(&*a, &identity, owner, Replacement::Nothing).await;
    assert_eq!(look(&*b, &identity).await, Reserved::Ours);
}

pub async fn a_lock_can_be_handed_to_another_owner([a, b]: Instances) {
    let identity = fresh_identity();
    let first = reserve(&*a, &identity, LONG).await;
    let second = fresh_lock();
    let by = Replacement::With(Value::Locked(second), LONG);
    replace(&*a, &identity, first.token, by).await;
    let handed = Reserved::Taken(Value::Locked(second));
    assert_eq!(look(&*b, &identity).await, handed);
    replace(&*a, &identity, first.token, Replacement::Nothing).await;
    assert_eq!(look(&*b, &identity).await, handed, "it is not the first's");
    replace(&*b, &identity, second.token, with_answer("by the second")).await;
    assert_eq!(look(&*a, &identity).await, seen(&finished("by the second")));
}

pub async fn a_stranger_changes_nothing([a, b]: Instances) {
    let (locked, answered, forgotten) = (fresh_identity(), fresh_identity(), fresh_identity());
    let lock = reserve(&*a, &locked, LONG).await;
    let owner = reserve(&*a, &answered, LONG).await.token;
    replace(&*a, &answered, owner, with_answer("the owner's")).await;
    a.forget(&forgotten).await.expect("the tier answers");
    let attempts = [
        Replacement::Nothing,
        with_answer("a stranger's"),
        Replacement::With(Value::Locked(fresh_lock()), LONG),
        Replacement::With(Value::Forgotten, LONG),
    ];
    for attempt in attempts {
        for identity in [&locked, &answered, &forgotten] {
            replace(&*b, identity, Token::fresh(), attempt.clone()).await;
        }
        let there = Reserved::Taken(Value::Locked(lock));
        assert_eq!(look(&*a, &locked).await, there, "{attempt:?}");
        let there = seen(&finished("the owner's"));
        assert_eq!(look(&*a, &answered).await, there, "{attempt:?}");
        let there = Reserved::Taken(Value::Forgotten);
        assert_eq!(look(&*a, &forgotten).await, there, "{attempt:?}");
    }
}

pub async fn an_answer_stays_even_for_its_owner([a, b]: Instances) {
    let identity = fresh_identity();
    let owner = reserve(&*a, &identity, LONG).await.token;
    replace(&*a, &identity, owner, with_answer("first")).await;
    for by in [Replacement::Nothing, with_answer("second")] {
        replace(&*a, &identity, owner, by).await;
        assert_eq!(look(&*b, &identity).await, seen(&finished("first")));
    }
}

/// As after a restart of Redis in mid-flight, or a stop longer than anything is kept.
pub async fn where_a_lock_has_vanished_a_late_answer_is_put_only_on_request([a, b]: Instances) {
    let identity = fresh_identity();
    replace(&*a, &identity, Token::fresh(), with_answer("late")).await;
    let lock = fresh_lock();
    let free = b.reserve(&identity, lock, LONG).await;
    assert_eq!(free, Ok(Reserved::Ours), "it may be out of date");
    replace(&*b, &identity, lock.token, Replacement::Nothing).await;
    let filled = a.replace(&identity, Token::fresh(), with_answer("rescued"), Vacancy::Fill).await;
    filled.expect("the tier answers");
    assert_eq!(look(&*b, &identity).await, seen(&finished("rescued")));
}

pub async fn what_was_forgotten_is_marked_whatever_was_there([a, b]: Instances) {
    let (nothing, locked, answered) = (fresh_identity(), fresh_identity(), fresh_identity());
    reserve(&*a, &locked, LONG).await;
    let owner = reserve(&*a, &answered, LONG).await.token;
    replace(&*a, &answered, owner, with_answer("done")).await;
    for identity in [&nothing, &locked, &answered] {
        b.forget(identity).await.expect("the tier answers");
        for tier in [&a, &b] {
            let there = look(&**tier, identity).await;
            assert_eq!(there, Reserved::Taken(Value::Forgotten));
        }
    }
}

pub async fn a_late_copy_of_a_forgotten_answer_stays_out([a, b]: Instances) {
    let identity = fresh_identity();
    let owner = reserve(&*a, &identity, LONG).await.token;
    b.forget(&identity).await.expect("the tier answers");
    replace(&*a, &identity, owner, with_answer("too late")).await;
    assert_eq!(look(&*b, &identity).await, Reserved::Taken(Value::Forgotten));
}
