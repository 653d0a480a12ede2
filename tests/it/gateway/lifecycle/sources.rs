//! Where a setting comes from: a flag wins over a variable, a variable over the file.

use super::super::{PROGRAM, Retry, Tiers, assert_executed, assert_problem, fresh_key, payments};
use crate::support::gateway::Launch;
use crate::support::{Gateway, Upstream, scratch};

/// Which of the upstreams answers.
async fn answering(gateway: &Gateway, upstreams: &[Upstream; 3]) -> usize {
    let before = upstreams.each_ref().map(Upstream::count);
    assert_eq!(gateway.get("/").await.status, 201);
    let after = upstreams.each_ref().map(Upstream::count);
    (0..3).find(|index| after[*index] > before[*index]).expect("one of them answers")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flag_wins_over_a_variable_and_a_variable_over_the_file() {
    let upstreams = [Upstream::start().await, Upstream::start().await, Upstream::start().await];
    let [by_file, by_variable, by_flag] = upstreams.each_ref().map(Upstream::url);
    let site = Tiers::SqliteMemory.site().await.expect("it needs no server");
    let file = || {
        let toml = format!(
            "listen = '127.0.0.1:0'\nupstream = '{by_file}'\n[admin]\nlisten = '127.0.0.1:0'\n\
             [durable]\nurl = '{}'\n",
            site.durable.url
        );
        Launch::command(PROGRAM, &["serve"]).config(&toml)
    };
    let variable = || file().variable("ONCEGATE_UPSTREAM", &by_variable);
    let flag = || variable().flag("--upstream", &by_flag);
    for (index, launch) in [file(), variable(), flag()].into_iter().enumerate() {
        let gateway = launch.listening().await;
        assert_eq!(answering(&gateway, &upstreams).await, index);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_flag_has_its_variable() {
    let site = Tiers::SqliteMemory.site().await.expect("it needs no server");
    let gateway = Launch::command(PROGRAM, &["serve"])
        .variable("ONCEGATE_UPSTREAM", &site.upstream.url())
        .variable("ONCEGATE_LISTEN", "127.0.0.1:0")
        .variable("ONCEGATE_ADMIN_LISTEN", "127.0.0.1:0")
        .variable("ONCEGATE_DURABLE", &site.durable.url)
        .variable("ONCEGATE_FAST", "none")
        .variable("ONCEGATE_ADMIN_TOKEN", "hunter2")
        .listening()
        .await;
    assert_eq!(gateway.get("/").await.status, 201);
    assert_eq!(site.upstream.count(), 1);
    assert!(!gateway.stderr().contains("hunter2"), "{}", gateway.stderr());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_file_may_be_named_by_a_variable() {
    let site = Tiers::SqliteMemory.site().await.expect("it needs no server");
    let folder = scratch::folder("configuration");
    let file = folder.path().join("elsewhere.toml");
    let toml = format!("upstream = '{}'\n{}", site.upstream.url(), payments(""));
    std::fs::write(&file, toml).expect("there is room");
    let gateway = Launch::serve(PROGRAM)
        .flag("--durable", &site.durable.url)
        .variable("ONCEGATE_CONFIG", file.to_str().expect("paths are text"))
        .listening()
        .await;
    let refused = gateway.ask("POST", "/pay").body("{}").send().await;
    assert_problem(&refused, 400, "key-missing", Retry::No);
    assert_executed(&gateway.post("/pay", &fresh_key(), "{}").await, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_variable_of_somebody_else_is_named_and_does_not_stop_it() {
    let site = Tiers::SqliteMemory.site().await.expect("it needs no server");
    let launch = |name: &str| {
        let launch = Launch::serve(PROGRAM).flag("--upstream", &site.upstream.url());
        launch.flag("--durable", &site.durable.url).variable(name, "7")
    };
    let gateway = launch("ONCEGATE_BUILD_NUMBER").listening().await;
    assert_eq!(gateway.get("/").await.status, 201);
    assert!(gateway.stderr().contains("ONCEGATE_BUILD_NUMBER"), "{}", gateway.stderr());
    let ended = launch("ONCEGATE_LISTN").ended().await;
    assert_eq!(ended.status.code(), Some(78));
    assert!(ended.stderr.contains("did you mean ONCEGATE_LISTEN?"), "{}", ended.stderr);
}
