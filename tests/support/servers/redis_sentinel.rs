//! A Redis master and its replica, watched by three Sentinels that promote the replica when two
//! of them have missed the master for a second.

use std::process::Command;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use super::binaries::{Kind, needed};
use super::instance::{Instance, Recipe};
use super::{Redis, Server, redis, wire};
use crate::support::family::wait_until;

/// What the Sentinels call the master.
const SERVICE: &str = "main";

pub struct RedisSentinel {
    nodes: [Redis; 2],
    sentinels: [Instance; 3],
    master_port: AtomicU16,
}

impl Redis {
    pub fn start_sentinel() -> RedisSentinel {
        let master = Redis::start_with(&["--repl-diskless-sync-delay", "0"]);
        let port = master.port();
        let replica = Redis::start_with(&["--replicaof", "127.0.0.1", &port.to_string()]);
        let sentinels = [(); 3].map(|()| start_sentinel(port));
        let master_port = AtomicU16::new(port);
        let group = RedisSentinel { nodes: [master, replica], sentinels, master_port };
        group.wait_until_settled();
        group
    }
}

impl RedisSentinel {
    pub fn url(&self) -> String {
        let [first, second, third] = self.sentinels.each_ref().map(Instance::port);
        format!(
            "redis-sentinel://127.0.0.1:{first}?node=127.0.0.1:{second}&node=127.0.0.1:{third}\
             &sentinelServiceName={SERVICE}"
        )
    }

    /// The master as of the start or the last awaited failover.
    pub fn master(&self) -> &Redis {
        self.node(self.master_port.load(Ordering::Relaxed)).expect("one of the nodes is master")
    }

    pub fn kill_master(&self) {
        self.master().kill();
    }

    /// Waits until all Sentinels name the other node as master, and it is.
    pub fn wait_for_failover(&self) {
        let old = self.master_port.load(Ordering::Relaxed);
        let promoted = || {
            let mut named = self.sentinels.iter().map(|s| named_master(s.port()));
            let new = named.next().flatten().filter(|new| *new != old)?;
            let agreed = named.all(|port| port == Some(new));
            let info = wire::redis(new, &["INFO", "replication"]).ok()?;
            (agreed && info.contains("role:master")).then_some(new)
        };
        let mut new = None;
        self.wait("no failover", || {
            new = promoted();
            new.is_some()
        });
        self.master_port.store(new.expect("awaited just now"), Ordering::Relaxed);
    }

    /// Waits until the replica follows the master and every Sentinel knows of all the others;
    /// also after the restart of a killed master, which becomes a replica.
    pub fn wait_until_settled(&self) {
        let knows_all = |sentinel: &Instance| {
            let asked = wire::redis(sentinel.port(), &["SENTINEL", "MASTER", SERVICE]);
            let facts = asked.unwrap_or_default();
            ["flags\nmaster\n", "num-slaves\n1\n", "num-other-sentinels\n2\n"]
                .iter()
                .all(|fact| facts.contains(fact))
        };
        let replicating = || {
            let master = self.master().port();
            self.nodes.iter().filter(|node| node.port() != master).all(|replica| {
                let asked = wire::redis(replica.port(), &["INFO", "replication"]);
                asked.unwrap_or_default().contains("master_link_status:up")
            })
        };
        self.wait("the group does not settle", || {
            replicating() && self.sentinels.iter().all(knows_all)
        });
    }

    fn node(&self, port: u16) -> Option<&Redis> {
        self.nodes.iter().find(|node| node.port() == port)
    }

    fn wait(&self, trouble: &str, condition: impl FnMut() -> bool) {
        assert!(
            wait_until(Duration::from_secs(60), condition),
            "{trouble}; the first sentinel's log:\n{}",
            self.sentinels[0].log_tail(),
        );
    }
}

fn start_sentinel(master_port: u16) -> Instance {
    let program = needed(Kind::Redis);
    let recipe = Recipe {
        name: "sentinel",
        command: Box::new(move |folder, port| {
            let mut command = Command::new(&program);
            command.arg(folder.join("sentinel.conf")).args(["--sentinel", "--bind", "127.0.0.1"]);
            command.args(["--port", &port.to_string(), "--dir"]).arg(folder);
            command
        }),
        ready: redis::ready,
        stop_signal: libc::SIGTERM,
    };
    Instance::start(recipe, |folder| {
        let settings = format!(
            "sentinel monitor {SERVICE} 127.0.0.1 {master_port} 2\n\
             sentinel down-after-milliseconds {SERVICE} 1000\n\
             sentinel failover-timeout {SERVICE} 5000\n"
        );
        std::fs::write(folder.join("sentinel.conf"), settings)
            .expect("the sentinel's settings can be written");
    })
}

/// The port of the master, as a Sentinel names it.
fn named_master(sentinel: u16) -> Option<u16> {
    let asked = wire::redis(sentinel, &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE]);
    asked.ok()?.lines().nth(1)?.parse().ok()
}
