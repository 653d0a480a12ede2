//! Settling and forgetting through the page, judged by what the client's retry gets.

use super::*;
use crate::support::webdriver::{ENTER, ESCAPE, TAB};

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_payment_is_settled_and_the_retry_gets_exactly_that_answer() {
    let Some(desk) = Desk::open("show_bodies = true").await else { return };
    let (browser, key) = (&desk.browser, "order-1044");
    desk.lose(key).await;
    let ran = desk.upstream.count();
    browser.sees("#attention", &[key]).await;
    browser.click("#attention-0").await;
    browser.sees("#record", &["Outcome unknown", "No operator has touched it."]).await;
    browser.click("#open-settle").await;
    browser.sees("#settle", &["Settle this record", key, "This cannot be undone"]).await;

    // A note is asked for, and a status that is one.
    browser.click("#settle-confirm").await;
    browser.sees("#settle-error", &["Say why"]).await;
    assert_eq!(browser.focused().await, "settle-note");
    browser.fill("#answer-status", "99").await;
    browser.fill("#settle-note", "in the ledger as pay_7").await;
    browser.click("#settle-confirm").await;
    browser.sees("#settle-error", &["200 to 599"]).await;
    assert_eq!(desk.record(key).await["state"], "UNKNOWN");

    browser.fill("#answer-status", "201").await;
    browser.fill("#answer-headers", "Content-Type: application/json\nX-Paid: yes: really").await;
    let body = "{\"id\": \"pay_7\",  \"note\": \"ünïcödé <b>\"}\n";
    browser.fill("#answer-body", body).await;
    browser.click("#settle-confirm").await;
    browser.sees("#told", &["Settled as succeeded. Retries get 201."]).await;
    browser.misses("#settle").await;
    let text = browser
        .sees(
            "#record",
            &["Succeeded (attempt 2)", "Settled as succeeded by local", "in the ledger as pay_7"],
        )
        .await;
    assert!(text.contains("x-paid: yes: really"), "{text}");
    assert!(browser.text("#open-settle").await.is_none(), "what has its answer is settled");

    let retry = desk.retry(key).await;
    assert_eq!((retry.status, retry.text().as_str()), (201, body));
    assert_eq!(retry.header("X-Paid"), Some("yes: really"));
    assert_eq!(retry.header("Content-Type"), Some("application/json"));
    assert_eq!(retry.header("Idempotency-Status"), Some("replayed"));
    assert_eq!(desk.upstream.count(), ran, "nothing ran again");
    desk.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_is_allowed_and_a_failure_is_final() {
    let Some(desk) = Desk::open("").await else { return };
    let browser = &desk.browser;
    for (key, outcome, warning, told) in [
        ("again", "retry", "it will happen twice", "A retry may run it now."),
        ("never", "failed", "Clients are told that it failed", "Settled as failed"),
    ] {
        desk.lose(key).await;
        desk.visit_record(key).await;
        browser.click("#open-settle").await;
        browser.click(&format!("#settle [value={outcome}]")).await;
        browser.sees("#settle-warning", &[warning]).await;
        assert!(browser.text("#answer").await.is_none(), "only a success has an answer");
        browser.fill("#settle-note", "asked the bank").await;
        browser.click("#settle-confirm").await;
        browser.sees("#told", &[told]).await;
    }
    desk.upstream.on("/v1/payments/lost", Reply::new(201).body("now"));
    let again = desk.retry("again").await;
    assert_eq!(again.header("Idempotency-Status"), Some("executed"), "{}", again.text());
    assert_eq!(desk.upstream.count_of("again"), 2);
    let never = desk.retry("never").await;
    assert_eq!(never.header("Idempotency-Status"), Some("attempt-failed"), "{}", never.text());
    desk.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forgotten_key_is_new_and_its_trail_stays() {
    let Some(desk) = Desk::open("").await else { return };
    let (browser, key) = (&desk.browser, "test-order");
    let first = desk.gateway.post("/v1/payments/1", key, "{}").await;
    desk.visit_record(key).await;
    browser
        .sees("#record", &["Done: the answer is 201.", "not shown: admin.show_bodies is off"])
        .await;
    browser.click("#open-forget").await;
    browser.sees("#forget", &["runs it a second time"]).await;
    browser.fill("#forget-note", "only a test").await;
    browser.click("#forget [type=submit]").await;
    browser.sees("#told", &["Forgotten."]).await;
    browser
        .sees("#record", &["no such record any more", "Forgotten by local", "only a test"])
        .await;
    let second = desk.gateway.post("/v1/payments/1", key, "{}").await;
    assert_eq!(second.header("Idempotency-Status"), Some("executed"));
    assert_ne!(first.text(), second.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_keyboard_alone_is_enough() {
    let Some(desk) = Desk::open("").await else { return };
    let browser = &desk.browser;
    desk.lose("by-hand").await;
    browser.sees("#attention", &["by-hand"]).await;
    tab_to(browser, "attention-0").await;
    browser.press(&[ENTER]).await;
    browser.sees("#record", &["Outcome unknown"]).await;
    tab_to(browser, "open-settle").await;
    browser.press(&[ENTER]).await;
    browser.sees("#settle", &["What happened to the operation?"]).await;
    let inside = "return document.activeElement.closest('dialog')?.id ?? ''";
    assert_eq!(browser.script(inside).await, "settle", "the focus is in the dialog");
    for _ in 0..15 {
        browser.press(&[TAB]).await;
        let left = "return document.activeElement !== document.body && !document.activeElement.closest('dialog')";
        assert_eq!(browser.script(left).await, false, "the page behind cannot be reached");
    }
    browser.press(&[ESCAPE]).await;
    browser.misses("#settle").await;
    assert_eq!(browser.focused().await, "open-settle", "the focus is back where it was");
    assert_eq!(desk.record("by-hand").await["state"], "UNKNOWN");

    // And all the way: the third outcome, a note, done.
    browser.press(&[ENTER]).await;
    browser.sees("#settle", &["What happened to the operation?"]).await;
    browser.press(&["\u{E015}", "\u{E015}"]).await;
    browser.sees("#settle-confirm", &["Allow a retry"]).await;
    tab_to(browser, "settle-note").await;
    browser.press(&["o", "k"]).await;
    tab_to(browser, "settle-confirm").await;
    browser.press(&[ENTER]).await;
    browser.sees("#told", &["A retry may run it now."]).await;
    assert_eq!(desk.record("by-hand").await["audit"][0]["note"], "ok");
}

async fn tab_to(browser: &Browser, id: &str) {
    let mut passed = Vec::new();
    for _ in 0..40 {
        if browser.focused().await == id {
            return;
        }
        browser.press(&[TAB]).await;
        passed.push(browser.focused().await);
    }
    panic!("{id} is not reached by Tab: {passed:?}");
}
