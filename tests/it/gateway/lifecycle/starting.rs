//! It listens when its tiers have answered; otherwise it says why not, and nothing was bound.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use super::super::{
    PROGRAM, SOON, Tiers, assert_executed, assert_replayed, fresh_key, launch, payments,
};
use crate::support::gateway::{Ended, Launch};
use crate::support::ports::Port;
use crate::support::servers::{self, DatabaseServer, Kind, Server};
use crate::support::{Ask, FaultProxy, MySql, Upstream, eventually, shared};

fn accepts(addr: SocketAddr) -> bool {
    TcpStream::connect_timeout(&addr, Duration::from_secs(5)).is_ok()
}

/// `serve` with these flags ends by itself, having said something like this, and never accepts.
async fn refuses_to_start(flags: &[(&str, &str)], toml: Option<&str>, says: &[&str]) -> Ended {
    let [front, admin] = [Port::claim(), Port::claim()];
    let mut launch = Launch::command(PROGRAM, &["serve"]);
    launch = launch.flag("--listen", &front.addr().to_string());
    launch = launch.flag("--admin-listen", &admin.addr().to_string());
    for (flag, value) in flags {
        launch = launch.flag(flag, value);
    }
    if let Some(toml) = toml {
        launch = launch.config(toml);
    }
    let mut ending = tokio::spawn(launch.ended());
    let ended = loop {
        for addr in [front.addr(), admin.addr()] {
            assert!(!accepts(addr), "{addr} is bound");
        }
        if let Ok(ended) = tokio::time::timeout(Duration::from_millis(20), &mut ending).await {
            break ended.expect("it ends by itself");
        }
    };
    assert!(ended.status.code().is_some_and(|code| code != 0), "{ended:?}");
    assert!(!ended.stderr.contains("listening"), "{ended:?}");
    for part in says {
        assert!(ended.stderr.contains(part), "{part}: {ended:#?}");
    }
    ended
}

#[tokio::test(flavor = "multi_thread")]
async fn it_listens_once_the_durable_tier_has_answered() {
    if !servers::require(Kind::MySql) {
        return;
    }
    let upstream = Upstream::start().await;
    let mysql = shared::mysql();
    let proxy = FaultProxy::start(mysql.addr()).await;
    proxy.blackhole();
    let url = proxy.reroute(&mysql.database());
    let starting = launch(&upstream, &url, "memory:").config(&payments("")).start();
    let waited = oncegate::clock::now();
    while waited.elapsed() < Duration::from_secs(1) {
        assert!(!starting.is_listening(), "nobody has answered yet: {}", starting.stderr());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    proxy.heal();
    let gateway = starting.outcome().await.expect("it has a moment's patience");
    assert_executed(&gateway.post("/pay", &fresh_key(), "{}").await, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_its_durable_tier_it_does_not_start() {
    let nobody = Port::claim();
    let url = format!("mysql://root:hunter2@{}/oncegate", nobody.addr());
    let flags = [("--upstream", "http://127.0.0.1:1"), ("--durable", &url)];
    let ended = refuses_to_start(&flags, None, &[]).await;
    assert!(ended.stderr.to_lowercase().contains("mysql"), "it says which tier: {ended:#?}");
    assert!(!ended.stderr.contains("hunter2"), "and no secret: {ended:#?}");
}

/// It carries on with the durable tier alone.
#[tokio::test(flavor = "multi_thread")]
async fn without_its_fast_tier_it_starts_and_says_so() {
    let Some(site) = Tiers::SqliteMemory.site().await else { return };
    let nobody = Port::claim();
    let url = format!("redis://{}", nobody.addr());
    let launch = launch(&site.upstream, &site.durable.url, &url).config(&payments(""));
    let gateway = launch.listening().await;
    let key = fresh_key();
    let first = gateway.post("/pay", &key, "{}").await;
    assert_executed(&first, 201);
    assert_replayed(&gateway.post("/pay", &key, "{}").await, &first);
    assert_eq!(site.upstream.count_of(&key), 1);
    assert!(gateway.stderr().contains("fast tier"), "{}", gateway.stderr());
    let metrics = gateway.metrics().await;
    let errors = |tier| metrics.sum("oncegate_tier_errors_total", &[("tier", tier)]);
    assert!(errors("fast") >= 1.0 && errors("durable") == 0.0, "{metrics:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_is_said_before_anything_is_bound() {
    let upstream = ("--upstream", "http://127.0.0.1:1");
    refuses_to_start(&[("--upstrem", "http://a")], None, &["--upstrem"]).await;
    refuses_to_start(&[], None, &["upstream"]).await;
    refuses_to_start(&[("--upstream", "ftp://a")], None, &["--upstream"]).await;
    refuses_to_start(&[upstream, ("--durable", "oracle://a")], None, &["--durable"]).await;
    refuses_to_start(&[upstream, ("--fast", "http://a")], None, &["--fast"]).await;
    refuses_to_start(&[upstream, ("--config", "gone.toml")], None, &["gone.toml"]).await;
    let mistakes = "[fast]\nlock_tll = '1s'\n[[routes]]\npath = 'pay'\n";
    let says = ["oncegate.toml:2", "lock_tll", "oncegate.toml:4", "path"];
    refuses_to_start(&[upstream], Some(mistakes), &says).await;
    let twice = "[[routes]]\npath = '/a/{x}'\n[[routes]]\npath = '/a/{y}'\n";
    refuses_to_start(&[upstream], Some(twice), &["oncegate.toml:4"]).await;
    refuses_to_start(&[upstream], Some("upstream = \n"), &["oncegate.toml:1"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_is_taken_is_named() {
    let site = Tiers::SqliteMemory.site().await.expect("it needs no server");
    for flag in ["--listen", "--admin-listen"] {
        let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let addr = taken.local_addr().expect("it is bound").to_string();
        let other = if flag == "--listen" { "--admin-listen" } else { "--listen" };
        let launch = Launch::command(PROGRAM, &["serve"]).flag("--upstream", &site.upstream.url());
        let launch = launch.flag("--durable", &site.durable.url).flag(flag, &addr);
        let ended = launch.flag(other, "127.0.0.1:0").ended().await;
        assert!(ended.status.code().is_some_and(|code| code != 0), "{ended:?}");
        assert!(ended.stderr.contains(&addr), "{ended:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_admin_listener_for_others_asks_for_a_token() {
    let site = Tiers::SqliteMemory.site().await.expect("it needs no server");
    let launch = Launch::command(PROGRAM, &["serve"]).flag("--upstream", &site.upstream.url());
    let launch = launch.flag("--durable", &site.durable.url).flag("--listen", "127.0.0.1:0");
    let ended = launch.flag("--admin-listen", "0.0.0.0:0").ended().await;
    assert!(ended.status.code().is_some_and(|code| code != 0), "{ended:?}");
    assert!(ended.stderr.contains("token"), "{ended:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tables_can_be_made_beforehand() {
    if !servers::require(Kind::MySql) {
        return;
    }
    let upstream = Upstream::start().await;
    let url = shared::mysql().database();
    // Whoever makes tables need not know what will stand behind the gateway.
    let migrate = || Launch::command(PROGRAM, &["migrate"]).flag("--durable", &url).ended();
    for _ in 0..2 {
        let ended = migrate().await;
        assert_eq!(ended.status.code(), Some(0), "{ended:#?}");
    }
    let toml = format!("[durable]\nmigrate = false\n{}", payments(""));
    let gateway = launch(&upstream, &url, "memory:").config(&toml).listening().await;
    let key = fresh_key();
    let first = gateway.post("/pay", &key, "{}").await;
    assert_executed(&first, 201);
    assert_replayed(&gateway.post("/pay", &key, "{}").await, &first);

    let nobody = Port::claim();
    let dead = format!("mysql://root@{}/oncegate", nobody.addr());
    let ended = Launch::command(PROGRAM, &["migrate"]).flag("--durable", &dead).ended().await;
    assert!(ended.status.code().is_some_and(|code| code != 0), "{ended:?}");
    assert!(ended.stderr.to_lowercase().contains("mysql"), "{ended:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn it_tells_whether_it_is_well() {
    if !servers::require(Kind::MySql) {
        return;
    }
    let (upstream, mysql) = (Upstream::start().await, MySql::start());
    let launch = launch(&upstream, &mysql.url(), "memory:").config(&payments(""));
    let gateway = launch.listening().await;
    let ask = |path: &str| Ask::new(gateway.admin(), "GET", path).send();
    let health = ask("/health").await;
    assert_eq!((health.status, health.json()["status"].as_str()), (200, Some("ok")));
    assert_eq!(health.json()["db"], "connected");
    assert_eq!((ask("/livez").await.status, ask("/readyz").await.status), (200, 200));
    mysql.kill();
    eventually("it notices", SOON, async || ask("/health").await.status == 503).await;
    assert_eq!(ask("/livez").await.status, 200);
    mysql.restart();
    eventually("it recovers", SOON, async || ask("/health").await.status == 200).await;
}
