//! What instances are told without asking.

use std::collections::HashSet;

use futures_util::future::join_all;
use oncegate::idempotency::{IdentityDigest, Token};
use oncegate::store::fast::{FastTier, Push, Replacement, Reserved, Vacancy, Value};
use tokio::sync::broadcast;

use super::{Instances, LONG, PATIENCE, fresh_identity, look, replace, reserve};
use crate::support::eventually;

/// What one instance is told.
pub struct Ear(broadcast::Receiver<Push>);

impl Ear {
    pub fn of(tier: &dyn FastTier) -> Self {
        Self(tier.pushes())
    }

    /// Waits for this push; returns what came before it.
    pub async fn hear(&mut self, awaited: Push) -> Vec<Push> {
        let mut before = Vec::new();
        let heard = tokio::time::timeout(PATIENCE, async {
            loop {
                match self.0.recv().await.expect("the tier keeps talking") {
                    push if push == awaited => return,
                    push => before.push(push),
                }
            }
        });
        heard.await.expect("the push comes");
        before
    }

    /// Whether this push has come by now.
    fn has(&mut self, awaited: Push) -> bool {
        while let Ok(push) = self.0.try_recv() {
            if push == awaited {
                return true;
            }
        }
        false
    }
}

/// Something happens to an identity.
pub async fn change(tier: &dyn FastTier, identity: &IdentityDigest) {
    replace(tier, identity, Token::fresh(), Replacement::Nothing).await;
}

pub async fn listen(tier: &dyn FastTier, identity: &IdentityDigest) {
    tier.listen(identity).await.expect("the tier answers");
}

/// Waits until changes of an identity reach this ear, again or for the first time.
pub async fn changes_arrive(ear: &mut Ear, by: &dyn FastTier, identity: &IdentityDigest) {
    eventually("changes are told", PATIENCE, async || {
        // An error is one more try: the server may not be back.
        let _ = by.replace(identity, Token::fresh(), Replacement::Nothing, Vacancy::Leave).await;
        ear.has(Push::Changed(*identity))
    })
    .await;
}

/// Waits until what was forgotten reaches this ear, again or for the first time.
pub async fn forgotten_ones_arrive(ear: &mut Ear, by: &dyn FastTier) {
    let identity = fresh_identity();
    eventually("forgotten ones are told", PATIENCE, async || {
        let _ = by.forget(&identity).await;
        ear.has(Push::Forgotten(identity))
    })
    .await;
}

pub async fn what_was_forgotten_is_told_to_every_instance([a, b]: Instances) {
    let mut ears = [Ear::of(&*a), Ear::of(&*b)];
    for ear in &mut ears {
        // The subscription is made in the background.
        forgotten_ones_arrive(ear, &*a).await;
    }
    for tier in [&a, &b] {
        let identity = fresh_identity();
        tier.forget(&identity).await.expect("the tier answers");
        for ear in &mut ears {
            ear.hear(Push::Forgotten(identity)).await;
        }
    }
}

pub async fn who_is_told_of_a_forgotten_one_finds_it_marked([a, b]: Instances) {
    let mut ear = Ear::of(&*b);
    forgotten_ones_arrive(&mut ear, &*a).await;
    for _ in 0..50 {
        let identity = fresh_identity();
        reserve(&*a, &identity, LONG).await;
        let told = async {
            ear.hear(Push::Forgotten(identity)).await;
            look(&*b, &identity).await
        };
        let (forgotten, there) = tokio::join!(a.forget(&identity), told);
        forgotten.expect("the tier answers");
        assert_eq!(there, Reserved::Taken(Value::Forgotten));
    }
}

pub async fn a_burst_of_forgotten_ones_is_told_in_full([a, b]: Instances) {
    let mut ear = Ear::of(&*b);
    forgotten_ones_arrive(&mut ear, &*a).await;
    let identities: Vec<_> = (0..300).map(|_| fresh_identity()).collect();
    for done in join_all(identities.iter().map(|identity| a.forget(identity))).await {
        done.expect("the tier answers");
    }
    let mut missing: HashSet<_> = identities.into_iter().collect();
    let told = tokio::time::timeout(PATIENCE, async {
        while !missing.is_empty() {
            match ear.0.recv().await.expect("nothing is lost on the way") {
                Push::Forgotten(identity) => drop(missing.remove(&identity)),
                Push::Changed(_) => {}
            }
        }
    });
    let told = told.await;
    assert!(told.is_ok(), "{} were not told", missing.len());
}

pub async fn a_change_is_told_to_those_who_listen_to_it_and_only_then([a, b]: Instances) {
    let (listened, other) = (fresh_identity(), fresh_identity());
    let mut ear = Ear::of(&*a);
    listen(&*a, &listened).await;
    change(&*b, &other).await;
    change(&*b, &listened).await;
    let before = ear.hear(Push::Changed(listened)).await;
    assert!(!before.contains(&Push::Changed(other)));
    change(&*a, &listened).await;
    ear.hear(Push::Changed(listened)).await;
    a.unlisten(&listened);
}

pub async fn nothing_is_told_after_the_last_has_stopped_listening([a, b]: Instances) {
    let (stopped, still) = (fresh_identity(), fresh_identity());
    let mut ear = Ear::of(&*a);
    listen(&*a, &still).await;
    listen(&*a, &stopped).await;
    a.unlisten(&stopped);
    eventually("changes are told no more", PATIENCE, async || {
        change(&*b, &stopped).await;
        change(&*b, &still).await;
        let before = ear.hear(Push::Changed(still)).await;
        !before.contains(&Push::Changed(stopped))
    })
    .await;
}

pub async fn one_listener_less_leaves_the_others_listening([a, b]: Instances) {
    let identity = fresh_identity();
    let mut ear = Ear::of(&*a);
    listen(&*a, &identity).await;
    listen(&*a, &identity).await;
    a.unlisten(&identity);
    // Were it told to the server, then after a while.
    for _ in 0..50 {
        change(&*b, &identity).await;
        ear.hear(Push::Changed(identity)).await;
    }
    a.unlisten(&identity);
}

pub async fn who_listens_hears_the_very_next_change_however_often_it_stopped_before(
    [a, b]: Instances,
) {
    let identity = fresh_identity();
    let mut ear = Ear::of(&*a);
    for _ in 0..100 {
        listen(&*a, &identity).await;
        change(&*b, &identity).await;
        ear.hear(Push::Changed(identity)).await;
        a.unlisten(&identity);
    }
}
