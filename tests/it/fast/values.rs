//! Values at a key that nobody should have put there. One key is then of no use; the tier still is.

use std::sync::Arc;

use oncegate::idempotency::{IdentityDigest, Token};
use oncegate::store::fast::{FastTier, Replacement, Reserved, Vacancy, Value};

use super::{LONG, fresh_identity, fresh_lock, look, redis_key, replace, reserve, with_answer};
use crate::bed::open_fast;
use crate::support::servers::{Kind, require};
use crate::support::{OldRedis, Redis, Server};

/// Private servers, new and old, each with a tier.
async fn servers() -> Vec<(Redis, Arc<dyn FastTier>)> {
    let mut servers = Vec::new();
    if require(Kind::Redis) {
        servers.push(Redis::start());
    }
    if require(Kind::OldRedis) {
        servers.push(OldRedis::start());
    }
    let mut tiers = Vec::new();
    for server in servers {
        let tier = open_fast(&server.url()).await;
        tiers.push((server, tier));
    }
    tiers
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_is_no_news() {
    // In the first version they would be a lock and an answer.
    let next_lock = format!("L{}\u{2}\0", "t".repeat(16));
    let next_answer = "D\u{2}\0\0\u{1}\0\0";
    let unreadable = [
        "",
        "L",
        "D",
        "D\u{1}",
        next_answer,
        "Z",
        "not ours at all",
        "{\"state\":\"done\"}",
        &next_lock,
    ];
    for (server, tier) in servers().await {
        for value in unreadable {
            let identity = fresh_identity();
            server.command(&["SET", &redis_key(&identity), value]);
            let reserved = tier.reserve(&identity, fresh_lock(), LONG).await;
            assert_eq!(reserved, Ok(Reserved::Ours), "{value:?}");
            replace(&*tier, &identity, Token::fresh(), with_answer("done")).await;
            let renewed = tier.renew(&[(identity, Token::fresh())], LONG).await;
            assert_eq!(renewed, Ok(()), "{value:?}");
            tier.forget(&identity).await.expect("the tier answers");
            let forgotten = Reserved::Taken(Value::Forgotten);
            assert_eq!(look(&*tier, &identity).await, forgotten);
        }
    }
}

/// Works on a good identity as often as it takes to notice that the tier is left out.
async fn still_serves(tier: &dyn FastTier) {
    for _ in 0..5 {
        reserve(tier, &fresh_identity(), LONG).await;
    }
}

async fn refuses_but_serves(tier: &dyn FastTier, bad: &IdentityDigest) {
    let owner = Token::fresh();
    let refused = tier.reserve(bad, fresh_lock(), LONG).await;
    let refused = refused.expect_err("it is refused");
    assert!(!refused.is_transient(), "{refused}");
    still_serves(tier).await;
    let refused = tier.replace(bad, owner, Replacement::Nothing, Vacancy::Leave).await;
    assert!(!refused.expect_err("it is refused").is_transient());
    still_serves(tier).await;
    let refused = tier.renew(&[(*bad, owner)], LONG).await;
    assert!(!refused.expect_err("it is refused").is_transient());
    still_serves(tier).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_another_type_is_refused_and_everybody_else_served() {
    for (server, tier) in servers().await {
        // Once before, so that an old server's refusal is out of the way.
        still_serves(&*tier).await;
        let bad = fresh_identity();
        server.command(&["RPUSH", &redis_key(&bad), "one"]);
        refuses_but_serves(&*tier, &bad).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_out_of_memory_refuses_and_goes_on_at_once_when_it_has_some() {
    for (server, tier) in servers().await {
        still_serves(&*tier).await;
        let locked = fresh_identity();
        let lock = reserve(&*tier, &locked, LONG).await;
        server.command(&["CONFIG", "SET", "maxmemory", "1"]);
        for _ in 0..5 {
            let refused = tier.reserve(&fresh_identity(), fresh_lock(), LONG).await;
            let refused = refused.expect_err("it is refused");
            assert!(!refused.is_transient(), "{refused}");
        }
        server.command(&["CONFIG", "SET", "maxmemory", "0"]);
        let there = Reserved::Taken(Value::Locked(lock));
        assert_eq!(look(&*tier, &locked).await, there);
    }
}
