//! bay.toml: one endpoint that creates something, keys optional, per owner.

use super::{Recipe, assert_untouched};
use crate::gateway::{
    Retry, Site, assert_executed, assert_problem, assert_replayed, fresh_key, on_both_pairs,
};
use crate::support::{Ask, Behaviour, Gateway, Reply, eventually};

const SANDBOXES: &str = "/v1/sandboxes";
const BODY: &str = r#"{"profile":"python","ttl":600}"#;

on_both_pairs!(
    only_one_endpoint_takes_keys,
    a_key_is_optional,
    a_key_has_at_most_128_characters_of_its_alphabet,
    every_owner_has_keys_of_its_own,
    method_path_and_body_make_the_request,
    a_conflict_shows_only_an_error,
    a_retry_gets_body_and_status,
    an_expired_key_is_new_at_once,
    duplicates_at_the_same_time_get_one_answer,
    only_what_was_created_is_remembered,
    a_lost_answer_is_given_again,
    instances_agree,
);

async fn bay(site: &Site) -> Gateway {
    Recipe::read("bay").gateway(site).await
}

fn create(at: &Gateway, owner: &str, key: &str, body: &str) -> Ask {
    at.posting(SANDBOXES, key, body).header("Authorization", &format!("Bearer {owner}"))
}

async fn only_one_endpoint_takes_keys(site: Site) {
    let gateway = bay(&site).await;
    let key = fresh_key();
    for path in ["/v1/sandboxes/7/stop", "/v1/sandboxes/", "/v1/other"] {
        for _ in 0..2 {
            assert_untouched(&gateway.post(path, &key, BODY).await);
        }
    }
    assert_untouched(&gateway.ask("DELETE", SANDBOXES).key(&key).send().await);
    assert_eq!(site.upstream.count(), 7);
}

async fn a_key_is_optional(site: Site) {
    let gateway = bay(&site).await;
    for times in 1..=2 {
        let answer = gateway.ask("POST", SANDBOXES).body(BODY).send().await;
        assert_untouched(&answer);
        assert_eq!((answer.status, site.upstream.count()), (201, times));
    }
}

async fn a_key_has_at_most_128_characters_of_its_alphabet(site: Site) {
    let gateway = bay(&site).await;
    let longest = format!("_-aZ09{}", fresh_key().repeat(4))[..128].to_owned();
    assert_executed(&create(&gateway, "one", &longest, BODY).send().await, 201);
    for key in [&format!("{longest}x"), "a.b", "a b", "a/b", "a:b", "", "\u{e9}"] {
        let refused = create(&gateway, "one", key, BODY).send().await;
        assert_problem(&refused, 400, "key-invalid", Retry::No);
    }
    assert_eq!(site.upstream.count(), 1);
}

async fn every_owner_has_keys_of_its_own(site: Site) {
    let gateway = bay(&site).await;
    let key = fresh_key();
    let ones = create(&gateway, "one", &key, BODY).send().await;
    let others = create(&gateway, "other", &key, "{}").send().await;
    assert_executed(&ones, 201);
    assert_executed(&others, 201);
    assert_replayed(&create(&gateway, "one", &key, BODY).send().await, &ones);
    assert_replayed(&create(&gateway, "other", &key, "{}").send().await, &others);
    assert_ne!(ones.body, others.body);
}

async fn method_path_and_body_make_the_request(site: Site) {
    let gateway = bay(&site).await;
    let key = fresh_key();
    let first = create(&gateway, "one", &key, BODY).send().await;
    assert_executed(&first, 201);
    // The same content, written in another way.
    let again = create(&gateway, "one", &key, r#"{ "ttl": 6e2, "profile": "python" }"#);
    assert_replayed(&again.send().await, &first);
    let again = gateway.posting("/v1/sandboxes?trace=1", &key, BODY);
    assert_replayed(&again.header("Authorization", "Bearer one").send().await, &first);
    for other in [r#"{"profile":"python","ttl":601}"#, r#"{"profile":"python"}"#, "[]"] {
        let refused = create(&gateway, "one", &key, other).send().await;
        assert_problem(&refused, 409, "key-reused", Retry::No);
    }
    assert_eq!(site.upstream.count(), 1);
}

async fn a_conflict_shows_only_an_error(site: Site) {
    let gateway = bay(&site).await;
    site.upstream.on(SANDBOXES, Reply::new(201).header("X-Sandbox", "sb-77").body("sb-77"));
    let key = fresh_key();
    create(&gateway, "one", &key, BODY).send().await;
    let refused = create(&gateway, "one", &key, "{}").send().await;
    assert_problem(&refused, 409, "key-reused", Retry::No);
    let shown = format!("{refused:?} {}", refused.text());
    assert!(!shown.contains("sb-77") && !shown.contains("python"), "{shown}");
}

async fn a_retry_gets_body_and_status(site: Site) {
    let gateway = bay(&site).await;
    let reply = Reply::new(201).header("Content-Type", "application/json").body(r#"{"id":"sb-1"}"#);
    site.upstream.on(SANDBOXES, reply);
    let key = fresh_key();
    let first = create(&gateway, "one", &key, BODY).send().await;
    assert_executed(&first, 201);
    for _ in 0..3 {
        let again = create(&gateway, "one", &key, BODY).send().await;
        assert_replayed(&again, &first);
        assert_eq!(again.header("Content-Type"), Some("application/json"));
    }
    assert_eq!(site.upstream.count(), 1);
}

/// Nobody has swept: the look itself finds that the record has expired.
async fn an_expired_key_is_new_at_once(site: Site) {
    let recipe = Recipe::read("bay").with("ttl = \"24h\"", "ttl = \"1s\"");
    let gateway = recipe.and("[janitor]\ninterval = '1h'").gateway(&site).await;
    let key = fresh_key();
    let first = create(&gateway, "one", &key, BODY).send().await;
    assert_executed(&first, 201);
    let mut second = first.clone();
    eventually("it expires", crate::gateway::SOON, async || {
        second = create(&gateway, "one", &key, "{}").send().await;
        second.header("Idempotency-Status") == Some("executed")
    })
    .await;
    assert_replayed(&create(&gateway, "one", &key, "{}").send().await, &second);
    assert_eq!(site.upstream.count(), 2);
}

async fn duplicates_at_the_same_time_get_one_answer(site: Site) {
    let gateway = bay(&site).await;
    site.upstream.on(SANDBOXES, Reply::new(201).body("sb-1").held());
    let key = fresh_key();
    let clicks: Vec<_> =
        (0..10).map(|_| tokio::spawn(create(&gateway, "one", &key, BODY).send())).collect();
    site.upstream.begun(1).await;
    site.upstream.let_go();
    for click in clicks {
        let answer = click.await.expect("no panic");
        assert_eq!((answer.status, answer.text().as_str()), (201, "sb-1"), "{answer:?}");
    }
    assert_eq!(site.upstream.count(), 1);
}

async fn only_what_was_created_is_remembered(site: Site) {
    let gateway = bay(&site).await;
    for status in [400, 404, 409, 422, 429, 500, 503] {
        // More often than a route allows by default.
        let mut replies = vec![Reply::new(status).body("no"); 11];
        replies.push(Reply::new(201).body("sb-1"));
        site.upstream.on(SANDBOXES, Behaviour::each(replies));
        let key = fresh_key();
        for _ in 0..11 {
            assert_eq!(create(&gateway, "one", &key, BODY).send().await.status, status);
        }
        let created = create(&gateway, "one", &key, BODY).send().await;
        assert_executed(&created, 201);
        assert_replayed(&create(&gateway, "one", &key, BODY).send().await, &created);
    }
}

async fn a_lost_answer_is_given_again(site: Site) {
    let gateway = bay(&site).await;
    site.upstream.on(SANDBOXES, Reply::new(201).body("sb-1").held());
    let key = fresh_key();
    let mut connection = gateway.connect().await;
    let ask = create(&gateway, "one", &key, BODY);
    connection.send(ask.bytes()).await.expect("it is sent");
    site.upstream.begun(1).await;
    drop(connection);
    site.upstream.let_go();
    let again = create(&gateway, "one", &key, BODY).send().await;
    assert_eq!((again.status, again.text().as_str()), (201, "sb-1"));
    assert_eq!(again.header("Idempotency-Replayed"), Some("true"));
    assert_eq!(site.upstream.count(), 1);
}

async fn instances_agree(site: Site) {
    let (one, other) = (bay(&site).await, bay(&site).await);
    let key = fresh_key();
    let first = create(&one, "one", &key, BODY).send().await;
    assert_executed(&first, 201);
    assert_replayed(&create(&other, "one", &key, BODY).send().await, &first);
    let refused = create(&other, "one", &key, "{}").send().await;
    assert_problem(&refused, 409, "key-reused", Retry::No);
    // And when both are asked at the same time.
    let key = fresh_key();
    let asks = [&one, &other].repeat(5);
    let asks = asks.into_iter().map(|gateway| create(gateway, "one", &key, BODY).send());
    let answers = futures_util::future::join_all(asks).await;
    let executed =
        |answer: &&crate::support::Answer| answer.header("Idempotency-Status") == Some("executed");
    assert_eq!(answers.iter().filter(executed).count(), 1, "{answers:?}");
    assert_eq!(site.upstream.count_of(&key), 1);
}
