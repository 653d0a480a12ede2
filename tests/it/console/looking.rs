//! What the console shows, and how it is found.

use std::time::Duration;

use super::*;
use crate::support::servers::Server;
use crate::support::{FaultProxy, eventually, shared};

const SOON: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn the_page_loads_whole_and_asks_nobody_else() {
    let Some(desk) = Desk::open("").await else { return };
    desk.browser.sees("#attention", &["Nothing is stuck"]).await;
    desk.browser.sees("#records", &["No records yet"]).await;
    desk.browser.sees(".top", &["version", "durable up", "fast up", "live"]).await;
    assert!(desk.browser.text("#sign-in").await.is_none(), "no token is set");
    assert!(desk.browser.text("#sign-out").await.is_none(), "nobody signed in");
    desk.assert_clean().await;

    for path in ["/", "/console/console.js", "/console/console.css", "/console/icon.svg"] {
        let answer = Ask::new(desk.gateway.admin(), "GET", path).send().await;
        assert_eq!(answer.status, 200, "{path}");
        let policy = answer.header("Content-Security-Policy").unwrap_or_default();
        assert!(policy.contains("script-src 'self'"), "{path}: {policy}");
        assert!(!policy.contains("unsafe"), "{path}: {policy}");
        assert_eq!(answer.header("X-Content-Type-Options"), Some("nosniff"), "{path}");
        let tag = answer.header("ETag").expect("a tag");
        let again = Ask::new(desk.gateway.admin(), "GET", path).header("If-None-Match", tag);
        assert_eq!(again.send().await.status, 304, "{path}");
    }
    let post = Ask::new(desk.gateway.admin(), "POST", "/").body("").send().await;
    assert_eq!((post.status, post.header("Allow")), (405, Some("GET")));
}

#[tokio::test(flavor = "multi_thread")]
async fn figures_move_with_the_requests() {
    let Some(desk) = Desk::open("").await else { return };
    desk.browser.sees("#figures", &["Hit ratio"]).await;
    let key = "figures";
    for _ in 0..4 {
        desk.gateway.post("/v1/payments/1", key, "{}").await;
    }
    assert_eq!(desk.gateway.post("/v1/payments/1", key, "{\"other\":1}").await.status, 409);
    let [ratio, requests, conflicts] =
        ["Hit ratio", "Requests", "Conflicts"].map(|title| format!("[aria-label='{title}'].card"));
    desk.browser.sees(&ratio, &["since start 60 % of 5 with a key"]).await;
    desk.browser.sees(&requests, &["since start 1 executed, 3 replayed"]).await;
    desk.browser.sees(&conflicts, &["since start 0 in progress, 1 reused"]).await;
    // Rates are differences between two looks.
    desk.gateway.post("/v1/payments/1", key, "{}").await;
    let drawn = "return document.querySelectorAll(\"[aria-label='Requests'] .plot .line\").length";
    eventually("lines are drawn", SOON, async || {
        desk.browser.script(drawn).await.as_u64() >= Some(2)
    })
    .await;
    desk.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_stuck_or_unknown_comes_first_with_what_happened() {
    let jobs = "[reconciler]\nstuck_after = '1s'\nsettle_after = '1h'\n";
    let Some(desk) = Desk::open_with("", jobs).await else { return };
    desk.lose("order-lost").await;
    desk.fall_silent("order-silent").await;

    let parts = ["order-lost", "unknown", "the API broke off", "POST /v1/payments/{*rest}"];
    desk.browser.sees("#attention", &parts).await;
    desk.browser.sees("#attention", &["order-silent", "stuck", "its lease ran out"]).await;
    desk.browser.sees(".open-records", &["unknown\n1", "stuck\n1"]).await;
    desk.browser.click("#attention-0").await;
    desk.browser
        .sees("#record", &["order-lost", "Its life", "First request", "Outcome unknown"])
        .await;
    desk.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn records_are_searched_filtered_and_turned_page_by_page() {
    let Some(desk) = Desk::open("").await else { return };
    for n in 0..30 {
        desk.gateway.post("/v1/payments/1", &format!("many-{n:02}"), "{}").await;
    }
    desk.lose("needle").await;
    let browser = &desk.browser;
    browser.fill("#search-key", "needle").await;
    browser.click("#search [type=submit]").await;
    let found = browser.sees("#records-list", &["needle"]).await;
    assert!(!found.contains("many-"), "{found}");
    browser.fill("#search-key", "NEEDLE").await;
    browser.click("#search [type=submit]").await;
    browser.sees("#records-list", &["No record fits"]).await;

    desk.visit("#records?state=SUCCEEDED&scope=payment").await;
    let first = browser.sees("#records-list", &["many-29"]).await;
    assert!(!first.contains("needle") && !first.contains("many-00"), "{first}");
    browser.click("#next-page").await;
    let second = browser.sees("#records-list", &["many-00"]).await;
    assert!(!second.contains("many-29"), "{second}");
    assert_eq!(browser.focused().await, "records-heading");
    browser.click("#first-page").await;
    browser.sees("#records-list", &["many-29"]).await;
    browser.click("#search [type=reset]").await;
    browser.sees("#records-list", &["needle", "many-29"]).await;
    desk.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_attackers_choose_stays_text() {
    let Some(desk) = Desk::open("").await else { return };
    let evil = "<img src=x onerror=alert(1)>";
    let named = json!({ "tenant": evil, "scope": "default", "idempotency_key": evil });
    desk.post("/acquire", named.clone()).await;
    let mut failed = named;
    failed["final_status"] = "FAILED".into();
    failed["error_message"] = format!("<script>alert(2)</script>{evil}").into();
    let done = desk.post("/complete", failed).await;
    assert_eq!(done["ok"], true, "{done}");

    desk.browser.sees("#records-list", &[evil, "decision API", "Completed as FAILED"]).await;
    desk.browser.click("#records-list .key").await;
    desk.browser.sees("#record", &[evil, "<script>alert(2)</script>"]).await;
    desk.browser.click("#open-settle").await;
    desk.browser.sees("#settle .subject", &[evil]).await;
    let made = desk
        .browser
        .script("return document.querySelectorAll('main img, dialog img, main script').length");
    assert_eq!(made.await, 0);
    desk.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_is_away_is_told() {
    let Some(desk) = Desk::open("").await else { return };
    desk.browser.sees("#attention", &["Nothing is stuck"]).await;
    desk.gateway.kill();
    desk.browser.sees("#trouble", &["The gateway does not answer."]).await;
    // What was known stays on the page.
    desk.browser.sees("#attention", &["Nothing is stuck"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tier_that_is_away_is_told_and_so_is_its_return() {
    let Some(mut durable) = Database::MySql.fresh() else { return };
    if !servers::require(Kind::Redis) {
        return;
    }
    let mysql = FaultProxy::start(shared::mysql().addr()).await;
    let redis = FaultProxy::start(shared::redis().addr()).await;
    durable.url = mysql.reroute(&durable.url);
    let fast = format!("[fast]\nurl = '{}'\n", redis.reroute(&shared::redis().url()));
    let Some(desk) = Desk::open_on(durable, "", &fast).await else { return };
    let browser = &desk.browser;
    desk.lose("kept").await;
    browser.sees("#attention", &["kept"]).await;
    redis.cut();
    browser.sees(".top", &["durable up", "fast down"]).await;
    browser.sees("#trouble", &["The fast tier is down.", "nothing runs twice"]).await;
    redis.heal();
    browser.misses("#trouble").await;
    mysql.cut();
    browser.sees(".top", &["durable down"]).await;
    browser.sees("#trouble", &["The durable tier is down.", "503"]).await;
    mysql.heal();
    browser.misses("#trouble").await;
    browser.sees("#attention", &["kept"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hidden_page_asks_for_nothing() {
    let Some(desk) = Desk::open("").await else { return };
    desk.browser.sees("#figures", &["Hit ratio"]).await;
    let hide = "Object.defineProperty(document, 'hidden', { value: true, configurable: true }); \
                document.dispatchEvent(new Event('visibilitychange'));";
    desk.browser.script(hide).await;
    // A look that was under way ends; then nothing may begin for longer than the pace is.
    let mut before = 0;
    eventually("what was under way has ended", SOON, async || {
        let last = std::mem::replace(&mut before, desk.browser.requested().await.len());
        tokio::time::sleep(Duration::from_millis(500)).await;
        last == before
    })
    .await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(desk.browser.requested().await.len(), before);
    desk.browser.script(&hide.replace("value: true", "value: false")).await;
    eventually("it asks again", SOON, async || desk.browser.requested().await.len() > before).await;
}
