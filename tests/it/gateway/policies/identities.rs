//! Where the key comes from, whose it is, and what it may look like.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::super::{
    Retry, Site, assert_executed, assert_problem, assert_replayed, fresh_key, on_both_pairs,
    payments,
};

on_both_pairs!(
    a_key_can_stand_in_the_body,
    a_number_in_the_body_is_a_key_and_nothing_else_passes_for_none,
    the_request_itself_can_be_the_key,
    another_header_can_carry_the_key,
    tenants_of_a_trusted_header_never_meet,
    callers_with_other_credentials_never_meet,
    a_forged_token_gets_no_answer,
    a_route_may_say_what_keys_look_like,
    scopes_keep_keys_apart,
);

async fn a_key_can_stand_in_the_body(site: Site) {
    let gateway = site.gateway(&payments("key_from = 'body:/order/id'")).await;
    let post = |body: &str| gateway.ask("POST", "/pay").body(body).send();
    let id = fresh_key();
    let body = format!("{{\"order\":{{\"id\":\"{id}\"}},\"amount\":1}}");
    let first = post(&body).await;
    assert_executed(&first, 201);
    assert_replayed(&post(&body).await, &first);
    let other = post(&body.replace("\"amount\":1", "\"amount\":2")).await;
    assert_problem(&other, 409, "key-reused", Retry::No);
    assert_problem(&post("{\"order\":{}}").await, 400, "key-missing", Retry::No);
    assert_executed(&post(&body.replace(&id, &fresh_key())).await, 201);
    assert_eq!(site.upstream.count(), 2);
    // A key of no use is no key.
    assert_eq!(post("{\"order\":{\"id\":\"\"}}").await.status, 400);
    assert_eq!(post("not json").await.status, 400);
    assert_eq!(site.upstream.count(), 2);
}

/// Where keys are optional, too: whoever sends something there believes to be protected.
async fn a_number_in_the_body_is_a_key_and_nothing_else_passes_for_none(site: Site) {
    let route = payments("key_from = 'body:/id'").replace("'required'", "'optional'");
    let gateway = site.gateway(&route).await;
    let post = |body: &str| gateway.ask("POST", "/pay").body(body).send();
    // Numbers are not unique by themselves, and the servers are shared.
    let id = u64::from_str_radix(&fresh_key()[..8], 16).expect("hexadecimal digits").to_string();
    let first = post(&format!("{{\"id\":{id}}}")).await;
    assert_executed(&first, 201);
    assert_eq!(site.upstream.last().key(), Some(id.as_str()));
    assert_replayed(&post(&format!("{{\"id\":{id}}}")).await, &first);
    let as_text = post(&format!("{{\"id\":\"{id}\"}}")).await;
    assert_problem(&as_text, 409, "key-reused", Retry::No);
    for wrong in ["true", "1.5", "{}", "[\"a\"]", "9007199254740993", "1e30"] {
        let refused = post(&format!("{{\"id\":{wrong}}}")).await;
        assert_problem(&refused, 400, "key-invalid", Retry::No);
    }
    let twice = post("{\"id\":\"a\",\"id\":\"b\"}").await;
    assert_problem(&twice, 400, "body-invalid", Retry::No);
    assert_eq!(site.upstream.count(), 1);
    for none in ["{\"id\":null}", "{}", "not json"] {
        let untouched = post(none).await;
        assert_eq!((untouched.status, untouched.header("Idempotency-Status")), (201, None));
    }
    assert_eq!(site.upstream.count(), 4);
}

async fn the_request_itself_can_be_the_key(site: Site) {
    let gateway = site.gateway(&payments("key_from = 'digest'")).await;
    let post = |path: &str, body: &str| gateway.ask("POST", path).body(body).send();
    let body = fresh_key();
    let first = post("/pay/1", &body).await;
    assert_executed(&first, 201);
    assert_replayed(&post("/pay/1", &body).await, &first);
    assert_executed(&post("/pay/1", &format!("{body} ")).await, 201);
    assert_executed(&post("/pay/2", &body).await, 201);
    assert_eq!(site.upstream.count(), 3);
}

async fn another_header_can_carry_the_key(site: Site) {
    let gateway = site.gateway(&payments("key_from = 'header:X-Request-Id'")).await;
    let key = fresh_key();
    let ask = || gateway.ask("POST", "/pay").header("x-request-id", &key).body("{}").send();
    let first = ask().await;
    assert_executed(&first, 201);
    assert_replayed(&ask().await, &first);
    let usual = gateway.post("/pay", &fresh_key(), "{}").await;
    assert_problem(&usual, 400, "key-missing", Retry::No);
    assert_eq!(site.upstream.count(), 1);
}

async fn tenants_of_a_trusted_header_never_meet(site: Site) {
    let gateway = site.gateway(&payments("tenant_from = 'header:X-Tenant-Id'")).await;
    let key = fresh_key();
    let by = |tenant: &str, credential: &str| {
        let ask = gateway.posting("/pay", &key, "{}").header("X-Tenant-Id", tenant);
        ask.header("Authorization", credential).send()
    };
    let mut answers = Vec::new();
    for tenant in ["acme", "Acme", "acme2"] {
        let first = by(tenant, "Bearer one").await;
        assert_executed(&first, 201);
        answers.push((tenant, first));
    }
    for (tenant, first) in answers {
        // The header is trusted: which credential of the tenant asks does not matter.
        assert_replayed(&by(tenant, "Bearer other").await, &first);
    }
    assert_eq!(site.upstream.count_of(&key), 3);
}

async fn callers_with_other_credentials_never_meet(site: Site) {
    let gateway = site.gateway(&payments("")).await;
    let key = fresh_key();
    let token = |subject: &str| {
        let payload = format!("{{\"iss\":\"https://id\",\"sub\":\"{subject}\"}}");
        format!("Bearer e30.{}.c2ln", URL_SAFE_NO_PAD.encode(payload))
    };
    let credentials =
        ["Bearer opaque", "Bearer Opaque", "Basic YTpi", &token("alice"), &token("bob")];
    let by = |credential: &str| {
        gateway.posting("/pay", &key, "{}").header("Authorization", credential).send()
    };
    let mut answers = Vec::new();
    for credential in credentials {
        let first = by(credential).await;
        assert_executed(&first, 201);
        answers.push((credential, first));
    }
    let anonymous = gateway.post("/pay", &key, "{}").await;
    assert_executed(&anonymous, 201);
    for (credential, first) in answers {
        assert_replayed(&by(credential).await, &first);
    }
    assert_replayed(&gateway.post("/pay", &key, "{}").await, &anonymous);
    assert_eq!(site.upstream.count_of(&key), 6);
}

async fn a_forged_token_gets_no_answer(site: Site) {
    let gateway = site.gateway(&payments("")).await;
    let key = fresh_key();
    let payload = URL_SAFE_NO_PAD.encode("{\"iss\":\"https://id\",\"sub\":\"alice\"}");
    let by = |signature: &str| {
        let token = format!("Bearer e30.{payload}.{signature}");
        gateway.posting("/pay", &key, "{}").header("Authorization", &token).send()
    };
    let first = by("cmVhbA").await;
    assert_executed(&first, 201);
    assert_problem(&by("Zm9yZ2Vk").await, 409, "credential-mismatch", Retry::No);
    assert_replayed(&by("cmVhbA").await, &first);
    assert_eq!(site.upstream.count_of(&key), 1);
}

async fn a_route_may_say_what_keys_look_like(site: Site) {
    let route = "key_pattern = 'pay-[0-9a-f-]+'\nkey_max_length = 40";
    let gateway = site.gateway(&payments(route)).await;
    let key = format!("pay-{}", fresh_key());
    let first = gateway.post("/pay", &key, "{}").await;
    assert_executed(&first, 201);
    assert_replayed(&gateway.post("/pay", &format!("\"{key}\""), "{}").await, &first);
    for wrong in [fresh_key(), format!("x{key}"), key.replace("pay", "PAY"), format!("{key}0")] {
        let refused = gateway.post("/pay", &wrong, "{}").await;
        assert_problem(&refused, 400, "key-invalid", Retry::No);
    }
    assert_eq!(site.upstream.count(), 1);
}

async fn scopes_keep_keys_apart(site: Site) {
    let route = |path: &str, scope: &str| {
        format!("[[routes]]\npath = '{path}'\nscope = '{scope}'\nkey = 'required'\n")
    };
    let routes = [route("/pay", "payment"), route("/refund", "refund"), route("/pays", "payment")];
    let gateway = site.gateway(&routes.concat()).await;
    let key = fresh_key();
    let first = gateway.post("/pay", &key, "{}").await;
    assert_executed(&first, 201);
    assert_executed(&gateway.post("/refund", &key, "{}").await, 201);
    let same_scope = gateway.post("/pays", &key, "{}").await;
    assert_problem(&same_scope, 409, "key-reused", Retry::No);
    assert_replayed(&gateway.post("/pay", &key, "{}").await, &first);
    assert_eq!(site.upstream.count_of(&key), 2);
}
