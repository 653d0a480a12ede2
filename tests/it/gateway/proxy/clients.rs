//! Clients that other people wrote: curl and h2load, in the clear and over TLS.

use std::process::Command;

use rcgen::{CertifiedKey, generate_simple_self_signed};

use super::super::{assert_replayed, fresh_key, payments};
use super::{site, with_routes};
use crate::support::scratch;
use crate::support::servers::{self, Kind};

/// What it printed; it has to succeed.
async fn printed(program: &'static str, arguments: Vec<String>) -> String {
    let run = move || Command::new(program).args(arguments).output();
    let output = tokio::task::spawn_blocking(run).await.expect("no panic").expect("it is there");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}: {text}{error}");
    text
}

fn words(arguments: &str) -> Vec<String> {
    arguments.split_whitespace().map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn curl_speaks_http2_in_the_clear() {
    if !servers::require(Kind::Clients) {
        return;
    }
    let (site, gateway) = site().await;
    let key = fresh_key();
    let show = "--write-out %{http_version}/%{http_code}/%header{idempotency-status}";
    for expected in ["executed", "replayed"] {
        let url = format!("http://{}/pay", gateway.addr());
        let ask = format!(
            "-s -o /dev/null --http2-prior-knowledge -d {{}} -H Idempotency-Key:{key} {show} {url}"
        );
        assert_eq!(printed("curl", words(&ask)).await, format!("2/201/{expected}"));
    }
    assert_eq!(site.upstream.count_of(&key), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn curl_agrees_on_http2_over_tls() {
    if !servers::require(Kind::Clients) {
        return;
    }
    let folder = scratch::folder("tls");
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    std::fs::write(&certificate, cert.pem()).expect("it can be written");
    std::fs::write(&key, signing_key.serialize_pem()).expect("it can be written");
    let tls = format!("[tls]\ncert = '{}'\nkey = '{}'\n", certificate.display(), key.display());
    let (_site, gateway) = with_routes(&(tls + &payments(""))).await;
    for (version, told) in [("--http1.1", "1.1"), ("--http2", "2")] {
        let port = gateway.addr().port();
        let ask = format!(
            "-s -o /dev/null {version} --cacert {} --resolve localhost:{port}:127.0.0.1 -d {{}} \
             -H Idempotency-Key:{} --write-out %{{http_version}}/%{{http_code}} \
             https://localhost:{port}/pay",
            certificate.display(),
            fresh_key()
        );
        assert_eq!(printed("curl", words(&ask)).await, format!("{told}/201"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn h2load_gets_every_answer() {
    if !servers::require(Kind::Clients) {
        return;
    }
    // It is about answers: a machine that is busy for a second must not cost one.
    let patient = "[connections]\nacquire_timeout = '30s'\nconnect_timeout = '30s'\n".to_owned();
    let (site, gateway) = with_routes(&(patient + &payments(""))).await;
    let url = format!("http://{}/other", gateway.addr());
    let report = printed("h2load", words(&format!("-n 2000 -c 4 -m 50 {url}"))).await;
    assert!(report.contains("2000 succeeded, 0 failed, 0 errored, 0 timeout"), "{report}");
    assert_eq!(site.upstream.count(), 2000);
    let key = fresh_key();
    let first = gateway.post("/pay", &key, "{}").await;
    let folder = scratch::folder("body");
    let body = folder.path().join("body.json");
    std::fs::write(&body, "{}").expect("it can be written");
    let url = format!("http://{}/pay", gateway.addr());
    let storm = format!("-n 2000 -c 4 -m 50 -d {} -H Idempotency-Key:{key} {url}", body.display());
    let report = printed("h2load", words(&storm)).await;
    assert!(report.contains("2000 2xx"), "{report}");
    assert_replayed(&gateway.post("/pay", &key, "{}").await, &first);
    assert_eq!(site.upstream.count_of(&key), 1);
}
