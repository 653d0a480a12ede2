//! Servers in groups: a cluster that shares the keys, and Sentinels that name the master.

use std::sync::Arc;

use oncegate::store::fast::{FastTier, Reserved, Value};

use super::pushes::{Ear, changes_arrive, forgotten_ones_arrive, listen};
use super::{LONG, PATIENCE, finished, fresh_identity, look, redis_key, replace, reserve};
use crate::bed::{answers, open_fast};
use crate::support::servers::{Kind, require};
use crate::support::{Redis, RedisCluster, Server, eventually};

async fn private_cluster() -> (Arc<RedisCluster>, Arc<dyn FastTier>) {
    let cluster = tokio::task::spawn_blocking(Redis::start_cluster);
    let cluster = Arc::new(cluster.await.expect("it starts"));
    let tier = open_fast(&cluster.url()).await;
    (cluster, tier)
}

/// Does everything there is to do for an identity.
async fn serves_all(tier: &dyn FastTier, count: usize) {
    for _ in 0..count {
        let identity = fresh_identity();
        let lock = reserve(tier, &identity, LONG).await;
        let locks = [(identity, lock.token)];
        tier.renew(&locks, LONG).await.expect("it answers");
        let there = Reserved::Taken(Value::Locked(lock));
        assert_eq!(look(tier, &identity).await, there);
        replace(tier, &identity, lock.token, super::with_answer("done")).await;
        let there = Reserved::Taken(Value::Finished(finished("done")));
        assert_eq!(look(tier, &identity).await, there);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn identities_spread_over_all_nodes_and_each_of_them_serves() {
    if !require(Kind::Redis) {
        return;
    }
    let (cluster, tier) = private_cluster().await;
    serves_all(&*tier, 60).await;
    let keys = cluster.nodes().iter().map(|node| node.command(&["DBSIZE"]));
    let keys: Vec<usize> = keys.map(|n| n.parse().expect("a number")).collect();
    assert_eq!(keys.iter().sum::<usize>(), 60);
    assert!(keys.iter().all(|&keys| keys > 0), "{keys:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_moves_to_another_node_is_followed() {
    if !require(Kind::Redis) {
        return;
    }
    let (cluster, tier) = private_cluster().await;
    serves_all(&*tier, 5).await;
    let identity = fresh_identity();
    let slot = cluster.nodes()[0].command(&["CLUSTER", "KEYSLOT", &redis_key(&identity)]);
    let number: u32 = slot.parse().expect("a number");
    let from = [5460, 10922, 16383].iter().position(|&last| number <= last);
    let from = from.expect("a node has it");
    let (from, to) = (&cluster.nodes()[from], &cluster.nodes()[(from + 1) % 3]);
    let [source, target] = [from, to].map(|node| node.command(&["CLUSTER", "MYID"]));
    to.command(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &source]);
    from.command(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &target]);
    // On the way it is out of reach, which is no reason to leave the others out.
    let refused = tier.reserve(&identity, super::fresh_lock(), LONG).await;
    let refused = refused.expect_err("it is elsewhere");
    assert!(!refused.is_transient(), "{refused}");
    serves_all(&*tier, 5).await;
    to.command(&["CLUSTER", "SETSLOT", &slot, "NODE", &target]);
    from.command(&["CLUSTER", "SETSLOT", &slot, "NODE", &target]);
    // A refusal makes the client ask some node, which may not have heard of it yet.
    eventually("the slot is found", PATIENCE, async || {
        match tier.reserve(&identity, super::fresh_lock(), LONG).await {
            Ok(_) => true,
            Err(error) if error.is_transient() => panic!("the tier is left out: {error}"),
            Err(_) => false,
        }
    })
    .await;
    let kept = to.command(&["EXISTS", &redis_key(&identity)]);
    assert_eq!(kept, "1", "it is where it belongs");
    serves_all(&*tier, 5).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_node_is_used_and_listened_to_again() {
    if !require(Kind::Redis) {
        return;
    }
    let (cluster, tier) = private_cluster().await;
    let other = open_fast(&cluster.url()).await;
    let identity = fresh_identity();
    let mut ear = Ear::of(&*tier);
    listen(&*tier, &identity).await;
    for number in 0..3 {
        let group = cluster.clone();
        let restart = tokio::task::spawn_blocking(move || {
            group.nodes()[number].restart();
            group.wait_until_ok();
        });
        restart.await.expect("the node comes back");
        changes_arrive(&mut ear, &*other, &identity).await;
        forgotten_ones_arrive(&mut ear, &*other).await;
    }
    eventually("everything is served", PATIENCE, async || {
        let mut served = true;
        for _ in 0..10 {
            let identity = fresh_identity();
            let lock = super::fresh_lock();
            served &= tier.reserve(&identity, lock, LONG).await.is_ok();
        }
        served
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_failover_the_new_master_is_used_and_listened_to() {
    if !require(Kind::Redis) {
        return;
    }
    let group = tokio::task::spawn_blocking(Redis::start_sentinel);
    let group = Arc::new(group.await.expect("it starts"));
    let [a, b] = [open_fast(&group.url()).await, open_fast(&group.url()).await];
    let identity = fresh_identity();
    let mut ear = Ear::of(&*a);
    listen(&*a, &identity).await;
    serves_all(&*a, 3).await;
    let failing = group.clone();
    let failover = tokio::task::spawn_blocking(move || {
        failing.kill_master();
        failing.wait_for_failover();
    });
    failover.await.expect("the replica is promoted");
    answers(&*a).await;
    serves_all(&*a, 3).await;
    changes_arrive(&mut ear, &*b, &identity).await;
    forgotten_ones_arrive(&mut ear, &*b).await;
    let keys = group.master().command(&["DBSIZE"]);
    assert_ne!(keys, "0", "the new master has them");
}
