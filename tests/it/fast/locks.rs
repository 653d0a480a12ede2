//! Who gets a lock, and for how long.

use std::time::Duration;

use futures_util::future::join_all;
use oncegate::store::fast::{Lock, Replacement, Reserved, Value};

use super::{
    Instances, LONG, finished, fresh_identity, fresh_lock, look, replace, reserve, vanishes,
};

const SHORT: Duration = Duration::from_millis(300);

pub async fn the_first_to_reserve_gets_the_lock_and_the_second_sees_whose_it_is([a, b]: Instances) {
    let bare = Lock { fingerprint: None, ..fresh_lock() };
    for lock in [fresh_lock(), bare] {
        let identity = fresh_identity();
        assert_eq!(a.reserve(&identity, lock, LONG).await, Ok(Reserved::Ours), "nobody was there");
        for tier in [&a, &b] {
            assert_eq!(look(&**tier, &identity).await, Reserved::Taken(Value::Locked(lock)));
        }
    }
}

pub async fn of_a_hundred_at_once_exactly_one_gets_the_lock(instances: Instances) {
    let identity = fresh_identity();
    let tries = (0..100).map(|number| {
        let tier = instances[number % 2].clone();
        tokio::spawn(async move {
            let lock = fresh_lock();
            (lock, tier.reserve(&identity, lock, LONG).await)
        })
    });
    let mut granted = Vec::new();
    let mut seen = Vec::new();
    for tried in join_all(tries).await {
        match tried.expect("nobody panics") {
            (lock, Ok(Reserved::Ours)) => granted.push(lock),
            (_, Ok(Reserved::Taken(Value::Locked(lock)))) => seen.push(lock),
            (_, other) => panic!("a lock was expected: {other:?}"),
        }
    }
    assert_eq!(granted.len(), 1, "one gets it");
    assert_eq!(seen, vec![granted[0]; 99], "the others see that one");
}

pub async fn a_lock_is_free_after_its_time([a, b]: Instances) {
    let identity = fresh_identity();
    let first = reserve(&*a, &identity, SHORT).await;
    assert_eq!(look(&*b, &identity).await, Reserved::Taken(Value::Locked(first)));
    vanishes(&*b, &identity).await;
}

/// As after a reconnect in which the command was sent twice.
pub async fn a_reservation_repeated_with_its_own_token_is_granted_again([a, b]: Instances) {
    let identity = fresh_identity();
    let lock = reserve(&*a, &identity, LONG).await;
    for tier in [&a, &b] {
        assert_eq!(tier.reserve(&identity, lock, LONG).await, Ok(Reserved::Ours));
    }
    assert_eq!(look(&*b, &identity).await, Reserved::Taken(Value::Locked(lock)));
}

pub async fn a_renewed_lock_outlives_one_that_is_not([a, b]: Instances) {
    let (kept, lost) = (fresh_identity(), fresh_identity());
    let ttl = Duration::from_millis(1500);
    let lock = reserve(&*a, &kept, ttl).await;
    reserve(&*a, &lost, ttl).await;
    a.renew(&[(kept, lock.token)], LONG).await.expect("the tier answers");
    vanishes(&*b, &lost).await;
    assert_eq!(
        look(&*b, &kept).await,
        Reserved::Taken(Value::Locked(lock)),
        "it was reserved before the one that is gone"
    );
}

pub async fn a_renewal_prolongs_neither_a_strangers_lock_nor_an_answer([a, b]: Instances) {
    let (locked, answered) = (fresh_identity(), fresh_identity());
    reserve(&*a, &locked, SHORT).await;
    let owner = reserve(&*a, &answered, LONG).await.token;
    let by = Replacement::With(Value::Finished(finished("done")), SHORT);
    replace(&*a, &answered, owner, by).await;
    let stranger = fresh_lock().token;
    a.renew(&[(locked, stranger), (answered, owner)], LONG).await.expect("the tier answers");
    vanishes(&*b, &locked).await;
    vanishes(&*b, &answered).await;
}

pub async fn a_lock_that_ran_out_is_not_raised_by_a_renewal([a, b]: Instances) {
    let (gone, later) = (fresh_identity(), fresh_identity());
    let lock = reserve(&*a, &gone, SHORT).await;
    // Whatever was reserved earlier for as long is gone once this one is.
    reserve(&*a, &later, SHORT).await;
    vanishes(&*b, &later).await;
    a.renew(&[(gone, lock.token)], LONG).await.expect("the tier answers");
    assert_eq!(look(&*b, &gone).await, Reserved::Ours);
}
