//! Long lists, calls that run, bodies that are no text, and an admin API behind TLS.

use serde_json::{Value, json};

use super::cli::{records, run};
use super::{
    PROGRAM, ROUTE, Site, ask, assert_refused, fresh_key, get, held, record, resolve, site,
};
use crate::bed::Database;
use crate::sql::Sql;
use crate::support::{Launch, Reply, scratch};

on_both_pairs!(
    a_list_walks_on_through_windows_that_hold_nothing,
    a_running_record_is_left_alone,
    a_body_that_is_no_text_is_shown_and_taken_as_base64,
);

/// More rows than the windows of one page: all newer than those of the gateway, one of them rare.
const ROWS: u32 = 21_000;
/// The first row of the second window, from the newest down.
const RARE: u32 = ROWS - 1 - 2_000;

async fn fill(site: &Site) {
    let number = "a.d + 10 * b.d + 100 * c.d + 1000 * e.d + 10000 * f.d";
    let padded = match site.durable.database {
        Database::Sqlite => format!("CAST(printf('%016d', {number}) AS BLOB)"),
        _ => format!("LPAD({number}, 16, '0')"),
    };
    let text = match site.durable.database {
        Database::Sqlite => format!("printf('%05d', {number})"),
        _ => format!("LPAD({number}, 5, '0')"),
    };
    let digits: Vec<_> = (0..10).map(|digit| format!("SELECT {digit} AS d")).collect();
    let digits = format!("({})", digits.join(" UNION ALL "));
    let statement = format!(
        "INSERT INTO oncegate_records (id, tenant, scope, idem_key, state, attempt, token, \
         expires_at, response_status, created_at, updated_at) \
         SELECT {padded}, '', CASE WHEN {number} = {RARE} THEN 'rare' ELSE ? END, {text}, \
         'SUCCEEDED', 1, {padded}, 4102444800000, 200, 1, 1 \
         FROM {digits} a CROSS JOIN {digits} b CROSS JOIN {digits} c CROSS JOIN {digits} e \
         CROSS JOIN {digits} f WHERE {number} < {ROWS}"
    );
    let rows = Sql::connect(&site.durable.url).await.execute(&statement, "bulk").await;
    assert_eq!(rows, u64::from(ROWS));
}

async fn a_list_walks_on_through_windows_that_hold_nothing(site: Site) {
    let gateway = site.gateway("").await;
    let key = &fresh_key();
    assert_eq!(gateway.post("/pay/1", key, "{}").await.status, 201);
    fill(&site).await;

    let keys = |page: &Value| -> Vec<String> {
        let records = page["records"].as_array().expect("a list");
        records.iter().map(|record| record["key"].as_str().expect("a key").to_owned()).collect()
    };
    let rare = get(&gateway, "/api/records?scope=rare").await;
    assert_eq!(keys(&rare), [RARE.to_string()], "the second window is looked at");

    let first = get(&gateway, "/api/records?scope=payment").await;
    assert_eq!(keys(&first), [""; 0], "not all is looked at for one page");
    let cursor = first["next_cursor"].as_str().expect("there is more to look at");
    let second = get(&gateway, &format!("/api/records?scope=payment&cursor={cursor}")).await;
    assert_eq!(keys(&second), [key.as_str()]);
    assert_eq!(second["next_cursor"], Value::Null);

    let admin = format!("http://{}", gateway.admin());
    let listed = run(records(&admin, &["list", "--scope", "payment"])).is(0).stdout;
    assert!(listed.contains(key.as_str()), "{listed}");
    let list = ["list", "--scope", "bulk", "--limit", "1100", "--json"];
    let many = run(records(&admin, &list)).is(0).json();
    let newest: Vec<_> = (0..ROWS).rev().take(1100).map(|n| format!("{n:05}")).collect();
    assert_eq!(keys(&many), newest, "three pages, nothing twice, nothing left out");
    let cursor = many["next_cursor"].as_str().expect("there are more");
    let short = ["list", "--scope", "bulk", "--limit", "2", "--cursor", cursor];
    let listed = run(records(&admin, &short)).is(0).stdout;
    for words in ["19899", "19898", "2 shown; there are more", "--scope bulk --cursor"] {
        assert!(listed.contains(words), "{words}: {listed}");
    }
}

async fn a_running_record_is_left_alone(site: Site) {
    let gateway = site.gateway("").await;
    let key = &fresh_key();
    site.upstream.on("/pay/slow", Reply::new(201).held());
    let call = gateway.posting("/pay/slow", key, "{}");
    let call = tokio::spawn(call.send());
    site.upstream.begun(1).await;
    for outcome in ["succeeded", "failed", "retry"] {
        let body = json!({ "scope": "payment", "key": key, "outcome": outcome, "note": "" });
        assert_refused(&resolve(&gateway, body).await, 409, "record-running");
    }
    let forget = ask(&gateway, "DELETE", &record(key)).send().await;
    assert_refused(&forget, 409, "record-running");
    let admin = format!("http://{}", gateway.admin());
    let said = run(records(&admin, &["forget", key, "--scope", "payment", "--yes"])).is(1);
    assert!(said.stderr.contains("it is running"), "{}", said.stderr);
    site.upstream.let_go();
    let answer = call.await.expect("the call ends");
    assert_eq!(answer.header("Idempotency-Status"), Some("executed"), "{}", answer.text());
    assert!(get(&gateway, &record(key)).await["audit"].as_array().is_some_and(Vec::is_empty));
}

async fn a_body_that_is_no_text_is_shown_and_taken_as_base64(site: Site) {
    let gateway = site.gateway("show_bodies = true").await;
    let bytes = [0xff, 0x00, 0xfe, b'a'];
    let key = &fresh_key();
    site.upstream.on("/pay/bytes", Reply::new(200).body(bytes));
    assert_eq!(gateway.post("/pay/bytes", key, "{}").await.body, bytes);
    let shown = get(&gateway, &record(key)).await;
    assert_eq!(shown["response"]["body_base64"], "/wD+YQ==", "{shown}");
    assert_eq!(shown["response"].get("body"), None, "{shown}");

    let key = &held(&site, &gateway).await;
    let mut body = json!({ "scope": "payment", "key": key, "outcome": "succeeded", "note": "" });
    body["response"] = json!({ "body_base64": "/wD+YQ=!" });
    assert_refused(&resolve(&gateway, body.clone()).await, 400, "bad-request");
    body["response"] = shown["response"].clone();
    assert_eq!(resolve(&gateway, body).await.status, 200);
    assert_eq!(gateway.post("/pay/lost", key, "{}").await.body, bytes);

    let key = &held(&site, &gateway).await;
    let folder = scratch::folder("answer");
    let file = folder.path().join("body");
    std::fs::write(&file, bytes).expect("there is room");
    let file = file.to_str().expect("paths are text");
    let admin = format!("http://{}", gateway.admin());
    let named = ["resolve", key, "--scope", "payment", "--outcome", "succeeded", "--yes"];
    run(records(&admin, &[&named[..], &["--body-file", file]].concat())).is(0);
    assert_eq!(gateway.post("/pay/lost", key, "{}").await.body, bytes);
}

/// The client checks certificates: one that the machine does not trust is refused.
#[tokio::test(flavor = "multi_thread")]
async fn an_admin_listener_behind_tls_is_asked_over_https() {
    let site = site(false).await.expect("it needs no server");
    let gateway = site.gateway("token = 's3cret'").await;
    let folder = scratch::folder("tls");
    let [certificate, key] = ["cert.pem", "key.pem"].map(|name| folder.path().join(name));
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("it is made");
    std::fs::write(&certificate, made.cert.pem()).expect("there is room");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("there is room");
    let tls =
        format!("[tls]\ncert = '{}'\nkey = '{}'\n{ROUTE}", certificate.display(), key.display());
    let admin = format!("http://{}", gateway.admin());
    let front = Launch::serve(PROGRAM).flag("--upstream", &admin).config(&tls).listening().await;

    let secure = format!("https://{}", front.addr());
    let list = |trusted: &std::path::Path| {
        let mut command = records(&secure, &["list", "--json"]);
        command.env("ONCEGATE_ADMIN_TOKEN", "s3cret").env("SSL_CERT_FILE", trusted);
        run(command)
    };
    assert_eq!(list(&certificate).is(0).json()["records"], json!([]));
    let other = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("it is made");
    let others = folder.path().join("other.pem");
    std::fs::write(&others, other.cert.pem()).expect("there is room");
    let refused = list(&others).is(1);
    assert!(refused.stderr.contains("certificate"), "{}", refused.stderr);
}
