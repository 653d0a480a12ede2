//! `oncegate records` as an operator types it, against gateways that run.

use std::process::{Command, Stdio};

use serde_json::Value;

use super::{PROGRAM, SOON, Site, get, held, record, site};
use crate::support::ports::Port;
use crate::support::{Gateway, eventually, scratch};

on_both_pairs!(
    a_lost_call_is_listed_shown_and_settled_and_the_retry_gets_that_answer,
    a_forgotten_record_is_new_again_and_its_trail_stays,
    each_outcome_is_in_the_trail,
    a_token_is_asked_for_and_never_shown,
);

/// What a command said, and its exit code.
pub struct Said {
    code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Said {
    #[track_caller]
    pub fn is(self, code: i32) -> Self {
        let Self { stdout, stderr, .. } = &self;
        assert_eq!(self.code, Some(code), "stdout:\n{stdout}\nstderr:\n{stderr}");
        self
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e}: {}", self.stdout))
    }
}

/// `oncegate records …`, without a terminal.
pub fn records(admin: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.env_clear().env("ONCEGATE_ADMIN", admin).arg("records").args(arguments);
    command
}

pub fn run(mut command: Command) -> Said {
    let output = command.stdin(Stdio::null()).output().expect("the program starts");
    let text = |bytes| String::from_utf8(bytes).expect("it writes text");
    Said { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

fn url(gateway: &Gateway) -> String {
    format!("http://{}", gateway.admin())
}

fn said(gateway: &Gateway, arguments: &[&str]) -> Said {
    run(records(&url(gateway), arguments))
}

async fn a_lost_call_is_listed_shown_and_settled_and_the_retry_gets_that_answer(site: Site) {
    let gateway = site.gateway("").await;
    let key = &held(&site, &gateway).await;

    let listed = said(&gateway, &["list", "--state", "unknown"]).is(0);
    let line = listed.stdout.lines().find(|line| line.contains(key.as_str())).expect("a line");
    assert!(line.starts_with("UNKNOWN") && line.contains("payment"), "{line}");
    let json = said(&gateway, &["list", "--key", key, "--json"]).is(0).json();
    assert_eq!(json["records"][0]["state"], "UNKNOWN", "{json}");

    let elsewhere = said(&gateway, &["show", key]).is(1);
    let hint = format!("oncegate records show --scope payment {key}");
    assert!(elsewhere.stderr.contains(&hint), "{}", elsewhere.stderr);
    let shown = said(&gateway, &["show", key, "--scope", "payment"]).is(0).stdout;
    for words in ["UNKNOWN: it was sent", "the first request came", "outcome unknown"] {
        assert!(shown.contains(words), "{words}: {shown}");
    }

    let folder = scratch::folder("answer");
    let body = folder.path().join("body");
    std::fs::write(&body, b"{\"id\":7}").expect("there is room");
    let body = body.to_str().expect("paths are text");
    let named = ["resolve", key, "--scope", "payment", "--outcome"];
    let answer = ["--status", "201", "--header", "X-Paid: yes", "--body-file", body];
    let succeeded = [&named[..], &["succeeded", "--note", "seen at the bank"], &answer].concat();
    let refused = said(&gateway, &succeeded).is(2);
    assert!(refused.stderr.contains("--yes"), "{}", refused.stderr);
    let misused = said(&gateway, &[&named[..], &["failed", "--yes"], &answer].concat()).is(2);
    assert!(misused.stderr.contains("succeeded only"), "{}", misused.stderr);
    assert_eq!(get(&gateway, &record(key)).await["state"], "UNKNOWN", "nothing was changed");

    let done = said(&gateway, &[&succeeded[..], &["--yes"]].concat()).is(0);
    assert!(done.stdout.contains("resolved as succeeded"), "{}", done.stdout);
    assert!(done.stderr.contains("Retries get 201 and 8 bytes"), "{}", done.stderr);
    let retry = gateway.post("/pay/lost", key, "{}").await;
    assert_eq!((retry.status, retry.text().as_str()), (201, "{\"id\":7}"));
    assert_eq!(retry.header("X-Paid"), Some("yes"));
    assert_eq!(retry.header("Idempotency-Status"), Some("replayed"));

    let shown = said(&gateway, &["show", key, "--scope", "payment"]).is(0).stdout;
    assert!(shown.contains("resolved as succeeded by local: seen at the bank"), "{shown}");
    let again = said(&gateway, &[&succeeded[..], &["--yes"]].concat()).is(1);
    assert!(again.stderr.contains("an answer never changes"), "{}", again.stderr);
}

async fn a_forgotten_record_is_new_again_and_its_trail_stays(site: Site) {
    let gateway = site.gateway("").await;
    let key = &super::fresh_key();
    assert_eq!(gateway.post("/pay/1", key, "{}").await.status, 201);
    let forget = ["forget", key, "--scope", "payment", "--note", "a test order"];
    said(&gateway, &forget).is(2);
    let retry = gateway.post("/pay/1", key, "{}").await;
    assert_eq!(retry.header("Idempotency-Status"), Some("replayed"), "nothing was changed");
    let json = said(&gateway, &[&forget[..], &["--yes", "--json"]].concat()).is(0).json();
    assert_eq!(json["forgotten"], true);
    let gone = said(&gateway, &["show", key, "--scope", "payment"]).is(1);
    assert!(gone.stderr.contains("forgotten by local: a test order"), "{}", gone.stderr);
    said(&gateway, &[&forget[..], &["--yes"]].concat()).is(1);
    eventually("it executes anew", SOON, async || {
        let answer = gateway.post("/pay/1", key, "{}").await;
        answer.header("Idempotency-Status") == Some("executed")
    })
    .await;
}

async fn each_outcome_is_in_the_trail(site: Site) {
    let gateway = site.gateway("").await;
    for (outcome, action) in [
        ("succeeded", "resolved as succeeded"),
        ("failed", "resolved as failed"),
        ("retry", "resolved, retry allowed"),
    ] {
        let key = &held(&site, &gateway).await;
        let resolve = ["resolve", key, "--scope", "payment", "--outcome", outcome, "--yes"];
        let json = said(&gateway, &[&resolve[..], &["--json"]].concat()).is(0).json();
        assert_eq!(json["resolved"], true, "{json}");
        let shown = get(&gateway, &record(key)).await;
        assert_eq!(shown["audit"][0]["action"], action, "{shown}");
    }
}

async fn a_token_is_asked_for_and_never_shown(site: Site) {
    let gateway = site.gateway("token = 's3cret-of-ours'\nread_token = 'only-to-look'").await;
    let with = |token: &str, arguments: &[&str]| {
        let mut command = records(&url(&gateway), arguments);
        command.env("ONCEGATE_ADMIN_TOKEN", token);
        let said = run(command);
        assert!(!said.stdout.contains(token) && !said.stderr.contains(token), "{}", said.stderr);
        said
    };
    let none = said(&gateway, &["list"]).is(1);
    assert!(none.stderr.contains("ONCEGATE_ADMIN_TOKEN"), "{}", none.stderr);
    let wrong = with("s3cret-of-others", &["list"]).is(1);
    assert!(wrong.stderr.contains("does not take this token"), "{}", wrong.stderr);
    with("two words", &["list"]).is(2);
    let empty = with("s3cret-of-ours", &["list"]).is(0).stdout;
    assert_eq!(empty, "There are no records yet.\n");
    let key = &super::fresh_key();
    assert_eq!(gateway.post("/pay/1", key, "{}").await.status, 201);
    let listed = with("only-to-look", &["list", "--state", "SUCCEEDED"]).is(0).stdout;
    assert!(listed.contains(key.as_str()), "{listed}");
    let forget = ["forget", key, "--scope", "payment", "--yes"];
    let refused = with("only-to-look", &forget).is(1);
    assert!(refused.stderr.contains("may only read"), "{}", refused.stderr);
    let flag = ["list", "--token", "s3cret-of-ours", "--key", key];
    assert!(with("s3cret-of-others", &flag).is(0).stdout.contains(key.as_str()), "the flag wins");
    with("s3cret-of-ours", &forget).is(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_answer_is_named_with_what_to_try() {
    let site = site(false).await.expect("it needs no server");
    let gateway = site.gateway("").await;
    let port = Port::claim();
    let closed = format!("http://{}", port.addr());
    let nobody = run(records(&closed, &["list"])).is(1);
    assert!(nobody.stderr.contains(&closed), "{}", nobody.stderr);
    assert!(nobody.stderr.contains("--admin"), "{}", nobody.stderr);
    let front = run(records(&format!("http://{}", gateway.addr()), &["list"])).is(1);
    assert!(front.stderr.contains("admin listener"), "{}", front.stderr);
    for address in ["ftp://a", "http://u:hidden@", "u:hidden@:1:2", ":8081"] {
        let mistake = run(records(address, &["list"])).is(2);
        assert!(!mistake.stderr.contains("hidden"), "{}", mistake.stderr);
    }
    for arguments in [&["list", "--older-than", "5"][..], &["list", "--limit", "0"], &["show"]] {
        said(&gateway, arguments).is(2);
    }
    assert_eq!(said(&gateway, &["list", "--key", "none"]).is(0).stdout, "No records match.\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gateways_own_words_for_its_admin_listener_are_understood() {
    let site = site(false).await.expect("it needs no server");
    let gateway = site.gateway("token = 's3cret'").await;
    let key = &super::fresh_key();
    assert_eq!(gateway.post("/pay/1", key, "{}").await.status, 201);
    let (address, port) = (gateway.admin().to_string(), gateway.admin().port());
    let everywhere = format!("0.0.0.0:{port}");
    let show = ["show", "--key", key, "--scope", "payment", "--admin-token", "s3cret"];
    let with = |variable: (&str, &str), more: &[&str]| {
        let mut command = Command::new(PROGRAM);
        let command_line = ["records"].iter().chain(&show).chain(more);
        command.env_clear().env(variable.0, variable.1).args(command_line);
        run(command).is(0).stdout
    };
    let elsewhere = ("ONCEGATE_ADMIN_LISTEN", "127.0.0.1:1");
    for shown in [
        with(elsewhere, &["--admin-listen", &address]),
        with(elsewhere, &["--admin", &address]),
        with(elsewhere, &["--admin", &format!("localhost:{port}")]),
        with(("ONCEGATE_ADMIN", &address), &[]),
        with(("ONCEGATE_ADMIN_LISTEN", &address), &[]),
        with(("ONCEGATE_ADMIN_LISTEN", &everywhere), &[]),
    ] {
        assert!(shown.contains("SUCCEEDED: it is done"), "{shown}");
    }
    let named = ["--key", key, "--scope", "payment", "--token", "s3cret", "--yes"];
    let note = ["--note", "a test order"];
    said(&gateway, &[&["resolve"], &named[..], &["--outcome", "failed"]].concat()).is(1);
    said(&gateway, &[&["forget"], &named[..], &note].concat()).is(0);
    said(&gateway, &["show", key, "--key", key]).is(2);
    said(&gateway, &["show", "--scope", "payment"]).is(2);
}

/// Types into a terminal that `script` makes.
fn at_a_terminal(gateway: &Gateway, arguments: &str, typed: &str) -> String {
    use std::io::Write;
    let line = format!("{PROGRAM} records {arguments}; echo code=$?");
    let mut command = Command::new("script");
    command.args(["-qec", &line, "/dev/null"]).env("ONCEGATE_ADMIN", url(gateway));
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("script is part of every Debian");
    let mut stdin = child.stdin.take().expect("it is piped");
    stdin.write_all(typed.as_bytes()).expect("it is taken");
    let output = child.wait_with_output().expect("it ends");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn at_a_terminal_a_change_needs_the_word_yes() {
    let site = site(false).await.expect("it needs no server");
    let gateway = site.gateway("").await;
    let key = &held(&site, &gateway).await;
    let resolve = format!("resolve {key} --scope payment --outcome failed");
    let no = at_a_terminal(&gateway, &resolve, "y\n");
    assert!(no.contains("Type yes") && no.contains("nothing was changed"), "{no}");
    assert!(no.contains("code=1"), "{no}");
    assert_eq!(get(&gateway, &record(key)).await["state"], "UNKNOWN");
    let listed = at_a_terminal(&gateway, "list", "");
    let widest = listed.lines().map(|line| line.trim_end().chars().count()).max();
    assert!(widest.is_some_and(|widest| widest <= 80), "{listed}");
    let yes = at_a_terminal(&gateway, &resolve, "yes\n");
    assert!(yes.contains("Retries are refused") && yes.contains("code=0"), "{yes}");
    assert_eq!(get(&gateway, &record(key)).await["state"], "FAILED");
}
