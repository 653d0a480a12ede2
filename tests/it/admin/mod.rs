//! The admin API from the outside: real gateways, real tiers, and what clients get afterwards.

use std::time::Duration;

use serde_json::{Value, json};

use crate::bed::{Database, Fresh};
use crate::support::servers::{self, Kind, Server};
use crate::support::{Answer, Ask, Gateway, Launch, Reply, Upstream, eventually, shared};

const PROGRAM: &str = env!("CARGO_BIN_EXE_oncegate");
const SOON: Duration = Duration::from_secs(30);
const ROUTE: &str = "[[routes]]\npath = '/pay/{*rest}'\nmethods = ['POST']\nscope = 'payment'\n\
                     key = 'required'\ntenant_from = 'none'\n";

struct Site {
    upstream: Upstream,
    durable: Fresh,
    fast: String,
}

macro_rules! on_both_pairs {
    ($($promise:ident),* $(,)?) => {
        on_both_pairs!(@ mysql_and_redis, true, $($promise),*);
        on_both_pairs!(@ sqlite_and_memory, false, $($promise),*);
    };
    (@ $module:ident, $servers:literal, $($promise:ident),*) => {
        mod $module {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $promise() {
                    if let Some(site) = super::site($servers).await {
                        super::$promise(site).await;
                    }
                }
            )*
        }
    };
}

mod cli;
mod edges;

on_both_pairs!(
    five_hundred_records_are_listed_page_by_page,
    a_held_record_is_settled_each_way_and_retries_get_what_was_settled,
    a_forgotten_key_executes_anew_and_leaves_a_trail,
    each_token_may_do_what_it_is_for,
    a_browser_cannot_drive_it,
);

async fn site(servers: bool) -> Option<Site> {
    let (database, fast) = match servers {
        true if !servers::require(Kind::Redis) => return None,
        true => (Database::MySql, shared::redis().url()),
        false => (Database::Sqlite, "memory:".to_owned()),
    };
    Some(Site { durable: database.fresh()?, fast, upstream: Upstream::start().await })
}

impl Site {
    async fn gateway(&self, admin: &str) -> Gateway {
        let launch = Launch::serve(PROGRAM).flag("--upstream", &self.upstream.url());
        let launch = launch.flag("--durable", &self.durable.url).flag("--fast", &self.fast);
        launch.config(&format!("[admin]\n{admin}\n{ROUTE}")).listening().await
    }
}

fn ask(gateway: &Gateway, method: &str, target: &str) -> Ask {
    Ask::new(gateway.admin(), method, target)
}

async fn get(gateway: &Gateway, target: &str) -> Value {
    let answer = ask(gateway, "GET", target).send().await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

fn record(key: &str) -> String {
    format!("/api/record?scope=payment&key={key}")
}

async fn resolve(gateway: &Gateway, body: Value) -> Answer {
    let ask = ask(gateway, "POST", "/api/record/resolve");
    ask.header("Content-Type", "application/json").body(body.to_string()).send().await
}

fn fresh_key() -> String {
    uuid::Uuid::new_v4().to_string()
}

#[track_caller]
fn assert_refused(answer: &Answer, status: u16, code: &str) {
    assert_eq!(answer.status, status, "{}", answer.text());
    assert_eq!(answer.json()["code"], code);
}

async fn five_hundred_records_are_listed_page_by_page(site: Site) {
    let gateway = site.gateway("").await;
    let keys: Vec<_> = (0..500).map(|n| format!("{n:03}")).collect();
    for chunk in keys.chunks(50) {
        let posts = chunk.iter().map(|key| gateway.post("/pay/1", key, "{}"));
        for answer in futures_util::future::join_all(posts).await {
            assert_eq!(answer.header("Idempotency-Status"), Some("executed"));
        }
    }
    let (mut seen, mut target, mut pages) = (Vec::new(), "/api/records?limit=120".to_owned(), 0);
    loop {
        let page = get(&gateway, &target).await;
        let records = page["records"].as_array().expect("a list");
        seen.extend(records.iter().map(|r| r["key"].as_str().expect("a key").to_owned()));
        pages += 1;
        match page["next_cursor"].as_str() {
            Some(cursor) => target = format!("/api/records?limit=120&cursor={cursor}"),
            None => break,
        }
    }
    assert_eq!(pages, 5);
    seen.sort();
    assert_eq!(seen, keys);
    for (filter, count) in [
        ("state=succeeded&limit=500", 500),
        ("state=UNKNOWN", 0),
        ("key=007", 1),
        ("key=007&scope=payment&state=SUCCEEDED", 1),
        ("scope=other", 0),
        ("tenant=nobody", 0),
        ("older_than=1h", 0),
    ] {
        let page = get(&gateway, &format!("/api/records?{filter}")).await;
        assert_eq!(page["records"].as_array().map(Vec::len), Some(count), "{filter}");
    }
    let overview = get(&gateway, "/api/overview").await;
    assert_eq!(overview["records"]["processing"], 0, "{overview}");
    assert_eq!(overview["tiers"]["durable"]["up"], true, "{overview}");
    assert_refused(&ask(&gateway, "GET", "/api/records?sate=x").send().await, 400, "bad-request");
}

/// A record whose outcome nobody knows.
async fn held(site: &Site, gateway: &Gateway) -> String {
    let key = fresh_key();
    site.upstream.on("/pay/lost", Reply::new(502));
    let answer = gateway.post("/pay/lost", &key, "{}").await;
    assert_eq!(answer.status, 502, "{}", answer.text());
    let shown = get(gateway, &record(&key)).await;
    assert_eq!(shown["state"], "UNKNOWN", "{shown}");
    key
}

async fn a_held_record_is_settled_each_way_and_retries_get_what_was_settled(site: Site) {
    let gateway = site.gateway("show_bodies = true").await;
    let named = |key: &str, outcome: &str| json!({ "scope": "payment", "key": key, "outcome": outcome, "note": "seen at the bank" });

    let key = held(&site, &gateway).await;
    let mut body = named(&key, "succeeded");
    body["response"] =
        json!({ "status": 201, "headers": { "x-paid": "yes" }, "body": { "id": 7 } });
    let settled = resolve(&gateway, body.clone()).await;
    assert_eq!(settled.status, 200, "{}", settled.text());
    let retry = gateway.post("/pay/lost", &key, "{}").await;
    assert_eq!((retry.status, retry.text().as_str()), (201, "{\"id\":7}"));
    assert_eq!(retry.header("X-Paid"), Some("yes"));
    assert_eq!(retry.header("Idempotency-Status"), Some("replayed"));
    let shown = get(&gateway, &record(&key)).await;
    assert_eq!(shown["response"]["body"], "{\"id\":7}", "{shown}");
    assert_eq!(shown["audit"][0]["actor"], "local", "{shown}");
    assert_eq!(shown["audit"][0]["note"], "seen at the bank", "{shown}");
    assert_refused(&resolve(&gateway, body).await, 409, "record-settled");

    let key = held(&site, &gateway).await;
    assert_eq!(resolve(&gateway, named(&key, "failed")).await.status, 200);
    let retry = gateway.post("/pay/lost", &key, "{}").await;
    assert_refused(&retry, 409, "attempt-failed");

    let key = held(&site, &gateway).await;
    assert_eq!(resolve(&gateway, named(&key, "retry")).await.status, 200);
    site.upstream.on("/pay/lost", Reply::new(200));
    let retry = gateway.post("/pay/lost", &key, "{}").await;
    assert_eq!(retry.header("Idempotency-Status"), Some("executed"), "{}", retry.text());

    let none = resolve(&gateway, named(&fresh_key(), "failed")).await;
    assert_refused(&none, 404, "record-not-found");
    assert_refused(&resolve(&gateway, json!({ "key": "k" })).await, 400, "bad-request");
}

async fn a_forgotten_key_executes_anew_and_leaves_a_trail(site: Site) {
    let (one, other) = (site.gateway("token = 's3cret'").await, site.gateway("").await);
    let key = fresh_key();
    for gateway in [&one, &other, &other] {
        assert!(gateway.post("/pay/1", &key, "{}").await.status < 300);
    }
    let shown = get(&other, &record(&key)).await;
    assert_eq!(shown["state"], "SUCCEEDED", "{shown}");
    assert!(shown["response"].get("body").is_none(), "bodies are not for everybody: {shown}");
    let target = format!("{}&note=test%20order", record(&key));
    let bearer = |ask: Ask| ask.header("Authorization", "Bearer s3cret");
    let forgotten = bearer(ask(&one, "DELETE", &target)).send().await;
    assert_eq!(forgotten.status, 200, "{}", forgotten.text());
    let gone = bearer(ask(&one, "GET", &record(&key))).send().await;
    assert_refused(&gone, 404, "record-not-found");
    assert_eq!(gone.json()["audit"][0]["actor"], "operator");
    assert_eq!(gone.json()["audit"][0]["note"], "test order");
    eventually("the other gateway executes it anew", SOON, async || {
        let answer = other.post("/pay/1", &key, "{}").await;
        answer.header("Idempotency-Status") == Some("executed")
    })
    .await;
}

async fn each_token_may_do_what_it_is_for(site: Site) {
    let gateway = site.gateway("token = 's3cret'\nread_token = 'look'").await;
    for path in ["/health", "/livez", "/readyz", "/metrics"] {
        assert_eq!(ask(&gateway, "GET", path).send().await.status, 200, "{path}");
    }
    for (method, path) in [("POST", "/health"), ("DELETE", "/metrics"), ("POST", "/")] {
        assert_eq!(ask(&gateway, method, path).send().await.status, 405, "{method} {path}");
    }
    for (method, path, status) in [
        ("GET", "/nothing", 404),
        ("POST", "/api/nothing", 404),
        ("PUT", "/api/records", 405),
        ("GET", "/acquire", 405),
    ] {
        let none = ask(&gateway, method, path).send().await;
        assert_refused(&none, 401, "token-missing");
        let look = ask(&gateway, method, path).header("Authorization", "Bearer look").send().await;
        assert_eq!(look.status, status, "{method} {path}");
    }
    for path in ["/api/overview", "/api/records", "/openapi.json"] {
        let none = ask(&gateway, "GET", path).send().await;
        assert_refused(&none, 401, "token-missing");
        assert!(none.header("WWW-Authenticate").is_some_and(|value| value.starts_with("Bearer")));
        let with = |token| ask(&gateway, "GET", path).header("Authorization", token);
        assert_refused(&with("Bearer wrong").send().await, 401, "token-wrong");
        assert_eq!(with("Bearer look").send().await.status, 200);
        assert_eq!(with("Bearer s3cret").send().await.status, 200);
    }
    for (method, path) in [("DELETE", record("k")), ("POST", "/acquire".into())] {
        let look = ask(&gateway, method, &path).header("Authorization", "Bearer look");
        let look = look.header("Content-Type", "application/json").body("{}").send().await;
        assert_refused(&look, 403, "read-only");
    }
    assert!(!gateway.stderr().contains("s3cret"));
}

async fn a_browser_cannot_drive_it(site: Site) {
    let gateway = site.gateway("").await;
    let rebound = ask(&gateway, "GET", "/api/records").host("evil.example:8081").send().await;
    assert_refused(&rebound, 403, "host-not-local");
    let foreign = ask(&gateway, "DELETE", &record("k")).header("Origin", "http://evil.example");
    assert_refused(&foreign.send().await, 403, "cross-site");
    let own = format!("http://{}", gateway.admin());
    // Browsers say where a form comes from; the one of another site is refused whatever it holds.
    for path in ["/api/record/resolve", "/acquire"] {
        let form = |name: &str, value: &str| {
            let ask = ask(&gateway, "POST", path).header("Content-Type", "text/plain");
            ask.header(name, value).body("{}").send()
        };
        assert_refused(&form("Origin", "http://evil.example").await, 403, "cross-site");
        assert_refused(&form("Origin", "null").await, 403, "cross-site");
        assert_refused(&form("Sec-Fetch-Site", "cross-site").await, 403, "cross-site");
        assert_refused(&form("Origin", &own).await, 415, "not-json");
        assert_refused(&form("Sec-Fetch-Site", "same-origin").await, 415, "not-json");
    }
    assert_eq!(
        ask(&gateway, "GET", "/api/records").header("Origin", &own).send().await.status,
        200
    );
    let other = ask(&gateway, "PUT", "/api/records").send().await;
    assert_eq!((other.status, other.header("Allow")), (405, Some("GET")));
}
