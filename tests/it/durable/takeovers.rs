//! The next attempt of a record: when it may begin, and that only one begins.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use oncegate::idempotency::decide::Asked;
use oncegate::idempotency::record::LastError;
use oncegate::idempotency::settle::Failure;
use oncegate::idempotency::{Fence, Settlement, State, Token};
use oncegate::store::durable::{self, Claimed, DurableOptions, Right, TakeOver, Taken, Written};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};

use super::raw::Raw;
use super::{
    LONG, SHORT, Tier, answer, apply, claim_of, passed, record, running, settled, success,
};
use crate::bed::{Fresh, identity};
use crate::support::MariaDb;
use crate::support::servers::{self, Kind, Server};

const SECOND: Taken = Taken::Won { attempt: 2 };

async fn take(tier: &Tier, seen: Fence, right: Right) -> (Taken, Fence) {
    let token = Token::fresh();
    let take = TakeOver { seen, token, lease: LONG, asked: Asked::default(), right };
    let taken = tier.take_over(take).await.expect("a takeover is answered");
    (taken, Fence { id: seen.id, token })
}

fn fail(then: Failure) -> Settlement {
    let error = "refused".into();
    Settlement::Fail { then, error, keep: LONG }
}

pub async fn a_running_lease_is_not_taken_over(fresh: Fresh) {
    let tier = fresh.open().await;
    let lease = Duration::from_secs(2);
    let owner = running(&tier, "k", lease).await;
    let before = record(&tier, "k").await;
    assert_eq!(take(&tier, owner, Right::Due).await.0, Taken::Lost);
    assert_eq!(record(&tier, "k").await, before);
    passed(&tier, "k", lease).await;
    let (taken, new) = take(&tier, owner, Right::Due).await;
    assert_eq!(taken, SECOND);
    let after = record(&tier, "k").await;
    assert_eq!((after.fence(), after.attempt), (new, 2));
    assert_eq!(after.created_at, before.created_at);
    assert!(after.updated_at >= before.updated_at + lease);
    let lease_until = after.updated_at + LONG;
    assert_eq!(after.state, State::Processing { lease_until });
    assert_eq!(after.fingerprint, before.fingerprint);
    assert_eq!(after.credential, before.credential);
}

pub async fn of_32_takers_through_two_instances_one_wins_and_the_old_owner_is_fenced(fresh: Fresh) {
    let tiers = [fresh.open().await, fresh.open().await];
    let owner = running(&tiers[0], "k", SHORT).await;
    passed(&tiers[0], "k", SHORT).await;
    let takers: Vec<_> = (0..32)
        .map(|n| {
            let tier = tiers[n % 2].clone();
            tokio::spawn(async move { take(&tier, owner, Right::Due).await })
        })
        .collect();
    let mut winners = Vec::new();
    for taker in takers {
        match taker.await.expect("no taker panics") {
            (Taken::Won { attempt }, fence) => winners.push((attempt, fence)),
            (Taken::Lost, _) => {}
        }
    }
    let [(2, winner)] = winners[..] else {
        panic!("{} of 32 won", winners.len());
    };
    let before = record(&tiers[0], "k").await;
    assert_eq!((before.fence(), before.attempt), (winner, 2));
    assert_eq!(apply(&tiers[0], owner, success("late")).await, Written::Fenced);
    assert_eq!(record(&tiers[0], "k").await, before);
    assert_eq!(apply(&tiers[1], winner, success("in time")).await, Written::Applied);
}

pub async fn a_takeover_and_a_completion_never_both_win(fresh: Fresh) {
    let (one, other) = (fresh.open().await, fresh.open().await);
    for round in 0..50 {
        let key = round.to_string();
        let owner = running(&one, &key, Duration::ZERO).await;
        let taking = async {
            if round % 2 == 0 {
                tokio::task::yield_now().await;
            }
            take(&other, owner, Right::Due).await
        };
        let ((taken, new), written) = tokio::join!(taking, apply(&one, owner, success("done")));
        let record = record(&one, &key).await;
        match (taken, written) {
            (SECOND, Written::Fenced) => {
                assert_eq!(record.fence(), new);
                assert!(matches!(record.state, State::Processing { .. }));
            }
            (Taken::Lost, Written::Applied) => {
                assert_eq!((record.fence(), record.attempt), (owner, 1));
                assert!(matches!(record.state, State::Succeeded { .. }));
            }
            both => panic!("round {round} came to {both:?}"),
        }
    }
}

pub async fn a_failure_is_taken_over_from_its_time_on(fresh: Fresh) {
    let tier = fresh.open().await;
    let after = Duration::from_secs(2);
    let owner = settled(&tier, "again", fail(Failure::ExecuteAgain { after })).await;
    assert_eq!(take(&tier, owner, Right::Due).await.0, Taken::Lost);
    let silent = Settlement::Hold { why: "silence".into(), retry_in: after, probe_in: after };
    let silent = settled(&tier, "unknown", silent).await;
    assert_eq!(take(&tier, silent, Right::Due).await.0, Taken::Lost);
    passed(&tier, "unknown", after).await;
    assert_eq!(take(&tier, owner, Right::Due).await.0, SECOND);
    assert_eq!(take(&tier, silent, Right::Due).await.0, SECOND);
    // Failures that are replayed or refused are never due.
    for (key, then) in
        [("replay", Failure::Replay { answer: answer("no") }), ("refuse", Failure::Refuse)]
    {
        let owner = settled(&tier, key, fail(then)).await;
        assert_eq!(take(&tier, owner, Right::Due).await.0, Taken::Lost);
    }
}

pub async fn a_probe_takes_only_what_has_gone_silent(fresh: Fresh) {
    let tier = fresh.open().await;
    let silent = Settlement::Hold {
        why: "silence".into(),
        retry_in: Duration::ZERO,
        probe_in: Duration::ZERO,
    };
    let unknown = settled(&tier, "unknown", silent).await;
    let abandoned = running(&tier, "abandoned", Duration::ZERO).await;
    let failure = fail(Failure::ExecuteAgain { after: Duration::ZERO });
    // It was abandoned when it was listed; then its owner came back and said how it ended.
    let failed = settled(&tier, "failed", failure).await;
    let before = record(&tier, "failed").await;
    passed(&tier, "failed", Duration::from_millis(1)).await;
    assert_eq!(take(&tier, failed, Right::Probe).await.0, Taken::Lost);
    assert_eq!(record(&tier, "failed").await, before);
    for owner in [unknown, abandoned] {
        assert_eq!(take(&tier, owner, Right::Probe).await.0, Taken::Won { attempt: 1 });
    }
}

pub async fn a_takeover_clears_the_expiry_and_keeps_the_error(fresh: Fresh) {
    let tier = fresh.open().await;
    let then = Failure::ExecuteAgain { after: Duration::ZERO };
    let failed = Settlement::Fail { then, error: "refused".into(), keep: SHORT };
    let owner = settled(&tier, "k", failed).await;
    let (taken, new) = take(&tier, owner, Right::Due).await;
    assert_eq!(taken, SECOND);
    let kept = record(&tier, "k").await.last_error;
    assert!(matches!(kept, Some(LastError { message, .. }) if message == "refused"));
    let cleared = "SELECT idem_key FROM oncegate_records WHERE expires_at IS NULL";
    assert_eq!(Raw::connect(&fresh).await.column(cleared).await.len(), 1);
    // What would have expired by now runs.
    passed(&tier, "k", SHORT).await;
    assert_eq!(tier.purge(10).await, Ok(0));
    tier.remove_expired(&identity("k")).await.expect("answered");
    assert_eq!(record(&tier, "k").await.fence(), new);
}

/// Leads connections to two servers in turn.
async fn balancer(servers: [SocketAddr; 2]) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port is free");
    let address = listener.local_addr().expect("a bound socket has an address");
    tokio::spawn(async move {
        for server in servers.into_iter().cycle() {
            let Ok((mut client, _)) = listener.accept().await else { return };
            tokio::spawn(async move {
                let mut server = TcpStream::connect(server).await?;
                copy_bidirectional(&mut client, &mut server).await
            });
        }
    });
    address
}

/// The other server stands for a replica that lags: it has the record as it was before.
#[tokio::test(flavor = "multi_thread")]
async fn a_takeover_is_judged_where_it_was_written() {
    if !servers::require(Kind::MariaDb) {
        return;
    }
    let both = [MariaDb::start(), MariaDb::start()];
    let url = |address: SocketAddr| {
        both[0].url().replace(&both[0].addr().to_string(), &address.to_string())
    };
    let open = |address| {
        let tier = durable::open(&url(address), &DurableOptions::default());
        tier.expect("the URL names a durable tier")
    };
    let addresses = [both[0].addr(), both[1].addr()];
    let direct = addresses.map(open);
    for tier in &direct {
        tier.migrate().await.expect("a fresh database can be migrated");
    }
    let balanced = open(balancer(addresses).await);
    for round in 0..6 {
        let claim = claim_of(&identity(&round.to_string()), Duration::ZERO);
        for tier in &direct {
            assert!(matches!(tier.claim(claim.clone()).await, Ok(Claimed::New)));
        }
        // Enough at once that several connections are open, and rest in turn.
        let looks = (0..4).map(|_| balanced.find(&claim.identity));
        futures_util::future::join_all(looks).await;
        assert_eq!(take(&balanced, claim.fence, Right::Due).await.0, SECOND, "round {round}");
    }
}
