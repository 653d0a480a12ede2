//! Connections that are lost, and everything that has to come back with them.

use oncegate::store::fast::{Push, Replacement, Reserved};

use super::pushes::{Ear, change, changes_arrive, forgotten_ones_arrive, listen};
use super::{LONG, PATIENCE, fresh_identity, fresh_lock, look, replace, reserve};
use crate::bed::{answers, open_fast};
use crate::support::servers::{Kind, require};
use crate::support::{FaultProxy, OldRedis, Redis, Server, eventually};

fn servers() -> Vec<Redis> {
    let mut servers = Vec::new();
    if require(Kind::Redis) {
        servers.push(Redis::start());
    }
    if require(Kind::OldRedis) {
        servers.push(OldRedis::start());
    }
    servers
}

fn connections(server: &Redis) -> usize {
    let clients = server.command(&["CLIENT", "LIST"]);
    // Less our own.
    clients.lines().count() - 1
}

#[tokio::test(flavor = "multi_thread")]
async fn listening_survives_the_loss_of_its_connection() {
    for server in servers() {
        let [a, b] = [open_fast(&server.url()).await, open_fast(&server.url()).await];
        let identity = fresh_identity();
        let mut ear = Ear::of(&*a);
        listen(&*a, &identity).await;
        forgotten_ones_arrive(&mut ear, &*b).await;
        for _ in 0..3 {
            server.command(&["CLIENT", "KILL", "TYPE", "pubsub"]);
            changes_arrive(&mut ear, &*b, &identity).await;
            forgotten_ones_arrive(&mut ear, &*b).await;
        }
        change(&*b, &identity).await;
        ear.hear(Push::Changed(identity)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn listening_and_scripts_survive_a_restart_of_the_server() {
    for server in servers() {
        let [a, b] = [open_fast(&server.url()).await, open_fast(&server.url()).await];
        let (identity, locked) = (fresh_identity(), fresh_identity());
        let mut ear = Ear::of(&*a);
        listen(&*a, &identity).await;
        let owner = reserve(&*a, &locked, LONG).await.token;
        server.restart();
        changes_arrive(&mut ear, &*b, &identity).await;
        forgotten_ones_arrive(&mut ear, &*b).await;
        answers(&*a).await;
        // The restarted server knows neither the lock nor the scripts.
        replace(&*a, &locked, owner, Replacement::Nothing).await;
        a.renew(&[(locked, owner)], LONG).await.expect("it answers");
        assert_eq!(look(&*a, &locked).await, Reserved::Ours);
    }
}

/// No answer is missed on a connection that only listens, so somebody has to ask.
#[tokio::test(flavor = "multi_thread")]
async fn listening_survives_a_connection_that_died_silently() {
    if !require(Kind::Redis) {
        return;
    }
    let server = Redis::start();
    let proxy = FaultProxy::start(server.addr()).await;
    let a = open_fast(&proxy.reroute(&server.url())).await;
    let identity = fresh_identity();
    let mut ear = Ear::of(&*a);
    listen(&*a, &identity).await;
    let listening = || server.command(&["CLIENT", "LIST", "TYPE", "pubsub"]);
    let id = |client: &str| client.split(' ').next().map(str::to_owned);
    let dead = id(&listening()).expect("it listens");
    proxy.swallow_replies();
    eventually("the silence is noticed", PATIENCE, async || {
        listening().lines().all(|client| id(client).as_ref() != Some(&dead))
    })
    .await;
    proxy.heal();
    let b = open_fast(&server.url()).await;
    changes_arrive(&mut ear, &*b, &identity).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reservation_cut_off_in_mid_flight_leaves_nobody_elses_lock() {
    if !require(Kind::Redis) {
        return;
    }
    let server = Redis::start();
    let proxy = FaultProxy::start(server.addr()).await;
    let tier = open_fast(&proxy.reroute(&server.url())).await;
    let direct = open_fast(&server.url()).await;
    for _ in 0..10 {
        let (identity, lock) = (fresh_identity(), fresh_lock());
        proxy.swallow_replies();
        let (cut, reserved) = tokio::join!(
            async {
                let before = proxy.swallowed_bytes();
                eventually("the server has answered", PATIENCE, async || {
                    proxy.swallowed_bytes() > before
                })
                .await;
                proxy.cut();
            },
            tier.reserve(&identity, lock, LONG)
        );
        let () = cut;
        assert!(reserved.is_err(), "nobody answered");
        proxy.heal();
        answers(&*tier).await;
        // It was applied, once, and a repetition is a grant.
        let again = direct.reserve(&identity, lock, LONG).await;
        assert_eq!(again, Ok(Reserved::Ours));
        let again = tier.reserve(&identity, lock, LONG).await;
        assert_eq!(again, Ok(Reserved::Ours));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tier_that_is_dropped_leaves_no_connection() {
    for server in servers() {
        let tier = open_fast(&server.url()).await;
        listen(&*tier, &fresh_identity()).await;
        assert_eq!(connections(&server), 2);
        drop(tier);
        eventually("both are closed", PATIENCE, async || connections(&server) == 0).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tier_dropped_while_the_server_is_down_does_not_come_back() {
    if !require(Kind::Redis) {
        return;
    }
    let server = Redis::start();
    let tier = open_fast(&server.url()).await;
    server.kill();
    assert!(look_fails(&*tier).await);
    drop(tier);
    server.restart();
    // Whoever comes later and is served shows that the earlier one had its time.
    for _ in 0..5 {
        let later = open_fast(&server.url()).await;
        listen(&*later, &fresh_identity()).await;
    }
    eventually("nobody is left", PATIENCE, async || connections(&server) == 0).await;
}

async fn look_fails(tier: &dyn oncegate::store::FastTier) -> bool {
    let looked = tier.reserve(&fresh_identity(), fresh_lock(), LONG).await;
    looked.is_err()
}
