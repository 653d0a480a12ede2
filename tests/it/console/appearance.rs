//! How the console looks, kept as pictures in `target/screenshots`, and what a checker of
//! accessibility says about each of them. One of them is in the README, copied by hand when the page
//! has changed: `cp target/screenshots/console-home-light-1280.png deploy/console.png`.

use std::time::Duration;

use super::*;
use crate::support::scratch;

/// A morning at a payment API: most calls are new, some are retries, a few go wrong.
async fn traffic(desk: &Desk, seconds: u32) {
    for second in 0..seconds {
        for n in 0..(6 + second % 5 * 2) {
            let key = format!("order-{}", 2000 + second * 20 + n);
            desk.gateway.post("/v1/payments/1", &key, "{\"amount\":4200}").await;
            for _ in 0..(n + second) % 3 {
                desk.gateway.post("/v1/payments/1", &key, "{\"amount\":4200}").await;
            }
            if (n + second) % 7 == 0 {
                desk.gateway.post("/v1/payments/1", &key, "{\"amount\":9900}").await;
            }
        }
        tokio::time::sleep(Duration::from_millis(700)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_looks_as_it_should_in_light_and_dark_and_on_a_phone() {
    let jobs = "[reconciler]\nstuck_after = '5s'\nsettle_after = '1h'\n";
    let Some(desk) = Desk::open_with("show_bodies = true", jobs).await else { return };
    let browser = &desk.browser;
    browser.script("localStorage.setItem('oncegate.pace', '1')").await;
    desk.visit("").await;
    desk.lose("order-1044").await;
    desk.fall_silent("7e6fa1c2-9d0b-4c55-b0de-1f8a3c2e9b10").await;
    traffic(&desk, 20).await;
    desk.upstream.on("/v1/payments/bad", Reply::new(500));
    desk.gateway.post("/v1/payments/bad", "order-3001", "{}").await;
    let invoice =
        json!({ "tenant": "acme", "scope": "invoice", "idempotency_key": "inv-2026-118" });
    desk.post("/acquire", invoice).await;
    browser.sees("#attention", &["7e6fa1c2", "order-1044"]).await;
    browser.sees("#records-list", &["inv-2026-118"]).await;

    let axe = std::fs::read_to_string(scratch::cache().join("axe-core/axe.min.js")).ok();
    if axe.is_none() {
        eprintln!("SKIPPED: axe-core could not be had: tests/run fetches it");
    }
    let places = [
        ("home", "", None),
        ("record", "#record?tenant=&scope=payment&key=order-1044", None),
        ("settle", "#record?tenant=&scope=payment&key=order-1044", Some("settle")),
        ("forget", "#record?tenant=&scope=payment&key=order-1044", Some("forget")),
    ];
    for (name, hash, dialog) in places {
        // Without a reload: the charts keep what they have.
        browser.script(&format!("location.hash = {}", Value::from(hash))).await;
        browser.sees(if hash.is_empty() { "#attention" } else { "#record" }, &["order-1044"]).await;
        if let Some(dialog) = dialog {
            browser.click(&format!("#open-{dialog}")).await;
            browser.sees(&format!("#{dialog}"), &["order-1044"]).await;
        }
        for (scheme, width, height) in
            [("light", 1280, 800), ("dark", 1280, 800), ("dark", 390, 844)]
        {
            browser.size(width, height).await;
            browser.prefers(scheme).await;
            let file = format!("console-{name}-{scheme}-{width}.png");
            browser.screenshot(&pictures().join(file)).await;
            let wider =
                browser.script("return document.documentElement.scrollWidth - innerWidth").await;
            assert!(wider.as_i64() <= Some(0), "{name} at {width}: {wider} pixels too wide");
            if let Some(axe) = &axe {
                assert_eq!(
                    violations(browser, axe).await,
                    Vec::<String>::new(),
                    "{name} {scheme} {width}"
                );
            }
        }
        browser.size(1280, 800).await;
        browser
            .script("for (const open of document.querySelectorAll('dialog[open]')) open.close()")
            .await;
    }
}

/// What a checker finds that keeps somebody from using the page.
async fn violations(browser: &Browser, axe: &str) -> Vec<String> {
    browser.script(&format!("if (!window.axe) {{ {axe} }}")).await;
    browser
        .script("window.found = null; axe.run({ resultTypes: ['violations'] }).then((r) => { window.found = r.violations }, (e) => { window.found = [{ impact: 'critical', id: String(e), nodes: [] }] })")
        .await;
    let mut found = Value::Null;
    crate::support::eventually("the checker is done", Duration::from_secs(30), async || {
        found = browser.script("return window.found && window.found.map(({ impact, id, nodes }) => ({ impact, id, at: nodes.map((node) => node.html) }))").await;
        !found.is_null()
    })
    .await;
    let all = found.as_array().cloned().unwrap_or_default();
    let grave =
        all.iter().filter(|one| matches!(one["impact"].as_str(), Some("serious" | "critical")));
    grave.map(Value::to_string).collect()
}
