//! Signing in and out, and what a token that may only read does not see.

use super::*;

const TOKENS: &str = "token = 's3cret'\nread_token = 'look'";

async fn sign_in(desk: &Desk, token: &str) {
    desk.browser.fill("#token", token).await;
    desk.browser.click("#sign-in [type=submit]").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_asked_for_and_a_wrong_one_is_told() {
    let Some(desk) = Desk::open(TOKENS).await else { return };
    let browser = &desk.browser;
    browser.sees("#sign-in", &["This gateway asks for a token"]).await;
    assert!(browser.text("#desk").await.is_none());
    assert_eq!(browser.focused().await, "token");
    sign_in(&desk, "guess").await;
    browser.sees("#sign-in-error", &["This is not the right token."]).await;
    sign_in(&desk, "s3cret").await;
    browser.sees("#attention", &["Nothing is stuck"]).await;
    // It outlives a reload of this tab, and is nowhere else.
    desk.visit("").await;
    browser.sees("#attention", &["Nothing is stuck"]).await;
    let kept = "return [sessionStorage.length, Object.values(localStorage).join().includes('s3cret'), document.cookie, location.href.includes('s3cret')]";
    assert_eq!(browser.script(kept).await, json!([1, false, "", false]));
    browser.click("#sign-out").await;
    browser.sees("#sign-in", &["Token"]).await;
    assert_eq!(browser.script("return sessionStorage.length").await, 0);
    desk.visit("").await;
    browser.sees("#sign-in", &["Token"]).await;
    let outside = desk.browser.requested().await;
    assert!(outside.iter().all(|address| !address.contains("s3cret")), "{outside:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_may_only_read_sees_no_buttons() {
    let Some(desk) = Desk::open(TOKENS).await else { return };
    let browser = &desk.browser;
    desk.lose("held").await;
    for (token, buttons) in [("look", 0), ("s3cret", 2)] {
        browser.sees("#sign-in", &["Token"]).await;
        sign_in(&desk, token).await;
        browser.sees("#attention", &["held"]).await;
        browser.click("#attention-0").await;
        browser.sees("#record", &["Outcome unknown"]).await;
        let count = "return document.querySelectorAll('#record button').length";
        assert_eq!(browser.script(count).await, buttons, "{token}");
        let head = browser.sees(".top", &["version"]).await;
        assert_eq!(head.contains("read-only"), token == "look", "{head}");
        browser.click("#sign-out").await;
        desk.visit("").await;
    }
}
