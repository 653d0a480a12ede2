//! Answers that are lost on their way: nothing is done twice, and nothing stays behind that nobody
//! runs. The server is behind a proxy that lets every statement through and loses its answer.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use oncegate::idempotency::decide::Asked;
use oncegate::idempotency::settle::Failure;
use oncegate::idempotency::{Fence, Policy, Settlement, State, Token};
use oncegate::store::durable::{
    Claimed, DurableOptions, NotRenewed, Right, TakeOver, Taken, Written,
};
use oncegate::store::tiered::{FastSettings, Look, Step};
use oncegate::store::{StoreError, Tiered};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use super::{
    IN_TIME, LONG, SHORT, Tier, answer, apply, claim_of, look, passed, record, running, settled,
    success,
};
use crate::bed::{Database, identity};
use crate::support::{FaultProxy, eventually};

/// Of a caller who is to be told that the tier is down.
pub const PATIENCE: Duration = Duration::from_millis(700);
/// Of a caller who is to be served all the same.
const PATIENT: Duration = Duration::from_secs(10);

on_servers! {
    a_claim_whose_connection_is_cut_before_its_answer_is_ours_or_nobodys
    a_claim_whose_answer_never_comes_is_taken_back
    a_claim_whose_caller_leaves_before_the_answer_is_taken_back
    closing_waits_for_what_is_to_be_taken_back
    a_settlement_whose_answer_is_lost_is_stored_once
    a_takeover_whose_answer_is_lost_is_known_as_ours
    a_takeover_whose_connection_is_cut_before_its_answer_is_ours
    a_claim_that_another_took_over_meanwhile_is_not_taken_back_by_its_own_step
    connections_that_broke_are_replaced_unnoticed
}

/// Two instances on one database: one behind a proxy, warmed up, and one that sees it directly.
struct Behind {
    proxy: FaultProxy,
    tier: Tier,
    direct: Tier,
}

impl Behind {
    async fn a_proxy(database: Database, patience: Duration) -> Option<Self> {
        let mut fresh = database.fresh()?;
        let direct = fresh.open().await;
        let host = fresh.url.split(['@', '/']).nth(3).expect("the URL has a host");
        let target: SocketAddr = host.parse().expect("the host is an address");
        let proxy = FaultProxy::start(target).await;
        fresh.url = proxy.reroute(&fresh.url);
        let tier = fresh.open_with(with(patience)).await;
        // Every statement is prepared, so that the next one is sent whole.
        settled(&tier, "warm", success("up")).await;
        Some(Self { proxy, tier, direct })
    }

    /// Prepares takeovers on each connection of the pool, which are used in turn.
    async fn prepare_takeovers(&self, seen: Fence) {
        for _ in 0..8 {
            let stale = Fence { token: Token::fresh(), ..seen };
            let taken = take(&self.tier, stale, Token::fresh()).await;
            assert!(!matches!(taken, Ok(Taken::Won { .. })), "{taken:?}");
        }
    }

    /// Waits until the server has done what it was asked, of which it cannot tell.
    async fn is_written(&self, key: &str, attempt: u32) {
        eventually("the statement is executed", IN_TIME, async || {
            let found = look(&self.direct, key).await;
            found.is_some_and(|found| found.record.attempt == attempt)
        })
        .await;
    }

    /// Resets every connection, then lets new ones through.
    async fn cut_and_heal(&self) {
        let mut witness = TcpStream::connect(self.proxy.addr()).await.expect("accepted");
        self.proxy.cut();
        let mut nothing = [0; 64];
        while witness.read(&mut nothing).await.is_ok_and(|read| read > 0) {}
        self.proxy.heal();
    }

    async fn is_taken_back(&self, key: &str) {
        eventually("the claim is taken back", IN_TIME, async || {
            look(&self.direct, key).await.is_none()
        })
        .await;
        running(&self.direct, key, LONG).await;
    }
}

pub fn with(patience: Duration) -> DurableOptions {
    DurableOptions { patience, ..DurableOptions::default() }
}

async fn take(tier: &Tier, seen: Fence, token: Token) -> Result<Taken, StoreError> {
    let right = Right::Due;
    tier.take_over(TakeOver { seen, token, lease: LONG, asked: Asked::default(), right }).await
}

async fn a_claim_whose_connection_is_cut_before_its_answer_is_ours_or_nobodys(database: Database) {
    let Some(behind) = Behind::a_proxy(database, PATIENT).await else {
        return;
    };
    for round in 0..5 {
        let key = round.to_string();
        running(&behind.tier, &format!("{key} before"), LONG).await;
        let claim = claim_of(&identity(&key), LONG);
        let fence = claim.fence;
        behind.proxy.swallow_replies();
        let tier = behind.tier.clone();
        let claiming = tokio::spawn(async move { tier.claim(claim).await });
        behind.is_written(&key, 1).await;
        behind.cut_and_heal().await;
        match claiming.await.expect("no claim panics") {
            Ok(Claimed::New) => assert_eq!(record(&behind.direct, &key).await.fence(), fence),
            Ok(Claimed::Exists(found)) => panic!("taken for somebody else's: {found:?}"),
            Err(error) => {
                assert!(error.is_transient(), "{error}");
                behind.is_taken_back(&key).await;
            }
        }
    }
}

async fn a_claim_whose_answer_never_comes_is_taken_back(database: Database) {
    let Some(behind) = Behind::a_proxy(database, PATIENCE).await else {
        return;
    };
    behind.proxy.swallow_replies();
    let claimed = behind.tier.claim(claim_of(&identity("k"), LONG)).await;
    assert!(matches!(claimed, Err(StoreError::Unavailable { .. })), "{claimed:?}");
    assert!(look(&behind.direct, "k").await.is_some(), "it was not even written");
    behind.proxy.heal();
    behind.is_taken_back("k").await;
}

async fn a_claim_whose_caller_leaves_before_the_answer_is_taken_back(database: Database) {
    let Some(behind) = Behind::a_proxy(database, PATIENCE).await else {
        return;
    };
    behind.proxy.swallow_replies();
    let (tier, claim) = (behind.tier.clone(), claim_of(&identity("k"), LONG));
    let claiming = tokio::spawn(async move { tier.claim(claim).await });
    behind.is_written("k", 1).await;
    claiming.abort();
    assert!(claiming.await.is_err_and(|error| error.is_cancelled()));
    behind.proxy.heal();
    behind.is_taken_back("k").await;
}

async fn closing_waits_for_what_is_to_be_taken_back(database: Database) {
    let Some(behind) = Behind::a_proxy(database, Duration::from_secs(2)).await else {
        return;
    };
    behind.proxy.swallow_replies();
    let claim = behind.tier.claim(claim_of(&identity("k"), LONG));
    let (claimed, ()) = tokio::join!(claim, async {
        behind.is_written("k", 1).await;
        behind.proxy.blackhole();
    });
    assert!(matches!(claimed, Err(StoreError::Unavailable { .. })), "{claimed:?}");
    let (closing, ()) = tokio::join!(behind.tier.close(), async { behind.proxy.heal() });
    let () = closing;
    assert!(look(&behind.direct, "k").await.is_none(), "it would be held for nobody");
}

async fn a_settlement_whose_answer_is_lost_is_stored_once(database: Database) {
    let Some(behind) = Behind::a_proxy(database, PATIENCE).await else {
        return;
    };
    let fence = running(&behind.tier, "k", LONG).await;
    behind.proxy.swallow_replies();
    let written = behind.tier.settle(fence, success("done")).await;
    assert!(matches!(written, Err(StoreError::Unavailable { .. })), "{written:?}");
    let stored = record(&behind.direct, "k").await;
    assert!(matches!(&stored.state, State::Succeeded { answer: it, .. } if *it == answer("done")));
    behind.proxy.heal();
    eventually("the settlement is answered", IN_TIME, async || {
        let written = behind.tier.settle(fence, success("done")).await;
        written.is_ok_and(|written| written == Written::Applied)
    })
    .await;
    assert_eq!(record(&behind.direct, "k").await, stored);
}

async fn a_takeover_whose_answer_is_lost_is_known_as_ours(database: Database) {
    let Some(behind) = Behind::a_proxy(database, PATIENCE).await else {
        return;
    };
    let seen = running(&behind.tier, "k", Duration::ZERO).await;
    let token = Token::fresh();
    // A busy machine may not even have sent it within its patience.
    eventually("it is written and its answer lost", IN_TIME, async || {
        behind.proxy.heal();
        behind.prepare_takeovers(seen).await;
        behind.proxy.swallow_replies();
        let taken = take(&behind.tier, seen, token).await;
        assert!(matches!(taken, Err(StoreError::Unavailable { .. })), "{taken:?}");
        record(&behind.direct, "k").await.attempt == 2
    })
    .await;
    let taken = record(&behind.direct, "k").await;
    assert_eq!(taken.token, token);
    assert_eq!(take(&behind.direct, seen, Token::fresh()).await, Ok(Taken::Lost));
    behind.proxy.heal();
    let again = take(&behind.tier, seen, token).await;
    assert_eq!(again, Ok(Taken::Won { attempt: 2 }));
    assert_eq!(record(&behind.direct, "k").await, taken);
}

async fn a_takeover_whose_connection_is_cut_before_its_answer_is_ours(database: Database) {
    let Some(behind) = Behind::a_proxy(database, PATIENT).await else {
        return;
    };
    let seen = running(&behind.tier, "cut", Duration::ZERO).await;
    let token = Token::fresh();
    // A connection that rested is tried first, which is in vain here: then it was never sent.
    let taking = loop {
        behind.proxy.heal();
        behind.prepare_takeovers(seen).await;
        behind.proxy.swallow_replies();
        let tier = behind.tier.clone();
        let taking = tokio::spawn(async move { take(&tier, seen, token).await });
        let mut written = false;
        eventually("it is written or given up", IN_TIME, async || {
            written = record(&behind.direct, "cut").await.attempt == 2;
            written || taking.is_finished()
        })
        .await;
        if written {
            break taking;
        }
    };
    behind.cut_and_heal().await;
    let mut taken = taking.await.expect("no takeover panics");
    while let Err(error) = taken {
        // The next connection was cut as well: whoever is told so asks again.
        assert!(error.is_transient(), "{error}");
        taken = take(&behind.tier, seen, token).await;
    }
    assert_eq!(taken, Ok(Taken::Won { attempt: 2 }));
}

/// Its claim is withdrawn, wherever it landed: what the same step then ran under the same id and
/// token would be removed with it.
async fn a_claim_that_another_took_over_meanwhile_is_not_taken_back_by_its_own_step(
    database: Database,
) {
    let Some(behind) = Behind::a_proxy(database, PATIENT).await else {
        return;
    };
    let tiers = Arc::new(Tiered::new(behind.tier.clone(), None, FastSettings::default()));
    for round in 0..3 {
        let key = format!("round {round}");
        running(&behind.tier, &format!("{key} before"), LONG).await;
        let policy = Policy { lease: SHORT, ..Policy::default() };
        behind.proxy.swallow_replies();
        let (step, asked) = ((tiers.clone(), identity(&key)), Asked::default());
        let step = tokio::spawn(async move {
            let (tiers, identity) = step;
            tiers.step(&identity, &asked, &policy, Look::DurableOnly).await
        });
        behind.is_written(&key, 1).await;
        let inserted = record(&behind.direct, &key).await.fence();
        passed(&behind.direct, &key, SHORT).await;
        let token = Token::fresh();
        let taken = take(&behind.direct, inserted, token).await;
        assert_eq!(taken, Ok(Taken::Won { attempt: 2 }));
        let then = Failure::ExecuteAgain { after: Duration::ZERO };
        let failed = Settlement::Fail { then, error: "declined".into(), keep: LONG };
        let failed = apply(&behind.direct, Fence { id: inserted.id, token }, failed).await;
        assert_eq!(failed, Written::Applied);
        behind.cut_and_heal().await;
        match step.await.expect("no step panics") {
            Ok(Step::Busy) => {}
            Ok(step) => panic!("its own claim is withdrawn: {step:?}"),
            Err(error) => assert!(error.is_transient(), "{error}"),
        }
        // The next one has an id of its own, and runs it.
        let (policy, asked) = (Policy::default(), Asked::default());
        let mut next = None;
        eventually("the next one is admitted", IN_TIME, async || {
            let step = tiers.step(&identity(&key), &asked, &policy, Look::DurableOnly).await;
            next = step.ok();
            matches!(next, Some(Step::Admitted(_)))
        })
        .await;
        let Some(Step::Admitted(next)) = next else { panic!("it is admitted") };
        assert_eq!((next.attempt, next.fence), (3, record(&behind.direct, &key).await.fence()));
    }
}

async fn connections_that_broke_are_replaced_unnoticed(database: Database) {
    let Some(behind) = Behind::a_proxy(database, PATIENT).await else {
        return;
    };
    let keys: Vec<_> = (0..20).map(|n| n.to_string()).collect();
    for round in 0..3 {
        // As many connections as there are looks at once.
        let looks = keys.iter().map(|key| look(&behind.tier, key));
        futures_util::future::join_all(looks).await;
        behind.cut_and_heal().await;
        let key = format!("round {round}");
        assert!(look(&behind.tier, &key).await.is_none());
        let fence = running(&behind.tier, &key, LONG).await;
        assert_eq!(behind.tier.renew(vec![fence], LONG).await, Ok(NotRenewed::default()));
        assert_eq!(apply(&behind.tier, fence, success("done")).await, Written::Applied);
    }
}
