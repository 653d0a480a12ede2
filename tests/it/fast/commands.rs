//! What is sent to Redis: little, and nothing that gives a key away.

use oncegate::store::fast::Replacement;

use super::{LONG, fresh_identity, look, replace, reserve, with_answer};
use crate::bed::{identity_of, open_fast};
use crate::support::servers::{Kind, require};
use crate::support::{OldRedis, Redis, Server};

/// How often the server ran a command so far.
fn calls(server: &Redis, command: &str) -> u64 {
    let statistics = server.command(&["INFO", "commandstats"]);
    let prefix = format!("cmdstat_{command}:calls=");
    let line = statistics.lines().find_map(|l| l.strip_prefix(&prefix));
    let count = line.and_then(|line| line.split(',').next());
    count.map_or(0, |count| count.parse().expect("it is a number"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reservation_is_one_command_granted_or_not() {
    if !require(Kind::Redis) {
        return;
    }
    let server = Redis::start();
    let tier = open_fast(&server.url()).await;
    for _ in 0..10 {
        let identity = fresh_identity();
        reserve(&*tier, &identity, LONG).await;
        look(&*tier, &identity).await;
    }
    assert_eq!(calls(&server, "set"), 20);
    for other in ["get", "eval", "evalsha"] {
        assert_eq!(calls(&server, other), 0, "{other}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_server_is_asked_by_one_script_once_it_has_refused_the_command() {
    if !require(Kind::OldRedis) {
        return;
    }
    let server = OldRedis::start();
    let tier = open_fast(&server.url()).await;
    reserve(&*tier, &fresh_identity(), LONG).await;
    let (scripts, texts) = (calls(&server, "evalsha"), calls(&server, "eval"));
    let (gets, sets) = (calls(&server, "get"), calls(&server, "set"));
    for _ in 0..10 {
        let identity = fresh_identity();
        reserve(&*tier, &identity, LONG).await;
        look(&*tier, &identity).await;
    }
    assert_eq!(calls(&server, "evalsha") - scripts, 20);
    assert_eq!(calls(&server, "eval") - texts, 0);
    // The script's own, so nothing was asked besides.
    assert_eq!(calls(&server, "get") - gets, 20);
    assert_eq!(calls(&server, "set") - sets, 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replacement_is_one_script_and_its_text_is_sent_only_once() {
    if !require(Kind::Redis) {
        return;
    }
    let server = Redis::start();
    let tier = open_fast(&server.url()).await;
    for _ in 0..10 {
        let identity = fresh_identity();
        let owner = reserve(&*tier, &identity, LONG).await.token;
        replace(&*tier, &identity, owner, with_answer("done")).await;
    }
    assert_eq!(calls(&server, "evalsha"), 10);
    assert_eq!(calls(&server, "eval"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn scripts_that_the_server_has_lost_are_sent_again() {
    if !require(Kind::Redis) {
        return;
    }
    let server = Redis::start();
    let tier = open_fast(&server.url()).await;
    let identity = fresh_identity();
    for _ in 0..2 {
        server.command(&["SCRIPT", "FLUSH"]);
        let owner = reserve(&*tier, &identity, LONG).await.token;
        tier.renew(&[(identity, owner)], LONG).await.expect("it is sent again");
        replace(&*tier, &identity, owner, Replacement::Nothing).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_and_values_show_nothing_of_whose_and_which_they_are() {
    if !require(Kind::Redis) {
        return;
    }
    let server = Redis::start();
    let tier = open_fast(&server.url()).await;
    for number in 0..3 {
        let identity = identity_of("secret-tenant", "secret-scope", &format!("secret-{number}"));
        let owner = reserve(&*tier, identity.digest(), LONG).await.token;
        match number {
            0 => {}
            1 => replace(&*tier, identity.digest(), owner, with_answer("done")).await,
            _ => tier.forget(identity.digest()).await.expect("it answers"),
        }
    }
    let keys = server.command(&["KEYS", "*"]);
    assert_eq!(keys.lines().count(), 3);
    for key in keys.lines() {
        let digest = key.strip_prefix("oncegate:").expect("it is named");
        assert_eq!(digest.len(), 43, "32 bytes in base64: {key}");
        let value = server.command(&["GET", key]);
        assert!(!value.contains("secret"), "{value:?}");
        let left: i64 = server.command(&["PTTL", key]).parse().expect("a number");
        assert!(left > 0, "everything goes in the end");
    }
}
